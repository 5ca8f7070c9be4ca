//! `trackiops import nfsdump`: text with one line for each call and each reply.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use trackiops_capture::{
    ClientTally, DumpDecoder, DumpMessage, DumpReport, NotUnderstood, read_lines,
};
use trackiops_import::captures::files::Files;
use trackiops_import::{Hosts, Source};

use super::account::print_time_range;
use super::outcome::{Backwards, tell};
use super::process::{OwnProcess, sources, was_ended};
use super::target_flags::TargetFlags;
use crate::output::{plural, print, say};

/// Most clients in separate rows.
const MOST_SHOWN: usize = 100;

/// A column of the account, and its value for a client.
type Column = (&'static str, fn(&ClientTally) -> u64);

const COLUMNS: [Column; 6] = [
    ("calls", |tally| tally.calls),
    ("replies", |tally| tally.replies),
    ("paired", |tally| tally.requests),
    ("no reply", |tally| tally.unanswered),
    ("no call", |tally| tally.orphans),
    ("again", |tally| {
        tally.retransmissions + tally.repeated_replies
    }),
];

/// What `trackiops import nfsdump` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Text of nfsdump, in order of time; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: TargetFlags,
}

/// Lines of all files.
#[derive(Default)]
struct Lines {
    read: u64,
    comments: u64,
    not_understood: BTreeMap<NotUnderstood, Unread>,
}

/// Lines that were not understood for the same reason.
struct Unread {
    lines: u64,
    /// File and number of the first such line.
    first: (String, u64),
}

/// Imports texts.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sources = sources(&args.files)?;
    let target = args.target.target("nfsdump", &sources, &());
    let mut decoder = DumpDecoder::new(Hosts::<Files>::new(target, &OwnProcess));
    let mut lines = Lines::default();
    for source in &sources {
        read(source, &mut decoder, &mut lines)?;
        if was_ended() {
            break;
        }
    }
    let (mut hosts, report) = decoder.finish();
    hosts.finish()?;
    let backwards = Backwards {
        number: report.backwards,
        what: "line",
        advice: "name the files in order of time",
    };
    tell(&mut hosts, "client", &backwards, |out| {
        print_account(&lines, &report, out)
    })
}

fn read(
    source: &Source,
    decoder: &mut DumpDecoder<Hosts<Files>>,
    lines: &mut Lines,
) -> anyhow::Result<()> {
    let mut number = 0;
    let mut ticked = Ok(());
    let take = |line: &[u8]| {
        if was_ended() {
            // The last line may be incomplete.
            return ControlFlow::Break(());
        }
        number += 1;
        lines.read += 1;
        if line.is_empty() || line.starts_with(b"#") {
            lines.comments += 1;
            return ControlFlow::Continue(());
        }
        match DumpMessage::parse(line) {
            Ok(message) => {
                ticked = decoder.receiver().tick(message.time_ns());
                if ticked.is_err() {
                    return ControlFlow::Break(());
                }
                decoder.message(message);
            }
            Err(reason) => {
                let unread = lines.not_understood.entry(reason);
                let unread = unread.or_insert_with(|| Unread {
                    lines: 0,
                    first: (source.name.clone(), number),
                });
                unread.lines += 1;
            }
        }
        ControlFlow::Continue(())
    };
    let end = read_lines(source.open_until_signal(&OwnProcess)?, take, was_ended);
    ticked?;
    match end {
        Err(_) if was_ended() => {}
        Err(error) if number > 0 => say(format_args!(
            "warning: {} cannot be read after line {number}: {error}; what comes before was imported",
            source.name
        )),
        end => end.with_context(|| format!("cannot read {}", source.name))?,
    }
    Ok(())
}

/// Prints the account of all lines.
fn print_account(lines: &Lines, report: &DumpReport, out: &mut dyn Write) -> io::Result<()> {
    let total = report.total();
    let read = plural(lines.read, "line");
    match report.time_range_ns {
        None => print(&read, 2, out)?,
        range => print_time_range(&read, range, out)?,
    }
    let ClientTally { calls, replies, .. } = total;
    let calls = plural(calls, "call");
    print(format_args!("  {calls}, {replies} replies"), 4, out)?;
    if lines.comments > 0 {
        let comments = plural(lines.comments, "line");
        print(format_args!("  {comments} empty, or begun with #"), 4, out)?;
    }
    if report.short > 0 {
        let short = plural(report.short, "message");
        print(
            format_args!("  {short} cut: SHORT PACKET, without arguments or results"),
            4,
            out,
        )?;
    }
    for (reason, Unread { lines, first }) in &lines.not_understood {
        let (file, line) = first;
        let lines = plural(*lines, "line");
        print(
            format_args!("  {lines} not understood: {reason}; first in line {line} of {file}"),
            4,
            out,
        )?;
    }
    if total == ClientTally::default() {
        return Ok(());
    }
    writeln!(out)?;
    let titles = COLUMNS.map(|(title, _)| format!("{title:>10}")).concat();
    print(format_args!("{:16}{titles}", "client"), 2, out)?;
    for (client, tally) in report.clients.iter().take(MOST_SHOWN) {
        print(row(&client.to_string(), tally), 2, out)?;
    }
    let mut others = report.others;
    let hidden = report.clients.values().skip(MOST_SHOWN);
    hidden.for_each(|tally| others.add(tally));
    if others != ClientTally::default() {
        print(row("others", &others), 2, out)?;
    }
    Ok(())
}

fn row(client: &str, tally: &ClientTally) -> String {
    let cells = COLUMNS.map(|(_, of)| format!("{:>10}", of(tally)));
    format!("{client:16}{}", cells.concat())
}
