//! `trackiops mark`: adds a note about a moment. `trackiops marks`: lists these notes.

use std::process::ExitCode;

use anyhow::Context;
use trackiops_process::output::{host_name, say};
use trackiops_process::progress::with_progress;
use trackiops_query::ask_marks;
use trackiops_query::times::{Zone, parse, show};
use trackiops_reports::events::ask_events;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Mark;

use crate::help_headings::WHAT;
use crate::outcome;
use crate::question_flags::ListFlags;
use crate::store_flag::StoreFlag;

const EXAMPLES: &str = "\
Examples:
  sudo trackiops mark job 17 starts                   now
  sudo trackiops mark --at 10m 'the server is back'   ten minutes ago";

const EXAMPLES_OF_LIST: &str = "\
Examples:
  trackiops marks --since 1h                          what was noted in the last hour
  trackiops marks --all --since 1h                    also stalls, restarts, tenants that began
  trackiops marks --store web-1 --store web-2 --json  of two hosts, for a program";

/// What `trackiops mark` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to note
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// When it was, as --since of `trackiops query` [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The host that it is about, as --host of `trackiops record` [default: this host's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    #[command(flatten)]
    store: StoreFlag,
}

/// What `trackiops marks` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES_OF_LIST)]
pub struct ListArgs {
    /// Also events: stalls, clock steps, restarts, tenants that began
    ///
    /// A row has the kind of its event. `mark`: what `trackiops mark` noted. `stall` and `stall-end`: a server did not answer; it answered
    /// again. `clock-step`: the clock was set. `recorder-ended`, `recorder-started` and `recorder-restarted`: nothing was recorded
    /// meanwhile. `tenant-start`: a tenant that was idle began to do a fifth or more of all that is done, in bytes or operations. Charts
    /// show these events as vertical lines.
    #[arg(long, help_heading = WHAT)]
    all: bool,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs `trackiops mark`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = args.store.existing()?;
    let time = match &args.at {
        Some(text) => parse(text, UtcMs::now(), Zone::Local).context("--at")?.at,
        None => UtcMs::now(),
    };
    let mark = Mark {
        time,
        host: args.host.unwrap_or_else(host_name),
        text: args.text.join(" "),
    };
    mark.add_to(&store)?;
    say(format_args!("marked {}", show(time, Zone::Local)));
    Ok(ExitCode::SUCCESS)
}

/// Runs `trackiops marks`. Status 0: there are marks; 1: none; 3: some cannot be read.
pub fn list(args: ListArgs) -> anyhow::Result<ExitCode> {
    let (question, format, output) = args.list.question()?;
    if args.all {
        let events = with_progress(&question.explain, || ask_events(&question))?;
        return outcome::write_outcome(events, None, format, &output, question.zone);
    }
    let outcome = ask_marks(&question)?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}
