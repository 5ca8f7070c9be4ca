//! Where a collector is.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::http::ClientTls;
use hyper::Uri;

/// Ports of a URL that has none: of OTLP over HTTP (OpenTelemetry Protocol Exporter), and of HTTPS.
const PORT: u16 = 4318;
const TLS_PORT: u16 = 443;
/// Path of a URL that has none.
const PATH: &str = "/v1/metrics";

/// The URL of a collector. Without TLS, it is on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpUrl {
    is_tls: bool,
    host: Host,
    port: u16,
    path: String,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// Its address.
    Ip(IpAddr),
    /// Its name.
    Name(String),
}

/// The text is not such a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtlpUrlError {
    /// It is no URL.
    #[error(
        "`{0}` is no URL of a collector: write https://HOST, or http://127.0.0.1:4318 on this host"
    )]
    Malformed(String),
    /// It leads to another host without TLS.
    #[error(
        "`{0}` leads to another host, and has no TLS: write https://HOST, or http://127.0.0.1:4318 on this host"
    )]
    Open(String),
    /// It has a password. Command lines are visible to all users of a host.
    #[error(
        "a URL with a password can be seen by all users: write a header such as Authorization to a file, and name it by --otlp-headers"
    )]
    Credentials,
}

impl FromStr for OtlpUrl {
    type Err = OtlpUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || OtlpUrlError::Malformed(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| malformed())?;
        let authority = uri.authority().ok_or_else(malformed)?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(malformed()),
        };
        if authority.as_str().contains('@') {
            return Err(OtlpUrlError::Credentials);
        }
        let name = authority.host();
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let host = match name.parse() {
            Ok(ip) => Host::Ip(ip),
            Err(_) if name == "localhost" && !is_tls => Host::Ip(Ipv4Addr::LOCALHOST.into()),
            Err(_) if ClientTls::is_server_name(name) => Host::Name(name.to_owned()),
            Err(_) => return Err(malformed()),
        };
        let is_local = matches!(host, Host::Ip(ip) if ip.is_loopback());
        if !is_tls && !is_local {
            return Err(OtlpUrlError::Open(text.to_owned()));
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() != authority.host() => return Err(malformed()),
            None if is_tls => TLS_PORT,
            None => PORT,
        };
        let path = match uri.path_and_query().map_or("", |path| path.as_str()) {
            "" | "/" => PATH,
            path => path,
        };
        Ok(Self {
            is_tls,
            host,
            port,
            path: path.to_owned(),
        })
    }
}

impl OtlpUrl {
    /// Whether to use TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Host and port as requests have them: without the usual port.
    pub(crate) fn authority(&self) -> String {
        let usual = if self.is_tls { 443 } else { 80 };
        match self.port == usual {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl Host {
    /// Its name or address, as certificates have it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Ip(ip) => ip.to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

/// As in a URL.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for OtlpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_on_this_host_or_behind_tls() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://localhost/", "http://127.0.0.1:4318/v1/metrics"),
            ("http://[::1]:1/otlp?a=b", "http://[::1]:1/otlp?a=b"),
            (
                "https://otlp.example.com",
                "https://otlp.example.com/v1/metrics",
            ),
            (
                "https://collector.monitoring:4318/",
                "https://collector.monitoring:4318/v1/metrics",
            ),
            ("https://[2001:db8::1]:1/a", "https://[2001:db8::1]:1/a"),
            ("https://localhost", "https://localhost/v1/metrics"),
        ] {
            assert_eq!(text.parse::<OtlpUrl>().unwrap().to_string(), url);
        }
        for text in ["http://collector.example:4318", "http://10.0.0.1:4318"] {
            let error = OtlpUrlError::Open(text.to_owned());
            assert_eq!(text.parse::<OtlpUrl>(), Err(error));
        }
        for text in [
            "",
            "127.0.0.1:4318",
            "ftp://127.0.0.1:4318",
            "http://127.0.0.1:99999",
            "https://a..b",
            "https://-a.example",
        ] {
            let error = OtlpUrlError::Malformed(text.to_owned());
            assert_eq!(text.parse::<OtlpUrl>(), Err(error));
        }
        let error = "https://me:secret@a.example"
            .parse::<OtlpUrl>()
            .unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
