//! `trackiops flamegraph`: draws what was done below each directory.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use trackiops_query::Outcome;
use trackiops_query::flame::{self, Directions, Graph, Measure};

use crate::output::Output;
use crate::progress::watched;
use crate::question::{self, Selection};
use crate::suffix::{GRAPHS, format_of};

/// What `trackiops flamegraph` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// What a directory is as wide as: `bytes`, `requests`, or `time` for the sum of latencies
    #[arg(long, value_name = "bytes|requests|time", default_value = "bytes")]
    by: Measure,
    /// Which requests count: `read`, `write`, `both` added up, or both `apart`, each with a tree of its own
    #[arg(long, value_name = "read|write|both|apart", default_value = "both")]
    direction: Directions,
    /// Folded stacks, a line each, as other tools take them, in place of an SVG
    #[arg(long)]
    folded: bool,
    /// Write to FILE, which is replaced atomically: .svg, or .folded as with --folded. `-` is stdout, the default
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command. Status 0: it is drawn; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let output = Output::new(args.output.clone())?;
    let asked = args.folded.then_some((true, "--folded"));
    let folded = format_of(args.output.as_deref(), GRAPHS, asked, false)?;
    if !folded && output.is_terminal() {
        anyhow::bail!(
            "an SVG is nothing for a terminal: give --output FILE.svg, or --folded for text"
        );
    }
    let question = args.selection.question()?;
    let zone = question.zone;
    let graph = Graph {
        measure: args.by,
        directions: args.direction,
    };
    let answer = match watched(&question.explain, || flame::stacks(&question, graph))? {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, notes } => return Ok(question::nothing(&why, &notes, zone)),
    };
    question::tell(&answer.notes, zone);
    // Drawn before anything is written, so that no half of a picture is left.
    let mut drawn = Vec::new();
    match folded {
        true => flame::folded(&answer, &mut drawn),
        false => flame::svg(&answer, graph, zone, &mut drawn),
    }
    .context("cannot draw the graph")?;
    output.write(|out| out.write_all(&drawn))?;
    Ok(question::status(&answer.notes))
}
