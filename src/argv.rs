//! The arguments of this process, in the form in which clap takes negative values.

use std::env;
use std::ffi::{OsStr, OsString};

/// The arguments of this process. Clap would take `-1h` after `--since` for a flag, and its message would not name `--since`. So the two
/// become `--since=-1h`.
pub fn of_process() -> Vec<OsString> {
    joined(env::args_os())
}

fn joined(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut are_flags_over = false;
    for arg in args {
        match all.last_mut() {
            Some(flag) if !are_flags_over && is_long_flag(flag) && is_negative(&arg) => {
                flag.push("=");
                flag.push(arg);
            }
            _ => {
                are_flags_over |= arg == "--";
                all.push(arg);
            }
        }
    }
    all
}

/// Whether it is a flag without a value, such as `--since`.
fn is_long_flag(arg: &OsStr) -> bool {
    let name = arg.as_encoded_bytes().strip_prefix(b"--");
    name.is_some_and(|name| !name.is_empty() && !name.contains(&b'='))
}

/// Whether it begins with a minus and a digit.
fn is_negative(arg: &OsStr) -> bool {
    matches!(arg.as_encoded_bytes(), [b'-', digit, ..] if digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_value_belongs_to_the_flag_before_it() {
        for (typed, expected) in [
            (
                "t query --since -1h --top -1",
                "t query --since=-1h --top=-1",
            ),
            ("t query --since 1h --top 1", "t query --since 1h --top 1"),
            ("t query --since --top -1", "t query --since --top=-1"),
            ("t query --since=1h -1 -o -1", "t query --since=1h -1 -o -1"),
            ("t query --json -- --json -1", "t query --json -- --json -1"),
        ] {
            let args = joined(typed.split(' ').map(OsString::from));
            let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(args, expected);
        }
    }
}
