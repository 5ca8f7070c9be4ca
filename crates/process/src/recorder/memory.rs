//! The memory limit of a recording, and its consequences: the sizes of rings, and the number of followed files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_collector::Settings;
use trackiops_store::{Options, WAITING_BYTES, WAITING_REQUESTS};

/// With less memory, single requests are left out: waiting, writing and sealing takes some 30 MiB.
const LEAST_FOR_REQUESTS: u64 = 96 << 20;
/// Files that can always be followed.
const LEAST_FILES: usize = 128;
/// Most memory of a followed file: in the recorder, in the journal, and during sealing. `docs/internals/collector.md` has the measurements.
const FILE_BYTES: u64 = 3 << 10;
/// Further memory for sealing: buffers of Parquet, and files that are merged.
const SEALING_BYTES: u64 = 24 << 20;
/// Each kind of ring may take one part in this many of the memory.
const RINGS_SHARE: u64 = 16;
/// Single requests on their way to the disk may take one part in this many of the memory.
const WAITING_SHARE: u64 = 16;
/// One part in this many of a cgroup's limit is reserved for the store's page cache and for other processes.
const RESERVE_SHARE: u64 = 8;
/// With little memory, BPF maps have one part in this many of their usual entries. While a program is loaded, Linux 6.18 also charges the
/// verifier's memory to the cgroup, up to 40 MiB.
const MAP_SHARE: u32 = 8;
/// Larger limits mean no limit: the kernel shows an unlimited cgroup (v1) as nearly 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// The memory that a recording may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    bytes: u64,
    /// Whether the limit comes from the cgroup instead of a flag.
    is_of_cgroup: bool,
}

impl Memory {
    /// The limit from `--max-memory`, or else the limit of this process's cgroup less a reserve; `None` without a limit.
    pub fn of_process(asked: Option<u64>) -> Option<Self> {
        let own = || {
            let bytes = limit_of_cgroups(Path::new("/"))?;
            Some(Self {
                bytes: bytes - bytes / RESERVE_SHARE,
                is_of_cgroup: true,
            })
        };
        let asked = asked.map(|bytes| Self {
            bytes,
            is_of_cgroup: false,
        });
        asked.or_else(own)
    }

    fn is_little(self) -> bool {
        self.bytes < LEAST_FOR_REQUESTS
    }

    /// Why single requests are left out; `None` if they are kept.
    pub fn leaves_requests_out(self) -> Option<String> {
        self.is_little().then(|| {
            format!(
                "{} {} MiB: requests and calls are not kept one by one, which takes {} MiB; their sums are recorded",
                self.who(),
                self.bytes >> 20,
                LEAST_FOR_REQUESTS >> 20
            )
        })
    }

    fn who(self) -> &'static str {
        match self.is_of_cgroup {
            true => "the cgroup's limit allows",
            false => "--max-memory allows",
        }
    }

    /// Reduces the sizes of rings to fit.
    pub fn fit(self, settings: &mut Settings) {
        let most = (self.bytes / RINGS_SHARE).max(1);
        settings.ring_memory = settings.ring_memory.min(most).max(64 << 10);
        let most = u32::try_from(1 << most.ilog2()).unwrap_or(u32::MAX);
        settings.call_ring_bytes = settings.call_ring_bytes.min(most).max(64 << 10);
        if self.is_little() {
            settings.map_share = MAP_SHARE;
        }
    }

    /// Reduces the journals' number of files to fit: journals keep their files in memory until sealed.
    pub fn fit_journals(self, options: &mut Options) {
        let files = usize::try_from(self.bytes / 4 / FILE_BYTES).unwrap_or(usize::MAX);
        options.most_files = options.most_files.min(files).max(LEAST_FILES);
    }

    /// Single requests that may wait for the disk; 0 drops all of them.
    pub fn waiting_requests(self) -> u64 {
        match self.is_little() {
            true => 0,
            false => WAITING_REQUESTS.min(self.bytes / WAITING_SHARE / WAITING_BYTES),
        }
    }

    /// Files that can be followed once a recording has begun and has taken `taken` bytes.
    pub fn files(self, taken: u64) -> usize {
        let left = self.bytes.saturating_sub(taken + SEALING_BYTES);
        usize::try_from(left / FILE_BYTES)
            .unwrap_or(usize::MAX)
            .max(LEAST_FILES)
    }

    /// Why no more than `files` files can be followed.
    pub fn why(self, files: usize) -> String {
        format!(
            "{} {} MiB: at most {files} files are followed at a time, others are counted as (other) of their mount",
            self.who(),
            self.bytes >> 20
        )
    }
}

/// Memory that this process uses now, including its maps in the kernel.
pub fn taken() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let anonymous = status.lines().find_map(|line| {
        let kib = line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?;
        kib.parse::<u64>().ok()
    });
    Ok(anonymous.unwrap_or_default() * 1024 + maps_of_process()?)
}

/// Bytes of the BPF maps that this process has open.
fn maps_of_process() -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        // A descriptor may be closed in the meantime.
        let Ok(info) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        if info.lines().any(|line| line.starts_with("map_id:")) {
            let charged = info.lines().find_map(|line| line.strip_prefix("memlock:"));
            bytes += charged
                .and_then(|n| n.trim().parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(bytes)
}

/// The smallest limit of this process's cgroup and its ancestors.
fn limit_of_cgroups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
        let (below, file) = match controllers {
            Some("") => ("sys/fs/cgroup", "memory.max"),
            Some(named) if named.split(',').any(|one| one == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let path = path.unwrap_or_default().trim_start_matches('/');
        let own = root.join(below).join(path);
        let groups: Vec<PathBuf> = own.ancestors().map(Path::to_owned).collect();
        let depth = path.split('/').filter(|name| !name.is_empty()).count() + 1;
        groups
            .into_iter()
            .take(depth)
            .map(|group| group.join(file))
            .collect()
    });
    let read = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    limits
        .filter_map(read)
        .filter(|limit| *limit < NO_LIMIT)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_collector::Filter;
    use trackiops_schemas::time::Granularity;

    fn limit(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let own = [("proc/self/cgroup", groups)];
        let files = files.iter().chain(&own);
        for (path, text) in files.map(|(path, text)| (root.path().join(path), text)) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        limit_of_cgroups(root.path())
    }

    #[test]
    fn the_least_limit_above_counts() {
        let own = "0::/a.slice/b.service\n";
        let max = |group: &'static str| match group {
            "" => "sys/fs/cgroup/memory.max",
            "a" => "sys/fs/cgroup/a.slice/memory.max",
            _ => "sys/fs/cgroup/a.slice/b.service/memory.max",
        };
        assert_eq!(limit(own, &[]), None);
        assert_eq!(limit(own, &[(max("a"), "max\n")]), None);
        let both = [(max("a"), "1000\n"), (max("b"), "2000\n")];
        assert_eq!(limit(own, &both), Some(1000));
        assert_eq!(limit("0::/\n", &[(max(""), "77\n")]), Some(77));
        let first = "4:memory:/x\n0::/\n";
        let old = [("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500\n")];
        assert_eq!(limit(first, &old), Some(500));
        let none = [(old[0].0, "9223372036854771712\n")];
        assert_eq!(limit(first, &none), None);
    }

    #[test]
    fn rings_and_files_fit() {
        let memory = Memory {
            bytes: 64 << 20,
            is_of_cgroup: false,
        };
        let mut settings = Settings {
            granularity: Granularity::from_ms(1000).unwrap(),
            ring_memory: 32 << 20,
            call_ring_bytes: 16 << 20,
            map_share: 1,
            max_overhead_ppm: 30_000,
            latency_parts: true,
            connections: true,
            filter: Filter::default(),
            tenant_rules: None,
            requests: false,
            functions: Vec::new(),
        };
        memory.fit(&mut settings);
        assert_eq!(
            (
                settings.ring_memory,
                settings.call_ring_bytes,
                settings.map_share
            ),
            (4 << 20, 4 << 20, MAP_SHARE)
        );
        assert_eq!(memory.files(28 << 20), 4096);
        assert_eq!(memory.files(90 << 20), LEAST_FILES);
    }

    #[test]
    fn single_requests_are_left_out_of_little_memory() {
        let memory = |mib: u64| Memory {
            bytes: mib << 20,
            is_of_cgroup: true,
        };
        assert_eq!(memory(95).waiting_requests(), 0);
        assert!(memory(95).leaves_requests_out().is_some());
        assert_eq!(memory(96).waiting_requests(), 71_493);
        assert_eq!(memory(96).leaves_requests_out(), None);
    }
}
