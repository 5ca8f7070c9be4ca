//! Checks for which host a request is meant.
//!
//! A page in a browser on this host can send requests to loopback, under its own name that resolves there (DNS rebinding). Such requests
//! have that name as their host.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Names under which requests may reach this host, besides the names of loopback.
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

/// Rejects requests to other hosts. For `axum::middleware::from_fn_with_state`.
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

/// Rejects requests from pages of another origin. For `axum::middleware::from_fn`.
pub async fn refuse_other_origins(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_own = |origin: &str| {
        let host = text(headers, HOST);
        let of = origin.split_once("://").map(|(_, host)| host);
        of.is_some() && of == host
    };
    // A browser sends no Origin with a GET from the same origin.
    let by_origin = headers.get(ORIGIN).is_none() || text(headers, ORIGIN).is_some_and(is_own);
    let is_single = headers.get_all(SEC_FETCH_SITE).iter().nth(1).is_none();
    // A typed address or a bookmark has the site `none`. A link on another site may lead here.
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

/// Whether a browser follows a link from another site. That site cannot see the answer.
pub fn is_followed_link(headers: &HeaderMap) -> bool {
    let is = |name, value| text(headers, HeaderName::from_static(name)) == Some(value);
    text(headers, SEC_FETCH_SITE).is_some_and(|site| site != "same-origin")
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// The value of a field that occurs once in a request.
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
