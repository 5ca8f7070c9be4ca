//! Whom a request is for.
//!
//! A page in a browser on this host can send requests to loopback, under a name of its own that leads there (DNS rebinding). Its
//! requests have that name as their host.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Under which names requests reach this host, beside those of loopback.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Arc<[String]>);

impl Hosts {
    /// These names, without ports.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    fn include(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        is_loopback(name) || self.0.iter().any(|of| of.eq_ignore_ascii_case(name))
    }
}

/// Answers requests to these hosts alone. For `axum::middleware::from_fn_with_state`.
pub async fn refuse_other_hosts(
    State(hosts): State<Hosts>,
    request: Request,
    next: Next,
) -> Response {
    match text(request.headers(), HOST).is_some_and(|host| hosts.include(host)) {
        true => next.run(request).await,
        false => {
            let names = ["localhost", "127.0.0.1", "[::1]"].into_iter();
            let names: Vec<_> = names.chain(hosts.0.iter().map(String::as_str)).collect();
            let why = format!(
                "the Host of a request must be one of {}\n",
                names.join(", ")
            );
            (StatusCode::MISDIRECTED_REQUEST, why).into_response()
        }
    }
}

/// Answers no request that a page of another origin has made. For `axum::middleware::from_fn`.
pub async fn refuse_other_origins(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_own = |origin: &str| {
        let host = text(headers, HOST);
        let of = origin.split_once("://").map(|(_, host)| host);
        of.is_some() && of == host
    };
    // A page sends none with what it asks of its own origin by GET.
    let by_origin = headers.get(ORIGIN).is_none() || text(headers, ORIGIN).is_some_and(is_own);
    let is_single = headers.get_all(SEC_FETCH_SITE).iter().nth(1).is_none();
    // Whoever types an address in or opens a bookmark is at no site. A link elsewhere may lead here.
    let by_site = text(headers, SEC_FETCH_SITE);
    let by_site = by_site.is_none_or(|site| ["same-origin", "none"].contains(&site));
    let by_site = by_site || is_followed_link(headers);
    match by_origin && by_site && is_single {
        true => next.run(request).await,
        false => (
            StatusCode::FORBIDDEN,
            "a page of another origin may not ask; open this address itself\n",
        )
            .into_response(),
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser opens a page by a link of another site. That site sees nothing of the answer.
pub fn is_followed_link(headers: &HeaderMap) -> bool {
    let is = |name, value| text(headers, HeaderName::from_static(name)) == Some(value);
    text(headers, SEC_FETCH_SITE).is_some_and(|site| site != "same-origin")
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// The value of a field that a request has once.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).into_iter();
    let only = values.next().filter(|_| values.next().is_none());
    only?.to_str().ok()
}

/// The name or address of `NAME`, `NAME:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let has_port = rest.strip_prefix(':').is_some_and(is_port);
    (rest.is_empty() || has_port).then_some(name)
}

/// Whether a name can only mean this host.
fn is_loopback(name: &str) -> bool {
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_this_host() {
        for host in [
            "localhost",
            "LOCALHOST:9930",
            "127.0.0.1:9930",
            "[::1]",
            "[::1]:80",
            "127.1.2.3",
        ] {
            assert!(Hosts::default().include(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "[::2]:80",
            "192.168.0.1",
            "[",
            "::1",
            "[::1].evil",
            "[::1]:80.evil",
            "[::1]evil.example:80",
            "localhost:80@evil.example",
            "localhost:evil",
        ] {
            assert!(!Hosts::default().include(host), "{host}");
        }
        let hosts = Hosts::named(["nas.example".to_owned()]);
        assert!(hosts.include("NAS.example:8080") && hosts.include("localhost"));
        assert!(!hosts.include("evil.nas.example"));
    }
}
