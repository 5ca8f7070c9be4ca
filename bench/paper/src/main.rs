//! The published design of the CHEOPS'24 extractor, for comparison. Loads its programs, prints each file's line once a second, and on
//! SIGINT prints the number of counted requests. See `bench/README.md`.

use std::io::Write as _;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use aya::maps::{HashMap, MapData};
use aya::programs::TracePoint;
use aya::{Ebpf, Pod, include_bytes_aligned};
use tokio::time::{Instant, MissedTickBehavior};

static OBJECT: &[u8] = include_bytes_aligned!("../ebpf/paper.bpf.o");

/// In the order in which a request reaches them.
const TRACEPOINTS: [(&str, &str); 6] = [
    ("nfs", "nfs_initiate_read"),
    ("nfs", "nfs_initiate_write"),
    ("sunrpc", "rpc_task_begin"),
    ("sunrpc", "rpc_task_end"),
    ("nfs", "nfs_readpage_done"),
    ("nfs", "nfs_writeback_done"),
];

const SECOND: Duration = Duration::from_secs(1);

/// The same as in the kernel side.
#[repr(C)]
#[derive(Clone, Copy)]
struct Metrics {
    read: Direction,
    write: Direction,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Direction {
    requests: u64,
    bytes: u64,
    latency_ns: u64,
}

// SAFETY: six words without padding, which hold any bytes.
unsafe impl Pod for Metrics {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut programs = Ebpf::load(OBJECT).context("the kernel refused the BPF programs")?;
    for (category, event) in TRACEPOINTS {
        attach(&mut programs, category, event)
            .with_context(|| format!("cannot attach to {category}:{event}"))?;
    }
    let metrics = programs
        .take_map("IO_METRICS")
        .context("the object has no map IO_METRICS: run `make ebpf`")?;
    let mut metrics = HashMap::try_from(metrics)?;
    eprintln!("attached");

    let mut seconds = tokio::time::interval_at(Instant::now() + SECOND, SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut requests = 0;
    loop {
        let last = tokio::select! {
            _ = seconds.tick() => false,
            stop = tokio::signal::ctrl_c() => { stop?; true }
        };
        requests += report(&mut metrics)?;
        if last {
            eprintln!("stopped: {requests} requests seen");
            return Ok(());
        }
    }
}

fn attach(programs: &mut Ebpf, category: &str, event: &str) -> Result<()> {
    let program = programs.program_mut(event).context("no such program")?;
    let program: &mut TracePoint = program.try_into()?;
    program.load()?;
    program.attach(category, event)?;
    Ok(())
}

/// Prints the lines of a second, resets the files' metrics, and returns the number of requests.
fn report(metrics: &mut HashMap<MapData, u64, Metrics>) -> Result<u64> {
    let now = SystemTime::UNIX_EPOCH.elapsed()?.as_secs();
    let mut lines = Vec::new();
    let mut requests = 0;
    let files: Vec<u64> = metrics.keys().collect::<Result<_, _>>()?;
    for fileid in files {
        // Requests between the two calls are lost, as in the paper.
        let Metrics { read, write } = metrics.get(&fileid, 0)?;
        metrics.remove(&fileid)?;
        requests += read.requests + write.requests;
        write!(lines, "[{now}], {fileid}")?;
        for direction in [read, write] {
            let Direction {
                requests,
                bytes,
                latency_ns,
            } = direction;
            let mean_ns = latency_ns.checked_div(requests).unwrap_or(0);
            write!(lines, ", {requests}, {bytes}, {mean_ns}")?;
        }
        writeln!(lines)?;
    }
    std::io::stdout().write_all(&lines)?;
    Ok(requests)
}
