//! `trackiops report incident`: the page of `trackiops serve` with its data in one file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use trackiops_process::output::{Output, print, say};
use trackiops_process::progress::with_progress;
use trackiops_query::Question;
use trackiops_query::marks::marks_in;
use trackiops_query::times::{Zone, show};
use trackiops_render::incident::{Incident, Made};
use trackiops_render::parties::{Party, parties};
use trackiops_render::pseudonym::Key;
use trackiops_render::suffix::{PAGES, format_of};
use trackiops_render::why::{hide, sentences};
use trackiops_render::{connections, units};
use trackiops_reports::why;
use trackiops_schemas::unit::Unit;
use trackiops_serve::page::document::{self, Head};
use trackiops_store::Mark;

use crate::anonymize::read_key;
use crate::help_headings::OUTPUT;
use crate::question_flags::{FileFlags, RangeFlags};
use crate::umask_flag::UmaskFlag;
use crate::{notes, outcome};

/// Most bytes of a report.
const MOST_BYTES: usize = 5_000_000;
/// Most marks at the beginning of a report, and most characters of one: a store may have 64 MiB of marks.
const MOST_MARKS: usize = 50;
const MOST_CHARS_OF_MARK: usize = 200;

const EXAMPLES: &str = "\
Examples:
  trackiops report incident --since 03:00 --until 04:00 -o incident.html      for others to look at
  trackiops report incident --since 24h --anonymize key -o incident.html      without any name
  trackiops report incident --store web-1 --store web-2 --since 1h -o incident.html";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Write the page of `serve` with its data: one file that opens without a network

It begins with what --note says, the verdict of `trackiops why` (what was slow, who suffered and what caused it), its culprits, victims and connections, and marks. \
Time before the range belongs to the baseline, and is in the report as far as it was recorded, up to the length of the range.

The file is HTML of at most 5 MB. It has the program of the page, and what each tenant did with each file in each window of the range. \
In it you can choose ranges, files, trees, mounts and operations as with `trackiops serve`. It loads nothing, and its policy lets it send nothing.

A report has at most 400 windows, and the 400 files, 200 trees and 50 tenants with the most time and bytes. All others are in it as sums, so \
totals are exact. If that does not fit into 5 MB, the report has fewer files, and then longer windows. The page says what it has.

--anonymize replaces the same names as `trackiops export --anonymize`, and by the same tokens; marks are left out, and --note is written as it is.";

/// What `trackiops report incident` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    range: RangeFlags,
    /// Write into this file, which is replaced atomically; - is stdout
    ///
    /// Its name ends in .html (.htm).
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: PathBuf,
    #[command(flatten)]
    access: UmaskFlag,
    /// What readers should know: a paragraph at the beginning; repeatable
    #[arg(long, value_name = "TEXT", help_heading = OUTPUT)]
    note: Vec<String>,
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
    let question = args.range.question(FileFlags::default())?;
    let zone = question.zone;
    let explain = question.explain.clone();
    let head = with_progress(&explain, || head(&question, key.as_ref(), &args.note))?;
    let incident = Incident {
        question,
        key,
        most_bytes: document::room(MOST_BYTES, &head),
        version: env!("CARGO_PKG_VERSION"),
    };
    let report = match with_progress(&explain, || incident.make())? {
        Made::Report(report) => report,
        Made::Nothing { why, notes } => {
            let status = outcome::say_nothing_found(&why, &notes, zone);
            if let Some(untouched) = output.unwritten_note() {
                say(untouched);
            }
            return Ok(status);
        }
    };
    notes::say_notes(&report.notes, zone);
    let page = document::with_data(&head, &report.text);
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

/// The head of a report about a range, as HTML.
fn head(question: &Question, key: Option<&Key>, notes: &[String]) -> anyhow::Result<String> {
    let zone = question.zone;
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
    let party = |of: Party<'_>| {
        let tenant = of.tenant.unwrap_or("-");
        let [role, name, tenant, host] = [of.role, of.name, tenant, of.host].map(str::to_owned);
        let [bytes, iops, p99, lost] = of.figures;
        [role, name, tenant, host, bytes, iops, p99, lost, of.what]
    };
    // A mark may contain any name.
    let marks = match key {
        None => marks_in(&question.stores, question.range)?.0,
        Some(_) => Vec::new(),
    };
    let head = Head {
        notes,
        sentences: moments.iter().map(|of| sentences(of, zone)).collect(),
        parties: moments.iter().flat_map(parties).map(party).collect(),
        connections: moments
            .iter()
            .flat_map(|of| connections::rows(of, zone))
            .collect(),
        marks: in_words(&marks, zone),
    };
    Ok(head.html())
}

/// The first marks, and how many further ones there are.
fn in_words(marks: &[Mark], zone: Zone) -> Vec<String> {
    let one = |mark: &Mark| -> String {
        let text: String = mark.text.chars().take(MOST_CHARS_OF_MARK).collect();
        format!("{}: {text}", show(mark.time, zone))
    };
    let mut lines: Vec<_> = marks.iter().take(MOST_MARKS).map(one).collect();
    let more = marks.len().saturating_sub(MOST_MARKS);
    if more > 0 {
        lines.push(format!("{more} more: `trackiops marks` lists them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::time::UtcMs;

    #[test]
    fn marks_at_the_beginning_are_few_and_short() {
        let mark = Mark {
            time: UtcMs(0),
            host: "h".to_owned(),
            text: "é".repeat(4000),
        };
        let of = |count: usize| in_words(&vec![mark.clone(); count], Zone::utc());
        assert_eq!(of(MOST_MARKS).len(), MOST_MARKS);
        let many = of(10_000);
        assert_eq!(many.len(), MOST_MARKS + 1);
        assert_eq!(many[MOST_MARKS], "9950 more: `trackiops marks` lists them");
        let text = format!(": {}", "é".repeat(MOST_CHARS_OF_MARK));
        assert!(many[0].ends_with(&text), "{}", many[0]);
    }
}
