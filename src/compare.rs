//! `trackiops compare`: compares single requests of a store with a capture of the same traffic.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_import::compare::{Captured, Comparison, RowsWanted, TABLES, compare, sheets};
use trackiops_import::{CutShort, Source};
use trackiops_process::output::say;
use trackiops_process::progress::begin_reading;
use trackiops_query::coverage::note::Note;
use trackiops_query::times::Zone;
use trackiops_render::report::ReportTable;
use trackiops_render::units::plural;
use trackiops_reports::report::About;
use trackiops_schemas::level::IoLevel;

use crate::exit_status::ExitStatus;
use crate::help_headings::{ROWS, WHAT};
use crate::question_flags::{FileFlags, RangeFlags};
use crate::report::form::FormFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops compare --store S --pcap all.pcap               counts, differences and latencies
  trackiops compare --pcap a.pcap b.pcap --since 10:00      of a capture in several files
  trackiops compare --pcap all.pcap --rows -o rows.parquet --table requests";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Compare single requests of a store with a capture of the same traffic: what each says of them

Each READ and WRITE of the store is looked for in the capture by its xid, and their files, offsets, bytes and errors are compared, in the \
time that both cover. Latencies of the recorder stand beside those of the capture. The recording needs `record --requests`.

Exit status 0: they are equal; 1: a request is missing on one side, or something differs; 2: an error; 3: a part of the store is damaged.";

/// Rows of differing requests, in tables for people.
const MOST_ROWS: usize = 20;

const METHOD: &[&str] = &[
    "A request is the same on both sides if xid and operation are, and the ends are at most a minute apart; of several the one with the same \
     server and offset, and then the nearest. Requests that began before the first packet or ended after the last are not compared, nor \
     those of the capture that ended before the recording began or after it ended.",
    "queue, network and completion are the recorder's parts of latency. captured is the time from the first byte of the call to the last byte of \
     the reply at the capture's place, and answered that to the first byte of the reply, where network ends, too. network - answered is what lies between \
     the client's RPC layer and that place, of calls that were sent once.",
];

/// What `trackiops compare` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The capture, pcap or pcapng; several files in order of time; - is stdin
    ///
    /// As they are, or compressed by gzip, bzip2 or zstd.
    #[arg(long, required = true, value_name = "FILE", num_args = 1.., help_heading = WHAT)]
    pcap: Vec<PathBuf>,
    #[command(flatten)]
    range: RangeFlags,
    /// Another port of NFS beside 2049; repeatable
    #[arg(long = "port", value_name = "PORT", help_heading = WHAT)]
    ports: Vec<u16>,
    /// List every request, not only those that differ (in a table the first 20)
    #[arg(long, help_heading = ROWS)]
    rows: bool,
    #[command(flatten)]
    form: FormFlags,
}

/// Runs the command. Status 0: equal; 1: something differs; 3: a part of the store is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = args.form.choose(&TABLES)?;
    let mut question = args.range.question(FileFlags::default())?;
    // A capture only contains the wire level.
    question.levels = vec![IoLevel::Wire];
    begin_reading("comparing", None);
    let captured = Captured::read(&Source::all(&args.pcap)?, &args.ports, say_cut_short)?;
    let wanted = match (args.rows, form.is_for_people()) {
        (true, _) => RowsWanted::All,
        (false, true) => RowsWanted::Differing(MOST_ROWS),
        (false, false) => RowsWanted::Differing(usize::MAX),
    };
    let compared = compare(&question, &captured, wanted)?;
    let (comparison, without_xid) = (compared.comparison, compared.without_xid);
    let about = About {
        verdict: None,
        name: "compare",
        title: "Recording and capture",
        method: METHOD,
        range: compared.range,
        notes: compared.notes,
        remarks: remarks(&captured, &comparison, without_xid),
    };
    let tables: Vec<_> = sheets(&comparison)
        .into_iter()
        .map(|sheet| sheet.into_table(&about))
        .collect();
    let tables: Vec<&dyn ReportTable> = tables.iter().map(|table| table as _).collect();
    form.write(&about, &tables, Zone::Local)?;
    let is_damaged = about.notes.iter().any(Note::is_damage);
    let differs = comparison.totals.iter().any(|totals| totals.differs());
    Ok(match (is_damaged, differs || without_xid > 0) {
        (true, _) => ExitStatus::Damaged,
        (false, true) => ExitStatus::Negative,
        (false, false) => ExitStatus::Success,
    }
    .into())
}

fn say_cut_short(CutShort { name, why, packets }: CutShort) {
    let packets = plural(packets, "packet");
    say(format_args!(
        "warning: {name}: {why}; what comes before it is compared, {packets}"
    ));
}

fn remarks(captured: &Captured, comparison: &Comparison<'_>, without_xid: u64) -> Vec<String> {
    let mut remarks = Vec::new();
    if captured.unread_bytes > 0 {
        let bytes = plural(captured.unread_bytes, "byte");
        remarks.push(format!(
            "note: {bytes} of the connections are not in the capture or cannot be read; requests may be missing in it \
             (`trackiops import pcap` says of which connection)"
        ));
    }
    if without_xid > 0 {
        let requests = plural(without_xid, "request");
        remarks.push(format!(
            "note: {requests} of the store without an xid cannot be looked for"
        ));
    }
    let failed: u64 = comparison
        .totals
        .iter()
        .map(|totals| totals.only_captured_failed)
        .sum();
    if failed > 0 {
        let requests = plural(failed, "request");
        remarks.push(format!(
            "note: {requests} failed in the capture and are not in the store: the client sends such ones again under another xid"
        ));
    }
    remarks
}
