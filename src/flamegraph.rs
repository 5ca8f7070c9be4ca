//! `trackiops flamegraph`: draws the activity below each directory.

use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use trackiops_process::output::Output;
use trackiops_process::progress::with_progress;
use trackiops_query::Outcome;
use trackiops_render::flame::{self, Directions, Graph, Measure};
use trackiops_render::suffix::{GRAPHS, format_of};

use crate::help_headings::{OUTPUT, ROWS};
use crate::question_flags::SelectionFlags;
use crate::umask_flag::UmaskFlag;
use crate::{notes, outcome};

const EXAMPLES: &str = "\
Examples:
  trackiops flamegraph --since 24h --by time --output nfs.svg  where did the time go?
  trackiops flamegraph --level app --output calls.svg          time of calls, local files
  trackiops flamegraph --direction write --folded              text for other tools";

/// What `trackiops flamegraph` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only files below these directories, as with --dir
    #[arg(value_name = "DIR")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Width: time, bytes, requests; of calls: app-time, app-bytes, app-calls
    ///
    /// The default is `time`, the sum of latencies. Where no latency is known it is bytes, and without requests app-bytes. `app-time`, `app-bytes`
    /// and `app-calls` are of the calls by which applications read and write; with --level app, so are `time`, `bytes` and `requests`.
    #[arg(long, value_name = "MEASURE", help_heading = ROWS)]
    by: Option<Measure>,
    /// Which requests count: read, write, both, or apart
    ///
    /// `both` adds them up; `apart` draws a tree for each direction.
    #[arg(long, value_name = "WHICH", default_value = "both", help_heading = ROWS)]
    direction: Directions,
    /// Write folded stacks, a line each, instead of an SVG
    #[arg(long, help_heading = OUTPUT)]
    folded: bool,
    /// Write into this file, which is replaced atomically; - is stdout
    ///
    /// Its name ends in .svg, or in .folded as with --folded.
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: UmaskFlag,
}

/// Runs the command. Status 0: it is drawn; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_dirs(mem::take(&mut args.named));
    let output = Output::new(args.output.clone(), args.access)?;
    let asked = args.folded.then_some((true, "--folded"));
    let folded = format_of(args.output.as_deref(), GRAPHS, asked, false)?;
    if !folded && output.is_terminal() {
        anyhow::bail!(
            "refusing to write an SVG to a terminal; use --output FILE.svg, or --folded for text"
        );
    }
    let question = args.selection.question()?;
    let zone = question.zone;
    let is_of_calls = question.is_of_calls();
    let measure = args.by.unwrap_or_default();
    let mut graph = Graph {
        measure: match is_of_calls {
            true => measure.of_calls(),
            false => measure,
        },
        directions: args.direction,
    };
    let draw = |graph| with_progress(&question.explain, || flame::stacks(&question, graph));
    let mut stacks = draw(graph)?;
    let others = match is_of_calls {
        true => [Measure::AppBytes].as_slice(),
        false => [Measure::Bytes, Measure::AppBytes].as_slice(),
    };
    for &measure in others {
        if args.by.is_some() || !outcome::is_idle(&stacks) {
            break;
        }
        let other = Graph { measure, ..graph };
        let found = draw(other)?;
        if matches!(found, Outcome::Found(_)) {
            if measure == Measure::AppBytes && !is_of_calls {
                outcome::say_calls_instead();
            }
            (graph, stacks) = (other, found);
        }
    }
    let answer = match stacks {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, notes } => {
            return Ok(outcome::say_nothing_found(&why, &notes, zone));
        }
    };
    notes::say_notes(&answer.notes, zone);
    // Draw before writing, so that no incomplete picture remains.
    let mut drawn = Vec::new();
    match folded {
        true => flame::folded(&answer, &mut drawn),
        false => flame::svg(&answer, graph, zone, &mut drawn),
    }
    .context("cannot draw the graph")?;
    output.write(|out| out.write_all(&drawn))?;
    Ok(outcome::exit_status(&answer.notes))
}
