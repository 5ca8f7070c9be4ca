//! `trackiops report incident`: the page of `trackiops serve` with its data in one file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use trackiops_query::Question;
use trackiops_query::times::Zone;
use trackiops_render::incident::{Incident, Made};
use trackiops_render::pseudonym::Key;
use trackiops_render::units;
use trackiops_render::why::{hide, sentences};
use trackiops_reports::why;
use trackiops_schemas::unit::Unit;

use super::document;
use crate::anonymize::read_key;
use crate::help_headings::{OUTPUT, WHAT};
use crate::output::{FilePermissions, Output, print};
use crate::progress::with_progress;
use crate::question_flags::{FileFlags, WhenFlags, now};
use crate::store_flag::StoreFlags;
use crate::suffix::{PAGES, format_of};
use crate::{notes, outcome};

/// Bytes of a report, at most.
const MOST_BYTES: usize = 5_000_000;

const EXAMPLES: &str = "\
Examples:
  trackiops report incident --since 03:00 --until 04:00 -o incident.html      for others to look at
  trackiops report incident --since 24h --anonymize key -o incident.html      without any name
  trackiops report incident --store web-1 --store web-2 --since 1h -o incident.html";

/// What --help has beside the flags. One paragraph a line: they are fitted to the terminal.
pub const ABOUT: &str = "\
Write the page of `serve` with its data: one file that opens without a network

It begins with the verdict of `trackiops why`: what was slow, who suffered and what caused it. Time before the range belongs to the baseline.

The file is HTML of at most 5 MB. It has the program of the page, and what each tenant did with each file in each window of the range. \
In it you can choose ranges, files, trees, mounts and operations as with `trackiops serve`. It loads nothing, and its policy lets it send nothing.

A report has at most 400 windows, and the 400 files, 200 trees and 50 tenants with the most time and bytes. All others are in it as sums, so \
totals are exact. If that does not fit into 5 MB, the report has fewer files, and then longer windows. The page says what it has.

--anonymize replaces the same names as `trackiops export --anonymize`, and by the same tokens.";

/// What `trackiops report incident` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    when: WhenFlags,
    /// Write into this file, which is replaced atomically; - is stdout
    ///
    /// Its name ends in .html (.htm).
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    access: FilePermissions,
    /// Replace all names by tokens that only this key leads back from
    ///
    /// `trackiops anonymize-key` makes a key.
    #[arg(long, value_name = "KEYFILE", help_heading = OUTPUT)]
    anonymize: Option<PathBuf>,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let key = args.anonymize.as_deref().map(read_key).transpose()?;
    let output = Output::new(Some(args.output.clone()), args.access)?;
    format_of(Some(&args.output), PAGES, None, ())?;
    if output.is_terminal() {
        bail!("refusing to write a page to a terminal; use --output FILE.html");
    }
    let time = (Zone::Local, now());
    let range = args.when.range(time)?;
    let question = FileFlags::default().question(args.stores.existing()?, range, time)?;
    let zone = question.zone;
    let explain = question.explain.clone();
    let verdict = with_progress(&explain, || verdict(&question, key.as_ref()))?;
    let incident = Incident {
        question,
        key,
        most_bytes: document::room(MOST_BYTES, &verdict),
        version: env!("CARGO_PKG_VERSION"),
    };
    let report = match with_progress(&explain, || incident.make())? {
        Made::Report(report) => report,
        Made::Nothing { why, notes } => {
            let status = outcome::say_nothing_found(&why, &notes, zone);
            if let Some(untouched) = output.unwritten_note() {
                crate::output::say(untouched);
            }
            return Ok(status);
        }
    };
    notes::say_notes(&report.notes, zone);
    let page = document::with_data(&verdict, &report.text);
    output.write(|out| out.write_all(page.as_bytes()))?;
    if let Output::File(path, _) = &output {
        let told = format!(
            "{}: {}, windows of {}, {} of {} files one by one",
            path.display(),
            units::show(Unit::Bytes, page.len() as f64),
            report.step,
            report.files,
            report.all_files,
        );
        Output::Stdout.write(|out| print(&told, 4, out))?;
    }
    Ok(outcome::exit_status(&report.notes))
}

/// The verdict on a range, or why there is none.
fn verdict(question: &Question, key: Option<&Key>) -> anyhow::Result<String> {
    let mut moments = match why::make(question) {
        Ok(Ok(why)) => why.moments,
        // The report itself says why it is empty.
        Ok(Err(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if let Some(key) = key {
        for moment in &mut moments {
            hide(moment, key)?;
        }
    }
    let sentences = moments.iter().map(|of| sentences(of, question.zone));
    Ok(document::verdict(&sentences.collect::<Vec<_>>()))
}
