//! Writes the store of a synthetic day, and prints the costs: `trackiops-bench-day --store DIR`.

mod compact;
mod day;
mod disk;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use trackiops_collector::Replay;
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{GranularitySet, Options, RetentionPolicy, Writer};

use day::Day;

/// The synthetic day begins at 2026-01-01 00:00 UTC.
const START_S: u64 = 1_767_225_600;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Parser)]
#[command(about)]
struct Args {
    /// The store to write; it must not be there yet
    #[arg(long)]
    store: PathBuf,
    /// Files; 400 are a tenth of the day
    #[arg(long, default_value_t = 4000)]
    files: usize,
    /// Hours of it
    #[arg(long, default_value_t = 24)]
    hours: u64,
    /// Another seed gives another day
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Windows to keep, from fine to coarse
    #[arg(long, default_value = "1s,10s,1m,1h")]
    granularities: GranularitySet,
    /// How often segments are begun
    #[arg(long, default_value = "15m")]
    rotate: Granularity,
    /// Merge segments until there is nothing left to merge, which a recorder has days for
    #[arg(long)]
    compact: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(
        !args.store.exists(),
        "{} is there already: name a directory that is not",
        args.store.display()
    );
    let began = Instant::now();
    let options = Options {
        host: "synthetic".into(),
        granularities: args.granularities.clone(),
        rotate: args.rotate,
        filter: None,
        source: None,
        allow_nfs_store: false,
        most_files: Options::MOST_FILES,
        keep: RetentionPolicy::default(),
    };
    let mut writer = Writer::open(&args.store, options.clone())?;
    let mut day = Day::new(args.files, START_S * SECOND_NS, args.seed);
    let attributes = day.attributes();
    let known = move |file: trackiops_schemas::identity::FileId, _| {
        Arc::clone(&attributes[file.fileid as usize - 1])
    };
    let finest: Granularity = args.granularities.finest();
    let mut replay = Replay::new(finest, known);
    let (mut requests, mut entries, mut most_journal, mut most_requests) = (0, 0, 0, 0);
    let (mut generating, mut rolling, mut appending) = Default::default();
    let mut batch = Vec::new();
    let windows = args.hours * 3_600_000 / finest.ms().unsigned_abs();
    for window in 1..=windows {
        let elapsed_ms = window * finest.ms().unsigned_abs();
        timed(&mut generating, || day.next(finest.ns(), &mut batch));
        requests += batch.len() as u64;
        most_requests = most_requests.max(batch.len());
        let until = UtcMs((START_S * 1000 + elapsed_ms).cast_signed());
        let closed = timed(&mut rolling, || {
            replay.add(&batch);
            replay.close(until)
        });
        for window in closed {
            entries += window.rows.len() as u64;
            timed(&mut appending, || writer.append(&window))?;
        }
        if elapsed_ms.is_multiple_of(60_000) {
            most_journal = most_journal.max(disk::journal_bytes(&args.store)?);
        }
    }
    writer.finish().context("sealing what is left")?;
    // Includes the thread that seals.
    let all = clock(ClockId::ProcessCPUTime);
    let sealing = all.saturating_sub(clock(ClockId::ThreadCPUTime));
    let per = |time: Duration, of: u64| time.as_nanos() as f64 / of.max(1) as f64;
    println!(
        "requests {requests}, entries of {finest} {entries}, in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    println!(
        "generating      {:6.1} ns/request",
        per(generating, requests)
    );
    println!("rolling up      {:6.1} ns/request", per(rolling, requests));
    println!("appending       {:6.1} ns/entry", per(appending, entries));
    println!(
        "sealing         {:6.1} ns/entry, all granularities",
        per(sealing, entries)
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "peak memory     {:6.1} MiB, {:.1} of it the generated requests of a window",
        peak_mib()?,
        mib((most_requests * size_of::<RequestRecord>()) as u64)
    );
    println!("journal         {:6.1} MiB at most", mib(most_journal));
    if args.compact {
        compact::compact(&args.store, options)?;
    }
    disk::report(&args.store)
}

fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> T) -> T {
    let before = clock(ClockId::ThreadCPUTime);
    let done = work();
    *sum += clock(ClockId::ThreadCPUTime).saturating_sub(before);
    done
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.cast_unsigned() as u32,
    )
}

fn peak_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next());
    Ok(kib
        .context("the kernel does not tell the peak of memory")?
        .parse::<f64>()?
        / 1024.0)
}
