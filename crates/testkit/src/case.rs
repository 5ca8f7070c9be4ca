//! Makes stores from the recordings in a test case.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::{FromStr, SplitWhitespace};
use std::sync::Arc;

use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::pending::Pending;
use trackiops_schemas::row::{AppCalls, ClosedWindow, Direction, FileRow, Health, Row};
use trackiops_schemas::shed::Detail;
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, Writer};

use crate::windows::{mount_point, stalled};

/// The current recording of a host.
struct Recording {
    host: String,
    granularities: String,
    rotate: String,
    start: UtcMs,
    store: String,
    mounts: Vec<MountPoint>,
    windows: BTreeMap<i64, Window>,
    /// Gaps of the recording, in seconds after the start.
    gaps: Vec<(i64, i64)>,
}

/// Names of a tenant's user, of its container and of the tenant itself, and its labels.
type Names = [Option<String>; 4];
/// A file's name, its tenant, and the tenant's names.
type Used = (String, Option<String>, Names);

#[derive(Default)]
struct Window {
    rows: BTreeMap<Used, Row>,
    ops: Vec<OperationRow>,
    lost: u64,
    shed: Vec<(Detail, u64)>,
    pending: Option<Pending>,
}

/// Makes the stores of the recordings in a text, in a directory. An error has the text of the line and the problem.
pub fn record(text: &str, dir: &Path) -> Result<(), String> {
    let mut recordings: Vec<Recording> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let wrong = |why: &str| format!("`{line}`: {why}");
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "recording" {
            recordings.push(
                Recording::parse(words)
                    .ok_or_else(|| wrong("recording HOST GRANULARITIES ROTATION START [STORE]"))?,
            );
            continue;
        }
        let recording = recordings.last_mut();
        let recording = recording.ok_or_else(|| wrong("a recording comes first"))?;
        let read = match first {
            "mount" => recording.mount(words),
            "gap" => recording.gap(words),
            second => recording.happened(second, words),
        };
        read.ok_or_else(|| wrong("see tests/cases/README.md"))?;
    }
    for recording in recordings {
        recording.write(dir);
    }
    Ok(())
}

impl Recording {
    fn parse(mut words: SplitWhitespace<'_>) -> Option<Self> {
        let mut next = || words.next().map(str::to_owned);
        let (host, granularities, rotate, start) = (next()?, next()?, next()?, next()?);
        let start = chrono::DateTime::parse_from_rfc3339(&start).ok()?;
        Some(Self {
            host: name(&host),
            granularities,
            rotate,
            start: UtcMs(start.timestamp_millis()),
            store: next().unwrap_or_else(|| "store".to_owned()),
            mounts: Vec::new(),
            windows: BTreeMap::new(),
            gaps: Vec::new(),
        })
    }

    /// `mount MAJOR:MINOR SERVER:/EXPORT PATH [volume=NAME] [claim=NAME]`
    fn mount(&mut self, mut words: SplitWhitespace<'_>) -> Option<()> {
        let dev = words.next()?.parse().ok()?;
        let (mount, path) = (name(words.next()?), name(words.next()?));
        self.mounts.push(mount_point(dev, &mount, &path));
        let mount = self.mounts.last_mut()?;
        for word in words {
            match word.split_once('=')? {
                ("volume", volume) => mount.volume = Some(volume.to_owned()),
                ("claim", claim) => mount.claim = Some(claim.to_owned()),
                _ => return None,
            }
        }
        Some(())
    }

    /// `gap FROM TO`, in seconds
    fn gap(&mut self, mut words: SplitWhitespace<'_>) -> Option<()> {
        let mut next = || words.next()?.parse().ok();
        self.gaps.push((next()?, next()?));
        Some(())
    }

    /// `SECOND OP ...`
    fn happened(&mut self, second: &str, mut words: SplitWhitespace<'_>) -> Option<()> {
        let second: i64 = second.parse().ok()?;
        let window = self.windows.entry(second).or_default();
        match words.next()? {
            "idle" => {}
            "lost" => window.lost = words.next()?.parse().ok()?,
            // A detail, and for how many ms it was shed.
            "shed" => {
                let detail = match words.next()? {
                    "single-calls" => Detail::SingleCalls,
                    "call-times" => Detail::CallTimes,
                    "calls" => Detail::Calls,
                    "cache" => Detail::PageCache,
                    "parts" => Detail::LatencyParts,
                    "file-ops" => Detail::FileOperations,
                    _ => return None,
                };
                window.shed.push((detail, words.next()?.parse().ok()?));
            }
            "stalled" => {
                let (server, mount) = (words.next()?, name(words.next()?));
                let requests = words.next()?.parse().ok()?;
                let age_ms = nanoseconds(words.next()?)? / 1_000_000;
                window.pending = Some(stalled(server, &mount, age_ms, requests));
            }
            // An operation of a mount.
            "op" => window.ops.push(operation(words)?),
            // A reading of a connection.
            "tcp" => window.ops.push(connection(words)?),
            what => {
                let path = name(words.next()?);
                let requests = Requests::parse(words)?;
                let row = window
                    .rows
                    .entry((path, requests.tenant.clone(), requests.names.clone()))
                    .or_default();
                match what {
                    "read" => requests.add(&mut row.read),
                    "write" => requests.add(&mut row.write),
                    "called-read" => row.app_read = requests.calls(),
                    "called-write" => row.app_write = requests.calls(),
                    "cached" => row.cache.added += requests.count * requests.bytes,
                    "dirtied" => row.cache.dirtied += requests.count * requests.bytes,
                    "evicted" => row.cache.evicted += requests.count * requests.bytes,
                    other => row.ops.add(&FileOp {
                        op: OpName::new(other),
                        requests: requests.count,
                        execute_ns_sum: requests.latencies().sum(),
                        execute_ns_max: requests.latencies().max().unwrap_or(0),
                        execute: match other.chars().all(char::is_lowercase) {
                            true => requests.histogram(),
                            false => Histogram::default(),
                        },
                        ..FileOp::default()
                    }),
                }
            }
        }
        Some(())
    }

    fn file(&self, path: &str, tenant: Tenant, fileid: u64) -> Arc<FileAttributes> {
        let mount = self.mounts.iter().find(|mount| {
            let rest = path.strip_prefix(mount.path.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        let mount = mount.or(self.mounts.first());
        let id = FileId {
            dev: mount.map_or(Dev(49), |mount| mount.dev),
            fileid,
            handle_hash: 1,
        };
        let mount = mount.map(|mount| mount.mount.clone());
        let is_local = mount.as_deref().is_some_and(|mount| !mount.contains(':'));
        Arc::new(FileAttributes {
            key: FileKey::new(mount.as_deref(), id),
            id,
            mount,
            path: (path != "-").then(|| path.to_owned()),
            path_inferred: false,
            tenant: tenant.into(),
            level: if is_local {
                IoLevel::Block
            } else {
                IoLevel::Wire
            },
        })
    }

    fn write(mut self, dir: &Path) {
        let options = Options {
            host: self.host.clone(),
            granularities: self.granularities.parse().expect("granularities"),
            rotate: self.rotate.parse().expect("a rotation"),
            filter: None,
            source: None,
            allow_nfs_store: true,
            most_files: Options::MOST_FILES,
            keep: Default::default(),
        };
        let mut writer = Writer::open(dir.join(&self.store), options).expect("a store");
        if !self.mounts.is_empty() {
            writer.mounted(self.start, &self.mounts).expect("mounts");
        }
        let last = self.windows.keys().next_back().copied().unwrap_or(0);
        let with_ops = self.windows.values().any(|window| !window.ops.is_empty());
        let mut all = self.windows.values().flat_map(|window| &window.rows);
        let with_block = all.any(|((path, ..), row)| {
            let level = || self.file(path, Tenant::default(), 0).level;
            row.is_transfer() && level() == IoLevel::Block
        });
        let rows = self
            .windows
            .values()
            .flat_map(|window| window.rows.values());
        let with_calls = rows
            .map(|row| row.app_read.calls + row.app_write.calls)
            .any(|calls| calls > 0);
        let mut windows = std::mem::take(&mut self.windows);
        // Files are numbered in the order of their names.
        let all = windows.values().flat_map(|window| window.rows.keys());
        let mut paths: Vec<String> = all.map(|(path, ..)| path.clone()).collect();
        paths.sort();
        paths.dedup();
        for second in 0..=last {
            if self
                .gaps
                .iter()
                .any(|(from, to)| (*from..*to).contains(&second))
            {
                continue;
            }
            let Window {
                rows,
                ops,
                lost,
                shed,
                pending,
            } = windows.remove(&second).unwrap_or_default();
            let row = |((path, tenant, [user, container, name, labels]), row): (Used, Row)| {
                let tenant = tenant.map_or_else(Tenant::default, |packed| Tenant {
                    user: user.map(Into::into),
                    container: container.map(Into::into),
                    name: name.map(Into::into),
                    labels: labels.map(Into::into),
                    ..packed.parse().expect("a tenant")
                });
                let fileid = paths.iter().position(|known| *known == path).unwrap_or(0) as u64 + 1;
                let file = self.file(&path, tenant, fileid);
                FileRow { file, row }
            };
            let mut rows: Vec<_> = rows.into_iter().map(row).collect();
            rows.sort_by_key(|row| row.file.key);
            let sum = |of: fn(&Direction) -> u64| -> u64 {
                rows.iter()
                    .map(|row| of(&row.row.read) + of(&row.row.write))
                    .sum()
            };
            let (seen, folded) = (sum(|d| d.requests), sum(|d| d.folded));
            let mut health = Health {
                covered_ms: 1000,
                seen: seen + lost,
                recorded: seen - folded,
                folded,
                lost,
                ops_covered_ms: if with_ops { 1000 } else { 0 },
                app_covered_ms: if with_calls { 1000 } else { 0 },
                block_covered_ms: if with_block { 1000 } else { 0 },
                pending,
                ops_seen: ops.iter().map(|op| op.sums.requests).sum(),
                ..Health::default()
            };
            for (detail, ms) in shed {
                *detail.shed_ms_mut(&mut health) = ms;
            }
            health.app_covered_ms = health.app_covered_ms.saturating_sub(health.shed_calls_ms);
            let window = ClosedWindow {
                start: UtcMs(self.start.0 + 1000 * second),
                rows,
                ops,
                health,
            };
            writer.append(&window).expect("it is written");
        }
        writer.finish().expect("it is sealed");
    }
}

/// A name, in which symbols replace line ends.
fn name(word: &str) -> String {
    word.replace('␤', "\n")
}

/// `NAME MOUNT|- TRANSPORT COUNT LATENCY`
fn operation(mut words: SplitWhitespace<'_>) -> Option<OperationRow> {
    let operation = Operation {
        op: words.next()?.to_owned(),
        mount: words.next().filter(|mount| *mount != "-").map(name),
        transport: Some(words.next()?.to_owned()),
    };
    let requests = Requests::parse(words)?;
    let mut sums = OperationSums {
        requests: requests.count,
        errors: requests.errors,
        sent_bytes: 100 * requests.count,
        received_bytes: 200 * requests.count,
        ..OperationSums::default()
    };
    for ns in requests.latencies() {
        sums.execute_ns_sum += ns;
        sums.execute_ns_max = sums.execute_ns_max.max(ns);
        sums.execute.record(ns);
    }
    sums.queue_ns_sum = requests.queue_ns * requests.count;
    sums.rtt_ns_sum = requests.rtt_ns * requests.count;
    sums.network_ns_sum = requests.network_ns * requests.count;
    sums.server_ns_sum = requests.server_ns * requests.count;
    Some(OperationRow { operation, sums })
}

/// `TRANSPORT RTT LEAST-RTT SEGMENTS RETRANSMITTED`
fn connection(mut words: SplitWhitespace<'_>) -> Option<OperationRow> {
    let operation = Operation::connection(words.next()?.to_owned());
    let (rtt_ns, rtt_ns_min) = (nanoseconds(words.next()?)?, nanoseconds(words.next()?)?);
    let tcp = TcpSums {
        readings: 1,
        rtt_ns_sum: rtt_ns,
        rtt_ns_max: rtt_ns,
        rtt_ns_min,
        segments: number(words.next()?)?,
        retrans: number(words.next()?)?,
        ..TcpSums::default()
    };
    let sums = OperationSums {
        tcp,
        ..OperationSums::default()
    };
    Some(OperationRow { operation, sums })
}

/// `COUNT [xBYTES] LATENCY[..LATENCY] [queue=T] [rtt=T] [network=T] [server=T] [errors=N] [retrans=N] [folded=N] [untimed=N] [direct=N] [timed=N]
/// [tenant=UID:CGROUP] [user=NAME] [container=NAMES] [name=NAME] [labels=JSON]`
#[derive(Default)]
struct Requests {
    count: u64,
    bytes: u64,
    latency_ns: (u64, u64),
    queue_ns: u64,
    rtt_ns: u64,
    /// Parts of it.
    network_ns: u64,
    server_ns: u64,
    errors: u64,
    retrans: u64,
    folded: u64,
    untimed: u64,
    /// Of calls: how many are direct, and how many are timed.
    direct: u64,
    timed: u64,
    tenant: Option<String>,
    /// Names of the user, the container and the tenant, and its labels.
    names: Names,
}

impl Requests {
    /// Calls of an application. `direct` of them use O_DIRECT, the others the page cache. `timed` of them have a known
    /// time.
    fn calls(&self) -> AppCalls {
        let mut calls = AppCalls {
            calls: self.count,
            errors: self.errors,
            bytes: (self.count - self.direct) * self.bytes,
            direct_calls: self.direct,
            direct_bytes: self.direct * self.bytes,
            timed: self.timed,
            ..AppCalls::default()
        };
        for ns in self.latencies().take(self.timed as usize) {
            calls.latency_ns_sum += ns;
            calls.latency_ns_max = calls.latency_ns_max.max(ns);
            calls.latency.record(ns);
        }
        calls
    }

    fn parse(words: SplitWhitespace<'_>) -> Option<Self> {
        let mut requests = Self::default();
        for (i, word) in words.enumerate() {
            if i == 0 {
                requests.count = word.parse().ok()?;
            } else if let Some(bytes) = word.strip_prefix('x') {
                requests.bytes = bytes.parse().ok()?;
            } else if let Some((name, value)) = word.split_once('=') {
                match name {
                    "queue" => requests.queue_ns = nanoseconds(value)?,
                    "rtt" => requests.rtt_ns = nanoseconds(value)?,
                    "network" => requests.network_ns = nanoseconds(value)?,
                    "server" => requests.server_ns = nanoseconds(value)?,
                    "errors" => requests.errors = number(value)?,
                    "retrans" => requests.retrans = number(value)?,
                    "folded" => requests.folded = number(value)?,
                    "untimed" => requests.untimed = number(value)?,
                    "direct" => requests.direct = number(value)?,
                    "timed" => requests.timed = number(value)?,
                    "tenant" => requests.tenant = Some(value.to_owned()),
                    "user" => requests.names[0] = Some(value.to_owned()),
                    "container" => requests.names[1] = Some(value.to_owned()),
                    "name" => requests.names[2] = Some(value.to_owned()),
                    "labels" => requests.names[3] = Some(value.to_owned()),
                    _ => return None,
                }
            } else {
                let (least, most) = word.split_once("..").unwrap_or((word, word));
                requests.latency_ns = (nanoseconds(least)?, nanoseconds(most)?);
            }
        }
        Some(requests)
    }

    /// The latency of each timed request, evenly distributed from the least to the largest.
    fn latencies(&self) -> impl Iterator<Item = u64> {
        let (least, most) = self.latency_ns;
        let timed = self.count - self.untimed;
        let steps = timed.saturating_sub(1).max(1);
        (0..timed).map(move |i| least + (most - least) * i / steps)
    }

    fn histogram(&self) -> Histogram {
        let mut all = Histogram::default();
        self.latencies().for_each(|ns| all.record(ns));
        all
    }

    fn add(&self, direction: &mut Direction) {
        direction.requests += self.count;
        direction.bytes += self.count * self.bytes;
        direction.errors += self.errors;
        if self.errors > 0 {
            direction.errnos.add(5, self.errors);
        }
        direction.retrans += self.retrans;
        direction.folded += self.folded;
        direction.untimed += self.untimed;
        let timed = self.count - self.untimed;
        direction.queue_ns_sum += self.queue_ns * timed;
        direction.rtt_ns_sum += self.rtt_ns * timed;
        direction.network_ns_sum += self.network_ns * timed;
        direction.server_ns_sum += self.server_ns * timed;
        if self.rtt_ns == 0 {
            direction.unsplit += timed;
        }
        for (i, ns) in self.latencies().enumerate() {
            direction.latency_ns_sum += ns;
            direction.latency_ns_max = direction.latency_ns_max.max(ns);
            if i as u64 >= self.folded {
                direction.latency.record(ns);
            }
        }
    }
}

fn number(text: &str) -> Option<u64> {
    u64::from_str(text).ok()
}

/// `450us`, `20ms`, `2s`
fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let scale = match &text[digits..] {
        "us" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    Some(number(&text[..digits])? * scale)
}
