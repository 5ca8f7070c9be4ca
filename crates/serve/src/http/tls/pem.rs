//! Certificates and keys in PEM.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;
use crate::http::small_file::SeenFiles;

/// The certificates of a file, in its order.
pub fn certificates(
    path: &Path,
    seen: &mut SeenFiles,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = seen.read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(wrong(path, "it has no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(why) => Err(wrong(path, format!("it is not PEM: {why}"))),
    }
}

/// The first private key of a file. Errors say nothing of its content.
pub fn key(path: &Path, seen: &mut SeenFiles) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = seen.read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|_| wrong(path, "it has no private key in PEM that is not encrypted"))
}

/// The certificate authorities of a file.
pub fn authorities(path: &Path, seen: &mut SeenFiles) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, seen)? {
        store
            .add(certificate)
            .map_err(|why| wrong(path, format!("it has a certificate of no authority: {why}")))?;
    }
    Ok(store)
}

/// The content of a file is wrong.
pub fn wrong(path: &Path, why: impl Into<String>) -> TlsError {
    TlsError::Content {
        path: path.to_owned(),
        why: why.into(),
    }
}
