//! `trackiops volume`: the size of a store on disk, and the future size of a recording.

use std::process::ExitCode;

use clap::value_parser;
use trackiops_process::output::say;
use trackiops_query::times::Zone;
use trackiops_query::{Outcome, Volume, ask_volume, plan_volume, sizes};
use trackiops_render::volume::summary;
use trackiops_schemas::time::Granularity;
use trackiops_store::{GranularitySet, Retention};

use crate::help_headings::WHAT;
use crate::outcome;
use crate::output_flags::OutputFlags;
use crate::record::{DEFAULT_GRANULARITIES, DEFAULT_RETENTION, parse_store_size};
use crate::store_flag::StoreFlag;

const EXAMPLES: &str = "\
Examples:
  trackiops volume                      what the store takes
  trackiops volume --store-size 100GiB  and when is that used up?
  trackiops volume --plan --files 4000  what recording 4000 files will take";

/// More files at once would not fit into memory, and the counts of their entries would overflow.
const MOST_FILES: u64 = 1_000_000_000;

/// What `trackiops volume` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = WHAT)]
    store: StoreFlag,
    /// Predict what a recording will take, by --files
    ///
    /// Entries are taken to be like those of a synthetic day, or of the store that --store names, if that has an hour and 10,000
    /// entries sealed.
    #[arg(long, requires = "files", help_heading = WHAT)]
    plan: bool,
    /// For the plan: files that are in use all the time
    #[arg(long, value_name = "N", requires = "plan", help_heading = WHAT, value_parser = value_parser!(u64).range(1..=MOST_FILES))]
    files: Option<u64>,
    /// For the plan: window lengths
    #[arg(
        long,
        value_name = "LENGTHS",
        default_value = DEFAULT_GRANULARITIES,
        requires = "plan",
        help_heading = WHAT
    )]
    granularity: GranularitySet,
    /// How long windows are kept
    ///
    /// As `trackiops record --retain`.
    #[arg(long, value_name = "AGES", default_value = DEFAULT_RETENTION, help_heading = WHAT)]
    retain: Retention,
    /// Room on disk (20GB, 20GiB, 20G): report when it is used up
    ///
    /// A letter alone is binary: 20G is 20GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_store_size, help_heading = WHAT)]
    store_size: Option<u64>,
    #[command(flatten)]
    form: OutputFlags,
}

/// Runs the command. Status 0: there is something; 1: nothing was recorded.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let outcome = match args.files.filter(|_| args.plan) {
        None => ask_volume(&args.store.existing()?, &args.retain)?,
        Some(files) => {
            let like = match args.store.named()? {
                Some(store) => Some(sizes(ask_volume(&store, &args.retain)?)?),
                None => None,
            };
            if let Some(like) = &like {
                say_unlike(&args.granularity, like);
            }
            let like = like.unwrap_or_default();
            plan_volume(files, &args.granularity, &args.retain, &like)
        }
    };
    if let Outcome::Found(answer) = &outcome {
        say(summary(&answer.rows, args.plan, args.store_size));
    }
    outcome::write_outcome(outcome, None, format, &output, Zone::Local)
}

/// Names the granularities for which the store has too few entries.
fn say_unlike(planned: &GranularitySet, like: &[Volume]) {
    let is_unlike = |length: &&Granularity| like.iter().all(|row| row.granularity != **length);
    let unlike = planned.as_slice().iter().filter(is_unlike);
    let unlike: Vec<_> = unlike.map(Granularity::to_string).collect();
    if !unlike.is_empty() {
        say(format_args!(
            "the store has too few entries of {}: their sizes are taken from the synthetic day",
            unlike.join(", ")
        ));
    }
}
