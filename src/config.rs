//! Finds the flags of a command: on the command line, else in the environment, else in the configuration files, else the defaults.
//!
//! Each long flag of a command in [`TABLES`] is also a key and a variable. Their values are inserted before the flags of the command line,
//! so the same parsers check them.

mod command;
mod document;
#[cfg(test)]
mod example;
mod files;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use toml::Value;
use trackiops_process::output::say;
use trackiops_query::near;
use trackiops_render::units::plural;

#[cfg(test)]
pub use command::default_in_help;
pub use command::{Args, run};

use crate::argv;
use crate::store_flag;
use files::Choice;

/// The commands whose flags can be configured.
pub const TABLES: [&str; 2] = ["record", "serve"];

/// The variable that names the file if `--config` does not.
pub const VARIABLE: &str = "TRACKIOPS_CONFIG";

/// Which files are read.
#[derive(clap::Args)]
pub struct ConfigFlag {
    /// Configuration file, or none [default: /etc/trackiops/trackiops.toml]
    ///
    /// The files conf.d/*.toml beside it are read after it, in order of name. `none` reads no file. $TRACKIOPS_CONFIG names it if the
    /// flag does not.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFlag {
    fn choice(named: Option<&Path>) -> Choice {
        let variable = env::var_os(VARIABLE).filter(|path| !path.is_empty());
        match named.map(PathBuf::from).or(variable.map(PathBuf::from)) {
            None => Choice::Usual,
            Some(path) if path.as_os_str() == "none" => Choice::Nothing,
            Some(path) => Choice::Named(path),
        }
    }
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    CommandLine,
    /// This variable.
    Environment(String),
    File {
        path: Arc<Path>,
        line: usize,
    },
    Default,
}

impl Origin {
    /// A smaller rank overrides a greater one.
    fn rank(&self) -> u8 {
        match self {
            Self::CommandLine => 0,
            Self::Environment(_) => 1,
            Self::File { .. } => 2,
            Self::Default => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::Environment(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The value of a key in a file or in the environment.
#[derive(Clone, Debug)]
struct Given {
    key: String,
    origin: Origin,
    /// Flags of the command line, with the origin of each. Empty for a switch that is off, and for an empty array.
    words: Vec<(Origin, OsString)>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Setting {
    pub key: String,
    /// `None` if it is not set and its default is not a value.
    pub value: Option<Value>,
    pub origin: Origin,
}

/// The complete settings of a command.
pub struct Settings {
    /// The source of the command's arguments.
    pub matches: ArgMatches,
    /// All keys, in the order of the command's help.
    pub settings: Vec<Setting>,
    /// Files that were read.
    pub files: Vec<PathBuf>,
}

/// All errors in a configuration, one line each.
#[derive(Debug)]
pub struct Problems(pub Vec<String>);

impl Problems {
    /// Reports them, and fails.
    pub fn fail<T>(self) -> anyhow::Result<T> {
        let Self(problems) = self;
        problems.iter().for_each(say);
        bail!(
            "the configuration has {}; correct it, and check it with `trackiops config check`",
            plural(problems.len() as u64, "error")
        )
    }
}

/// Reads the flags of a command, any number of times.
pub struct Source {
    program: fn() -> Command,
    /// The program, the command, and its flags.
    argv: Vec<OsString>,
}

impl Source {
    /// The arguments of this process.
    pub fn of_process(program: fn() -> Command) -> Self {
        Self {
            program,
            argv: argv::of_process(),
        }
    }

    /// A command with no flags except the choice of its configuration.
    fn of_command(program: fn() -> Command, name: &str, config: &ConfigFlag) -> Self {
        let mut argv = vec!["trackiops".into(), name.into()];
        if let Some(path) = &config.config {
            argv.extend(["--config".into(), path.into()]);
        }
        Self { program, argv }
    }

    /// The arguments of the command, with all flags.
    pub fn args<A: FromArgMatches>(&self) -> anyhow::Result<A> {
        match self.read() {
            Ok(read) => Ok(A::from_arg_matches(&read.matches)?),
            Err(problems) => problems.fail(),
        }
    }

    /// Reads the environment and the files, and checks everything in them.
    pub fn read(&self) -> Result<Settings, Problems> {
        let program = (self.program)();
        let parse = |argv: &[OsString]| {
            let matches = program.clone().try_get_matches_from(argv);
            matches
                .map(|mut matches| matches.remove_subcommand())
                .map_err(|error| message_of(&error))
        };
        let (name, flags) = match parse(&self.argv) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => return Err(Problems(vec!["no command is given".to_owned()])),
            Err(why) => return Err(Problems(vec![why])),
        };
        let Some(command) = program.find_subcommand(&name) else {
            return Err(Problems(vec![format!("{name} is no command")]));
        };
        let named = flags.get_one::<PathBuf>("config");
        let (files, mut problems) = files::read(&ConfigFlag::choice(named.map(PathBuf::as_path)));
        let mut given = Vec::new();
        for file in &files {
            given.extend(document::read(file, command, &mut problems));
        }
        given.extend(from_environment(command, &mut problems));
        for (origin, word) in given.iter().flat_map(|given| &given.words) {
            // Parse each word alone, to find the wrong one.
            let alone = [self.argv[0].clone(), name.clone().into(), word.clone()];
            if let Err(why) = parse(&alone) {
                problems.push(format!("{origin}: {why}"));
            }
        }
        let mut chosen: BTreeMap<String, Given> = BTreeMap::new();
        for given in given {
            // Later files override earlier ones, and the environment is last.
            chosen.insert(given.key.clone(), given);
        }
        for arg in keys(command) {
            if flags.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                let given = Given {
                    key: key_of(arg).to_owned(),
                    origin: Origin::CommandLine,
                    words: Vec::new(),
                };
                chosen.insert(given.key.clone(), given);
            }
        }
        settle_conflicts(command, &mut chosen, &mut problems);
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let words = chosen.values().flat_map(|given| &given.words);
        let mut argv = self.argv.clone();
        // Right after the command: its own flags may end with `--`.
        argv.splice(2..2, words.map(|(_, word)| word.clone()));
        let Some((_, matches)) = parse(&argv).map_err(|why| Problems(vec![why]))? else {
            return Err(Problems(vec!["no command is given".to_owned()]));
        };
        let setting = |arg: &Arg| Setting {
            key: key_of(arg).to_owned(),
            value: value_of(arg, &matches),
            origin: match chosen.get(key_of(arg)) {
                Some(given) => given.origin.clone(),
                None => Origin::Default,
            },
        };
        Ok(Settings {
            settings: keys(command).map(setting).collect(),
            files: files.into_iter().map(|file| file.path).collect(),
            matches,
        })
    }
}

/// The flags of a command that are keys.
pub fn keys(command: &Command) -> impl Iterator<Item = &Arg> {
    let flags = command.get_arguments();
    flags.filter(|arg| {
        let is_about_this_run = matches!(arg.get_long(), None | Some("config" | "help"));
        !is_about_this_run
    })
}

pub fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

/// The variables of a flag. The first one that is set counts.
pub fn variables(command: &str, key: &str) -> Vec<String> {
    let own = format!("TRACKIOPS_{command}_{key}");
    let mut names = vec![own.replace('-', "_").to_uppercase()];
    if key == "store" {
        names.push(store_flag::VARIABLE.to_owned());
    }
    names
}

fn from_environment(command: &Command, problems: &mut Vec<String>) -> Vec<Given> {
    let mut given = Vec::new();
    let mut known = Vec::new();
    for arg in keys(command) {
        let key = key_of(arg);
        let names = variables(command.get_name(), key);
        let set = names.iter().find_map(|name| {
            let value = env::var_os(name).filter(|value| !value.is_empty())?;
            Some((name.clone(), value))
        });
        known.extend(names);
        let Some((name, value)) = set else { continue };
        let origin = Origin::Environment(name);
        let mut word = OsString::from(format!("--{key}"));
        let is_on = match arg.get_action() {
            ArgAction::SetTrue => match value.to_str() {
                Some("true") => true,
                Some("false") => false,
                _ => {
                    problems.push(format!(
                        "{origin}: has the value {}; write true or false",
                        value.display()
                    ));
                    continue;
                }
            },
            _ => {
                word.push("=");
                word.push(value);
                true
            }
        };
        let words = is_on.then(|| (origin.clone(), word));
        given.push(Given {
            key: key.to_owned(),
            words: words.into_iter().collect(),
            origin,
        });
    }
    let prefix = format!("TRACKIOPS_{}_", command.get_name().to_uppercase());
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    for (name, _) in env::vars_os() {
        if let Some(name) = name.to_str()
            && name.starts_with(&prefix)
            && !known.contains(&name)
        {
            problems.push(format!("{name}: unknown variable{}", near(name, &known)));
        }
    }
    given
}

/// Drops the overridden one of two conflicting keys. Two keys of the same rank are an error.
fn settle_conflicts(
    command: &Command,
    chosen: &mut BTreeMap<String, Given>,
    problems: &mut Vec<String>,
) {
    for arg in keys(command) {
        for other in command.get_arg_conflicts_with(arg) {
            let is_set =
                |given: &&Given| given.origin == Origin::CommandLine || !given.words.is_empty();
            let (key, other) = (key_of(arg), key_of(other));
            let (Some(one), Some(two)) = (
                chosen.get(key).filter(is_set),
                chosen.get(other).filter(is_set),
            ) else {
                continue;
            };
            let overridden = match one.origin.rank().cmp(&two.origin.rank()) {
                std::cmp::Ordering::Less => other.to_owned(),
                std::cmp::Ordering::Greater => key.to_owned(),
                // Already rejected.
                std::cmp::Ordering::Equal if one.origin == Origin::CommandLine => continue,
                std::cmp::Ordering::Equal => {
                    problems.push(format!(
                        "{}: {key} cannot be used with {other} ({}); remove one of them",
                        one.origin, two.origin
                    ));
                    continue;
                }
            };
            chosen.remove(&overridden);
        }
    }
}

fn value_of(arg: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Some(Value::Boolean(matches.get_flag(id)));
    }
    let words = matches.get_raw(id).into_iter().flatten();
    let mut words = words.map(|word| Value::String(word.to_string_lossy().into_owned()));
    match arg.get_action() {
        ArgAction::Append => Some(Value::Array(words.collect())),
        _ => words.next(),
    }
}

/// clap's error message, on one line and without its advice.
fn message_of(error: &clap::Error) -> String {
    let message = error.to_string();
    let lines = message
        .lines()
        .take_while(|line| !line.starts_with("For more"));
    let lines: Vec<_> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ").trim_start_matches("error: ").to_owned()
}
