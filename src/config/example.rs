//! `contrib/trackiops.toml`, generated from the flags: `UPDATE_GOLDEN=1` updates it.

use std::env;
use std::fmt::Write as _;
use std::fs;

use clap::{Arg, ArgAction, Args as _, Command};

use super::command::default_in_help;
use super::{ConfigFlag, Source, TABLES, key_of, keys};
use crate::{record, serve};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/trackiops.toml");

const HEAD: &str = "\
# Configuration of TrackIOps. Copy it to /etc/trackiops/trackiops.toml, and remove the # of what you want to set.
# Further files, /etc/trackiops/conf.d/*.toml, override it in order of name. See docs/guide/configuration.md.
#
#     trackiops config check            finds mistakes
#     trackiops config show             shows each value, and where it comes from
#     systemctl reload trackiops        applies what can change while recording: retain, retain-by-clock, store-size, requests-size, tenants
#
# Each key is a flag of the command that its table names, with its default. `trackiops record --help` explains them.
";

fn program() -> Command {
    Command::new("trackiops")
        .subcommand(record::Args::augment_args(Command::new("record")))
        .subcommand(serve::Args::augment_args(Command::new("serve")))
}

fn example() -> String {
    let program = program();
    let mut text = HEAD.to_owned();
    for command in TABLES.map(|name| program.find_subcommand(name).unwrap()) {
        write!(text, "\n[{}]\n", command.get_name()).unwrap();
        let mut heading = None;
        for arg in keys(command) {
            if arg.get_help_heading() != heading {
                heading = arg.get_help_heading();
                let heading = heading.unwrap_or_default();
                write!(text, "\n## {heading}\n").unwrap();
            }
            let help = arg.get_help().unwrap();
            let value = value(command.get_name(), arg);
            write!(text, "\n# {help}\n#{} = {value}\n", key_of(arg)).unwrap();
        }
    }
    text
}

/// Its default, or the placeholder in its help.
fn value(command: &str, arg: &Arg) -> String {
    match arg.get_action() {
        ArgAction::SetTrue => return "false".to_owned(),
        ArgAction::Append => return "[]".to_owned(),
        ArgAction::Set => {}
        other => panic!("files cannot give a flag of {other:?}"),
    }
    let default = arg.get_default_values().first();
    let default = default.map(|value| value.to_string_lossy().into_owned());
    // `$TRACKIOPS_STORE or /var/lib/trackiops`; `until stopped` is not a value.
    let said = || {
        default_in_help(arg)?
            .split(' ')
            .next_back()
            .map(str::to_owned)
    };
    let accepted = said().filter(|value| {
        let flag = format!("--{}={value}", key_of(arg));
        let parsed = program().try_get_matches_from(["trackiops", command, &flag]);
        parsed.is_ok()
    });
    let placeholder = || arg.get_value_names().unwrap()[0].to_string();
    format!("\"{}\"", default.or(accepted).unwrap_or_else(placeholder))
}

#[test]
fn the_example_has_every_key_with_its_default_and_help() {
    let example = example();
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(FILE, &example).unwrap();
    }
    assert!(
        fs::read_to_string(FILE).unwrap() == example,
        "contrib/trackiops.toml differs from the flags: run `UPDATE_GOLDEN=1 cargo test --bin trackiops example`"
    );
}

#[test]
fn what_the_example_has_commented_out_is_what_holds_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let config = ConfigFlag { config: Some(path) };
        Source::of_command(program, "record", &config)
            .read()
            .unwrap()
    };
    let example = example();
    let is_key =
        |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
    let is_placeholder = |line: &str| {
        let value = line.rsplit(" = ").next().unwrap_or_default();
        value.starts_with('"') && value.chars().all(|c| c == '"' || c.is_ascii_uppercase())
    };
    let lines = example
        .lines()
        .map(|line| match is_key(line) && !is_placeholder(line) {
            true => &line[1..],
            false => line,
        });
    let all = read("all.toml", &lines.collect::<Vec<_>>().join("\n")).settings;
    let none = read("none.toml", &example).settings;
    let (mut set, mut placeholders) = (0, 0);
    for (all, none) in all.into_iter().zip(none) {
        let has_default = none.value.is_some();
        set += usize::from(has_default);
        placeholders += usize::from(all.value.is_none());
        if has_default {
            assert_eq!(all.value, none.value, "{}", all.key);
        }
    }
    assert!(set > 15 && placeholders < 7, "{set} {placeholders}");
}
