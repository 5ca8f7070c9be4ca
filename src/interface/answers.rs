//! Columns of files and answers, and the API.

use arrow::datatypes::{DataType, Field, TimeUnit};
use clap::Command;
use serde_json::Value;
use trackiops_query::{
    AnswerRow, Columns, Event, FileActivity, HostStream, KeptRequest, OperationAnswer,
    ProcessActivity, Record, ServerStall, Volume,
};
use trackiops_schemas::columns::{
    FORMAT_VERSION, health_schema, ops_schema, request_schema, rollup_schema,
};
use trackiops_schemas::unit::Unit;
use trackiops_serve::page::openapi;
use trackiops_store::{Mark, MountSeen};

/// The columns of Parquet in a store. They have their places: new ones come last.
pub fn files() -> Vec<String> {
    let mut lines = vec![format!("store format {FORMAT_VERSION}")];
    for (dataset, schema) in [
        ("rollup", rollup_schema()),
        ("ops", ops_schema()),
        ("health", health_schema()),
        ("requests", request_schema()),
    ] {
        for (place, field) in schema.fields().iter().enumerate() {
            let null = if field.is_nullable() { " or null" } else { "" };
            lines.push(format!(
                "{dataset} column {} is {}{null}",
                place + 1,
                field.name()
            ));
            add_field(&format!("{dataset} {}", field.name()), field, &mut lines);
        }
    }
    lines
}

/// The columns of rows of commands, in every format.
pub fn columns() -> Vec<String> {
    let mut lines = Vec::new();
    add_columns::<AnswerRow>("query", &mut lines);
    add_columns::<OperationAnswer>("query --by op", &mut lines);
    add_columns::<FileActivity>("files", &mut lines);
    add_columns::<KeptRequest>("requests", &mut lines);
    add_columns::<ProcessActivity>("requests --by process", &mut lines);
    add_columns::<MountSeen>("mounts", &mut lines);
    add_columns::<ServerStall>("stalls", &mut lines);
    add_columns::<Mark>("marks", &mut lines);
    add_columns::<Event>("marks --all", &mut lines);
    add_columns::<HostStream>("import account", &mut lines);
    add_columns::<Volume>("volume", &mut lines);
    lines
}

fn add_columns<R: Record>(command: &str, lines: &mut Vec<String>) {
    for column in R::columns() {
        let name = format!("{command}: {}", column.name);
        let short = column.short_names().into_iter();
        let short = short.map(|short| format!("{name} is also {short}"));
        let short: Vec<_> = short.collect();
        if !column.is_usual {
            lines.push(format!("{name} is there if asked for"));
        }
        let schema = Columns::new(vec![column]).schema();
        add_field(&name, schema.field(0), lines);
        lines.extend(short);
    }
}

/// The type and unit of a field, and of the fields in it.
fn add_field(name: &str, field: &Field, lines: &mut Vec<String>) {
    let unit = Unit::in_metadata(field).name();
    let unit = unit.map(|unit| format!(" in {unit}")).unwrap_or_default();
    lines.push(format!("{name} is {}{unit}", type_of(field.data_type())));
    match field.data_type() {
        DataType::List(item) => add_field(&format!("{name}[]"), item, lines),
        DataType::Struct(fields) => fields
            .iter()
            .for_each(|field| add_field(&format!("{name}.{}", field.name()), field, lines)),
        _ => {}
    }
}

fn type_of(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "text".to_owned(),
        DataType::Boolean => "true or false".to_owned(),
        DataType::Int32 => "a whole number of 32 bits".to_owned(),
        DataType::Int64 => "a whole number of 64 bits".to_owned(),
        DataType::Float64 => "a number".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => format!("a time in us, {zone}"),
        DataType::List(_) => "a list".to_owned(),
        DataType::Struct(_) => "an object".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Paths, parameters, answers and objects of the API.
pub fn api(cli: &Command) -> Vec<String> {
    let description = openapi(cli);
    let mut lines = Vec::new();
    for (path, of) in members(&description["paths"]) {
        lines.push(format!("GET {path}"));
        for parameter in of["get"]["parameters"].as_array().into_iter().flatten() {
            add_parameter(path, parameter, &mut lines);
        }
        for (status, response) in members(&of["get"]["responses"]) {
            lines.push(format!("GET {path} may answer {status}"));
            for (media, content) in members(&response["content"]) {
                let content = kind(&content["schema"]);
                lines.push(format!("GET {path} {status} {media} is {content}"));
            }
        }
    }
    for (name, schema) in members(&description["components"]["schemas"]) {
        add_schema(name, schema, &mut lines);
    }
    lines
}

fn members(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of.as_object().into_iter().flatten()
}

fn add_parameter(path: &str, parameter: &Value, lines: &mut Vec<String>) {
    let schema = &parameter["schema"];
    let name = parameter["name"].as_str().unwrap_or_default();
    let usual = schema["default"].as_str();
    let usual = usual.map(|usual| format!(", else {usual}"));
    let usual = usual.unwrap_or_default();
    let required = match parameter["required"] == true {
        true => ", required",
        false => "",
    };
    lines.push(format!(
        "GET {path} ?{name} is {}{required}{usual}",
        kind(schema)
    ));
    let values = schema["enum"].as_array().into_iter().flatten();
    let values = values.filter_map(Value::as_str);
    lines.extend(values.map(|value| format!("GET {path} ?{name} takes {value}")));
}

/// What an object of an answer has.
fn add_schema(name: &str, schema: &Value, lines: &mut Vec<String>) {
    lines.push(format!("{name} is {}", kind(schema)));
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    lines.extend(required.map(|member| format!("{name} always has {member}")));
    for (member, of) in members(&schema["properties"]) {
        add_schema(&format!("{name}.{member}"), of, lines);
    }
    if schema["items"].is_object() {
        add_schema(&format!("{name}[]"), &schema["items"], lines);
    }
}

/// The type of a value, or the name of an object that is described elsewhere.
fn kind(schema: &Value) -> String {
    let name = schema["$ref"].as_str();
    let name = name.and_then(|name| name.rsplit('/').next());
    match (name, &schema["type"]) {
        (Some(name), _) => name.to_owned(),
        (None, Value::Array(types)) => types
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        (None, one) => one.as_str().unwrap_or("anything").to_owned(),
    }
}
