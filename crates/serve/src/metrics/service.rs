//! Answers scrapers.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use bytes::Bytes;

use crate::http::{Hosts, ListenAddress, refuse_other_hosts};
use crate::metrics::accept::Format;
use crate::metrics::last_totals::LastTotals;
use crate::metrics::{protobuf, text};

/// Answers, kept until the recorder sends a message: frequent scrapes cost no more.
#[derive(Debug)]
struct Answers {
    totals: LastTotals,
    /// By format, with the version of the values.
    kept: Mutex<[Option<(u64, Bytes)>; Format::ALL.len()]>,
}

impl Answers {
    fn get(&self, format: Format) -> Bytes {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Format::ALL.iter().position(|of| *of == format);
        let kept = &mut kept[at.unwrap_or_default()];
        let version = self.totals.version();
        if let Some((of, answer)) = kept
            && *of == version
        {
            return answer.clone();
        }
        let answer: Bytes = self.totals.write(|exposition| match format {
            Format::Protobuf => protobuf::write(exposition).into(),
            Format::OpenMetrics => text::write(exposition, true).into(),
            Format::Text => text::write(exposition, false).into(),
        });
        *kept = Some((version, answer.clone()));
        answer
    }
}

/// The page for a browser that opens the bare address.
const INDEX: &str =
    "<!doctype html><title>TrackIOps</title><a href=\"/metrics\">Metrics for Prometheus</a>\n";

/// All that is served at an address. A page of another origin can only reach a port without TLS: a browser cannot connect to a Unix socket,
/// and checks the names in a certificate.
pub fn app(address: &ListenAddress, has_tls: bool, totals: LastTotals) -> Router {
    let app = router(totals);
    match address {
        ListenAddress::Tcp(_) if !has_tls => {
            app.layer(from_fn_with_state(Hosts::default(), refuse_other_hosts))
        }
        _ => app,
    }
}

/// Answers `GET /metrics`.
fn router(totals: LastTotals) -> Router {
    let answers = Arc::new(Answers {
        totals,
        kept: Mutex::default(),
    });
    Router::new()
        .route("/", get(|| async { Html(INDEX) }))
        .route("/metrics", get(metrics))
        .fallback((StatusCode::NOT_FOUND, "the metrics are at /metrics\n"))
        .with_state(answers)
}

async fn metrics(State(answers): State<Arc<Answers>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept);
    ([(CONTENT_TYPE, format.content_type())], answers.get(format))
}
