//! `trackiops volume`: the size of a store on disk, and the future size of a recording.

use std::process::ExitCode;

use clap::value_parser;
use trackiops_query::times::Zone;
use trackiops_query::{Outcome, Volume, ask_volume, plan_volume, sizes};
use trackiops_render::units;
use trackiops_schemas::time::Granularity;
use trackiops_store::{GranularitySet, Retention};

use crate::help_headings::WHAT;
use crate::outcome;
use crate::output::say;
use crate::question_flags::FormatFlags;
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
    form: FormatFlags,
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

/// The sums of all granularities, and when the room is used up.
fn summary(rows: &[Volume], is_plan: bool, room: Option<u64>) -> String {
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let unsealed = rows.iter().filter(|row| !row.is_sealed());
    let unsealed: u64 = unsealed.map(|row| row.bytes).sum();
    if rows.iter().all(|row| row.bytes_per_day.is_none()) {
        return format!(
            "not sealed yet: {} in journals; sealing makes them smaller, and then a day can be estimated",
            units::bytes(unsealed)
        );
    }
    let a_day: f64 = rows.iter().filter_map(|row| row.bytes_per_day).sum();
    let most: f64 = rows.iter().filter_map(|row| row.bytes_at_most).sum();
    let lasting = rows.iter().filter(|row| row.bytes_at_most.is_none());
    let lasting: f64 = lasting.filter_map(|row| row.bytes_per_day).sum();
    let mut text = format!("{} a day", units::bytes(a_day as u64));
    if !is_plan {
        let journals = match unsealed {
            0 => String::new(),
            bytes => format!(
                " ({} of it in journals, not sealed yet)",
                units::bytes(bytes)
            ),
        };
        text = format!("{} on disk{journals}, {text}", units::bytes(bytes));
    }
    if most > 0.0 {
        let most = units::bytes(most as u64);
        text += &format!("; what expires will take {most} at most");
    }
    if lasting > 0.0 {
        let a_year = units::bytes((365.0 * lasting) as u64);
        text += &format!("; what is kept for ever grows by {a_year} a year");
    }
    match room {
        None => text,
        Some(room) => {
            let days = days_until(rows, is_plan, room);
            let when = match days {
                None => "never used up".to_owned(),
                Some(days) if days < 2.0 => format!("used up in {:.0} hours", 24.0 * days),
                Some(days) => format!("used up in {days:.0} days"),
            };
            format!("{text}; {} are {when}", units::bytes(room))
        }
    }
}

/// Days until the room is used up, if fewer than 100 years. Each granularity grows until it expires; a plan begins empty.
pub fn days_until(rows: &[Volume], is_plan: bool, room: u64) -> Option<f64> {
    let at = |days: f64| -> f64 {
        let of_row = |row: &Volume| {
            let begun = if is_plan { 0.0 } else { row.bytes as f64 };
            let grown = begun + row.bytes_per_day.unwrap_or_default() * days;
            row.bytes_at_most
                .map_or(grown, |most| grown.min(most.max(begun)))
        };
        rows.iter().map(of_row).sum()
    };
    let (mut low, mut high) = (0.0, 36_500.0);
    if at(high) < room as f64 {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at(middle) < room as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}
