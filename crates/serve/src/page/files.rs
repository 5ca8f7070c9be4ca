//! The files of the page. `make web` builds them from `web/`, and the program contains them.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use xxhash_rust::xxh3::xxh3_128;

/// The page's program.
pub const JS: &str = include_str!("../../page/app.js");
/// Its style.
pub const CSS: &str = include_str!("../../page/app.css");
/// Its icon.
pub const FAVICON: &str = include_str!("../../page/favicon.svg");
/// The content security policy of a document that contains all of these, with their hashes.
pub const REPORT_POLICY: &str = include_str!("../../page/report-policy.txt");

#[derive(Clone, Copy)]
struct File {
    content_type: &'static str,
    bytes: &'static [u8],
}

const INDEX: File = File {
    content_type: "text/html; charset=utf-8",
    bytes: include_bytes!("../../page/index.html"),
};

/// Each path with its file. The pages of all paths are one file, whose program looks at the path.
const FILES: &[(&str, File)] = &[
    ("/", INDEX),
    ("/file", INDEX),
    ("/files", INDEX),
    ("/compare", INDEX),
    (
        "/app.js",
        File {
            content_type: "text/javascript; charset=utf-8",
            bytes: JS.as_bytes(),
        },
    ),
    (
        "/app.css",
        File {
            content_type: "text/css; charset=utf-8",
            bytes: CSS.as_bytes(),
        },
    ),
    (
        "/favicon.svg",
        File {
            content_type: "image/svg+xml",
            bytes: FAVICON.as_bytes(),
        },
    ),
];

/// The routes of all files.
pub fn router() -> Router {
    FILES.iter().fold(Router::new(), |router, (path, file)| {
        // Weak, because a compressed file has different bytes.
        let tag = format!("W/\"{:032x}\"", xxh3_128(file.bytes));
        let answer = move |headers: HeaderMap| async move { answer(*file, &tag, &headers) };
        router.route(path, get(answer))
    })
}

fn answer(file: File, tag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get_all(IF_NONE_MATCH).into_iter();
    let mut known = known.filter_map(|of| of.to_str().ok());
    // Another version of the program has other files.
    let about = [(CACHE_CONTROL, "no-cache"), (ETAG, tag)];
    if known.any(|of| of.split(',').any(|of| of.trim() == tag)) {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, [(CONTENT_TYPE, file.content_type)], file.bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_runs_only_what_this_server_has() {
        let page = std::str::from_utf8(INDEX.bytes).unwrap();
        for attribute in page.split_ascii_whitespace() {
            let Some((name, value)) = attribute.split_once('=') else {
                continue;
            };
            let path = value.trim_matches(|c| "\"'<>/script".contains(c));
            if ["src", "href"].contains(&name) {
                let is_here = FILES.iter().any(|(of, _)| of.contains(path));
                assert!(is_here, "{attribute}");
            }
            assert!(!name.starts_with("on") && name != "style", "{attribute}");
        }
    }
}
