//! The names that docs/reference/stability.md promises, as the program has them: commands, flags, exit statuses, configuration, metrics,
//! columns and the API. `tests/promise/interface.txt` has them as they were when they were written down.

mod answers;
mod commands;

use std::path::Path;

use clap::{Command, CommandFactory as _};
use trackiops_serve::metrics::catalogue::FAMILIES;
use trackiops_testkit::promise::hold_lines;

use crate::exit_status::ExitStatus;
use crate::{Cli, config, store_flag};

#[test]
fn what_is_promised_is_there() {
    let cli = Cli::command();
    let mut lines = vec![
        "# What docs/reference/stability.md promises by name. A test compares this with the program.".to_owned(),
    ];
    let mut section = |title: &str, of: Vec<String>| {
        lines.extend([String::new(), format!("# {title}"), String::new()]);
        lines.extend(of);
    };
    section("Commands and flags", commands::commands(&cli));
    section("Exit statuses", statuses());
    section("Configuration", configuration(&cli));
    section("Metrics", metrics());
    section("Files in a store", answers::files());
    section("Columns of answers", answers::columns());
    section("API", answers::api(&cli));
    section(
        "Rust",
        vec![format!("rust-version {}", env!("CARGO_PKG_RUST_VERSION"))],
    );
    assert!(lines.len() > 1000, "{} lines", lines.len());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promise/interface.txt");
    hold_lines(&file, &lines, "--bin trackiops interface::");
}

fn statuses() -> Vec<String> {
    use ExitStatus::{Damaged, Died, Error, Negative, Success};
    let name = |status| match status {
        Success => "success",
        Negative => "negative",
        Error => "error",
        Damaged => "damaged",
        Died => "died",
    };
    [Success, Negative, Error, Damaged, Died]
        .map(|status| format!("exit status {} is {}", status as u8, name(status)))
        .to_vec()
}

/// Keys of files, and variables.
fn configuration(cli: &Command) -> Vec<String> {
    let mut lines = vec![
        format!("variable {} names the configuration", config::VARIABLE),
        format!("variable {} names the store", store_flag::VARIABLE),
    ];
    for table in config::TABLES {
        let command = cli.find_subcommand(table).unwrap();
        for arg in config::keys(command) {
            let key = config::key_of(arg);
            lines.push(format!("key {table}.{key}{}", commands::value(arg)));
            let names = config::variables(table, key).into_iter();
            lines.extend(names.map(|name| format!("variable {name} sets {table}.{key}")));
        }
    }
    lines
}

fn metrics() -> Vec<String> {
    let mut lines = Vec::new();
    for family in FAMILIES {
        let (name, kind) = (family.sample_name(), family.kind.name());
        let unit = family.unit.map(|unit| format!(" in {}", unit.name()));
        lines.push(format!(
            "metric {name} is a {kind}{}",
            unit.unwrap_or_default()
        ));
        let labels = family.labels.iter();
        lines.extend(labels.map(|label| format!("metric {name} has the label {label}")));
    }
    lines
}
