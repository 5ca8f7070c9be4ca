//! Prints the results of an import, and the account of each connection.

pub mod nfsdump;

use std::fmt::Write as _;
use std::io::{self, Write};

use trackiops_capture::{Account, ConnectionReport, Peers, Report};
use trackiops_process::output::print;
use trackiops_query::times::{Zone, show_range};
use trackiops_render::units::{self, plural};
use trackiops_schemas::time::UtcMs;

/// A column of the account, and its value for a direction.
type Column = (&'static str, fn(&Account) -> u64);

const COLUMNS: [Column; 6] = [
    ("parsed", |account| account.parsed_bytes),
    ("skipped", |account| account.skipped_bytes),
    ("not read", |account| account.not_understood_bytes),
    ("repeated", |account| account.repeated_bytes),
    ("cut", |account| account.cut_bytes),
    ("lost", |account| account.lost_bytes),
];
/// Most connections in separate rows.
const MOST_SHOWN: usize = 100;

/// Prints the account.
pub fn print_account(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let packets = &report.packets;
    let bytes = units::bytes(packets.bytes);
    let number = plural(packets.frames, "packet");
    print_time_range(&format!("{number}, {bytes}"), report.time_range_ns, out)?;
    for (reason, frames) in &report.skipped {
        let bytes = units::bytes(frames.bytes);
        let packets = plural(frames.frames, "packet");
        print(
            format_args!("  {packets} ({bytes}) not read: {reason}"),
            4,
            out,
        )?;
    }
    for connection in report.connections.iter().take(MOST_SHOWN) {
        print_connection(connection, out)?;
    }
    let others = report.connections.iter().skip(MOST_SHOWN);
    let mut sum = report.others;
    let mut number = report.other_connections;
    for connection in others {
        sum.add(&connection.sent);
        sum.add(&connection.answered);
        number += 1;
    }
    if number > 0 {
        print(
            format_args!("{}", plural(number, "other connection")),
            2,
            out,
        )?;
        print(row("both ways", &sum), 4, out)?;
    }
    Ok(())
}

/// Prints how much was read, and its time range; nothing if nothing was read.
pub fn print_time_range(
    what: &str,
    range_ns: Option<(i64, i64)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some((first_ns, last_ns)) = range_ns else {
        return Ok(());
    };
    let [first, last] = [first_ns, last_ns].map(|ns| UtcMs(ns.div_euclid(1_000_000)));
    let range = show_range(first, last, Zone::utc());
    print(format_args!("{what}, {range}"), 2, out)
}

fn print_connection(connection: &ConnectionReport, out: &mut dyn Write) -> io::Result<()> {
    let ConnectionReport {
        peers: Peers {
            client,
            server,
            transport,
        },
        tally,
        sent,
        answered,
    } = connection;
    writeln!(out)?;
    print(format_args!("{client} to {server}, {transport}"), 2, out)?;
    let mut line = format!("  {}", plural(tally.requests, "request"));
    let others = [
        (tally.unanswered, "unanswered"),
        (tally.retransmissions, "retransmitted"),
        (tally.repeated_replies, "answered again"),
    ];
    for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(line, ", {number} {what}");
    }
    print(line, 4, out)?;
    for (reason, messages) in &tally.opaque {
        print(
            format_args!("  {}: {reason}", plural(*messages, "message")),
            4,
            out,
        )?;
    }
    if tally.is_tls {
        print("  TLS: what follows cannot be read", 4, out)?;
    }
    let titles = COLUMNS.map(|(title, _)| format!("{title:>10}")).concat();
    print(format_args!("  {:8}{titles}", ""), 4, out)?;
    print(row("calls", sent), 4, out)?;
    print(row("replies", answered), 4, out)
}

fn row(what: &str, account: &Account) -> String {
    let cells = COLUMNS.map(|(_, of)| format!("{:>10}", units::bytes(of(account))));
    format!("  {what:8}{}", cells.concat())
}
