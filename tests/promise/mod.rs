//! What docs/reference/stability.md promises of answers: a store of an earlier program has the answers that it had then, and so has the API.
//! Each store in `store/tests/` has a file of questions here, and the API has `api.txt`. `interface.txt` belongs to `src/interface.rs`.

mod additive;
mod questions;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::golden;
use trackiops_testkit::incidents::noisy_neighbour;
use trackiops_testkit::recording::{Recording, of_two_files};
use trackiops_testkit::stores::{copy, options, record};
use trackiops_testkit::windows::T0;

use self::additive::{Form, missing};
use self::questions::hold;
use crate::query_cases::run::Session;
use crate::serve::{Serve, events, wait_for};
use crate::server::trackiops;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/promise");
const LIVE: &str = "/api/v1/live";

/// A store, and beside it one in which something was slow.
fn record_into(dir: &Path, store: &Path) {
    copy(store, &dir.join("store"));
    record(&dir.join("incident"), options("h"), &noisy_neighbour());
}

/// What is compared of a command's answer: tables are for people.
fn form(command: &str) -> Form {
    let shows = |ending: &str| command.starts_with("cat ") && command.ends_with(ending);
    if command.contains(" --json") || shows(".jsonl") {
        Form::Objects
    } else if command.contains(" --csv") || shows(".csv") {
        Form::Csv
    } else if command.contains(" --folded") {
        Form::Text
    } else {
        Form::Status
    }
}

#[test]
fn a_store_of_each_format_has_the_answers_that_it_had() {
    // A program reads stores of its format version and of the previous one.
    let previous = FORMAT_VERSION.saturating_sub(1).max(1);
    for version in previous..=FORMAT_VERSION {
        let name = format!("format-{version}");
        let store = golden::store().with_file_name(&name);
        assert!(store.is_dir(), "{} is gone", store.display());
        let mut session = Session::new();
        record_into(session.dir(), &store);
        let coefficients = "pue = 1.3\n[joule_per_request]\nread = 0.01\n";
        fs::write(session.dir().join("c.toml"), coefficients).unwrap();
        let file = Path::new(HERE).join(name).with_extension("txt");
        let ask = |command: &str| {
            let is_asked = !matches!(form(command), Form::Status);
            let said = session.run(command);
            let kept = said
                .lines()
                .filter(|line| line.starts_with('=') || is_asked && line.starts_with('>'));
            let mut kept: Vec<_> = kept.collect();
            if kept.last().is_none_or(|line| !line.starts_with('=')) {
                kept.push("= 0");
            }
            kept.join("\n") + "\n"
        };
        hold(&file, ask, |command, then, now| {
            missing(form(command), then, now)
        });
    }
}

#[test]
fn the_api_has_the_answers_that_it_had() {
    let dir = tempfile::tempdir().unwrap();
    record_into(dir.path(), &golden::store());
    let serve = |store: &str| {
        let mut command = trackiops(dir.path());
        command
            .arg("serve")
            .arg("--store")
            .arg(dir.path().join(store));
        command.args(["--socket", "none", "--listen", "127.0.0.1:0"]);
        Serve::started(command.env("TZ", "UTC0"))
    };
    let (stored, incident) = (serve("store"), serve("incident"));
    let mut recording = Recording::begin();
    let mounts = golden::mounts();
    recording.mounted(UtcMs(T0), mounts.to_vec(), &mounts);
    recording.put(&of_two_files(T0, 3));
    let recorder = Serve::start(&recording);
    // A thread of the store measures it once it is open.
    wait_for("the size of the store", || {
        let (_, meta) = recorder.ask("/api/v1/meta");
        !meta["recorder"]["status"]["store_bytes"].is_null()
    });

    let file = Path::new(HERE).join("api.txt");
    all_paths_are_in(&fs::read_to_string(&file).unwrap());
    let ask = |question: &str| {
        let (status, answer) = match question.strip_prefix(LIVE) {
            Some(query) => (200, live(&recorder, &mut recording, query)),
            None if question.starts_with("/api/v1/why") => incident.ask(question),
            None => match question.strip_prefix("types of ") {
                Some(question) => {
                    let (status, answer) = recorder.ask(question);
                    (status, types(&answer))
                }
                None => stored.ask(question),
            },
        };
        let answer = format!("{answer:#}").replace(dir.path().to_str().unwrap(), "DIR");
        let answer = answer.replace('\n', "\n> ");
        format!("> {answer}\n= {status}\n")
    };
    hold(&file, ask, |_, then, now| {
        missing(Form::Document, then, now)
    });
}

/// Each path of the API is asked.
fn all_paths_are_in(questions: &str) {
    let description = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/openapi.json");
    let description = fs::read_to_string(description).unwrap();
    let description: Value = serde_json::from_str(&description).unwrap();
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() > 10, "{} paths", paths.len());
    for path in paths.keys() {
        let is_asked = |line: &str| {
            line.strip_prefix("$ ")?
                .split('?')
                .next()
                .map(|of| of == path)
        };
        let mut lines = questions.lines();
        assert!(lines.any(|line| is_asked(line) == Some(true)), "{path}");
    }
}

/// Events of three windows, and of the end of the recording.
fn live(serve: &Serve, recording: &mut Recording, query: &str) -> Value {
    let mut events = events(serve, query);
    let mut all: Vec<_> = events.by_ref().take(3).collect();
    recording.end();
    all.extend(events);
    let all = all.into_iter();
    all.map(|(event, data)| json!({"event": event, "data": data}))
        .collect()
}

/// The types of values, for an answer that is never the same twice. Unknown values are left out.
fn types(of: &Value) -> Value {
    match of {
        Value::Object(members) => {
            let known = members.iter().filter(|(_, of)| !of.is_null());
            known.map(|(name, of)| (name.clone(), types(of))).collect()
        }
        Value::Array(items) => match items.first() {
            Some(first @ Value::Object(_)) => json!([types(first)]),
            _ => "list".into(),
        },
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) => "true or false".into(),
        Value::Null => "unknown".into(),
    }
}
