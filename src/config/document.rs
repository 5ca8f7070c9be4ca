//! Parses a configuration file: keys and values become flags.

use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};
use trackiops_query::near;
use trackiops_reports::settings::{line_of, syntax_errors};
use trackiops_schemas::shortened::short_name;

use super::{Given, Origin, TABLES, files::ConfigFile, keys};

/// The flags of one command in a file. Tables of other commands are only checked by name.
pub fn read(file: &ConfigFile, command: &Command, problems: &mut Vec<String>) -> Vec<Given> {
    let document = Document {
        path: file.path.as_path().into(),
        text: &file.text,
    };
    let (tables, errors) = DeTable::parse_recoverable(&file.text);
    if !errors.is_empty() {
        // The recovered value may differ from the intended one.
        let errors = syntax_errors(&file.text, &errors).into_iter();
        problems.extend(errors.map(|(line, why)| {
            let path = Arc::clone(&document.path);
            format!("{}: {why}", Origin::File { path, line })
        }));
        return Vec::new();
    }
    let mut given = Vec::new();
    for (name, content) in tables.get_ref() {
        let place = document.at(&name.span());
        match content.get_ref() {
            DeValue::Table(table) if name.get_ref() == command.get_name() => {
                document.read_table(table, command, &mut given, problems);
            }
            DeValue::Table(_) if TABLES.contains(&name.get_ref().as_ref()) => {}
            DeValue::Table(_) => problems.push(format!(
                "{place}: unknown table [{}]{}",
                short_name(name.get_ref()),
                near(name.get_ref(), &TABLES)
            )),
            _ => problems.push(format!(
                "{place}: {} is in no table; put it below [{}]",
                short_name(name.get_ref()),
                TABLES.join("] or [")
            )),
        }
    }
    given
}

struct Document<'t> {
    path: Arc<Path>,
    text: &'t str,
}

impl Document<'_> {
    fn at(&self, span: &Range<usize>) -> Origin {
        Origin::File {
            path: Arc::clone(&self.path),
            line: line_of(self.text, span.start),
        }
    }

    fn read_table(
        &self,
        table: &DeTable<'_>,
        command: &Command,
        given: &mut Vec<Given>,
        problems: &mut Vec<String>,
    ) {
        for (key, value) in table {
            let (name, origin) = (key.get_ref(), self.at(&key.span()));
            let Some(arg) = keys(command).find(|arg| arg.get_long() == Some(name)) else {
                let known: Vec<_> = keys(command).filter_map(Arg::get_long).collect();
                let table = command.get_name();
                let near = near(name, &known);
                let name = short_name(name);
                problems.push(format!("{origin}: unknown key {name} in [{table}]{near}"));
                continue;
            };
            match self.words(arg, name, value) {
                Ok(words) => given.push(Given {
                    key: name.to_string(),
                    origin,
                    words,
                }),
                Err(wrong) => problems.extend(wrong),
            }
        }
    }

    /// Converts a value to flags of the command line.
    fn words(
        &self,
        arg: &Arg,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<(Origin, OsString)>, Vec<String>> {
        let wrong = |value: &Spanned<DeValue<'_>>, expected: &str| {
            let origin = self.at(&value.span());
            let is = value.get_ref().type_str();
            format!("{origin}: {key} has a value of type {is}; write {expected}")
        };
        let word = |value: &Spanned<DeValue<'_>>| {
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => decimal(number),
                _ => return None,
            };
            Some((self.at(&value.span()), format!("--{key}={text}").into()))
        };
        match (arg.get_action(), value.get_ref()) {
            (ArgAction::SetTrue, DeValue::Boolean(true)) => {
                Ok(vec![(self.at(&value.span()), format!("--{key}").into())])
            }
            (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
            (ArgAction::SetTrue, _) => Err(vec![wrong(value, "true or false")]),
            (ArgAction::Append, DeValue::Array(items)) => {
                let (mut words, mut problems) = (Vec::new(), Vec::new());
                for item in items {
                    match word(item) {
                        Some(word) => words.push(word),
                        None => problems.push(wrong(item, "strings or integers into its array")),
                    }
                }
                match problems.is_empty() {
                    true => Ok(words),
                    false => Err(problems),
                }
            }
            (ArgAction::Append, _) => {
                let expected = "an array of strings or integers, such as [\"a\", \"b\"]";
                Err(vec![wrong(value, expected)])
            }
            _ => match word(value) {
                Some(word) => Ok(vec![word]),
                None => Err(vec![wrong(value, "a string or an integer")]),
            },
        }
    }
}

/// Writes a number the way flags take it. A number beyond any flag's range stays as it is.
fn decimal(number: &DeInteger<'_>) -> String {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => number.to_string(),
        Err(_) => number.to_string(),
    }
}
