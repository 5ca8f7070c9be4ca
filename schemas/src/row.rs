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
    /// What happened in one direction.
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
        /// Part of that sum until the requests were transmitted, ns: waiting in the client for a slot, for the transport or
        /// for the next try.
        queue_ns_sum: "queue_us_sum", Microseconds, saturating_sum;
        /// Part from transmission to reply, ns: network and server. The rest is the client's completion.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Requests that ended with an error.
        errors: "errors", Count, sum;
        /// Transmissions beyond the first of each request.
        retrans: "retrans", Count, sum;
        /// Requests that moved fewer bytes than asked, end of file and errors apart.
        short: "short", Count, sum;
        /// Requests that continue where one of the 16 requests before them ended.
        sequential: "sequential", Count, sum;
        /// Timed requests of which the kernel kept only sums, because nobody had read its rings for too long:
        /// they count in every other field but in `sequential` and in the histogram.
        folded: "folded", Count, sum;
        /// Requests without a usable start time.
        untimed: "untimed", Count, sum;
        /// Timed requests of whose parts nothing is known: all of their latency is in the rest.
        unsplit: "unsplit", Count, sum;
        /// Requests made by O_DIRECT.
        direct: "direct", Count, sum;
        /// WRITE requests that asked for stable storage.
        stable: "stable", Count, sum, only "write";
    }
    and {
        /// With which error the requests ended that were not folded.
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
    fn timed(&self) -> u64 {
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

    /// Of what that mean consists, ns: waiting in the client, network and server, the client's completion. They add up to
    /// it; the last one has all of what is not known in parts. `None` where nothing is.
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
}

counters! {
    /// The calls by which applications read, or wrote: what they asked their kernel for, wherever that had it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct AppCalls {
        /// Calls that returned, failed ones included.
        calls: "calls", Count, sum;
        /// Calls that returned an error.
        errors: "errors", Count, sum;
        /// Bytes that calls through the page cache returned.
        bytes: "bytes", Bytes, sum;
        /// Those of the calls that were made with O_DIRECT.
        direct_calls: "direct_calls", Count, sum;
        /// Bytes that these asked for.
        direct_bytes: "direct_bytes", Bytes, sum;
        /// Calls that were timed, from begin to end.
        timed: "timed", Count, sum;
        /// Sum of their times, ns.
        latency_ns_sum: "latency_us_sum", Microseconds, saturating_sum;
        /// The longest of these, ns.
        latency_ns_max: "latency_us_max", Microseconds, max;
    }
    and {
        /// Times of the calls that had room to be counted by time: of at most the timed ones.
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

    /// As an operation of the file: of calls that move no bytes.
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
    /// What the page cache did with a file: whole pages, and what was written from them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CachedBytes {
        /// Bytes of pages that came into the cache: to be read, ahead of that, or to be written.
        added: "added_bytes", Bytes, sum;
        /// Bytes of pages that left it.
        evicted: "evicted_bytes", Bytes, sum;
        /// Bytes of pages that became dirty, each time that they did.
        dirtied: "dirtied_bytes", Bytes, sum;
        /// Bytes that were written from it: to the server or the device.
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
    /// Calls by which applications read.
    pub app_read: AppCalls,
    /// Calls by which they wrote.
    pub app_write: AppCalls,
    /// What the page cache did.
    pub cache: CachedBytes,
}

impl Row {
    /// Whether anything was read or written. A row `(missed)` may have bytes alone, because bytes and requests are compared apart.
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
    /// What the recorder knows about itself, and about what has not completed, in one window; mergeable like a row.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Health {
        /// Milliseconds of the window in which every probe was attached.
        covered_ms: "covered_ms", Milliseconds, sum;
        /// Requests that the probes saw complete.
        seen: "seen", Count, sum;
        /// Requests that reached userspace one by one.
        recorded: "recorded", Count, sum;
        /// Requests for which the rings had no room and which reached userspace in sums per file and window.
        folded: "folded", Count, sum;
        /// Requests for which there was no room at all: counted, not described.
        lost: "lost", Count, sum;
        /// Completions at which the kernel skipped the programs: it bounds the requests that are not in `seen`.
        missed: "missed", Count, sum;
        /// Steps of the wall clock.
        clock_steps: "clock_steps", Count, sum;
        /// How often the rules that name tenants were replaced.
        tenant_changes: "tenant_changes", Count, sum;
        /// Milliseconds of the window in which operations were recorded, too; 0 where they were left out.
        ops_covered_ms: "ops_covered_ms", Milliseconds, sum;
        /// RPCs that the probes of operations saw complete.
        ops_seen: "ops_seen", Count, sum;
        /// RPCs at whose completion the kernel skipped these programs: it bounds those that are not in `ops_seen`.
        ops_missed: "ops_missed", Count, sum;
        /// Milliseconds of the window in which calls of applications were counted, too; 0 where they were left out.
        app_covered_ms: "app_covered_ms", Milliseconds, sum;
        /// Calls of applications for which the kernel skipped the programs: it bounds those that are not counted.
        app_missed: "app_missed", Count, sum;
        /// Milliseconds of the window in which requests to block devices were recorded, too; 0 where they were left out.
        block_covered_ms: "block_covered_ms", Milliseconds, sum;
        /// CPU time that tracing took, ns: the recorder's own, and that of its programs in the kernel by samples.
        tracing_ns: "tracing_us", Microseconds, saturating_sum;
        /// Milliseconds of the window in which single calls were not kept, because tracing had reached its ceiling.
        shed_single_calls_ms: "shed_single_calls_ms", Milliseconds, sum;
        /// The same for the times of calls.
        shed_call_times_ms: "shed_call_times_ms", Milliseconds, sum;
        /// The same for calls of applications. `app_covered_ms` does not have this time.
        shed_calls_ms: "shed_calls_ms", Milliseconds, sum;
        /// The same for what the page cache does.
        shed_cache_ms: "shed_cache_ms", Milliseconds, sum;
        /// The same for the parts of latencies.
        shed_parts_ms: "shed_parts_ms", Milliseconds, sum;
        /// The same for operations of files.
        shed_file_ops_ms: "shed_file_ops_ms", Milliseconds, sum;
        /// Single requests that were to be kept one by one and were not, since the disk was too slow or could not be written.
        requests_dropped: "requests_dropped", Count, sum;
        /// Failed attempts to write the store. Windows waited in memory meanwhile.
        store_failures: "store_failures", Count, sum;
        /// Comparisons of rows, and of what a filter left out, with the kernel's counters of a mount (mountstats), or of the block devices.
        audit_comparisons: "audit_comparisons", Count, sum;
        /// Successful READs and WRITEs of the compared mounts, and requests to the block devices, since the comparison before, as the kernel counted them.
        audit_kernel_requests: "audit_kernel_requests", Count, sum;
        /// Their bytes.
        audit_kernel_bytes: "audit_kernel_bytes", Bytes, sum;
        /// The same as rows have it, without the rows `(missed)`, or as a filter left it out.
        audit_row_requests: "audit_row_requests", Count, sum;
        /// Their bytes.
        audit_row_bytes: "audit_row_bytes", Bytes, sum;
        /// Requests of rows `(missed)`: the kernel had them, the rows of files did not.
        audit_missed_requests: "audit_missed_requests", Count, sum;
        /// Their bytes.
        audit_missed_bytes: "audit_missed_bytes", Bytes, sum;
        /// Bytes of calls of applications of rows `(missed)`: the kernel had them, the rows of files did not.
        audit_missed_app_bytes: "audit_missed_app_bytes", Bytes, sum;
        /// Comparisons with a difference that neither `missed` nor `lost` explains: an error of the recorder or of the kernel.
        audit_alarms: "audit_alarms", Count, sum;
    }
    and {
        /// Requests that waited for their server; `None` where nobody could look.
        pending: Option<Pending>,
        /// What a request had to have to be recorded; everything was if `None`. A window of which a part was recorded otherwise has one of both.
        filter: Option<Arc<str>>,
        /// What was imported: `pcap`, `nfsdump`, `csv` or `parquet`; `None` if it was recorded. A window of several kinds has one of them.
        source: Option<Arc<str>>,
        /// Where the bytes of the capture went, if it was imported from one.
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

/// One file's row with what it takes to write it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The file.
    pub file: Arc<FileAttributes>,
    /// Its counters.
    pub row: Row,
}

/// A window of the finest granularity to which nothing will be added any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedWindow {
    /// Its start.
    pub start: UtcMs,
    /// Its files, ordered by file key; the same key may come twice (a rename, a remount, another tenant).
    pub rows: Vec<FileRow>,
    /// Its operations, each once or several times.
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
