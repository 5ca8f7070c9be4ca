//! Man pages and completions for shells, made from the flags.
//!
//! A test makes them, so that the program does not contain what makes them: `scripts/dist.sh` runs it for packages.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::Cli;

/// The variable that names the directory to fill; without it, a scratch directory is.
const VARIABLE: &str = "TRACKIOPS_PAGES";

/// Writes the page of a command and those of the commands below it. Returns their names.
fn write_pages(command: &Command, dir: &Path) -> Vec<String> {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut names: Vec<_> = below.flat_map(|sub| write_pages(sub, dir)).collect();
    let page = Man::new(command.clone()).source(concat!("TrackIOps ", env!("CARGO_PKG_VERSION")));
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    // Examples keep their lines and columns.
    let text = text.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n.nf\n");
    assert!(!text.contains(".SH EXTRA"), "{name}: {text}");
    fs::write(dir.join(&name), text).unwrap();
    names.push(name);
    names
}

fn files(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| {
        let name = entry.unwrap().file_name();
        name.into_string().unwrap()
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn every_command_has_a_man_page_and_every_shell_completions() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = std::env::var_os(VARIABLE).map_or(scratch.path().to_owned(), PathBuf::from);
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut expected = write_pages(&command, &dir);
    assert!(expected.len() > 15, "{expected:?}");
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        let file = clap_complete::generate_to(shell, &mut Cli::command(), "trackiops", &dir);
        let file = file.unwrap();
        let text = fs::read_to_string(&file).unwrap();
        for word in ["flamegraph", "store-size", "rebuild-catalog"] {
            assert!(text.contains(word), "{}: {word}", file.display());
        }
        expected.push(file.file_name().unwrap().to_str().unwrap().to_owned());
    }
    expected.sort();
    assert_eq!(files(&dir), expected);
    let record = fs::read_to_string(dir.join("trackiops-record.1")).unwrap();
    assert!(record.contains("store\\-size"), "{record}");
}
