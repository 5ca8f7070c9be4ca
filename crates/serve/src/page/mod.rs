//! The page and the API of `trackiops serve`: a read-only view of stores and of the running recorder.
//!
//! The API answers by running other commands: their flags are the parameters. Each question runs in a separate process, which can be killed
//! without harming the server.

mod access;
mod api;
pub mod document;
mod files;
mod jobs;
mod live;
mod program;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::http::{Hosts, refuse_other_hosts, refuse_other_origins};

pub use access::Access;
pub use api::{Api, ENDPOINTS, Endpoint, Kind, openapi};
pub use program::Program;

/// All that is served. With `access`, only requests with its token are answered.
pub fn app(api: Api, access: Option<Arc<Access>>, hosts: Hosts) -> Router {
    // The first layer that a request meets is the last one here.
    let app = api.router().merge(files::router());
    let app = app.layer(CompressionLayer::new().quality(CompressionLevel::Fastest));
    let app = match access {
        None => app,
        Some(access) => app.layer(from_fn_with_state(access, access::ask_for_token)),
    };
    app.layer(from_fn(refuse_other_origins))
        .layer(from_fn_with_state(hosts, refuse_other_hosts))
        .layer(map_response(confine))
}

/// Restricts the page to showing data of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn confine(mut response: Response) -> Response {
    let of_page = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in of_page {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
