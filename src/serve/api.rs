//! `/api/v1`: what is asked is what the commands take, and what is answered is what they write.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, RETRY_AFTER,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::CommandFactory;
use serde_json::{Value, json};

use super::jobs::{Answered, JobError, Jobs};
use super::{live, state};
use crate::Cli;

/// Of the answers of [`crate::query`] and its like: nothing matched, and a part is damaged.
const NOTHING: i32 = 1;
const DAMAGED: i32 = 3;
const JSON: &str = "application/json";
/// How Arrow's file format is called (IANA).
const ARROW: &str = "application/vnd.apache.arrow.file";
/// Has the notes of an answer in Arrow, as a JSON array.
const NOTES: HeaderName = HeaderName::from_static("trackiops-notes");
/// Bytes of notes in a header; scripts read them in JSON.
const MOST_NOTES_BYTES: usize = 4 << 10;

/// A question: a command, and what of it can be chosen.
pub struct Endpoint {
    pub name: &'static str,
    about: &'static str,
    /// The command, and flags that it always has.
    command: &'static [&'static str],
    /// Flags that can be given.
    words: &'static [&'static str],
    /// What a flag is unless it is given.
    usual: &'static [(&'static str, &'static str)],
    answer: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// JSON, a line for each row, or Arrow.
    Rows,
    /// Stacks and their values.
    Stacks,
    /// Windows as they close.
    Live,
}

const ROW_WORDS: &[&str] = &[
    "since", "until", "file", "dir", "mount", "step", "by", "depth", "op", "where", "sort", "top",
    "columns",
];
const WINDOW_WORDS: &[&str] = &[
    "since", "until", "file", "dir", "mount", "step", "by", "depth", "op",
];

/// All of them.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "series",
        about: "What files, or what else rows stand for, did in each window",
        command: &["query"],
        words: ROW_WORDS,
        usual: &[("step", "auto")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "top",
        about: "The files, or what else rows stand for, with the most bytes, or the first by another order",
        command: &["query", "--step=all"],
        words: &[
            "since", "until", "file", "dir", "mount", "by", "depth", "op", "where", "sort", "top",
            "columns",
        ],
        usual: &[("top", "100")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "heat",
        about: "Latency histograms of each window, for a heat map",
        command: &[
            "query",
            "--columns=time,host,mount,path,read_latency_hist,write_latency_hist",
        ],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "recorded",
        about: "Which time was recorded, for each host: pieces of time, and how much of each; pieces that overlap add up",
        command: &["query", "--recorded", "--columns=time"],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "parts",
        about: "The parts of the mean latency in each window: queue, network and server, completion",
        command: &[
            "query",
            "--columns=time,host,mount,path,read_requests,read_latency_us_mean,read_queue_us_mean,read_rtt_us_mean,read_completion_us_mean,write_requests,write_latency_us_mean,write_queue_us_mean,write_rtt_us_mean,write_completion_us_mean",
        ],
        words: WINDOW_WORDS,
        usual: &[("step", "auto"), ("by", "host")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "operations",
        about: "Operations of the NFS protocol, for each mount or as `by` says",
        command: &["query"],
        words: ROW_WORDS,
        usual: &[("step", "all"), ("by", "op")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "flame",
        about: "The tree of directories, with what was done below each",
        command: &["flamegraph", "--folded"],
        words: &["since", "until", "file", "dir", "mount", "by", "direction"],
        usual: &[],
        answer: Kind::Stacks,
    },
    Endpoint {
        name: "files",
        about: "Files: their names, when they were seen, what they moved",
        command: &["files"],
        words: &[
            "since", "until", "file", "dir", "mount", "where", "sort", "top", "columns",
        ],
        usual: &[("top", "100")],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "requests",
        about: "The slowest requests one by one, where they were kept",
        command: &["requests"],
        words: &[
            "since", "until", "file", "dir", "mount", "op", "where", "sort", "top", "columns",
        ],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "stalls",
        about: "When which server did not answer",
        command: &["stalls"],
        words: &["since", "until"],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "mounts",
        about: "What was mounted where, from when to when",
        command: &["mounts"],
        words: &[],
        usual: &[],
        answer: Kind::Rows,
    },
    Endpoint {
        name: "live",
        about: "Each window as it closes, as server-sent events of its rows; the id of an event is the window's start",
        command: &["watch", "--json", "--wait"],
        words: &[
            "since", "file", "dir", "mount", "step", "by", "depth", "op", "where", "sort", "top",
            "columns",
        ],
        usual: &[],
        answer: Kind::Live,
    },
];

/// What answers.
#[derive(Clone, Debug)]
pub struct Api {
    stores: Arc<[PathBuf]>,
    socket: PathBuf,
    jobs: Jobs,
}

/// Parameters of a request.
struct Parameters {
    /// In the order of the request.
    given: Vec<(String, String)>,
}

impl Api {
    /// Asks these stores, and the recorder at this socket.
    pub fn new(stores: Vec<PathBuf>, socket: PathBuf, jobs: Jobs) -> Self {
        Self {
            stores: stores.into(),
            socket,
            jobs,
        }
    }

    /// Its paths.
    pub fn router(self) -> Router {
        let mut router = Router::new()
            .route(
                "/api/v1/openapi.json",
                get(|| async { written(&openapi()) }),
            )
            .route("/api/v1/meta", get(meta));
        for endpoint in ENDPOINTS {
            let answer = move |State(api): State<Self>,
                               RawQuery(query): RawQuery,
                               headers: HeaderMap| async move {
                api.answer(endpoint, query.as_deref().unwrap_or_default(), &headers)
                    .await
            };
            router = router.route(&format!("/api/v1/{}", endpoint.name), get(answer));
        }
        let unknown = || async {
            refuse(
                StatusCode::NOT_FOUND,
                "there is nothing here; /api/v1/openapi.json lists what there is",
            )
        };
        router.fallback(unknown).with_state(self)
    }

    async fn answer(
        &self,
        endpoint: &'static Endpoint,
        query: &str,
        headers: &HeaderMap,
    ) -> Response {
        let parameters = match Parameters::parse(query, endpoint) {
            Ok(parameters) => parameters,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        if endpoint.answer == Kind::Live {
            let mut words = self.words(endpoint, &parameters, &[]);
            words.push(flag("socket", self.socket.as_os_str()));
            return live::follow(&self.jobs, words, parameters.first("since"), headers);
        }
        let tag = self.tag(endpoint, query, &parameters).await;
        let is_known = |tag: &str| {
            let known = headers.get_all(IF_NONE_MATCH).into_iter();
            known
                .filter_map(|of| of.to_str().ok())
                .flat_map(|of| of.split(','))
                .any(|of| {
                    let of = of.trim();
                    of == "*" || of.strip_prefix("W/").unwrap_or(of) == tag
                })
        };
        // A compressed answer is another one, byte by byte.
        let weak = tag.as_ref().map(|tag| format!("W/{tag}"));
        if tag.as_deref().is_some_and(is_known) {
            return tagged(StatusCode::NOT_MODIFIED.into_response(), weak);
        }
        let is_arrow = parameters.first("format") == Some("arrow");
        let format: &[(&str, &str)] = match (endpoint.answer, is_arrow) {
            (Kind::Rows, true) => &[("format", "arrow")],
            (Kind::Rows, false) => &[("format", "json")],
            _ => &[],
        };
        let mut words = self.words(endpoint, &parameters, format);
        words.extend(
            self.stores
                .iter()
                .map(|store| flag("store", store.as_os_str())),
        );
        let answered = match self.jobs.run(&words).await {
            Ok(answered) => answered,
            Err(error) => return refuse_job(&error),
        };
        let notes = notes(&answered.stderr);
        match answered.status.code() {
            Some(0 | NOTHING | DAMAGED) => {
                let answer = match (endpoint.answer, is_arrow) {
                    (Kind::Rows, true) => arrow(answered, &notes),
                    (Kind::Stacks, _) => stacks(&answered.stdout, &notes),
                    _ => rows(&answered, &notes),
                };
                tagged(answer, weak)
            }
            Some(_) => refuse(StatusCode::BAD_REQUEST, &notes.join("; ")),
            None => refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!("the question has ended early ({})", answered.status),
            ),
        }
    }

    /// The command line, but for the store.
    fn words(
        &self,
        endpoint: &Endpoint,
        parameters: &Parameters,
        more: &[(&str, &str)],
    ) -> Vec<OsString> {
        let usual = endpoint.usual.iter();
        let usual = usual.filter(|(name, _)| parameters.first(name).is_none());
        let given = parameters.given.iter().filter(|(name, _)| name != "format");
        let given = given.map(|(name, value)| (&**name, &**value));
        let flags = given.chain(usual.chain(more).copied());
        let command = endpoint.command.iter().map(Into::into);
        command
            .chain(flags.map(|(name, value)| flag(name, value.as_ref())))
            .collect()
    }

    /// Of the answer, if the range is one of fixed times.
    async fn tag(
        &self,
        endpoint: &Endpoint,
        query: &str,
        parameters: &Parameters,
    ) -> Option<String> {
        let range = state::fixed_range(parameters.first("since"), parameters.first("until"))?;
        let stores = Arc::clone(&self.stores);
        let question = format!("{}?{query}", endpoint.name);
        let tag = tokio::task::spawn_blocking(move || state::tag(&stores, range, &question));
        tag.await.ok()?.ok()
    }
}

/// One argument, whatever the value begins with or contains.
fn flag(name: &str, value: &std::ffi::OsStr) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value);
    flag
}

impl Parameters {
    fn parse(query: &str, endpoint: &Endpoint) -> Result<Self, String> {
        let mut given = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !endpoint.takes(&name) {
                return Err(format!(
                    "{} takes no parameter `{name}`; it takes {}",
                    endpoint.name,
                    endpoint.parameters().join(", ")
                ));
            }
            let is_format = ["json", "arrow"].contains(&&*value);
            if name == "format" && !is_format {
                return Err(format!("format is json or arrow, not `{value}`"));
            }
            if name == "columns" && value == "help" {
                return Err(
                    "columns lists names; docs/reference/columns.md has all of them".to_owned(),
                );
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { given })
    }

    fn first(&self, name: &str) -> Option<&str> {
        let mut given = self.given.iter();
        given.find(|(of, _)| of == name).map(|(_, value)| &**value)
    }
}

impl Endpoint {
    fn takes(&self, name: &str) -> bool {
        self.parameters().contains(&name)
    }

    fn parameters(&self) -> Vec<&'static str> {
        let mut names = self.words.to_vec();
        if self.answer == Kind::Rows {
            names.push("format");
        }
        names
    }
}

fn rows(answered: &Answered, notes: &[String]) -> Response {
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

fn arrow(answered: Answered, notes: &[String]) -> Response {
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
fn stacks(folded: &[u8], notes: &[String]) -> Response {
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
fn notes(stderr: &str) -> Vec<String> {
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

fn tagged(mut response: Response, tag: Option<String>) -> Response {
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

fn written(value: &Value) -> Response {
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

/// What there is to ask about.
async fn meta(State(api): State<Api>) -> Response {
    let stores = Arc::clone(&api.stores);
    let of_stores = tokio::task::spawn_blocking(move || state::describe(&stores));
    let socket = flag("socket", api.socket.as_os_str());
    let status = [OsString::from("status"), "--json".into(), socket];
    let recorder = async {
        let answered = api.jobs.run(&status).await.ok()?;
        serde_json::from_slice::<Value>(&answered.stdout).ok()
    };
    let (of_stores, recorder) = tokio::join!(of_stores, recorder);
    match of_stores {
        Ok(Ok(mut meta)) => {
            meta["version"] = env!("CARGO_PKG_VERSION").into();
            meta["recorder"] = recorder.unwrap_or_default();
            tagged(written(&meta), None)
        }
        Ok(Err(error)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The description of all paths: OpenAPI 3.1. What parameters mean is what the flags' help says.
pub fn openapi() -> Value {
    let cli = Cli::command();
    let help = |command: &str, word: &str| {
        let command = cli.find_subcommand(command)?;
        let mut arguments = command.get_arguments();
        let argument = arguments.find(|argument| argument.get_long() == Some(word))?;
        let help = argument.get_help()?.to_string();
        let repeats = matches!(argument.get_action(), clap::ArgAction::Append);
        Some((help, repeats))
    };
    let mut paths = BTreeMap::new();
    let object = |of: Value| json!({"content": {"application/json": {"schema": of}}});
    let error = || {
        let mut error = object(json!({"$ref": "#/components/schemas/Error"}));
        error["description"] = "Not answered, and why".into();
        error
    };
    for endpoint in ENDPOINTS {
        let mut parameters = Vec::new();
        for name in endpoint.parameters() {
            let usual = endpoint.usual.iter().find(|(of, _)| *of == name);
            let (about, repeats) = match name {
                "format" => ("json or arrow (an IPC file)".to_owned(), false),
                // `help` reads each flag; the tests compare what they say with the file in the documentation.
                _ => help(endpoint.command[0], name).unwrap_or_default(),
            };
            let mut text = json!({"type": "string"});
            if name == "format" {
                text["enum"] = json!(["json", "arrow"]);
                text["default"] = "json".into();
            }
            if let Some((_, usual)) = usual {
                text["default"] = (*usual).into();
            }
            let schema = match repeats && !["columns", "op"].contains(&name) {
                true => json!({"type": "array", "items": text}),
                false => text,
            };
            parameters.push(json!({
                "name": name, "in": "query", "required": false, "description": about, "schema": schema,
            }));
        }
        let schema = match endpoint.answer {
            Kind::Rows => "Rows",
            Kind::Stacks => "Stacks",
            Kind::Live => "Window",
        };
        let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
        let mut found = object(schema.clone());
        found["description"] = "Rows; none if nothing matched".into();
        match endpoint.answer {
            Kind::Rows => {
                found["content"][ARROW] = json!({"schema": {"type": "string", "format": "binary"}})
            }
            Kind::Stacks => {}
            Kind::Live => found["content"] = json!({"text/event-stream": {"schema": schema}}),
        }
        let mut responses = json!({
            "200": found, "400": error(), "413": error(), "500": error(), "503": error(), "504": error(),
        });
        if endpoint.answer == Kind::Rows {
            responses["204"] = json!({"description": "Nothing matched, and Arrow was asked for"});
        }
        if endpoint.words.contains(&"until") {
            responses["304"] = json!({"description": "The stores have for this range of fixed times what the ETag stands for"});
        }
        paths.insert(
            format!("/api/v1/{}", endpoint.name),
            json!({"get": {
                "operationId": endpoint.name, "summary": endpoint.about,
                "description": format!("As `trackiops {}`", endpoint.command[0]),
                "parameters": parameters, "responses": responses,
            }}),
        );
    }
    let mut meta = object(json!({"$ref": "#/components/schemas/Meta"}));
    meta["description"] = "What the stores have".into();
    paths.insert(
        "/api/v1/meta".to_owned(),
        json!({"get": {
            "operationId": "meta", "summary": "What there is to ask about: hosts, range, lengths of windows; the recorder",
            "responses": {"200": meta, "500": error()},
        }}),
    );
    let rows = |of: Value| {
        json!({"type": "object", "required": ["rows", "notes"], "properties": {
            "rows": {"type": "array", "items": of},
            "notes": {"type": "array", "items": {"type": "string"},
                "description": "What was not recorded, lost or damaged, and why there are no rows"},
        }})
    };
    let moment = json!({"type": ["string", "null"], "format": "date-time"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "TrackIOps", "version": "1", "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "A read-only view of what TrackIOps has recorded. Parameters are flags of the command line; names, units and errors of columns are those of docs/reference/columns.md.",
        },
        "paths": paths,
        "components": {"schemas": {
            "Rows": rows(json!({"type": "object"})),
            "Stacks": rows(json!({"type": "object", "required": ["frames", "value"], "properties": {
                "frames": {"type": "array", "items": {"type": "string"}}, "value": {"type": "integer"},
            }})),
            "Window": {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": {"type": "object"}}}},
            "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
            "Meta": {"type": "object", "required": ["version", "stores", "hosts", "since", "until", "granularities", "recorder"], "properties": {
                "version": {"type": "string"},
                "stores": {"type": "array", "items": {"type": "string"}},
                "hosts": {"type": "array", "items": {"type": "string"}},
                "since": moment, "until": moment,
                "granularities": {"type": "array", "items": {"type": "string"}},
                "recorder": {"type": ["object", "null"], "description": "As `trackiops status --json`; null if none runs"},
            }},
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_a_flag_of_its_command() {
        let cli = Cli::command();
        for endpoint in ENDPOINTS {
            let command = cli.find_subcommand(endpoint.command[0]).unwrap();
            let is_flag = |name: &str| {
                let mut arguments = command.get_arguments();
                arguments.any(|argument| argument.get_long() == Some(name))
            };
            let usual = endpoint.usual.iter().map(|(name, _)| *name);
            for name in endpoint.words.iter().copied().chain(usual) {
                assert!(is_flag(name), "{}: {name}", endpoint.name);
                // What is written to, and what is read, is not the client's.
                assert!(!["output", "store", "plot", "socket"].contains(&name));
            }
        }
    }

    #[test]
    fn a_value_is_one_argument() {
        let value = "--output=/etc/passwd; $(x) \"";
        let words = flag("file", value.as_ref());
        assert_eq!(words, OsString::from(format!("--file={value}")));
    }

    #[test]
    fn notes_fit_into_a_header() {
        assert_eq!(
            ascii("[\"a\u{e9}\u{1f600}\"]"),
            "[\"a\\u00e9\\ud83d\\ude00\"]"
        );
    }

    #[test]
    fn the_description_is_the_documented_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/openapi.json");
        let written = format!("{:#}\n", openapi());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &written).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), written);
    }
}
