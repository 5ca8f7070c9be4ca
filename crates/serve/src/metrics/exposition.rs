//! The values of all metrics at a moment.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::{CONNECTION, OperationRow, OperationSums};
use trackiops_schemas::row::{Direction, Health, Row};
use trackiops_schemas::shed::Detail;
use trackiops_schemas::tcp::TcpSums;
use trackiops_store::live::{MOST_CONNECTIONS, MOST_MOUNTS, MOST_OPERATIONS, MOST_TENANTS, Status};

use crate::metrics::catalogue::{self as is, Family};
use crate::metrics::last_totals::Recording;
use crate::metrics::top_files::{FileSums, MOST_TOP_FILES};

/// Most series of an exposition in the text formats.
pub const MOST_SERIES: usize = 5500;
/// Most series for mounts that are mounted, and for servers that do not answer.
const MOST_MOUNTED: usize = 64;
const MOST_STALLED: usize = 16;
/// Longest value of a label, bytes. A longer value loses its beginning and gets a hash.
const LABEL_BYTES: usize = 120;

/// Bounds of classic buckets: an exponent of two in microseconds, and seconds as Prometheus writes them.
pub const CLASSIC_BOUNDS: [(i32, &str, f64); 16] = [
    (6, "6.4e-05", 0.000_064),
    (7, "0.000128", 0.000_128),
    (8, "0.000256", 0.000_256),
    (9, "0.000512", 0.000_512),
    (10, "0.001024", 0.001_024),
    (11, "0.002048", 0.002_048),
    (12, "0.004096", 0.004_096),
    (13, "0.008192", 0.008_192),
    (14, "0.016384", 0.016_384),
    (15, "0.032768", 0.032_768),
    (16, "0.065536", 0.065_536),
    (17, "0.131072", 0.131_072),
    (18, "0.262144", 0.262_144),
    (20, "1.048576", 1.048_576),
    (22, "4.194304", 4.194_304),
    (25, "33.554432", 33.554_432),
];

/// Series of a histogram in the text formats: buckets, the bucket without a bound, sum and count.
const OF_HISTOGRAM: usize = CLASSIC_BOUNDS.len() + 3;
/// Series of a mount in one direction, and of one of its operations.
const OF_DIRECTION: usize = 9 + OF_HISTOGRAM;
const OF_OPERATION: usize = 4;
/// Series of a connection.
const OF_CONNECTION: usize = 8;
/// Series of a tenant in one direction.
const OF_TENANT: usize = 4;
/// Series of a file in one direction.
const OF_FILE: usize = 2;

// All sums of the recorder fit, including the sums of other mounts, operations and files.
const _: () = assert!(
    2 * OF_DIRECTION * (MOST_MOUNTS + 1)
        + OF_OPERATION * (MOST_OPERATIONS + 1)
        + OF_CONNECTION * (MOST_CONNECTIONS + 1)
        + 2 * OF_TENANT * (MOST_TENANTS + 1)
        + 2 * OF_FILE * (MOST_TOP_FILES + 1)
        + MOST_MOUNTED
        + 2 * MOST_STALLED
        + Detail::ALL.len()
        + is::FAMILIES.len()
        <= MOST_SERIES
);

/// Metrics with their samples.
#[derive(Debug, Default)]
pub struct Exposition<'r> {
    /// In the order of [`is::FAMILIES`], without families that have no sample.
    pub families: Vec<(&'static Family, Vec<Sample<'r>>)>,
    /// When the recording began, ns since 1970.
    pub begin_ns: u64,
}

/// A sample.
#[derive(Debug)]
pub struct Sample<'r> {
    /// In the order of the family's labels.
    pub labels: Vec<Cow<'r, str>>,
    pub value: Value<'r>,
}

/// The value of a sample.
#[derive(Clone, Debug)]
pub enum Value<'r> {
    Count(u64),
    Number(f64),
    Latencies {
        buckets: Cow<'r, Histogram>,
        /// The sum over all timed requests, including those outside every bucket.
        sum_seconds: f64,
    },
}

impl Value<'_> {
    /// Adds another value of the same family.
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(sum), Self::Count(more)) => *sum = sum.saturating_add(more),
            (Self::Number(sum), Self::Number(more)) => *sum += more,
            (
                Self::Latencies {
                    buckets,
                    sum_seconds,
                },
                Self::Latencies {
                    buckets: more,
                    sum_seconds: seconds,
                },
            ) => {
                buckets.to_mut().merge(&more);
                *sum_seconds += seconds;
            }
            // All values of a family have the same kind.
            _ => {}
        }
    }
}

/// Metrics about the process that serves them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnCounts {
    /// Pushes and failures, if it pushes.
    pub pushes: Option<(u64, u64)>,
}

impl<'r> Exposition<'r> {
    /// The values that are known now: few without a recorder. `files` has no entries without separate series of files.
    pub fn new(recording: Option<&'r Recording>, files: &'r [FileSums], own: OwnCounts) -> Self {
        let mut to = Self::default();
        to.one(&is::RECORDER_UP, count(recording.is_some().into()));
        to.put(
            &is::BUILD,
            [(vec![env!("CARGO_PKG_VERSION").into()], count(1))],
        );
        if let Some(recording) = recording {
            to.begin_ns = recording.recorder.started_ms.max(0).cast_unsigned() * 1_000_000;
            to.recording(recording);
            to.files(files);
        }
        if let Some((pushes, failures)) = own.pushes {
            to.one(&is::PUSHES, count(pushes));
            to.one(&is::PUSH_FAILURES, count(failures));
        }
        let place = |family: &Family| is::FAMILIES.iter().position(|of| of.name == family.name);
        to.families.sort_by_key(|(family, _)| place(family));
        to
    }

    fn recording(&mut self, recording: &'r Recording) {
        let Recording {
            recorder,
            status,
            mounts,
            totals,
        } = recording;
        let labels = [&recorder.version, &recorder.kernel, &recorder.engine];
        let labels = labels.map(|label| bounded(label)).to_vec();
        self.put(&is::RECORDER, [(labels, count(1))]);
        let begin = Value::Number(recorder.started_ms as f64 / 1000.0);
        self.one(&is::START_TIME, begin);
        self.directions(recording);
        self.tenants(recording);
        self.operations(recording);
        self.connections(recording);
        let (mounted, more_mounted) = mounted(mounts);
        self.put(
            &is::MOUNT,
            mounted.into_iter().map(|labels| (labels, count(1))),
        );
        let more_stalled = self.stalls(status);
        self.one(
            &is::LEFT_OUT,
            count((more_mounted + 2 * more_stalled) as u64),
        );
        self.health(&totals.health);
        self.status(status, recorder.store_size);
    }

    fn directions(&mut self, recording: &'r Recording) {
        type Get = fn(&Direction) -> Value<'_>;
        let families: [(&'static Family, Get); 10] = [
            (&is::REQUESTS, |of| count(of.requests)),
            (&is::TRANSFERRED, |of| count(of.bytes)),
            (&is::ERRORS, |of| count(of.errors)),
            (&is::RETRANSMISSIONS, |of| count(of.retrans)),
            (&is::UNTIMED, |of| count(of.untimed)),
            (&is::FOLDED, |of| count(of.folded)),
            (&is::LATENCY, |of| Value::Latencies {
                buckets: Cow::Borrowed(&of.latency),
                sum_seconds: of.latency_ns_sum as f64 / 1e9,
            }),
            (&is::QUEUE, |of| seconds(of.queue_ns_sum)),
            (&is::NETWORK, |of| seconds(of.rtt_ns_sum)),
            (&is::COMPLETION, |of| {
                let parts = of.queue_ns_sum.saturating_add(of.rtt_ns_sum);
                seconds(of.latency_ns_sum.saturating_sub(parts))
            }),
        ];
        let mounts = recording.totals.rows.iter();
        let mounts = mounts.filter(|row| row.file.tenant.name.is_none());
        for (family, value) in families {
            let mounts = mounts.clone().take(MOST_MOUNTS + 1);
            let samples = mounts.flat_map(|row| {
                let mount = mount_label(row.file.mount.as_deref());
                by_direction(mount, &row.row, value)
            });
            self.put(family, samples);
        }
    }

    fn tenants(&mut self, recording: &'r Recording) {
        type Get = fn(&Direction) -> Value<'_>;
        let families: [(&'static Family, Get); OF_TENANT] = [
            (&is::TENANT_REQUESTS, |of| count(of.requests)),
            (&is::TENANT_BYTES, |of| count(of.bytes)),
            (&is::TENANT_ERRORS, |of| count(of.errors)),
            (&is::TENANT_TIME, |of| seconds(of.latency_ns_sum)),
        ];
        let rows = recording.totals.rows.iter();
        let tenants = rows.filter_map(|row| Some((row.file.tenant.name.as_deref()?, &row.row)));
        for (family, value) in families {
            let tenants = tenants.clone().take(MOST_TENANTS + 1);
            let samples = tenants.flat_map(|(name, row)| by_direction(bounded(name), row, value));
            self.put(family, samples);
        }
    }

    fn operations(&mut self, recording: &'r Recording) {
        type Get = fn(&OperationSums) -> Value<'_>;
        let families: [(&'static Family, Get); OF_OPERATION] = [
            (&is::OPERATIONS, |of| count(of.requests)),
            (&is::OPERATION_ERRORS, |of| count(of.errors)),
            (&is::OPERATION_TIME, |of| seconds(of.execute_ns_sum)),
            (&is::OPERATION_NETWORK, |of| seconds(of.rtt_ns_sum)),
        ];
        let is_operation = |row: &&OperationRow| row.operation.op != CONNECTION;
        for (family, value) in families {
            let operations = recording.totals.ops.iter().filter(is_operation);
            let operations = operations.take(MOST_OPERATIONS + 1);
            let samples = operations.map(|row| {
                let mount = mount_label(row.operation.mount.as_deref());
                (vec![mount, bounded(&row.operation.op)], value(&row.sums))
            });
            self.put(family, samples);
        }
    }

    fn connections(&mut self, recording: &'r Recording) {
        type Get = fn(&TcpSums) -> Option<Value<'_>>;
        let families: [(&'static Family, Get); OF_CONNECTION] = [
            (&is::TCP_READINGS, |of| Some(count(of.readings))),
            (&is::TCP_RTT, |of| Some(seconds(of.rtt_ns_sum))),
            // 0 if it is unknown.
            (&is::TCP_RTT_MIN, |of| {
                (of.rtt_ns_min > 0).then(|| seconds(of.rtt_ns_min))
            }),
            (&is::TCP_SEGMENTS, |of| Some(count(of.segments))),
            (&is::TCP_RETRANSMITTED, |of| Some(count(of.retrans))),
            (&is::TCP_RECEIVER_LIMITED, |of| {
                Some(seconds(of.receiver_limited_ns))
            }),
            (&is::TCP_SEND_BUFFER_LIMITED, |of| {
                Some(seconds(of.send_buffer_limited_ns))
            }),
            (&is::TCP_RECONNECTS, |of| Some(count(of.reconnects))),
        ];
        let is_connection = |row: &&OperationRow| row.operation.op == CONNECTION;
        for (family, value) in families {
            let connections = recording.totals.ops.iter().filter(is_connection);
            let connections = connections.take(MOST_CONNECTIONS + 1);
            let samples = connections.filter_map(|row| {
                let name = row.operation.transport.as_deref().unwrap_or_default();
                Some((vec![bounded(name)], value(&row.sums.tcp)?))
            });
            self.put(family, samples);
        }
    }

    fn files(&mut self, files: &'r [FileSums]) {
        type Get = fn(&[u64; 4]) -> [u64; 2];
        let families: [(&'static Family, Get); OF_FILE] = [
            (&is::FILE_REQUESTS, |of| [of[0], of[2]]),
            (&is::FILE_BYTES, |of| [of[1], of[3]]),
        ];
        for (family, value) in families {
            let samples = files.iter().flat_map(|file| {
                let [read, write] = value(&file.sums);
                [("read", read), ("write", write)].map(|(direction, value)| {
                    let mount = mount_label(file.mount.as_deref());
                    let labels = vec![mount, bounded(&file.path), direction.into()];
                    (labels, count(value))
                })
            });
            self.put(family, samples);
        }
    }

    /// Returns the number of servers beyond the limit.
    fn stalls(&mut self, status: &'r Status) -> usize {
        let servers = status.stalled.iter().take(MOST_STALLED).map(|stalled| {
            let server = stalled.server.as_deref().unwrap_or("(unknown)");
            let mounts = stalled.mounts.join(",");
            let mounts = Cow::Owned(bounded(&mounts).into_owned());
            let labels: Vec<Cow<'r, str>> = vec![bounded(server), mounts];
            (labels, stalled)
        });
        let servers: BTreeMap<_, _> = servers.collect();
        let of = |value: fn(&trackiops_store::live::Stalled) -> Value<'static>| {
            servers
                .iter()
                .map(|(labels, stalled)| (labels.clone(), value(stalled)))
                .collect::<Vec<_>>()
        };
        let (times, requests) = (
            of(|stalled| Value::Number(stalled.age_ms as f64 / 1000.0)),
            of(|stalled| count(stalled.requests)),
        );
        self.put(&is::STALLED_TIME, times);
        self.put(&is::STALLED_REQUESTS, requests);
        status.stalled.len().saturating_sub(MOST_STALLED)
    }

    fn health(&mut self, health: &Health) {
        let counts = [
            (&is::SEEN, health.seen),
            (&is::RECORDED, health.recorded),
            (&is::BOOKS_FOLDED, health.folded),
            (&is::LOST, health.lost),
            (&is::MISSED, health.missed),
            (&is::OPERATIONS_SEEN, health.ops_seen),
            (&is::OPERATIONS_MISSED, health.ops_missed),
            (&is::CLOCK_STEPS, health.clock_steps),
            (&is::AUDIT_COMPARISONS, health.audit_comparisons),
            (&is::AUDIT_ALARMS, health.audit_alarms),
            (&is::AUDIT_MISSED, health.audit_missed_requests),
            (&is::AUDIT_MISSED_BYTES, health.audit_missed_bytes),
            (&is::STORE_FAILURES, health.store_failures),
            (&is::DROPPED, health.requests_dropped),
        ];
        for (family, value) in counts {
            self.one(family, count(value));
        }
        let covered = health.covered_ms as f64 / 1000.0;
        self.one(&is::COVERED, Value::Number(covered));
        let shed = Detail::ALL.map(|detail| {
            let seconds = detail.shed_ms(health) as f64 / 1000.0;
            (vec![detail.name().into()], Value::Number(seconds))
        });
        self.put(&is::SHED, shed);
    }

    fn status(&mut self, status: &Status, store_size: Option<u64>) {
        self.one(&is::ACTIVE_FILES, count(status.last.files));
        self.one(&is::WINDOWS, count(status.windows));
        self.one(&is::WAITING, count(status.waiting));
        let silence = status.silent_ms as f64 / 1000.0;
        self.one(&is::SILENCE, Value::Number(silence));
        let writable = status.store_error.is_none();
        self.one(&is::STORE_WRITABLE, count(writable.into()));
        if let Some(bytes) = status.store_bytes {
            self.one(&is::STORE_BYTES, count(bytes));
        }
        if let Some(bytes) = store_size {
            self.one(&is::STORE_LIMIT, count(bytes));
        }
        let own = &status.own;
        let room = own.kernel.ring_records.max(1) as f64;
        let used = own.kernel.ring_used_max as f64 / room;
        self.one(&is::RING_USED, Value::Number(used.min(1.0)));
        self.one(&is::CPU, Value::Number(own.cpu_ms as f64 / 1000.0));
        self.one(&is::MEMORY, count(own.rss_bytes));
        if let Some(ns) = own.kernel.run_ns {
            self.one(&is::BPF_TIME, seconds(ns));
        }
        let tracing = &own.kernel.tracing;
        let ratio = |ppm: u64| Value::Number(ppm as f64 / 1e6);
        self.one(&is::TRACING, ratio(tracing.ppm()));
        self.one(&is::CEILING, ratio(tracing.ceiling_ppm));
    }

    fn one(&mut self, family: &'static Family, value: Value<'r>) {
        self.put(family, [(Vec::new(), value)]);
    }

    /// Adds up samples with the same labels: Prometheus rejects a scrape that has two of them.
    fn put(
        &mut self,
        family: &'static Family,
        samples: impl IntoIterator<Item = (Vec<Cow<'r, str>>, Value<'r>)>,
    ) {
        let mut known: HashMap<Vec<Cow<'r, str>>, usize> = HashMap::new();
        let mut of_family: Vec<Sample<'r>> = Vec::new();
        for (labels, value) in samples {
            match known.get(&labels) {
                Some(place) => of_family[*place].value.add(value),
                None => {
                    known.insert(labels.clone(), of_family.len());
                    of_family.push(Sample { labels, value });
                }
            }
        }
        if !of_family.is_empty() {
            self.families.push((family, of_family));
        }
    }
}

fn count(value: u64) -> Value<'static> {
    Value::Count(value)
}

fn seconds(ns: u64) -> Value<'static> {
    Value::Number(ns as f64 / 1e9)
}

/// Samples for reads and for writes.
fn by_direction<'r>(
    label: Cow<'r, str>,
    row: &'r Row,
    value: fn(&Direction) -> Value<'_>,
) -> [(Vec<Cow<'r, str>>, Value<'r>); 2] {
    [("read", &row.read), ("write", &row.write)]
        .map(|(name, of)| (vec![label.clone(), name.into()], value(of)))
}

fn mount_label(mount: Option<&str>) -> Cow<'_, str> {
    mount.map_or(Cow::Borrowed("(unknown)"), bounded)
}

/// Labels of each mount, and the number of mounts beyond the limit. A mount with several mount points gets one of them.
fn mounted(mounts: &[MountPoint]) -> (Vec<Vec<Cow<'_, str>>>, usize) {
    let mut by_mount: BTreeMap<&str, &MountPoint> = BTreeMap::new();
    for point in mounts {
        let known = by_mount.entry(&point.mount).or_insert(point);
        let rank = |point: &MountPoint| {
            let no_volume = (point.volume.is_none(), point.claim.is_none());
            (
                no_volume,
                point.is_foreign,
                point.path.len(),
                point.path.clone(),
            )
        };
        if rank(point) < rank(known) {
            *known = point;
        }
    }
    let more = by_mount.len().saturating_sub(MOST_MOUNTED);
    let labels = by_mount
        .into_iter()
        .take(MOST_MOUNTED)
        .map(|(mount, point)| {
            // An IPv6 address contains colons, too.
            let source = &*point.source;
            let (server, export) = source.split_once(":/").unwrap_or((source, ""));
            let export = match source.len() > server.len() {
                true => &source[server.len() + 1..],
                false => export,
            };
            let version = point.version.as_deref().unwrap_or_default();
            let [volume, claim] =
                [&point.volume, &point.claim].map(|name| name.as_deref().unwrap_or_default());
            [mount, server, export, &point.path, version, volume, claim]
                .map(bounded)
                .to_vec()
        });
    (labels.collect(), more)
}

/// Shortens a label's value to the limit.
fn bounded(value: &str) -> Cow<'_, str> {
    if value.len() <= LABEL_BYTES {
        return Cow::Borrowed(value);
    }
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let hash = format!("#{:016x}", hasher.finish());
    let mut from = value.len() - (LABEL_BYTES - hash.len() - "…".len());
    while !value.is_char_boundary(from) {
        from += 1;
    }
    Cow::Owned(format!("…{}{hash}", &value[from..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_bounds_are_bounds_of_octaves() {
        for (octave, text, seconds) in CLASSIC_BOUNDS {
            assert_eq!(f64::from(octave).exp2() / 1e6, seconds);
            assert_eq!(text.parse(), Ok(seconds));
        }
    }

    #[test]
    fn a_family_has_one_sample_for_each_set_of_labels() {
        let latencies = |ns: &[u64]| {
            let mut buckets = Histogram::default();
            ns.iter().for_each(|ns| buckets.record(*ns));
            Value::Latencies {
                buckets: Cow::Owned(buckets),
                sum_seconds: ns.iter().sum::<u64>() as f64 / 1e9,
            }
        };
        let labels = |mount: &str| vec![Cow::Owned(mount.to_owned()), "read".into()];
        let mut to = Exposition::default();
        to.put(
            &is::LATENCY,
            [
                (labels("a"), latencies(&[1_000_000])),
                (labels("b"), latencies(&[7])),
                (labels("a"), latencies(&[1_000_000, 2_000_000])),
            ],
        );
        to.put(
            &is::REQUESTS,
            [(labels("a"), count(3)), (labels("a"), count(4))],
        );
        let [(_, latency), (_, requests)] = &to.families[..] else {
            panic!("{:?}", to.families)
        };
        assert_eq!((latency.len(), requests.len()), (2, 1));
        let Value::Latencies {
            buckets,
            sum_seconds,
        } = &latency[0].value
        else {
            panic!("{latency:?}")
        };
        assert_eq!((buckets.total(), *sum_seconds), (3, 0.004));
        assert!(matches!(requests[0].value, Value::Count(7)));
    }

    #[test]
    fn long_labels_stay_different_and_within_their_length() {
        let long = |end: &str| format!("{}{end}", "ä".repeat(500));
        let [a, b] = ["a", "b"].map(|begin| format!("{begin}{}", long("/x")));
        assert_ne!(bounded(&a), bounded(&b));
        assert!(bounded(&a).len() <= LABEL_BYTES && bounded(&a).contains("/x#"));
        assert_eq!(bounded("srv:/export"), "srv:/export");
    }
}
