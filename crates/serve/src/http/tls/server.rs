//! TLS of a server.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::client_certificates::{Check, San};
use super::names::Choice;
use super::{TlsError, pem};
use crate::http::small_file::SeenFiles;

/// What a server shows, and asks of its clients.
#[derive(Debug)]
pub struct ServerSettings {
    /// The server's certificate, and the intermediate ones.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// Whether clients show a certificate.
    pub clients: ClientAuth,
    /// Versions, cipher suites and curves.
    pub choice: Choice,
    /// Whether the server's order of cipher suites counts, and not the client's.
    pub prefers_own_order: bool,
}

/// What the server asks of a client's certificate.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// It does not ask for one.
    Nothing,
    /// Any certificate will do, also one that the client made itself.
    Anything {
        /// Whether there must be one.
        is_required: bool,
    },
    /// An authority must have signed it.
    Verified {
        /// The authorities.
        ca_file: PathBuf,
        /// It must have one of these, unless there are none.
        allowed_sans: Vec<San>,
        /// Whether there must be one.
        is_required: bool,
    },
}

impl ClientAuth {
    /// Whether each client must show a certificate that an authority vouches for.
    pub fn is_verified(&self) -> bool {
        matches!(
            self,
            Self::Verified {
                is_required: true,
                ..
            }
        )
    }

    /// Whether only certificates with certain names are accepted.
    pub fn restricts_names(&self) -> bool {
        matches!(self, Self::Verified { allowed_sans, .. } if !allowed_sans.is_empty())
    }

    fn check(&self, choice: &Choice, seen: &mut SeenFiles) -> Result<Option<Check>, TlsError> {
        let provider = Arc::new(choice.provider());
        let algorithms = provider.signature_verification_algorithms;
        Ok(match self {
            Self::Nothing => None,
            Self::Anything { is_required } => Some(Check {
                verifier: None,
                allowed_sans: Vec::new(),
                is_required: *is_required,
                algorithms,
            }),
            Self::Verified {
                ca_file,
                allowed_sans,
                is_required,
            } => {
                let authorities: Arc<RootCertStore> = pem::authorities(ca_file, seen)?.into();
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
                let verifier = verifier
                    .build()
                    .map_err(|why| pem::wrong(ca_file, why.to_string()))?;
                Some(Check {
                    verifier: Some(verifier),
                    allowed_sans: allowed_sans.clone(),
                    is_required: *is_required,
                    algorithms,
                })
            }
        })
    }
}

/// TLS for connections of clients.
#[derive(Clone, Debug)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    verifies_clients: bool,
}

impl ServerTls {
    /// Reads certificates and keys.
    pub fn read(settings: &ServerSettings, seen: &mut SeenFiles) -> Result<Self, TlsError> {
        let chain = pem::certificates(&settings.cert_file, seen)?;
        let key = pem::key(&settings.key_file, seen)?;
        let check = settings.clients.check(&settings.choice, seen)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(settings.choice.provider()))
            .with_protocol_versions(&settings.choice.versions())
            .map_err(TlsError::Settings)?;
        let builder = match check {
            None => builder.with_no_client_auth(),
            Some(check) => builder.with_client_cert_verifier(Arc::new(check)),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|why| {
            let key = settings.key_file.display();
            pem::wrong(
                &settings.cert_file,
                format!("it cannot be used with {key}: {why}"),
            )
        })?;
        config.ignore_client_order = settings.prefers_own_order;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session would skip the check of the client's certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            verifies_clients: matches!(settings.clients, ClientAuth::Verified { .. }),
        })
    }

    /// Shakes hands. Returns as well whether the client has shown a certificate that an authority vouches for.
    pub async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, bool)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        let stream = acceptor.accept(stream).await?;
        let has_certificate = stream.get_ref().1.peer_certificates().is_some();
        Ok((stream, self.verifies_clients && has_certificate))
    }
}
