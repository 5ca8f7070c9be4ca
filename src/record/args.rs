//! Flags of `trackiops record`, converted for the collector and the store.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser as _, ValueEnum};
use trackiops_collector::{
    CALL_RING_BYTES, EngineChoice, Filter, Levels, MountName, Procedure, RecordedLevel, Settings,
    UserFunction,
};
use trackiops_process::output::host_name;
use trackiops_process::recorder::memory::Memory;
use trackiops_query::parse_size;
use trackiops_schemas::place::absolute_path;
use trackiops_schemas::time::{Granularity, parse_duration_ms};
use trackiops_store::{GranularitySet, Options, Retention, RetentionPolicy};

use crate::config::ConfigFlag;
use crate::store_flag::StoreFlag;

/// Default lengths of windows.
pub const DEFAULT_GRANULARITIES: &str = "1s,10s,1m,1h";

/// Default retention of windows, by length.
pub const DEFAULT_RETENTION: &str = "1s=2d,10s=14d,1m=90d,1h=forever";

const EXAMPLES: &str = "\
Examples:
  trackiops record                                          until Ctrl-C, of everything
  trackiops record --store-size 20GiB --retain 1s=1w,1m=1y  within limits of room and age
  trackiops record --duration 1h --mount /mnt/nfs           an hour of one mount";

/// Default length of a rotation, minutes.
const ROTATE_MINUTES: i64 = 15;
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
    pub store: StoreFlag,
    /// Name of this host in the store [default: its host name]
    ///
    /// For containers, whose host name can be another one.
    #[arg(long, value_name = "NAME", value_parser = parse_host, help_heading = STORE)]
    host: Option<String>,
    /// Window lengths, all written at once
    ///
    /// Each is a multiple of the one before.
    #[arg(long, value_name = "LENGTHS", default_value = DEFAULT_GRANULARITIES, help_heading = STORE)]
    pub granularity: GranularitySet,
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
    pub requests: bool,
    /// Room on disk for --requests, beside --store-size
    ///
    /// At least 64MiB. When it is used up, the oldest requests are deleted.
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = parse_requests_size, help_heading = STORE)]
    pub requests_size: u64,
    /// Name tenants by the rules in this file
    ///
    /// Each row gets the tenant of the first rule that applies, such as a pattern of paths or a namespace. SIGHUP reads them again.
    #[arg(long, value_name = "RULES", help_heading = STORE)]
    pub tenants: Option<PathBuf>,
    /// Allow a store on NFS
    ///
    /// Its own traffic is recorded then, and a hung server holds up the recorder.
    #[arg(long, help_heading = STORE)]
    allow_nfs_store: bool,
    #[command(flatten, next_help_heading = RUN)]
    config: ConfigFlag,
    /// Stop after this time: 90s, 2h, 1w ... [default: until stopped]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = RUN)]
    pub duration: Option<Duration>,
    /// Print the lines of the CHEOPS'24 paper, one per file and window
    ///
    /// As `trackiops watch --paper` does: [Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency: requests/s,
    /// bytes/s and ns. The recording does not wait for standard output.
    #[arg(long, help_heading = RUN)]
    pub paper: bool,
    /// Wait until the NFS client is loaded, instead of failing
    #[arg(long, help_heading = RUN)]
    pub wait: bool,
    /// Make this file, holding the process id, once recording has begun
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub ready_file: Option<PathBuf>,
    /// Socket of the live stream [default: /run/trackiops/live.sock]
    ///
    /// `trackiops watch` and others read it; the group that the store belongs to may connect. Another recorder on this host needs another path.
    #[arg(long, value_name = "PATH", conflicts_with = "no_live", help_heading = RUN)]
    pub live_socket: Option<PathBuf>,
    /// No live stream
    #[arg(long, help_heading = RUN)]
    pub no_live: bool,
    /// Record wire, app, block, cache [default: wire, or block without NFS]
    ///
    /// `wire` has the requests of the NFS client and the calls that applications make for its files. `app` has those for files of all other
    /// file systems, and `block` the requests to the devices of this host, by the file whose bytes they move. `cache` adds what the page
    /// cache does to the rows of their files. With --wait the default is `wire`.
    #[arg(long, value_name = "LEVEL,...", value_delimiter = ',', help_heading = KERNEL)]
    levels: Vec<RecordedLevel>,
    /// How requests are observed: auto, direct, tracepoint
    ///
    /// `direct` reads each request from its own structures when it completes; `tracepoint` follows each request through classic
    /// tracepoints; `auto` is the first if the kernel's BTF has what it needs, else the second.
    #[arg(long, value_name = "ENGINE", default_value = "auto", hide_possible_values = true, help_heading = KERNEL)]
    pub engine: EngineFlag,
    /// The kernel's types, for kernels that do not describe themselves
    #[arg(long, value_name = "FILE", help_heading = KERNEL)]
    pub btf: Option<PathBuf>,
    /// Record reads and writes only, no other operation
    #[arg(long, help_heading = KERNEL)]
    pub no_ops: bool,
    /// Count the calls by which applications read and write files of NFS
    ///
    /// Those that the page cache answers as well. Each call takes some 400 instructions more. On a kernel that preempts threads that run in it (7.x) it takes 2,700, and without fprobes
    /// (CONFIG_FPROBE) the kernel skips the programs for some.
    #[arg(long, help_heading = KERNEL)]
    pub app_view: bool,
    /// Time calls of applications
    ///
    /// Adds a histogram of their times for each file, and --app-view. Each call takes some 300 instructions more.
    #[arg(long, help_heading = KERNEL)]
    pub app_latency: bool,
    /// Keep calls of this function as well: PROGRAM:FUNCTION; repeatable
    ///
    /// With --requests, each call of the function, in every process that runs the program, is a row of the level user. PROGRAM is a path, or a
    /// name in PATH; it may be a library. PROGRAM:PROVIDER:BEGIN-END is from one mark of the program (USDT) to another one, PROGRAM:PROVIDER:MARK
    /// one by itself. A probe costs the program some microseconds for each call.
    #[arg(long, value_name = "FUNCTION", requires = "requests", help_heading = KERNEL)]
    pub user: Vec<UserFunction>,
    /// Do not split latencies into queue, network and completion
    #[arg(long, help_heading = KERNEL)]
    no_latency_parts: bool,
    /// Do not record what TCP knows of the connections
    ///
    /// Round-trip times, retransmissions, windows and reconnects, for which the recorder asks the kernel when a window ends. Without operations
    /// they are not recorded either.
    #[arg(long, help_heading = KERNEL)]
    no_connections: bool,
    /// What tracing may take of the machine's CPUs
    ///
    /// The recorder's own time and that of its programs in the kernel. Beyond it detail is left out, in this order: single calls, times of calls,
    /// calls, page cache, parts of latencies, operations of files; never the sums of requests. It comes back once the load allows it.
    #[arg(long, value_name = "N%", default_value = "3%", value_parser = parse_share, help_heading = KERNEL)]
    max_overhead: Share,
    /// Memory for requests on their way from the kernel
    ///
    /// Of all CPUs together, from 64KiB to 512MiB. Requests that find no room in it are added up in the kernel.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_ring_memory, help_heading = KERNEL)]
    ring_memory: u64,
    /// Memory of the recorder and its kernel maps [default: 7/8 of its cgroup]
    ///
    /// At least 32MiB. Rings are made smaller to fit, and fewer files are followed at a time: others are counted as (other) of their mount.
    #[arg(long, value_name = "SIZE", value_parser = parse_max_memory, help_heading = KERNEL)]
    max_memory: Option<u64>,
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
        // The store says which filter was set, to readers in other directories as well.
        let absolute = |path: PathBuf| absolute_path(&path).unwrap_or(path);
        Self {
            mounts: mounts.iter().map(|typed| MountName::new(typed)).collect(),
            directories: directories.into_iter().map(absolute).collect(),
            files: files.into_iter().map(absolute).collect(),
            pids,
            uids,
            cgroups,
            operations,
        }
    }
}

/// Engines by name.
#[derive(Clone, Copy, ValueEnum)]
pub enum EngineFlag {
    /// The direct engine if the kernel's BTF has what it needs, else the tracepoint engine
    Auto,
    /// Read each request from its own structures when it completes
    Direct,
    /// Follow each request through classic tracepoints
    Tracepoint,
}

impl From<EngineFlag> for EngineChoice {
    fn from(engine: EngineFlag) -> Self {
        match engine {
            EngineFlag::Auto => Self::Auto,
            EngineFlag::Direct => Self::Direct,
            EngineFlag::Tracepoint => Self::Tracepoint,
        }
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text)
        .and_then(|ms| u64::try_from(ms).ok())
        .filter(|ms| *ms > 0);
    ms.map(Duration::from_millis).ok_or_else(|| {
        "write a number above 0 and a unit, such as 90s, 15m, 2h or 2d12h".to_owned()
    })
}

/// Allowed lengths of host names.
const HOST_BYTES: RangeInclusive<usize> = 1..=253;

fn parse_host(text: &str) -> Result<String, String> {
    match HOST_BYTES.contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("write a name of 1 to 253 bytes".to_owned()),
    }
}

/// With less memory, the maps do not fit.
const MAX_MEMORY_MIN: u64 = 32 << 20;

fn parse_max_memory(text: &str) -> Result<u64, String> {
    parse_size_in(
        text,
        MAX_MEMORY_MIN..=u64::MAX,
        "of at least 32MiB, such as 128MiB",
    )
}

/// A share of the machine, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(u64);

fn parse_share(text: &str) -> Result<Share, String> {
    let percent = text.strip_suffix('%').map(str::trim_end);
    let percent = percent.and_then(|number| number.parse::<f64>().ok());
    let ppm = percent.map(|percent| (percent * 1e4).round());
    match ppm {
        Some(ppm) if (100.0..=1e6).contains(&ppm) => Ok(Share(ppm as u64)),
        _ => Err("write a percentage from 0.01% to 100%, such as 3%".to_owned()),
    }
}

/// The minimum gives one CPU a ring of sixteen pages. The maximum is the verifier's limit for addresses in one array (`BPF_MAX_VAR_OFF`).
const RING_MEMORY: RangeInclusive<u64> = 64 << 10..=512 << 20;

fn parse_ring_memory(text: &str) -> Result<u64, String> {
    parse_size_in(text, RING_MEMORY, "from 64KiB to 512MiB, such as 16MiB")
}

/// The minimum leaves room for some batches in each journal of requests, which is a small part of the size.
const REQUESTS_SIZE_MIN: u64 = 64 << 20;

/// Parses the room for single requests.
pub fn parse_requests_size(text: &str) -> Result<u64, String> {
    parse_size_in(
        text,
        REQUESTS_SIZE_MIN..=u64::MAX,
        "of at least 64MiB, such as 10GiB",
    )
}

/// The minimum holds a journal of some thousand files, and the segments that it is sealed to.
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

/// The settings without any flags.
pub fn default_settings() -> Settings {
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        args: Args,
    }
    Defaults::parse_from(["record"]).args.settings()
}

impl Args {
    /// The levels to record, if they are named or follow from other flags.
    pub fn levels(&self) -> Option<Levels> {
        match (&self.levels[..], self.wait) {
            ([], true) => Some(Levels::WIRE),
            ([], false) => None,
            (named, _) => Some(named.iter().copied().collect()),
        }
    }

    /// The memory limit of the recorder, if there is one.
    pub fn memory(&self) -> Option<Memory> {
        Memory::of_process(self.max_memory)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            granularity: self.granularity.finest(),
            ring_memory: self.ring_memory,
            call_ring_bytes: CALL_RING_BYTES,
            map_share: 1,
            max_overhead_ppm: self.max_overhead.0,
            latency_parts: !self.no_latency_parts,
            connections: !self.no_connections,
            filter: self.filter.clone().into(),
            tenant_rules: None,
            requests: self.requests,
            functions: self.user.clone(),
        }
    }

    /// The name of this host in the store.
    pub fn host(&self) -> String {
        self.host.clone().unwrap_or_else(host_name)
    }

    pub fn store_options(&self, filter: &Filter) -> Options {
        let finest = self.granularity.finest();
        Options {
            host: self.host(),
            granularities: self.granularity.clone(),
            rotate: self
                .rotate
                .unwrap_or_else(|| rotation(ROTATE_MINUTES, finest)),
            filter: (!filter.is_empty()).then(|| filter.to_string()),
            source: None,
            allow_nfs_store: self.allow_nfs_store,
            most_files: Options::MOST_FILES,
            keep: self.retention_policy(),
        }
    }

    pub fn retention_policy(&self) -> RetentionPolicy {
        RetentionPolicy {
            retention: self.retain.clone(),
            most_bytes: self.store_size,
            gaps_age: self.retain_by_clock,
            ..RetentionPolicy::default()
        }
    }
}

/// `minutes`, or the next larger number of minutes that holds whole windows.
pub fn rotation(minutes: i64, finest: Granularity) -> Granularity {
    (1..=i64::from(u16::MAX))
        .filter_map(|n| Granularity::from_ms(n * finest.ms()).ok())
        .find(|rotate| rotate.ms() >= minutes * 60 * 1000)
        .unwrap_or(finest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rotation_holds_whole_windows() {
        let default = |finest: &str| rotation(ROTATE_MINUTES, finest.parse().unwrap()).to_string();
        assert_eq!(
            ["100ms", "1s", "1m", "10m", "1h", "1d"].map(default),
            ["15m", "15m", "15m", "20m", "1h", "1d"]
        );
    }

    #[test]
    fn a_filter_has_no_path_that_depends_on_the_current_directory() {
        let here = std::env::current_dir().unwrap();
        let filter = Filter::from(FilterArgs {
            mounts: ["a/../b", "nas:/e"].map(str::to_owned).into(),
            directories: vec!["./c".into(), "/mnt/d/../e".into()],
            files: vec!["f".into()],
            pids: Vec::new(),
            uids: Vec::new(),
            cgroups: Vec::new(),
            operations: Vec::new(),
        });
        let here = here.display();
        assert_eq!(
            filter.to_string(),
            format!("--mount {here}/b --mount nas:/e --dir {here}/c --dir /mnt/e --file {here}/f")
        );
    }

    #[test]
    fn a_host_has_a_name_of_some_length() {
        assert_eq!(parse_host("node-7"), Ok("node-7".to_owned()));
        for text in [String::new(), "n".repeat(254)] {
            assert!(parse_host(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn ring_memory_is_a_size_within_bounds() {
        assert_eq!(parse_ring_memory("16MiB"), Ok(16 << 20));
        assert_eq!(parse_ring_memory("65536"), Ok(65_536));
        assert_eq!(parse_ring_memory("512M"), Ok(512 << 20));
        for text in ["", "MiB", "1KiB", "1GiB", "-1", "99999999999999999999G"] {
            assert!(parse_ring_memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage() {
        for (text, ppm) in [
            ("3%", 30_000),
            ("0.5%", 5000),
            ("100 %", 1_000_000),
            ("0.01%", 100),
        ] {
            assert_eq!(parse_share(text), Ok(Share(ppm)), "{text}");
        }
        for text in ["", "3", "%", "0%", "0.001%", "101%", "-1%", "NaN%", "inf%"] {
            assert!(parse_share(text).is_err(), "{text}");
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
