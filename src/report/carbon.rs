//! `trackiops report carbon`: energy and emission, from a user's coefficients.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_reports::carbon::{Carbon, Coefficients, Intensity, TABLES, Terms};
use trackiops_schemas::time::Granularity;

use super::by_flags::{ByFlags, PeriodFlags};
use super::form::FormFlags;
use crate::help_headings::{ROWS, WHEN};
use crate::input_file::read_file;
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops report carbon --coefficients c.toml --intensity grid.csv --since 30d
  trackiops report carbon --coefficients c.toml --intensity-default 300 --by mount
  trackiops report carbon --coefficients c.toml --intensity grid.csv --period 1d -o days.html";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Estimate energy and emission by your coefficients and the grid's intensity over time

Energy is requests, bytes moved and stored bytes times coefficients, and PUE. Emission is the energy of each interval times the grid's \
intensity at its time, and embodied emission.

No coefficient has a built-in value. --coefficients FILE is TOML: `pue`, and the tables [joule_per_request] (read, write, metadata), \
[joule_per_byte] (read, written), [storage] (watt_per_tib), [embodied] (g_per_million_requests, g_per_tib_year) and [stored] (what each tenant \
or mount stores: \"name\" = \"2TiB\"). docs/reference/reports.md names the models.";

/// What `trackiops report carbon` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    by: ByFlags,
    #[command(flatten)]
    period: PeriodFlags,
    /// Energy of intervals this long has their time's intensity
    #[arg(long, value_name = "LENGTH", default_value = "5m", help_heading = WHEN)]
    interval: Granularity,
    /// What requests, bytes and stored bytes take: a TOML file
    #[arg(long, value_name = "FILE", help_heading = ROWS)]
    coefficients: PathBuf,
    /// Grid intensity over time: a CSV file with `time,g_per_kwh`
    ///
    /// A value holds until the time of the next; the last one for as long as the one before it did. An empty value is unknown. Times
    /// without an offset are UTC.
    #[arg(long, value_name = "FILE", required_unless_present = "intensity_default", help_heading = ROWS)]
    intensity: Option<PathBuf>,
    /// Grid intensity where the file has none, gCO2e/kWh
    #[arg(long, value_name = "G", value_parser = intensity, help_heading = ROWS)]
    intensity_default: Option<f64>,
    #[command(flatten)]
    form: FormFlags,
}

fn intensity(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number of at least 0"))
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = &args.coefficients;
    let coefficients = Coefficients::parse(path, &read_file("--coefficients", path)?)?;
    let intensity = match &args.intensity {
        Some(path) => {
            let text = read_file("--intensity", path)?;
            Intensity::parse(path, &text, args.intensity_default)?
        }
        None => Intensity::constant(args.intensity_default),
    };
    let terms = Terms {
        by: args.by.get()?,
        period: args.period.period,
        interval: args.interval,
        coefficients,
        intensity,
    };
    let form = args.form.choose(TABLES)?;
    let question = args.selection.question()?;
    match with_progress(&question.explain, || Carbon::make(&question, &terms))? {
        Ok(report) => form.write(&report.about, &[&report.footprints], question.zone),
        Err(nothing) => Ok(form.write_nothing(&nothing, question.zone)),
    }
}
