//! `/api/v1/live`: the windows of a running recorder, as server-sent events.

use std::ffi::OsString;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use trackiops_query::times::{Zone, parse, rfc3339};

use super::api::{refuse, refuse_job};
use super::jobs::{Jobs, Process};
use crate::question_flags::now;

/// Rows of a window arrive at once; after this time no more of them come.
const END_OF_WINDOW: Duration = Duration::from_millis(50);
/// After which a comment shows that the connection is there.
const ALIVE: Duration = Duration::from_secs(10);
/// What a browser sends when it connects again: the id of the last event that it had.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Follows a recording until the client leaves. Its windows come from the last event on that the client had; that window comes again,
/// because the client may not have had all of it.
pub fn follow(
    jobs: &Jobs,
    mut words: Vec<OsString>,
    since: Option<&str>,
    headers: &HeaderMap,
) -> Response {
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        let last = last.to_str().ok();
        // The process would read other words there as well, such as `yesterday`.
        let last = last.and_then(|last| parse(last, now(), Zone::utc()).ok());
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
    lines: Option<Lines<BufReader<ChildStdout>>>,
    /// The first row of the next window.
    row: Option<(String, String)>,
    _place: OwnedSemaphorePermit,
}

impl Followed {
    fn new(mut process: Process, place: OwnedSemaphorePermit) -> Self {
        let lines = process.stdout.take().map(|out| BufReader::new(out).lines());
        Self {
            process,
            lines,
            row: None,
            _place: place,
        }
    }

    /// The next event, or none after the last.
    async fn next(&mut self) -> Option<Bytes> {
        let (time, first) = match self.row.take() {
            Some(row) => row,
            None => {
                self.lines.as_ref()?;
                match timeout(ALIVE, self.line()).await {
                    Err(_) => return Some(Bytes::from_static(b":\n\n")),
                    Ok(Some(row)) => row,
                    Ok(None) => return Some(self.end().await),
                }
            }
        };
        let mut rows = first;
        while let Ok(Some((at, row))) = timeout(END_OF_WINDOW, self.line()).await {
            if at != time {
                self.row = Some((at, row));
                break;
            }
            rows.push(',');
            rows += &row;
        }
        Some(format!("id: {time}\ndata: {{\"rows\":[{rows}]}}\n\n").into())
    }

    /// A row and its window's time.
    async fn line(&mut self) -> Option<(String, String)> {
        let line = self.lines.as_mut()?.next_line().await.ok()??;
        let row: Value = serde_json::from_str(&line).ok()?;
        Some((row["time"].as_str()?.to_owned(), line))
    }

    /// An event that says why there are no more.
    async fn end(&mut self) -> Bytes {
        self.lines = None;
        let mut said = Vec::new();
        if let Some(stderr) = &mut self.process.stderr {
            let _ = stderr.take(4096).read_to_end(&mut said).await;
        }
        let said = Value::from(String::from_utf8_lossy(&said));
        format!("event: end\ndata: {{\"error\":{said}}}\n\n").into()
    }
}
