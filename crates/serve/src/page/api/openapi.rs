//! Describes the API to programs: OpenAPI 3.1.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::answers::ARROW;
use super::endpoints::{ENDPOINTS, Kind};

/// The description of all paths: OpenAPI 3.1. Parameters are described by the help of their flags in `cli`.
pub fn openapi(cli: &clap::Command) -> Value {
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
                // `help` finds each flag; the tests compare the result with the file in the documentation.
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
            Kind::Rows | Kind::Objects => "Rows",
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
            Kind::Objects | Kind::Stacks => {}
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
                "description": "What was not recorded, lost or damaged, and why there are no rows; times are in UTC"},
            "step": {"type": "string", "description": "Length of the rows' windows, such as 10s"},
        }})
    };
    let text = |about: &str| json!({"type": ["string", "null"], "description": about});
    let row = json!({"type": "object", "properties": {
        "file_key": text("A signed number of 64 bits as decimal text, the same as in Parquet"),
        "fileid": text("An unsigned number of 64 bits as decimal text"),
    }});
    let moment = json!({"type": ["string", "null"], "format": "date-time"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "TrackIOps", "version": "1", "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "A read-only view of what TrackIOps has recorded. Parameters are flags of the command line; names, units and errors of columns are those of docs/reference/columns.md.",
        },
        "paths": paths,
        "components": {"schemas": {
            "Row": row,
            "Rows": rows(json!({"$ref": "#/components/schemas/Row"})),
            "Stacks": rows(json!({"type": "object", "required": ["frames", "value"], "properties": {
                "frames": {"type": "array", "items": {"type": "string"}}, "value": {"type": "integer"},
            }})),
            "Window": {"type": "object", "required": ["since", "until", "from", "notes", "rows"], "properties": {
                "since": moment, "until": moment,
                "from": {"type": "string", "enum": ["store", "recorder"],
                    "description": "A window from the store replaces an earlier one with the same start; one from the recorder adds to it"},
                "notes": {"type": "array", "items": {"type": "string"}},
                "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Row"}},
            }},
            "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
            "Meta": {"type": "object", "required": ["version", "stores", "store_ids", "hosts", "since", "until", "granularities", "recorder"], "properties": {
                "version": {"type": "string"},
                "stores": {"type": "array", "items": {"type": "string"}},
                "store_ids": {"type": "array", "items": {"type": ["string", "null"]},
                    "description": "The ids of the stores, in the same order; null for an export"},
                "hosts": {"type": "array", "items": {"type": "string"}},
                "since": moment, "until": moment,
                "granularities": {"type": "array", "items": {"type": "string"}},
                "recorder": {"type": ["object", "null"], "description": "As `trackiops status --json`; null if none runs"},
            }},
        }},
    })
}
