//! Certificates of tests, made by openssl. The other side is rustls in this process.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, DEFAULT_VERSIONS, RootCertStore, ServerConfig, SupportedProtocolVersion,
};

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// An authority.
pub struct Authority(Identity);

impl Authority {
    /// A new one, whose files are NAME.crt and NAME.key.
    pub fn new(dir: &Path, name: &str) -> Self {
        let extensions = "basicConstraints = critical, CA:TRUE";
        Self(make(dir, name, extensions, None))
    }

    pub fn certificate(&self) -> &Path {
        &self.0.certificate
    }

    /// A new certificate for these names, whose files are beside the authority's.
    pub fn issue(&self, name: &str, sans: &str) -> Identity {
        let dir = self.0.key.parent().unwrap();
        let extensions = format!("basicConstraints = critical, CA:FALSE\nsubjectAltName = {sans}");
        make(dir, name, &extensions, Some(&self.0))
    }
}

fn make(dir: &Path, name: &str, extensions: &str, issuer: Option<&Identity>) -> Identity {
    let [settings, certificate, key] =
        ["cnf", "crt", "key"].map(|ending| dir.join(format!("{name}.{ending}")));
    let text = format!(
        "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = {name}\n[extensions]\n{extensions}\n"
    );
    fs::write(&settings, text).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]);
    openssl.args([
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-extensions",
        "extensions",
    ]);
    openssl
        .arg("-config")
        .arg(&settings)
        .arg("-keyout")
        .arg(&key)
        .arg("-out");
    openssl.arg(&certificate);
    if let Some(issuer) = issuer {
        openssl
            .arg("-CA")
            .arg(&issuer.certificate)
            .arg("-CAkey")
            .arg(&issuer.key);
    }
    let output = openssl.output().expect("no openssl: run scripts/setup.sh");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    // The program runs as another user.
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    Identity { certificate, key }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn trusting(authority: &Authority) -> RootCertStore {
    let mut store = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(authority.certificate()).unwrap();
    store.add(certificate).unwrap();
    store
}

impl Identity {
    fn read(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from_pem_file(&self.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        (vec![certificate], key)
    }
}

/// A client that trusts an authority, and shows a certificate if it has one.
pub fn client(authority: &Authority, identity: Option<&Identity>) -> Arc<ClientConfig> {
    client_of(authority, identity, DEFAULT_VERSIONS)
}

/// The same with these versions of TLS.
pub fn client_of(
    authority: &Authority,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(trusting(authority));
    Arc::new(match identity.map(Identity::read) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

/// A server that asks for certificates of this authority.
pub fn server(authority: &Authority, identity: &Identity) -> Arc<ServerConfig> {
    let clients = Arc::new(trusting(authority));
    let clients = WebPkiClientVerifier::builder_with_provider(clients, provider());
    let (chain, key) = identity.read();
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain, key);
    Arc::new(config.unwrap())
}
