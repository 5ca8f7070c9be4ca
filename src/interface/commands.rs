//! Commands, their flags, and what these take.

use clap::{Arg, ArgAction, Command};

use crate::config::default_in_help;

/// Each command with its flags, hidden ones included: they are accepted.
pub fn commands(cli: &Command) -> Vec<String> {
    let mut lines = Vec::new();
    add(cli, cli.get_name(), &mut lines);
    lines
}

fn add(command: &Command, path: &str, lines: &mut Vec<String>) {
    lines.push(format!("command {path}"));
    let aliases = command.get_all_aliases();
    lines.extend(aliases.map(|alias| format!("command {path} is also {alias}")));
    let mut place = 0;
    for arg in command.get_arguments() {
        place += usize::from(arg.is_positional());
        add_flag(arg, place, path, lines);
    }
    for below in command.get_subcommands() {
        add(below, &format!("{path} {}", below.get_name()), lines);
    }
}

/// A flag, or the argument at a place.
fn add_flag(arg: &Arg, place: usize, path: &str, lines: &mut Vec<String>) {
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("{path} --{long}"),
        (None, Some(short)) => format!("{path} -{short}"),
        (None, None) => format!("{path} argument {place}"),
    };
    let required = if arg.is_required_set() {
        ", required"
    } else {
        ""
    };
    let usual = usual(arg).map(|usual| format!(", else {usual}"));
    lines.push(format!(
        "{name}{}{required}{}",
        value(arg),
        usual.unwrap_or_default()
    ));
    if let (Some(_), Some(short)) = (arg.get_long(), arg.get_short()) {
        lines.push(format!("{name} is also -{short}"));
    }
    let aliases = arg.get_all_aliases().unwrap_or_default().into_iter();
    lines.extend(aliases.map(|alias| format!("{name} is also --{alias}")));
    let shorts = arg.get_all_short_aliases().unwrap_or_default().into_iter();
    lines.extend(shorts.map(|short| format!("{name} is also -{short}")));
    if arg.get_action().takes_values() {
        for value in arg.get_possible_values() {
            let names = value.get_name_and_aliases();
            lines.extend(names.map(|value| format!("{name} takes {value}")));
        }
    }
}

/// Whether a flag takes a value, and several.
pub fn value(arg: &Arg) -> &'static str {
    match arg.get_action() {
        ArgAction::Append => " VALUE...",
        action if action.takes_values() => " VALUE",
        _ => "",
    }
}

/// The value of a flag that is not given.
fn usual(arg: &Arg) -> Option<String> {
    if !arg.get_action().takes_values() {
        return None;
    }
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
    match values.is_empty() {
        true => default_in_help(arg),
        false => Some(values.join(",")),
    }
}
