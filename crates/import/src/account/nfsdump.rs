//! Prints the account of text of nfsdump.

use std::io::{self, Write};

use trackiops_capture::{ClientTally, DumpReport};
use trackiops_process::output::print;
use trackiops_render::units::plural;

use super::print_time_range;
use crate::captures::nfsdump::{Lines, Unread};

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

/// Prints the account of all lines.
pub fn print_account(lines: &Lines, report: &DumpReport, out: &mut dyn Write) -> io::Result<()> {
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
