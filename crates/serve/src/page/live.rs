//! `/api/v1/live`: the windows of a running recorder, as server-sent events. `trackiops watch --windows` writes the object of each.

use std::ffi::OsString;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use trackiops_query::times::{Zone, parse, rfc3339};
use trackiops_schemas::time::UtcMs;

use super::api::{Said, refuse, refuse_job};
use super::jobs::{Jobs, Process};

/// After this time without events, a comment shows that the connection works.
const ALIVE: Duration = Duration::from_secs(10);
/// The id of the last event that a browser received, sent when it reconnects.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Follows a recording until it ends or the client leaves. Begins with the last window that the client received, because more may have been
/// recorded in it.
pub fn follow(
    jobs: &Jobs,
    mut words: Vec<OsString>,
    since: Option<&str>,
    headers: &HeaderMap,
) -> Response {
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        let last = last.to_str().ok();
        // The process would also accept other words here, such as `yesterday`.
        let last = last.and_then(|last| parse(last, UtcMs::now(), Zone::utc()).ok());
        let Some(last) = last else {
            return refuse(
                StatusCode::BAD_REQUEST,
                "Last-Event-ID is no time of a window",
            );
        };
        if since.is_some() {
            words.retain(|word| !word.as_encoded_bytes().starts_with(b"--since="));
        }
        words.push(format!("--since={}", rfc3339(last.at)).into());
    }
    let followed = match jobs.follow(&words) {
        Ok((process, place)) => Followed::new(process, place),
        Err(error) => return refuse_job(&error),
    };
    let events = stream::unfold(followed, |mut followed| async {
        let event = followed.next().await?;
        Some((Ok::<_, std::convert::Infallible>(event), followed))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct Followed {
    process: Process,
    /// `None` after the last event.
    lines: Option<Lines<BufReader<ChildStdout>>>,
    _place: OwnedSemaphorePermit,
}

impl Followed {
    fn new(mut process: Process, place: OwnedSemaphorePermit) -> Self {
        let lines = process.stdout.take().map(|out| BufReader::new(out).lines());
        Self {
            process,
            lines,
            _place: place,
        }
    }

    /// The next event; `None` after the last.
    async fn next(&mut self) -> Option<Bytes> {
        let lines = self.lines.as_mut()?;
        let line = match timeout(ALIVE, lines.next_line()).await {
            Err(_) => return Some(Bytes::from_static(b":\n\n")),
            Ok(line) => line.ok().flatten(),
        };
        let object = line.as_deref().map(serde_json::from_str::<Value>);
        match (object, line) {
            (Some(Ok(object)), Some(line)) if object["since"].is_string() => {
                let since = object["since"].as_str().unwrap_or_default();
                Some(format!("id: {since}\ndata: {line}\n\n").into())
            }
            (Some(Ok(object)), _) if object["end"].is_string() => Some(self.end(&object["end"])),
            _ => {
                let why = self.why_ended().await;
                Some(self.end(&why.into()))
            }
        }
    }

    /// The last event, with the reason for the end.
    fn end(&mut self, why: &Value) -> Bytes {
        self.lines = None;
        format!("event: end\ndata: {}\n\n", json!({"error": why})).into()
    }

    /// The messages of a process that ended without its own last object.
    async fn why_ended(&mut self) -> String {
        let mut said = Vec::new();
        if let Some(stderr) = &mut self.process.stderr {
            let _ = stderr.take(4096).read_to_end(&mut said).await;
        }
        match &Said::read(&String::from_utf8_lossy(&said)).notes[..] {
            [] => "the recording is no longer followed, for an unknown reason".to_owned(),
            notes => notes.join("; "),
        }
    }
}
