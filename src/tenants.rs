//! `trackiops tenants`: shows how rules would have assigned recorded data.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use trackiops_process::output::say;
use trackiops_process::progress::with_progress;
use trackiops_query::{Matched, Projection, Question, ask, ask_matched};
use trackiops_tenants::Rules;

use crate::outcome;
use crate::question_flags::ListFlags;
use crate::tenant_rules;

const EXAMPLES: &str = "\
Examples:
  trackiops tenants test tenants.toml                  what all that was recorded would belong to
  trackiops tenants test tenants.toml --since 24h      of the last day
  trackiops tenants test tenants.toml --format csv     as CSV";

/// What `trackiops tenants` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what rules would have done with what was recorded
    ///
    /// The answer is that of `query --tenants RULES --by tenant`. What each rule matched is written to standard error.
    Test(TestArgs),
}

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct TestArgs {
    /// The rules, as for `record --tenants`
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the command. Status 0: something was recorded; 1: nothing was.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Command::Test(args) = args.command;
    let rules = Arc::new(tenant_rules::read(&args.rules)?);
    let (question, format, output) = args.list.question()?;
    let question = Question {
        projection: Projection::all(),
        by: "tenant".parse()?,
        tenant_rules: Some(Arc::clone(&rules)),
        ..question
    };
    let matched = with_progress(&question.explain, || ask_matched(&question, &rules))?;
    say_matched(&args.rules, &rules, &matched);
    let outcome = ask(&question)?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}

fn say_matched(path: &Path, rules: &Rules, matched: &[Matched]) {
    for (i, sum) in matched.iter().enumerate() {
        let what = match rules.line(i) {
            Some(line) => format!("{}:{line}: rule {}", path.display(), i + 1),
            None => "no tenant".to_owned(),
        };
        let Matched {
            names,
            requests,
            bytes,
        } = sum;
        match names {
            0 => say(format_args!("{what}: nothing")),
            _ => say(format_args!(
                "{what}: {names} names of files, {requests} requests, {bytes} bytes"
            )),
        }
    }
}
