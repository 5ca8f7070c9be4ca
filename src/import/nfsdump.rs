//! `trackiops import nfsdump`: text with one line for each call and each reply.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_import::account::nfsdump::print_account;
use trackiops_import::captures::nfsdump::{Imported, import};

use super::outcome::{Backwards, tell};
use super::process::{OwnProcess, sources};
use super::target_flags::TargetFlags;

/// What `trackiops import nfsdump` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Text of nfsdump, in order of time; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: TargetFlags,
}

/// Imports texts.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sources = sources(&args.files)?;
    let target = args.target.target("nfsdump", &sources, &());
    let Imported {
        mut hosts,
        lines,
        report,
    } = import(&sources, target, &OwnProcess)?;
    let backwards = Backwards {
        number: report.backwards,
        what: "line",
        advice: "name the files in order of time",
    };
    tell(&mut hosts, "client", &backwards, |out| {
        print_account(&lines, &report, out)
    })
}
