//! `trackiops record`: from the kernel's NFS client to the store.

mod paper;
mod requests;
mod status;

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::mem;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use trackiops_collector::{
    BtfError, Choice, Filter, KernelFacts, Plan, Procedure, Recorder, Settings, Totals,
    Unsupported, plan,
};
use trackiops_query::parse_size;
use trackiops_schemas::rollup::ClosedWindow;
use trackiops_schemas::time::{Granularity, parse_duration_ms};
use trackiops_store::{GranularitySet, Options, Retention, RetentionPolicy, WindowQueue, Writer};

use crate::output::{Access, Partial, say};
use crate::store_flag::StoreFlag;

/// For how long windows of which length are kept.
pub const DEFAULT_RETENTION: &str = "1s=2d,10s=14d,1m=90d,1h=forever";

/// Exit status when a thread has died: all that was recorded is in the store, and another recorder should begin.
const DIED: u8 = 4;

/// Up to 32 rings, maps, programs and their links, files of the kernel, the journals, and four segments that become one.
const OPEN_FILES: u64 = 256;

/// Between the module's loading and the first request lies a mount, which takes about as long.
const LOOK_FOR_NFS_EVERY: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  trackiops record                                          until Ctrl-C, of everything
  trackiops record --store-size 20GiB --retain 1s=1w,1m=1y  within limits of room and age
  trackiops record --duration 1h --mount /mnt/nfs           an hour of one mount";

/// Headings of flags in help.
const STORE: &str = "Store";
const KERNEL: &str = "Kernel";
const RUN: &str = "Run";
const FILTERS: &str =
    "Filters (the same one twice: or; different ones: and; --mount, --dir and --file are one)";

/// Arguments of `trackiops record`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = STORE)]
    store: StoreFlag,
    /// Window lengths, all written at once
    ///
    /// Each is a multiple of the one before.
    #[arg(long, value_name = "LENGTHS", default_value = "1s,10s,1m,1h", help_heading = STORE)]
    granularity: GranularitySet,
    /// Begin new Parquet files at multiples of this time [default: 15m]
    ///
    /// They also begin at midnight UTC, and whenever there were 65,536 different files.
    #[arg(long, value_name = "LENGTH", help_heading = STORE)]
    rotate: Option<Granularity>,
    /// How long windows are kept
    ///
    /// A length that is not listed is kept like the next longer one. Ages are such as 90m, 2d, 1w, 1y or forever.
    #[arg(
        long,
        value_name = "AGES",
        default_value = DEFAULT_RETENTION,
        help_heading = STORE
    )]
    retain: Retention,
    /// Count time for --retain in which nothing was recorded
    ///
    /// By default a clock that is set ahead, or a host that was off for a month, has nothing deleted: age is the time that was recorded since.
    #[arg(long, help_heading = STORE)]
    retain_by_clock: bool,
    /// Room on disk: 20GB, 20GiB, 20G [default: unlimited]
    ///
    /// For windows, journals and catalog, at least 64MiB. When it is used up, the oldest of the shortest windows are deleted.
    /// GB is decimal, GiB binary, and so is a letter alone: 20G is 20GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_store_size, help_heading = STORE)]
    store_size: Option<u64>,
    /// Keep every request as a row of its own as well
    #[arg(long, help_heading = STORE)]
    requests: bool,
    /// Room on disk for --requests, beside --store-size
    ///
    /// At least 64MiB. When it is used up, the oldest requests are deleted.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_requests_size, help_heading = STORE)]
    requests_size: u64,
    /// Allow a store on NFS
    ///
    /// Its own traffic is recorded then, and a hung server holds up the recorder.
    #[arg(long, help_heading = STORE)]
    allow_nfs_store: bool,
    /// Stop after this time: 90s, 2h, 1w ... [default: until stopped]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = RUN)]
    duration: Option<Duration>,
    /// Wait until the NFS client is loaded, instead of failing
    #[arg(long, help_heading = RUN)]
    wait: bool,
    /// Make this file, holding the process id, once recording has begun
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    ready_file: Option<PathBuf>,
    /// Print each closed window of the shortest length: paper
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = RUN)]
    stdout: Option<Stdout>,
    /// How requests are observed: auto, direct, tracepoint
    ///
    /// `direct` reads each request from its own structures when it completes; `tracepoint` follows each request through classic
    /// tracepoints; `auto` is the first if the kernel's BTF has what it needs, else the second.
    #[arg(long, value_name = "ENGINE", default_value = "auto", hide_possible_values = true, help_heading = KERNEL)]
    engine: Engine,
    /// The kernel's types, for kernels that do not describe themselves
    #[arg(long, value_name = "FILE", help_heading = KERNEL)]
    btf: Option<PathBuf>,
    /// Record READ and WRITE requests only, not every operation
    #[arg(long, help_heading = KERNEL)]
    no_ops: bool,
    /// Do not split latencies into queue, network and completion
    #[arg(long, help_heading = KERNEL)]
    no_latency_parts: bool,
    /// Memory for requests on their way from the kernel
    ///
    /// Of all CPUs together, from 64KiB to 64GiB. Requests that find no room in it are added up in the kernel.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_ring_memory, help_heading = KERNEL)]
    ring_memory: u64,
    #[command(flatten)]
    filter: FilterArgs,
}

/// What is to be recorded. Without any of these everything is.
#[derive(Clone, clap::Args)]
struct FilterArgs {
    /// Only this mount point or SERVER:/EXPORT; repeatable
    #[arg(long = "mount", value_name = "MOUNT", help_heading = FILTERS)]
    mounts: Vec<String>,
    /// Only files below this directory; repeatable
    #[arg(long = "dir", value_name = "DIR", help_heading = FILTERS)]
    directories: Vec<PathBuf>,
    /// Only this file; repeatable
    #[arg(long = "file", value_name = "FILE", help_heading = FILTERS)]
    files: Vec<PathBuf>,
    /// Only requests made by these processes
    ///
    /// Buffered writes that are written back later are made by the kernel.
    #[arg(long = "pid", value_name = "PID,...", value_delimiter = ',', help_heading = FILTERS)]
    pids: Vec<u32>,
    /// Only requests of files that these users opened
    #[arg(long = "uid", value_name = "UID,...", value_delimiter = ',', help_heading = FILTERS)]
    uids: Vec<u32>,
    /// Only data charged to this cgroup or one below it; repeatable
    #[arg(long = "cgroup", value_name = "PATH", help_heading = FILTERS)]
    cgroups: Vec<PathBuf>,
    /// Only these operations, such as read, write, commit
    #[arg(long = "ops", value_name = "OP,...", value_delimiter = ',', help_heading = FILTERS)]
    operations: Vec<Procedure>,
}

impl From<FilterArgs> for Filter {
    fn from(args: FilterArgs) -> Self {
        let FilterArgs {
            mounts,
            directories,
            files,
            pids,
            uids,
            cgroups,
            operations,
        } = args;
        Self {
            mounts,
            directories,
            files,
            pids,
            uids,
            cgroups,
            operations,
        }
    }
}

/// Engines by name.
#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    /// The direct engine if the kernel's BTF has what it needs, else the tracepoint engine
    Auto,
    /// Read each request from its own structures when it completes
    Direct,
    /// Follow each request through classic tracepoints
    Tracepoint,
}

impl From<Engine> for Choice {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Auto,
            Engine::Direct => Self::Direct,
            Engine::Tracepoint => Self::Tracepoint,
        }
    }
}

/// What can be printed while recording.
#[derive(Clone, Copy, ValueEnum)]
enum Stdout {
    /// The lines of the CHEOPS'24 paper: [Timestamp], File ID, r-iops, r-throughput, r-latency,
    /// w-iops, w-throughput, w-latency (bytes/s, ns)
    Paper,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text)
        .and_then(|ms| u64::try_from(ms).ok())
        .filter(|ms| *ms > 0);
    ms.map(Duration::from_millis).ok_or_else(|| {
        "write a number above 0 and a unit, such as 90s, 15m, 2h or 2d12h".to_owned()
    })
}

/// The least gives one CPU a ring of sixteen pages, the most gives each of 32 rings all that the kernel can address.
const RING_MEMORY: RangeInclusive<u64> = 64 << 10..=64 << 30;

fn parse_ring_memory(text: &str) -> Result<u64, String> {
    parse_size_in(text, RING_MEMORY, "from 64KiB to 64GiB, such as 16MiB")
}

/// The least gives each journal of requests, one of many pieces, room for some batches.
const REQUESTS_SIZE_MIN: u64 = 64 << 20;

fn parse_requests_size(text: &str) -> Result<u64, String> {
    parse_size_in(
        text,
        REQUESTS_SIZE_MIN..=u64::MAX,
        "of at least 64MiB, such as 10GiB",
    )
}

/// The least holds a journal of some thousand files beside what it is sealed to.
const STORE_SIZE_MIN: u64 = 64 << 20;

pub fn parse_store_size(text: &str) -> Result<u64, String> {
    parse_size_in(
        text,
        STORE_SIZE_MIN..=u64::MAX,
        "of at least 64MiB, such as 20GiB",
    )
}

fn parse_size_in(text: &str, range: RangeInclusive<u64>, takes: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    match range.contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("write a size {takes}")),
    }
}

/// Records until told to stop, or until a thread has died: then with all that it has.
pub fn run(args: Args) -> Result<ExitCode> {
    let ending = Arc::new(Notify::new());
    let asked = Arc::clone(&ending);
    trackiops_threads::watch(move |death| {
        say(format_args!(
            "{death}; the recording ends with all that it has"
        ));
        asked.notify_one();
    });
    let recorded = trackiops_threads::guarded(|| record(args, ending));
    let Some(death) = trackiops_threads::death() else {
        return recorded.unwrap_or_else(|panic| resume_unwind(panic));
    };
    if let Ok(Err(error)) = recorded {
        say(format_args!("{error:#}"));
    }
    say(format_args!(
        "stopped, as the thread `{}` has panicked: please report this; the next `trackiops record` seals what was recorded",
        death.thread
    ));
    Ok(ExitCode::from(DIED))
}

fn record(args: Args, ending: Arc<Notify>) -> Result<ExitCode> {
    let store = args.store.dir();
    // What can never be recorded here is said before a store is made.
    allow_open_files()?;
    let planned = match plan_with(&args)? {
        Err(Unsupported::NfsNotLoaded) if args.wait => None,
        planned => Some(planned?),
    };
    if let Some(file) = &args.ready_file {
        clear_ready_file(file)?;
    }
    let settings = args.settings();
    let writer = Writer::open_after(&store, args.store_options(&settings.filter), None, say)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the probes are attached, so that a signal never kills a recording half begun.
        let mut stop = Stop::new(ending)?;
        let plan = match planned {
            Some(plan) => plan,
            None => {
                say("waiting for the NFS client to be loaded");
                tokio::select! {
                    () = stop.asked_to() => {
                        writer.finish()?;
                        say("stopped: the NFS client was not loaded");
                        return Ok(ExitCode::SUCCESS);
                    }
                    () = nfs_client_loaded() => plan_with(&args)??,
                }
            }
        };
        record_by(plan, &args, settings, store, writer, stop).await
    })
}

/// Records by a plan until it is told to stop.
async fn record_by(
    plan: Plan,
    args: &Args,
    settings: Settings,
    store: PathBuf,
    writer: Writer,
    stop: Stop,
) -> Result<ExitCode> {
    let plan = with_wanted_operations(plan, args, &settings.filter);
    let mut recorder = Recorder::start(&plan, &settings)?;
    if let Some(why) = recorder.refused() {
        say(format_args!(
            "the kernel has refused the programs that load from its memory ({why}): those that call it for each read are used \
             instead, at some twice the cost; see whether its compiler is on: sysctl net.core.bpf_jit_enable"
        ));
    }
    // What an earlier recording has left of them is sealed in any case.
    let requests = if args.requests || writer.has_unsealed_requests()? {
        Some(requests::write(writer.requests(args.requests_size, say)?)?)
    } else {
        None
    };
    let (queue, requests) = requests.unzip();
    let queue = queue.filter(|_| args.requests);
    let kept = queue.as_ref().map(|queue| queue.counts());
    let kept = kept.unwrap_or_default();
    if let Some(queue) = queue {
        recorder.hand_requests_to(Box::new(move |batch| queue.put(batch)));
    }
    let waiting = WindowQueue::start(writer, store, say)?;
    announce(&settings.filter, args.ready_file.as_deref())?;
    let mut show = Show::new(
        args.stdout,
        args.granularity.finest(),
        Arc::clone(&stop.asked),
        Arc::clone(&kept),
    );
    let mut dropped = 0;
    let sink = |mut window: ClosedWindow| -> Result<(), Box<dyn Error + Send + Sync>> {
        let before = mem::replace(&mut dropped, show.kept.unwritten_for_good());
        window.health.requests_dropped = dropped - before;
        show.window(&window, waiting.waiting())?;
        waiting.put(window);
        Ok(())
    };
    let mounted = |at, mounts| -> Result<(), Box<dyn Error + Send + Sync>> {
        waiting.mounted(at, mounts);
        Ok(())
    };
    let stalled = |stall: &_| say(status::stall(stall));
    let totals = recorder
        .run(sink, mounted, stalled, stop.wait(args.duration))
        .await;
    let stored = waiting
        .finish()
        .map_err(|_| anyhow!("the thread that writes the store panicked"))?;
    let requests = requests
        .map_or(Ok(Ok(())), JoinHandle::join)
        .map_err(|_| anyhow!("the thread that writes single requests panicked"))?;
    stored?;
    report(&totals?, &kept);
    requests.context("single requests were not kept to the end")?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            granularity: self.granularity.finest(),
            ring_memory: self.ring_memory,
            latency_parts: !self.no_latency_parts,
            filter: self.filter.clone().into(),
            requests: self.requests,
        }
    }

    fn store_options(&self, filter: &Filter) -> Options {
        let finest = self.granularity.finest();
        Options {
            host: host_name(),
            granularities: self.granularity.clone(),
            rotate: self.rotate.unwrap_or_else(|| default_rotation(finest)),
            filter: (!filter.is_empty()).then(|| filter.to_string()),
            allow_nfs_store: self.allow_nfs_store,
            keep: RetentionPolicy {
                retention: self.retain.clone(),
                most_bytes: self.store_size,
                gaps_age: self.retain_by_clock,
                ..RetentionPolicy::default()
            },
        }
    }
}

fn plan_with(args: &Args) -> Result<Result<Plan, Unsupported>, BtfError> {
    Ok(plan(&facts(args.btf.as_deref())?, args.engine.into()))
}

/// Without the programs of operations if they are not wanted, or cannot be with such a filter. Says what is not recorded.
fn with_wanted_operations(plan: Plan, args: &Args, filter: &Filter) -> Plan {
    if let Some(why) = &plan.fallback {
        say(format_args!("using the tracepoint engine: {why}"));
    }
    let narrows = filter.narrows();
    if narrows && !args.no_ops && plan.has_operations() {
        say(
            "operations are not recorded: they are added up without their files, users and processes, by which the filter chooses",
        );
    }
    if args.no_ops || narrows {
        plan.without_operations()
    } else {
        plan
    }
}

/// Says how a recording went.
fn report(totals: &Totals, kept: &requests::Counts) {
    let (seen, lost) = (totals.books.seen, totals.books.lost);
    say(format_args!(
        "stopped: {seen} requests seen, {} recorded{}, {lost} lost{}{}",
        totals.read,
        status::folded(totals.folded),
        status::missed(totals.missed),
        status::left_out(kept.unwritten())
    ));
    if totals.unbalanced > 0 {
        say(format_args!(
            "warning: {} times the kernel had counted more requests as recorded, folded or lost than as \
             seen: the numbers above are wrong; please report this with `trackiops doctor`",
            totals.unbalanced
        ));
    }
}

/// What is known of the kernel, with the BTF of a file in place of its own if one is given.
pub fn facts(btf: Option<&Path>) -> Result<KernelFacts, BtfError> {
    let facts = KernelFacts::gather();
    match btf {
        Some(file) => facts.with_btf(file),
        None => Ok(facts),
    }
}

async fn nfs_client_loaded() {
    while !KernelFacts::nfs_client_is_loaded() {
        tokio::time::sleep(LOOK_FOR_NFS_EVERY).await;
    }
}

/// 15 minutes, or as much more as it takes to hold whole windows.
fn default_rotation(finest: Granularity) -> Granularity {
    (1..=i64::from(u16::MAX))
        .filter_map(|n| Granularity::from_ms(n * finest.ms()).ok())
        .find(|rotate| rotate.ms() >= 15 * 60 * 1000)
        .unwrap_or(finest)
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Has the process open as many files as a recorder may need, as far as it is allowed to.
fn allow_open_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|most| most >= OPEN_FILES);
    if let (Some(most), false) = (limit.maximum, is_enough(limit.maximum)) {
        bail!(
            "no more than {most} files may be open, and a recorder needs {OPEN_FILES}; raise the limit by `ulimit -n {OPEN_FILES}`, or by \
             LimitNOFILE= of systemd"
        );
    }
    if !is_enough(limit.current) {
        let current = Some(OPEN_FILES);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit })
            .context("cannot raise the limit of open files; try `ulimit -n 256`")?;
    }
    Ok(())
}

/// A file left by an earlier recording must not be taken for this one's.
fn clear_ready_file(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("cannot replace the ready file {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn announce(filter: &Filter, ready_file: Option<&Path>) -> Result<()> {
    if filter.is_empty() {
        say("recording");
    } else {
        say(format_args!("recording only {filter}"));
    }
    for absent in filter.absent_mounts() {
        say(format_args!(
            "`{absent}` is not mounted: nothing of it is recorded until it is"
        ));
    }
    if let Some(file) = ready_file {
        let write = || {
            let mut partial = Partial::create(file, Access::default())?;
            writeln!(partial.file()?, "{}", std::process::id())?;
            partial.put_in_place()
        };
        write().with_context(|| format!("cannot write the ready file {}", file.display()))?;
    }
    Ok(())
}

/// When to stop.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// Asked from within.
    asked: Arc<Notify>,
}

impl Stop {
    fn new(asked: Arc<Notify>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            asked,
        })
    }

    /// By a signal, or from within.
    async fn asked_to(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = self.asked.notified() => {}
        }
    }

    async fn wait(mut self, duration: Option<Duration>) {
        let elapsed = async {
            match duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.asked_to() => {}
            () = elapsed => {}
        }
    }
}

/// What a person sees of the windows.
struct Show {
    stdout: Option<Stdout>,
    status: bool,
    granularity: Granularity,
    stop: Arc<Notify>,
    /// Of the requests that are kept one by one, and how many left out a person has seen.
    kept: Arc<requests::Counts>,
    left_out_shown: u64,
}

impl Show {
    fn new(
        stdout: Option<Stdout>,
        granularity: Granularity,
        stop: Arc<Notify>,
        kept: Arc<requests::Counts>,
    ) -> Self {
        Self {
            stdout,
            status: io::stderr().is_terminal(),
            granularity,
            stop,
            kept,
            left_out_shown: 0,
        }
    }

    /// `waiting` is how many windows before it are not written yet.
    fn window(&mut self, window: &ClosedWindow, waiting: usize) -> io::Result<()> {
        if self.status {
            let left_out = self.kept.left_out();
            let new = left_out - mem::replace(&mut self.left_out_shown, left_out);
            let waiting = status::waiting(waiting);
            say(format_args!(
                "{}{}{waiting}",
                status::line(window),
                status::left_out(new)
            ));
        }
        let Some(Stdout::Paper) = self.stdout else {
            return Ok(());
        };
        let mut out = io::stdout().lock();
        let written = out
            .write_all(paper::lines(window, self.granularity).as_bytes())
            .and_then(|()| out.flush());
        match written {
            // Nobody reads any more: stop as if asked to, and keep what was recorded.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.stdout = None;
                self.stop.notify_one();
                Ok(())
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dies_ends_the_recording() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for is_recording in [false, true] {
                let ending = Arc::new(Notify::new());
                let mut stop = Stop::new(Arc::clone(&ending)).unwrap();
                // As the watcher does, on the thread that dies.
                let died = std::thread::spawn(move || ending.notify_one());
                let stopped = async {
                    match is_recording {
                        true => stop.wait(None).await,
                        false => stop.asked_to().await,
                    }
                };
                let waited = tokio::time::timeout(Duration::from_secs(60), stopped).await;
                assert!(waited.is_ok(), "it is asked from within");
                died.join().unwrap();
            }
        });
    }

    #[test]
    fn the_default_rotation_holds_whole_windows() {
        let default = |finest: &str| default_rotation(finest.parse().unwrap()).to_string();
        assert_eq!(
            ["100ms", "1s", "1m", "10m", "1h", "1d"].map(default),
            ["15m", "15m", "15m", "20m", "1h", "1d"]
        );
    }

    #[test]
    fn ring_memory_is_a_size_within_bounds() {
        assert_eq!(parse_ring_memory("16MiB"), Ok(16 << 20));
        assert_eq!(parse_ring_memory("65536"), Ok(65_536));
        assert_eq!(parse_ring_memory("1G"), Ok(1 << 30));
        for text in ["", "MiB", "1KiB", "1TiB", "-1", "99999999999999999999G"] {
            assert!(parse_ring_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn room_for_requests_has_a_least_size() {
        assert_eq!(parse_requests_size("10GiB"), Ok(10 << 30));
        assert_eq!(parse_requests_size("2T"), Ok(2 << 40));
        assert_eq!(parse_requests_size("20GB"), Ok(20_000_000_000));
        for text in ["", "1MiB", "64MB", "-1GiB"] {
            assert!(parse_requests_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [
            ("90s", 90),
            ("1w", 604_800),
            ("2d12h", 216_000),
            ("1 hour", 3600),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["", "90", "0", "0s", "-1s", "1 parsec", "500us"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
