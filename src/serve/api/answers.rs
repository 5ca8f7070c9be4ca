//! What is answered: what a command has written, in JSON or Arrow, and why there is no answer.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::serve::jobs::{Answered, JobError};

const JSON: &str = "application/json";
/// How Arrow's file format is called (IANA).
pub const ARROW: &str = "application/vnd.apache.arrow.file";
/// Has the notes of an answer in Arrow, as a JSON array.
const NOTES: HeaderName = HeaderName::from_static("trackiops-notes");
/// Bytes of notes in a header; scripts read them in JSON.
const MOST_NOTES_BYTES: usize = 4 << 10;

/// Lines of JSON as one object, with the notes.
pub fn rows(answered: &Answered, notes: &[String]) -> Response {
    let mut body = b"{\"rows\":[".to_vec();
    let lines = answered.stdout.split(|byte| *byte == b'\n');
    for (i, line) in lines.filter(|line| !line.is_empty()).enumerate() {
        if i > 0 {
            body.push(b',');
        }
        body.extend_from_slice(line);
    }
    body.extend_from_slice(b"],\"notes\":");
    body.extend_from_slice(json!(notes).to_string().as_bytes());
    body.push(b'}');
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// The bytes as they are; the notes come in a header.
pub fn arrow(answered: Answered, notes: &[String]) -> Response {
    let mut notes = json!(notes);
    if notes.to_string().len() > MOST_NOTES_BYTES {
        notes = json!(["more notes than fit into a header: ask for JSON"]);
    }
    let mut response = match answered.stdout.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => ([(CONTENT_TYPE, ARROW)], answered.stdout).into_response(),
    };
    if let Ok(notes) = HeaderValue::from_str(&ascii(&notes.to_string())) {
        response.headers_mut().insert(NOTES, notes);
    }
    response
}

/// JSON with `\u` in place of what a header may not have.
fn ascii(json: &str) -> String {
    let mut text = String::new();
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    text += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    text
}

/// Folded stacks: `frame;frame VALUE`.
pub fn stacks(folded: &[u8], notes: &[String]) -> Response {
    let folded = String::from_utf8_lossy(folded);
    let stack = |line: &str| {
        let (frames, value) = line.rsplit_once(' ')?;
        let frames: Vec<_> = frames.split(';').collect();
        Some(json!({"frames": frames, "value": value.parse::<u64>().ok()?}))
    };
    let rows: Vec<_> = folded.lines().filter_map(stack).collect();
    written(&json!({"rows": rows, "notes": notes}))
}

/// What a command has said, without what is about its command line.
pub fn notes(stderr: &str) -> Vec<String> {
    let lines = stderr.lines().map(str::trim);
    let lines = lines.filter(|line| {
        !line.is_empty() && !line.starts_with("For more information") && !line.starts_with("Usage:")
    });
    let plain = |line: &str| {
        let line = line.strip_prefix("trackiops: ").unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    lines.map(plain).collect()
}

/// Says how long an answer may be kept: with a tag until that changes, else not at all.
pub fn tagged(mut response: Response, tag: Option<String>) -> Response {
    let headers = response.headers_mut();
    let kept = match &tag {
        Some(_) => "private, no-cache",
        None => "no-store",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.insert(ETAG, tag);
    }
    response
}

/// JSON.
pub fn written(value: &Value) -> Response {
    ([(CONTENT_TYPE, JSON)], value.to_string()).into_response()
}

/// An error, as every path answers it.
pub fn refuse(status: StatusCode, why: &str) -> Response {
    let headers = [(CACHE_CONTROL, "no-store")];
    (status, headers, written(&json!({"error": why}))).into_response()
}

/// As [`refuse`], for a question that could not be run.
pub fn refuse_job(error: &JobError) -> Response {
    let why = error.to_string();
    match error {
        JobError::Busy | JobError::TooManyFollow => {
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, &why);
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, second);
            response
        }
        JobError::TooLong => refuse(StatusCode::GATEWAY_TIMEOUT, &why),
        JobError::TooLarge => refuse(StatusCode::PAYLOAD_TOO_LARGE, &why),
        JobError::Io(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_fit_into_a_header() {
        assert_eq!(
            ascii("[\"a\u{e9}\u{1f600}\"]"),
            "[\"a\\u00e9\\ud83d\\ude00\"]"
        );
    }
}
