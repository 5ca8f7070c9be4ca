//! The rollup row: a mergeable partial aggregate. Two rows of the same file and window add up. So late records,
//! restarts, coarser steps and several hosts all reduce to adding rows.
//!
//! To add a counter of files or of the recorder's health, add it to a `counters!` table here.

use std::sync::Arc;

use crate::captured::Captured;
use crate::counter_macro::counters;
use crate::errnos::Errnos;
use crate::file_ops::{FileOp, FileOps, OpName};
use crate::histogram::Histogram;
use crate::identity::FileAttributes;
use crate::ops::OperationRow;
use crate::pending::Pending;
use crate::time::UtcMs;

counters! {
    /// The requests of one direction.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Direction {
        /// Completed requests, failed ones included.
        requests: "requests", Count, sum;
        /// Bytes transferred.
        bytes: "bytes", Bytes, sum;
        /// Sum of the latencies of the timed requests, ns.
        latency_ns_sum: "latency_us_sum", Microseconds, saturating_sum;
        /// Largest latency, ns.
        latency_ns_max: "latency_us_max", Microseconds, max;
        /// Part of that sum until transmission, ns: waiting in the client for a slot, for the transport or for a retry.
        queue_ns_sum: "queue_us_sum", Microseconds, saturating_sum;
        /// Part from transmission to reply, ns: network and server. The rest is the client's completion.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Requests that ended with an error.
        errors: "errors", Count, sum;
        /// Transmissions beyond the first of each request.
        retrans: "retrans", Count, sum;
        /// Requests that moved fewer bytes than asked, except for end of file and errors.
        short: "short", Count, sum;
        /// Requests that continue where one of the 16 requests before them ended.
        sequential: "sequential", Count, sum;
        /// Timed requests that the kernel only added up, because the rings were full. They count in every other
        /// field except `sequential` and the histogram.
        folded: "folded", Count, sum;
        /// Requests without a usable start time.
        untimed: "untimed", Count, sum;
        /// Timed requests without known parts: all of their latency is in the rest.
        unsplit: "unsplit", Count, sum;
        /// Requests that used O_DIRECT.
        direct: "direct", Count, sum;
        /// WRITE requests that asked for stable storage.
        stable: "stable", Count, sum, only "write";
        /// Part of `rtt_ns_sum` that was surely in the network, ns; 0 where that is not known.
        network_ns_sum: "network_us_sum", Microseconds, saturating_sum;
        /// Part of `rtt_ns_sum` that the server surely took, ns; 0 where that is not known.
        server_ns_sum: "server_us_sum", Microseconds, saturating_sum;
    }
    and {
        /// Errors of the requests that were not folded.
        errnos: Errnos,
        /// Latencies of the timed requests that were not folded: its total is `requests - folded - untimed`.
        latency: Histogram,
    }
}

impl Direction {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        self.errnos.merge(&other.errnos);
        self.latency.merge(&other.latency);
    }

    /// Requests whose latency is known.
    pub fn timed(&self) -> u64 {
        self.requests.saturating_sub(self.untimed)
    }

    /// Mean latency of the timed requests, ns; `None` without one.
    pub fn latency_ns_mean(&self) -> Option<f64> {
        let timed = self.timed();
        (timed > 0).then(|| self.latency_ns_sum as f64 / timed as f64)
    }

    /// The latency, in us, that a share `q` of the requests does not exceed; `None` where none is known.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        self.latency.quantile_us_up_to(q, self.latency_ns_max)
    }

    /// The parts of that mean, ns: waiting in the client, network and server, the client's completion. They add up to
    /// it. The last part includes all time without known parts. `None` where nothing is known.
    pub fn parts_ns_mean(&self) -> Option<[f64; 3]> {
        let timed = self.timed();
        let completion_ns_sum = self
            .latency_ns_sum
            .saturating_sub(self.queue_ns_sum)
            .saturating_sub(self.rtt_ns_sum);
        (timed > self.unsplit).then(|| {
            [self.queue_ns_sum, self.rtt_ns_sum, completion_ns_sum]
                .map(|sum| sum as f64 / timed as f64)
        })
    }

    /// The parts of the second of these parts, ns: surely network, surely server, and either. `None` where neither
    /// side is known.
    pub fn rtt_parts_ns_mean(&self) -> Option<[f64; 3]> {
        let [_, rtt, _] = self.parts_ns_mean()?;
        let timed = self.timed() as f64;
        let sides = [self.network_ns_sum, self.server_ns_sum].map(|sum| sum as f64 / timed);
        let [network, server] = sides;
        (network + server > 0.0).then(|| [network, server, (rtt - network - server).max(0.0)])
    }
}

counters! {
    /// The read or write calls of applications: bytes that they asked the kernel for, whether from the cache or not.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct AppCalls {
        /// Calls that returned, failed ones included.
        calls: "calls", Count, sum;
        /// Calls that returned an error.
        errors: "errors", Count, sum;
        /// Bytes that calls through the page cache returned.
        bytes: "bytes", Bytes, sum;
        /// Calls with O_DIRECT; they also count in `calls`.
        direct_calls: "direct_calls", Count, sum;
        /// Bytes that the direct calls asked for.
        direct_bytes: "direct_bytes", Bytes, sum;
        /// Calls that were timed from begin to end.
        timed: "timed", Count, sum;
        /// Sum of their times, ns.
        latency_ns_sum: "latency_us_sum", Microseconds, saturating_sum;
        /// The longest time, ns.
        latency_ns_max: "latency_us_max", Microseconds, max;
    }
    and {
        /// Times of the timed calls that had room in a histogram.
        latency: Histogram,
    }
}

impl AppCalls {
    /// Bytes of all calls.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.direct_bytes)
    }

    /// Mean time of the timed calls, ns; `None` without one.
    pub fn latency_ns_mean(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.latency_ns_sum as f64 / self.timed as f64)
    }

    /// The latency, in us, that a share `q` of the calls does not exceed; `None` where none is known.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        self.latency.quantile_us_up_to(q, self.latency_ns_max)
    }

    /// The same as requests. Timed calls without room in a histogram become folded ones.
    pub fn as_direction(&self) -> Direction {
        Direction {
            requests: self.calls,
            bytes: self.all_bytes(),
            latency_ns_sum: self.latency_ns_sum,
            latency_ns_max: self.latency_ns_max,
            errors: self.errors,
            folded: self.timed.saturating_sub(self.latency.total()),
            untimed: self.calls.saturating_sub(self.timed),
            unsplit: self.timed,
            direct: self.direct_calls,
            latency: self.latency.clone(),
            ..Direction::default()
        }
    }

    /// The same as an operation of the file, for calls that move no bytes.
    pub fn as_operation(&self, name: &str) -> FileOp {
        FileOp {
            op: OpName::new(name),
            requests: self.calls,
            errors: self.errors,
            queue_ns_sum: 0,
            rtt_ns_sum: 0,
            execute_ns_sum: self.latency_ns_sum,
            execute_ns_max: self.latency_ns_max,
            execute: self.latency.clone(),
        }
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        self.latency.merge(&other.latency);
    }
}

counters! {
    /// Activity of the page cache for a file, in whole pages.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CachedBytes {
        /// Bytes of pages added to the cache: read, read ahead, or about to be written.
        added: "added_bytes", Bytes, sum;
        /// Bytes of pages evicted from the cache.
        evicted: "evicted_bytes", Bytes, sum;
        /// Bytes of pages that became dirty. A page counts each time it becomes dirty.
        dirtied: "dirtied_bytes", Bytes, sum;
        /// Bytes written from the cache to the server or the device.
        written: "written_bytes", Bytes, sum;
    }
    and {}
}

impl CachedBytes {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
    }
}

/// The counters of one file in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// READ requests.
    pub read: Direction,
    /// WRITE requests.
    pub write: Direction,
    /// All other operations.
    pub ops: FileOps,
    /// Read calls of applications.
    pub app_read: AppCalls,
    /// Write calls of applications.
    pub app_write: AppCalls,
    /// Activity of the page cache.
    pub cache: CachedBytes,
}

impl Row {
    /// Whether anything was read or written. A row `(missed)` may have only bytes, because bytes and requests are
    /// compared separately.
    pub fn is_transfer(&self) -> bool {
        [&self.read, &self.write]
            .iter()
            .any(|direction| direction.requests > 0 || direction.bytes > 0)
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.ops.merge(&other.ops);
        self.app_read.merge(&other.app_read);
        self.app_write.merge(&other.app_write);
        self.cache.merge(&other.cache);
    }
}

counters! {
    /// The recorder's own account of one window, and the requests that were pending in it. Mergeable like a row.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Health {
        /// Milliseconds of the window in which every probe was attached.
        covered_ms: "covered_ms", Milliseconds, sum;
        /// Requests that the probes saw complete.
        seen: "seen", Count, sum;
        /// Requests that reached userspace one by one.
        recorded: "recorded", Count, sum;
        /// Requests for which the rings had no room, so they reached userspace in sums per file and window.
        folded: "folded", Count, sum;
        /// Requests for which there was no room at all: they are counted, but in no row.
        lost: "lost", Count, sum;
        /// Completions at which the kernel skipped the programs: an upper bound of the requests missing from `seen`.
        missed: "missed", Count, sum;
        /// Steps of the wall clock.
        clock_steps: "clock_steps", Count, sum;
        /// How often the rules that name tenants were replaced.
        tenant_changes: "tenant_changes", Count, sum;
        /// Milliseconds of the window in which operations were recorded, too; 0 if the recording excludes them.
        ops_covered_ms: "ops_covered_ms", Milliseconds, sum;
        /// RPCs that the probes of operations saw complete.
        ops_seen: "ops_seen", Count, sum;
        /// RPCs at whose completion the kernel skipped these programs: an upper bound of the RPCs missing from
        /// `ops_seen`.
        ops_missed: "ops_missed", Count, sum;
        /// Milliseconds of the window in which application calls were counted, too; 0 if the recording excludes them.
        app_covered_ms: "app_covered_ms", Milliseconds, sum;
        /// Application calls for which the kernel skipped the programs: an upper bound of the calls that are not
        /// counted.
        app_missed: "app_missed", Count, sum;
        /// Milliseconds of the window in which requests to block devices were recorded, too; 0 if they were not to be
        /// recorded.
        block_covered_ms: "block_covered_ms", Milliseconds, sum;
        /// CPU time of tracing, ns: of the recorder, and of its kernel programs as estimated from samples.
        tracing_ns: "tracing_us", Microseconds, saturating_sum;
        /// Milliseconds of the window in which single calls were shed, because tracing had reached its ceiling.
        shed_single_calls_ms: "shed_single_calls_ms", Milliseconds, sum;
        /// The same for the times of calls.
        shed_call_times_ms: "shed_call_times_ms", Milliseconds, sum;
        /// The same for calls of applications. `app_covered_ms` excludes this time.
        shed_calls_ms: "shed_calls_ms", Milliseconds, sum;
        /// The same for the activity of the page cache.
        shed_cache_ms: "shed_cache_ms", Milliseconds, sum;
        /// The same for the parts of latencies.
        shed_parts_ms: "shed_parts_ms", Milliseconds, sum;
        /// The same for operations of files.
        shed_file_ops_ms: "shed_file_ops_ms", Milliseconds, sum;
        /// Single requests that were dropped although they were to be kept, because the disk was too slow or not
        /// writable.
        requests_dropped: "requests_dropped", Count, sum;
        /// Failed attempts to write the store. Windows waited in memory meanwhile.
        store_failures: "store_failures", Count, sum;
        /// Comparisons of rows and filtered-out requests with the kernel's counters of a mount (mountstats) or of the
        /// block devices.
        audit_comparisons: "audit_comparisons", Count, sum;
        /// The kernel's count since the previous comparison: successful READs and WRITEs of the compared mounts, and
        /// requests to block devices.
        audit_kernel_requests: "audit_kernel_requests", Count, sum;
        /// Their bytes.
        audit_kernel_bytes: "audit_kernel_bytes", Bytes, sum;
        /// The same count from rows and filtered-out requests, without rows `(missed)`.
        audit_row_requests: "audit_row_requests", Count, sum;
        /// Their bytes.
        audit_row_bytes: "audit_row_bytes", Bytes, sum;
        /// Requests of rows `(missed)`: the kernel counted them, the rows of files did not.
        audit_missed_requests: "audit_missed_requests", Count, sum;
        /// Their bytes.
        audit_missed_bytes: "audit_missed_bytes", Bytes, sum;
        /// Bytes of application calls in rows `(missed)`: the kernel counted them, the rows of files did not.
        audit_missed_app_bytes: "audit_missed_app_bytes", Bytes, sum;
        /// Comparisons with a difference that neither `missed` nor `lost` explains: a fault of the recorder or of the
        /// kernel.
        audit_alarms: "audit_alarms", Count, sum;
    }
    and {
        /// Requests that waited for their server; `None` where the kernel's list was not readable.
        pending: Option<Pending>,
        /// The filter of the recording; `None` without one. A window recorded with several filters has one of them.
        filter: Option<Arc<str>>,
        /// The kind of import: `pcap`, `nfsdump`, `csv` or `parquet`; `None` if the window was recorded. A window of
        /// several kinds has one of them.
        source: Option<Arc<str>>,
        /// Where the bytes of an imported capture went.
        captured: Captured,
    }
}

impl Health {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        if let Some(pending) = &other.pending {
            self.pending.get_or_insert_default().merge(pending);
        }
        if let Some(filter) = &other.filter {
            self.filter.get_or_insert_with(|| Arc::clone(filter));
        }
        if let Some(source) = &other.source {
            self.source.get_or_insert_with(|| Arc::clone(source));
        }
        self.captured.merge(&other.captured);
    }
}

/// The row of one file, with the file's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The file.
    pub file: Arc<FileAttributes>,
    /// Its counters.
    pub row: Row,
}

/// A window of the finest granularity that will not change any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedWindow {
    /// Its start.
    pub start: UtcMs,
    /// Its files, ordered by file key; the same key may come twice (a rename, a remount, another tenant).
    pub rows: Vec<FileRow>,
    /// Its operations. An operation may occur several times.
    pub ops: Vec<OperationRow>,
    /// The recorder's own account.
    pub health: Health,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn direction() -> impl Strategy<Value = Direction> {
        prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 20, any::<bool>()), 0..20).prop_map(
            |requests| {
                let mut d = Direction::default();
                for (latency_ns, bytes, timed) in requests {
                    d.requests += 1;
                    d.bytes += bytes;
                    if timed {
                        d.latency_ns_sum += latency_ns;
                        d.latency_ns_max = d.latency_ns_max.max(latency_ns);
                        d.latency.record(latency_ns);
                    } else {
                        d.untimed += 1;
                    }
                }
                d
            },
        )
    }

    #[test]
    fn network_server_and_unknown_add_up_to_the_time_until_the_reply() {
        let mut sum = Direction {
            requests: 10,
            latency_ns_sum: 900,
            rtt_ns_sum: 800,
            server_ns_sum: 500,
            ..Direction::default()
        };
        let unsplit = Direction {
            server_ns_sum: 0,
            ..sum.clone()
        };
        assert_eq!(sum.rtt_parts_ns_mean(), Some([0.0, 50.0, 30.0]));
        assert_eq!(unsplit.rtt_parts_ns_mean(), None);
        sum.merge(&unsplit);
        assert_eq!(sum.rtt_parts_ns_mean(), Some([0.0, 25.0, 55.0]));
    }

    #[test]
    fn sums_that_no_column_holds_end_where_it_does() {
        let mut sum = Direction::default();
        for _ in 0..3 {
            let mut most = Direction::of_counters([u64::MAX; Direction::COUNT]);
            most.errnos.add(5, u64::MAX);
            most.latency.add(1, u64::MAX);
            most.latency.add(2, u64::MAX);
            sum.merge(&most);
        }
        let most = i64::MAX.cast_unsigned();
        assert_eq!((sum.requests, sum.bytes), (most, most));
        assert_eq!(sum.latency_ns_sum, u64::MAX);
        assert_eq!(sum.errnos.counts(), [(5, most)]);
        assert_eq!(sum.latency.total(), u64::MAX);
        assert!(sum.latency.quantile_us(1.0).is_some());
    }

    #[test]
    fn of_more_untimed_requests_than_there_are_no_mean_is_known() {
        let odd = Direction {
            requests: 1,
            untimed: 2,
            latency_ns_sum: 3,
            ..Direction::default()
        };
        assert_eq!(odd.latency_ns_mean(), None);
        assert_eq!(odd.parts_ns_mean(), None);
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_commutative(a in direction(), b in direction(), c in direction()) {
            let merged = |x: &Direction, y: &Direction| { let mut m = x.clone(); m.merge(y); m };
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        }

        #[test]
        fn the_histogram_holds_every_timed_request(a in direction(), b in direction()) {
            let mut m = a;
            m.merge(&b);
            prop_assert_eq!(m.latency.total(), m.requests - m.untimed);
        }
    }
}
