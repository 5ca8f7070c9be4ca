//! `trackiops compare`: compares single requests of a store with a capture of the same traffic.

mod captured;
mod comparison;
mod matching;
mod recorded;
mod sheets;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::requests::KeptRequests;
use trackiops_query::times::Zone;
use trackiops_query::{KeptRequest, Question};
use trackiops_render::report::ReportTable;
use trackiops_reports::report::About;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;

use self::captured::Captured;
use self::comparison::{Comparison, RowsWanted};
use self::matching::Matching;
use self::recorded::Recorded;
use crate::exit_status::ExitStatus;
use crate::help_headings::{ROWS, WHAT};
use crate::output::plural;
use crate::progress::begin_reading;
use crate::question_flags::{FileFlags, WhenFlags, now};
use crate::report::form::FormFlags;
use crate::store_flag::StoreFlags;

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
/// The two sides' ends of one request differ by less than this, ms.
const APART_MS: i64 = 60_000;

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
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    /// Another port of NFS beside 2049; repeatable
    #[arg(long = "port", value_name = "PORT", help_heading = WHAT)]
    ports: Vec<u16>,
    #[command(flatten)]
    when: WhenFlags,
    /// List every request, not only those that differ (in a table the first 20)
    #[arg(long, help_heading = ROWS)]
    rows: bool,
    #[command(flatten)]
    form: FormFlags,
}

/// Runs the command. Status 0: equal; 1: something differs; 3: a part of the store is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = args.form.choose(&sheets::TABLES)?;
    let time = (Zone::Local, now());
    let range = args.when.range(time)?;
    let mut question = FileFlags::default().question(args.stores.existing()?, range, time)?;
    // A capture only contains the wire level.
    question.levels = vec![IoLevel::Wire];
    begin_reading("comparing", None);
    let captured = Captured::read(&args.pcap, &args.ports)?;
    let shared = shared(&question, &captured)?;
    let mut matching = Matching::new(&captured.transfers);
    let wanted = match (args.rows, form.is_for_people()) {
        (true, _) => RowsWanted::All,
        (false, true) => RowsWanted::Differing(MOST_ROWS),
        (false, false) => RowsWanted::Differing(usize::MAX),
    };
    let mut comparison = Comparison::new(&captured, wanted);
    let (notes, without_xid) = read(&question, &shared, &mut matching, &mut comparison)?;
    for transfer in matching.rest() {
        if shared.has(transfer.end_ns, transfer.end_ns) {
            comparison.only_captured(transfer);
        }
    }
    comparison.rows.sort_by_key(comparison::Pair::end_ns);
    let about = About {
        verdict: None,
        name: "compare",
        title: "Recording and capture",
        method: METHOD,
        range: shared.interval(),
        notes,
        remarks: remarks(&captured, &comparison, without_xid),
    };
    let tables: Vec<_> = sheets::sheets(&comparison)
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

/// The time that recording and capture share, ns since the epoch, both ends inclusive.
struct Shared {
    start_ns: i64,
    end_ns: i64,
}

impl Shared {
    fn has(&self, begin_ns: i64, end_ns: i64) -> bool {
        self.start_ns <= begin_ns && end_ns <= self.end_ns
    }

    fn interval(&self) -> Interval {
        let ms = |ns: i64| UtcMs(ns.div_euclid(1_000_000));
        Interval::new(ms(self.start_ns), UtcMs(ms(self.end_ns).0 + 1))
    }
}

fn shared(question: &Question, captured: &Captured) -> anyhow::Result<Shared> {
    let snapshot = Snapshot::open_all(question.stores.iter().map(|store| &**store))?;
    let Some((start, end)) = snapshot.span() else {
        bail!("nothing is recorded in the store yet; record with `trackiops record --requests`");
    };
    let start = question.range.since.map_or(start, |since| since.max(start));
    let end = question.range.until.map_or(end, |until| until.min(end));
    let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
    let (first_ns, last_ns) = captured.range_ns;
    let shared = Shared {
        start_ns: ns(start).max(first_ns),
        end_ns: ns(end).saturating_sub(1).min(last_ns),
    };
    if shared.start_ns > shared.end_ns {
        bail!(
            "the capture has nothing of the time of the recording that is asked for: compare its times with those of `trackiops query`"
        );
    }
    Ok(shared)
}

/// Compares all requests of the store in the shared time. Returns notes, and the number of requests without an xid.
fn read<'c>(
    question: &Question,
    shared: &Shared,
    matching: &mut Matching<'c>,
    comparison: &mut Comparison<'c>,
) -> anyhow::Result<(Vec<Note>, u64)> {
    let none = "no single requests are kept in the store for the time of the capture; record with `trackiops record --requests`";
    let Ok(mut kept) = KeptRequests::open(question)? else {
        bail!(none);
    };
    let (mut all, mut without_xid) = (0_u64, 0_u64);
    let Interval { start, end } = shared.interval();
    let around = Interval::new(UtcMs(start.0 - APART_MS), UtcMs(end.0 + APART_MS));
    kept.read(around, &mut |batch| {
        for row in KeptRequest::all_of(&batch) {
            let recorded = Recorded::new(&row);
            let captured = matching.take(&recorded);
            // The client completes the request after its last packet, perhaps after the last packet of the capture.
            let is_shared = match captured {
                Some(captured) => shared.has(captured.end_ns, captured.end_ns),
                None => shared.has(recorded.begin_ns(), recorded.end_ns),
            };
            if !is_shared {
                continue;
            }
            all += 1;
            match recorded.xid {
                None => without_xid += 1,
                Some(_) => comparison.recorded(recorded, captured),
            }
        }
        Ok(true)
    })
    .context("single requests cannot be read")?;
    if all == 0 {
        bail!(none);
    }
    if all == without_xid {
        bail!(
            "the single requests of the store have no xids, so they cannot be found in a capture; \
             they are recorded on kernels with BTF (see `trackiops doctor`)"
        );
    }
    let (_, _, notes) = kept.finish(question);
    Ok((notes, without_xid))
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
