//! Converts the output of a command into an answer in JSON or Arrow, or into an error.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::page::jobs::{Answered, JobError};

const JSON: &str = "application/json";
/// Media type of Arrow's file format (IANA).
pub const ARROW: &str = "application/vnd.apache.arrow.file";
/// Contains the notes of an answer in Arrow, as a JSON array.
const NOTES: HeaderName = HeaderName::from_static("trackiops-notes");
/// Most bytes of notes in a header; JSON answers contain all notes.
const MOST_NOTES_BYTES: usize = 4 << 10;

/// The messages of a command, in addition to its rows.
#[derive(Default)]
pub struct Said {
    /// Notes, or why there are no rows.
    pub notes: Vec<String>,
    /// Length of the rows' windows.
    pub step: Option<String>,
}

impl Said {
    /// Reads the output on stderr: notes as JSON, and lines for people. Skips lines about the command line.
    pub fn read(stderr: &str) -> Self {
        let mut said = Self::default();
        for line in stderr.lines().map(str::trim) {
            match serde_json::from_str::<Value>(line) {
                Ok(Value::Object(object)) => {
                    let text = |name: &str| Some(object.get(name)?.as_str()?.to_owned());
                    said.notes.extend(text("note"));
                    said.step = text("step").or(said.step);
                }
                _ => said.notes.extend(plain(line)),
            }
        }
        said
    }

    fn object(&self, mut object: Value) -> Value {
        object["notes"] = json!(self.notes);
        if let Some(step) = &self.step {
            object["step"] = json!(step);
        }
        object
    }
}

/// Lines of JSON as one object, with the notes.
pub fn rows(answered: &Answered, said: &Said) -> Response {
    let mut body = b"{\"rows\":[".to_vec();
    let lines = answered.stdout.split(|byte| *byte == b'\n');
    for (i, line) in lines.filter(|line| !line.is_empty()).enumerate() {
        if i > 0 {
            body.push(b',');
        }
        body.extend_from_slice(line);
    }
    body.extend_from_slice(b"],");
    let about = said.object(json!({})).to_string();
    body.extend_from_slice(&about.as_bytes()[1..]);
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// The unchanged bytes, with the notes in a header.
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

/// JSON that replaces characters that a header may not contain with `\u` escapes.
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
pub fn stacks(folded: &[u8], said: &Said) -> Response {
    let folded = String::from_utf8_lossy(folded);
    let stack = |line: &str| {
        let (frames, value) = line.rsplit_once(' ')?;
        let frames: Vec<_> = frames.split(';').collect();
        Some(json!({"frames": frames, "value": value.parse::<u64>().ok()?}))
    };
    let rows: Vec<_> = folded.lines().filter_map(stack).collect();
    written(&said.object(json!({"rows": rows})))
}

/// A line without its parts about the command line.
fn plain(line: &str) -> Option<String> {
    let is_left_out = ["For more information", "Usage:"]
        .iter()
        .any(|words| line.starts_with(words));
    let line = line.strip_prefix("trackiops: ").unwrap_or(line);
    let line = line.strip_prefix("error: ").unwrap_or(line);
    (!is_left_out && !line.is_empty()).then(|| line.to_owned())
}

/// Sets how long an answer may be cached: with a tag until the tag changes, else not at all.
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

/// An error, in the same form for every path.
pub fn refuse(status: StatusCode, why: &str) -> Response {
    let headers = [(CACHE_CONTROL, "no-store")];
    (status, headers, written(&json!({"error": why}))).into_response()
}

/// Like [`refuse`], for a question that could not be run.
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
