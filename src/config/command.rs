//! `trackiops config`: shows and checks the configuration.

use std::process::ExitCode;

use clap::{Arg, Command as Program, Subcommand};
use trackiops_process::output::{Output, print};
use trackiops_render::units::plural;

use super::{ConfigFlag, Origin, Problems, Setting, Settings, Source, TABLES, key_of, keys};
use crate::exit_status::ExitStatus;

/// What `trackiops config` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the value of each key, and where it comes from
    ///
    /// As TOML. A command's own flags override what is shown.
    Show(ConfigFlag),
    /// Check the files and the environment; status 0: all is well, 1: something is wrong
    ///
    /// Reports every error, each with its file and line or its variable.
    Check(ConfigFlag),
}

/// Runs the command.
pub fn run(args: Args, program: fn() -> Program) -> anyhow::Result<ExitCode> {
    let (Command::Show(config) | Command::Check(config)) = &args.command;
    let read = TABLES.map(|name| Source::of_command(program, name, config).read());
    match args.command {
        Command::Show(_) => show(read, &program()),
        Command::Check(_) => check(read),
    }
}

fn show(
    read: [Result<Settings, Problems>; TABLES.len()],
    program: &Program,
) -> anyhow::Result<ExitCode> {
    let mut lines = Vec::new();
    for (name, read) in TABLES.into_iter().zip(read) {
        let settings = match read {
            Ok(settings) => settings,
            Err(problems) => return problems.fail(),
        };
        // All tables are read from the same files.
        if lines.is_empty() {
            let files = settings.files.iter();
            lines.extend(files.map(|file| format!("# {}", file.display())));
        }
        lines.push(format!("[{name}]"));
        let command = program.find_subcommand(name);
        for setting in &settings.settings {
            let arg =
                command.and_then(|command| keys(command).find(|arg| key_of(arg) == setting.key));
            lines.push(line(setting, arg));
        }
    }
    Output::Stdout.write(|out| lines.iter().try_for_each(|line| print(line, 4, out)))?;
    Ok(ExitCode::SUCCESS)
}

fn line(setting: &Setting, arg: Option<&Arg>) -> String {
    let Setting { key, value, origin } = setting;
    let default = arg.and_then(default_in_help);
    let (entry, origin) = match (value, origin) {
        (Some(value), origin) => (format!("{key} = {value}"), origin.to_string()),
        (None, Origin::Default) => (
            format!("# {key}"),
            format!("default: {}", default.as_deref().unwrap_or("none")),
        ),
        (None, origin) => (format!("# {key}"), origin.to_string()),
    };
    format!("{entry:<45} # {origin}")
}

/// The default in the help of a flag, if it is not a value: `[default: unlimited]`.
pub fn default_in_help(arg: &Arg) -> Option<String> {
    let help = arg.get_help()?.to_string();
    let (_, rest) = help.split_once("[default: ")?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn check(read: [Result<Settings, Problems>; TABLES.len()]) -> anyhow::Result<ExitCode> {
    let mut files = Vec::new();
    let mut wrong = Vec::new();
    for read in read {
        match read {
            Ok(settings) => files = settings.files,
            // An error in the file itself appears for each command.
            Err(Problems(problems)) => {
                let new = |problem: &String| !wrong.contains(problem);
                let problems: Vec<_> = problems.into_iter().filter(new).collect();
                wrong.extend(problems);
            }
        }
    }
    Output::Stdout.write(|out| {
        for problem in &wrong {
            print(problem, 4, out)?;
        }
        if wrong.is_empty() {
            let files = plural(files.len() as u64, "file");
            print(
                format_args!("checked the environment and {files}: no errors"),
                4,
                out,
            )?;
        }
        Ok(())
    })?;
    Ok(match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitStatus::Negative.into(),
    })
}
