//! TLS of a client.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{TlsError, pem};
use crate::http::small_file::SeenFiles;

/// Lists of authorities: of Debian, Alpine and Arch, of Fedora, and of SUSE.
static OF_SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Files of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// Authorities that vouch for servers, in the place of those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// The client's certificate, with the intermediate ones, and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// TLS to servers.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Reads certificates and keys.
    pub fn read(files: &ClientFiles, seen: &mut SeenFiles) -> Result<Self, TlsError> {
        let authorities = match &files.authorities {
            Some(path) => pem::authorities(path, seen)?,
            None => of_system(seen)?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Settings)?
            .with_root_certificates(authorities);
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(pem::certificates(certificate, seen)?, pem::key(key, seen)?)
                .map_err(|why| {
                    let key = key.display();
                    pem::wrong(certificate, format!("it cannot be used with {key}: {why}"))
                })?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Whether a server may have this name or address.
    pub fn is_server_name(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    /// Shakes hands with the server of this name or address, which its certificate must have.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let connector = TlsConnector::from(Arc::clone(&self.0));
        connector.connect(name, stream).await
    }
}

/// The authorities that the system trusts. It may have some that the library does not understand.
fn of_system(seen: &mut SeenFiles) -> Result<RootCertStore, TlsError> {
    let path = OF_SYSTEM.iter().map(Path::new).find(|path| path.exists());
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(pem::certificates(
        path.ok_or(TlsError::NoAuthorities)?,
        seen,
    )?);
    match store.is_empty() {
        true => Err(TlsError::NoAuthorities),
        false => Ok(store),
    }
}
