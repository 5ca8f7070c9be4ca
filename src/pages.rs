//! `trackiops completions` and `trackiops man`: shell completions and man pages, generated from the flags.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use trackiops_process::output::Output;

/// What `trackiops completions` takes.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// What `trackiops man` takes.
#[derive(clap::Args)]
pub struct ManArgs {
    /// The command, such as `query` or `store check` [default: trackiops]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

/// Prints completions.
pub fn completions(args: &CompletionsArgs, mut cli: Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "trackiops", &mut text);
    Output::Stdout.write(|out| out.write_all(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a man page, or writes all of them.
pub fn man(args: &ManArgs, cli: Command) -> anyhow::Result<ExitCode> {
    let cli = built(cli);
    if let Some(dir) = &args.all {
        write_pages(&cli, dir).with_context(|| format!("cannot write to {}", dir.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &cli;
    for name in &args.command {
        command = match command.find_subcommand(name) {
            Some(below) => below,
            None => bail!("there is no command `{name}`; `trackiops --help` lists the commands"),
        };
    }
    let page = page(command)?;
    Output::Stdout.write(|out| out.write_all(page.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn built(cli: Command) -> Command {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    cli
}

fn page(command: &Command) -> io::Result<String> {
    let page = Man::new(command.clone()).source(concat!("TrackIOps ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // Examples keep their lines and columns.
    Ok(text.replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n.nf\n"))
}

/// Writes the page of a command and the pages of its subcommands. Returns their names.
fn write_pages(command: &Command, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for below in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        names.extend(write_pages(below, dir)?);
    }
    let name = Man::new(command.clone()).get_filename();
    fs::write(dir.join(&name), page(command)?)?;
    names.push(name);
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // only tests use it
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    /// The variable with the output directory, for `scripts/dist.sh`, which cannot run a binary for another architecture.
    const VARIABLE: &str = "TRACKIOPS_PAGES";

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
        let mut expected = write_pages(&built(Cli::command()), &dir).unwrap();
        assert!(expected.len() > 15, "{expected:?}");
        for name in &expected {
            let text = fs::read_to_string(dir.join(name)).unwrap();
            assert!(!text.contains(".SH EXTRA"), "{name}: {text}");
        }
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
}
