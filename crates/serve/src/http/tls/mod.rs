//! TLS of both sides. Only this module knows rustls.

mod client;
mod client_certificates;
mod names;
mod pem;
mod server;

use std::path::PathBuf;

use crate::http::small_file::FileError;

pub use client::{ClientFiles, ClientTls};
pub use client_certificates::San;
pub use names::Choice;
pub use server::{ClientAuth, ServerSettings, ServerTls};

/// Certificates, keys or settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is not what it should be.
    #[error("{}: {why}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The system has no list of authorities.
    #[error("this system has no list of certificate authorities; name a file with them")]
    NoAuthorities,
    /// The settings exclude each other.
    #[error("TLS cannot be set up: {0}")]
    Settings(rustls::Error),
}
