//! Whom a request is for.
//!
//! A page in a browser on this host can send requests to loopback, under a name of its own that leads there (DNS rebinding). Its
//! requests have that name as their host.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Answers requests to this host alone. For `axum::middleware::from_fn`, on loopback.
pub async fn refuse_other_hosts(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok());
    match host.is_some_and(is_this_host) {
        true => next.run(request).await,
        false => (
            StatusCode::MISDIRECTED_REQUEST,
            "the Host of a request must be localhost, 127.0.0.1 or [::1]\n",
        )
            .into_response(),
    }
}

/// Whether a name, with or without a port, can only mean this host.
fn is_this_host(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    without_port.eq_ignore_ascii_case("localhost")
        || without_port
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
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
            assert!(is_this_host(host), "{host}");
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
        ] {
            assert!(!is_this_host(host), "{host}");
        }
    }
}
