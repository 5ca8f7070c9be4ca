//! `trackiops why`: slow moments, their victims, and their causes.

use std::process::ExitCode;
use std::sync::Arc;

use trackiops_process::output::{Output, print, print_json, say};
use trackiops_process::progress::with_progress;
use trackiops_query::times::{Zone, show_range};
use trackiops_render::why::{object, sentences};
use trackiops_reports::why::{Why, make};

use crate::help_headings::OUTPUT;
use crate::notes::say_notes;
use crate::outcome;
use crate::question_flags::SelectionFlags;
use crate::report_flags::ReportFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops why                             the last six hours of the recording
  trackiops why --since 03:00 --until 04:00
  trackiops why --since 1h --json           an object for each slow moment";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Say what was slow, who suffered and what caused it

Each slow moment is a paragraph: when and where, how much longer requests took, whose load rose, who lost time, and the cause with how sure it is. Moments that \
lost most time come first. Without --since the last six hours of the recording are looked at. The time before the range belongs to the baseline.

Status 0: something was slow; 1: nothing was; 2: an error; 3: a part of the store is damaged. docs/guide/why.md has the causes and their evidence.";

/// What `trackiops why` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten, next_help_heading = OUTPUT)]
    form: ReportFlags,
}

/// Runs the command. Status 0: something was slow; 1: nothing; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let question = args.selection.question()?;
    let zone = question.zone;
    let why = match with_progress(&question.explain, || make(&question))? {
        Ok(why) => why,
        Err((why, notes)) => return Ok(outcome::say_nothing_found(&why, &notes, zone)),
    };
    say_notes(&why.notes, zone);
    why.unknown.iter().for_each(say_unknown);
    if why.moments.is_empty() {
        return Ok(nothing(&why, zone));
    }
    Output::Stdout.write(|out| {
        why.moments
            .iter()
            .try_for_each(|of| match args.form.is_json() {
                true => print_json(&object(of), out),
                false => print(sentences(of, zone), 2, out),
            })
    })?;
    Ok(outcome::exit_status(&why.notes))
}

fn say_unknown(mount: &Arc<str>) {
    say(format_args!(
        "{mount}: too few intervals with requests to know what is usual"
    ));
}

/// Says that nothing was slow.
fn nothing(why: &Why, zone: Zone) -> ExitCode {
    say(format_args!(
        "trackiops: nothing was slow from {}",
        show_range(why.range.start, why.range.end, zone)
    ));
    outcome::status_of_rows(0, &why.notes)
}
