//! What a collector wants to see: headers such as a token, and certificates. They are in files, because all users see command lines.

use std::path::{Path, PathBuf};

use crate::http::{ClientFiles, ClientTls, FileError, SeenFiles, TlsError};
use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING,
};

/// Header fields that a push has anyway.
const OWN: [HeaderName; 5] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
];

/// Files with what a collector wants to see.
#[derive(Clone, Debug, Default)]
pub struct AccessFiles {
    /// Header fields, one in a line.
    pub headers: Option<PathBuf>,
    /// Certificates.
    pub tls: ClientFiles,
}

/// Such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A line is not a header field.
    #[error("{}:{line}: {why}", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The reason.
        why: String,
    },
    /// There are certificates for a URL without TLS.
    #[error("certificates are for a URL that begins with https://")]
    NoTls,
}

/// What the files say.
#[derive(Debug)]
pub(crate) struct Access {
    pub headers: HeaderMap,
    /// Without it, the collector is on this host.
    pub tls: Option<ClientTls>,
}

impl Access {
    pub fn read(
        files: &AccessFiles,
        is_tls: bool,
        seen: &mut SeenFiles,
    ) -> Result<Self, AccessError> {
        let has_certificates = files.tls.authorities.is_some() || files.tls.identity.is_some();
        if has_certificates && !is_tls {
            return Err(AccessError::NoTls);
        }
        let tls = is_tls.then(|| ClientTls::read(&files.tls, seen));
        let tls = tls.transpose()?;
        let headers = match &files.headers {
            Some(path) => headers(path, seen)?,
            None => HeaderMap::new(),
        };
        Ok(Self { headers, tls })
    }
}

fn headers(path: &Path, seen: &mut SeenFiles) -> Result<HeaderMap, AccessError> {
    let bytes = seen.read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut headers = HeaderMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = header(line).map_err(|why| AccessError::Header {
            path: path.to_owned(),
            line: index + 1,
            why,
        })?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Parses a header field. Errors do not contain its value.
fn header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let field = line.split_once(':').and_then(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = HeaderValue::from_str(value.trim()).ok()?;
        Some((name, value))
    });
    let (name, mut value) =
        field.ok_or("this is no header; write a line such as `Authorization: Bearer TOKEN`")?;
    if OWN.contains(&name) {
        return Err(format!("a push has its own {name}; remove the line"));
    }
    // Not to be printed.
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn headers_are_lines_and_errors_have_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            headers(&file, &mut SeenFiles::default())
        };
        let found =
            read("# a token\n\nAuthorization:  Bearer a:b \r\nX-Scope-OrgID: me\n").unwrap();
        assert_eq!(found["authorization"], "Bearer a:b");
        assert_eq!(found["x-scope-orgid"], "me");
        assert!(!format!("{found:?}").contains("Bearer"), "{found:?}");
        for (text, has) in [
            ("\nBearer secret\n", ":2: this is no header"),
            ("X-Key: secret\u{1}\n", ":1: this is no header"),
            ("Host: secret.example\n", "its own host"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(has) && !error.contains("secret"), "{error}");
        }
    }
}
