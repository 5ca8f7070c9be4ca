//! The rollup row: a mergeable partial aggregate. Two rows of the same file and window add up, so
//! late records, restarts, coarser steps and several hosts all reduce to adding rows.

use std::sync::Arc;

use crate::columns::DIRECTION_COUNTERS;
use crate::errnos::Errnos;
use crate::file_ops::FileOps;
use crate::histogram::Histogram;
use crate::identity::FileAttributes;
use crate::ops::OperationRow;
use crate::pending::Pending;
use crate::time::UtcMs;

/// What happened in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Completed requests, failed ones included.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of the latencies of the timed requests, ns.
    pub latency_ns_sum: u64,
    /// Largest latency, ns.
    pub latency_ns_max: u64,
    /// Part of that sum until the requests were transmitted, ns: waiting in the client for a slot, for the transport or
    /// for the next try.
    pub queue_ns_sum: u64,
    /// Part from transmission to reply, ns: network and server. The rest is the client's completion.
    pub rtt_ns_sum: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Transmissions beyond the first of each request.
    pub retrans: u64,
    /// Requests that moved fewer bytes than asked, end of file and errors apart.
    pub short: u64,
    /// Requests that continue where one of the 16 requests before them ended.
    pub sequential: u64,
    /// Timed requests of which the kernel kept only sums, because nobody had read its rings for too long:
    /// they count in every other field but in `sequential` and in the histogram.
    pub folded: u64,
    /// Requests without a usable start time.
    pub untimed: u64,
    /// Timed requests of whose parts nothing is known: all of their latency is in the rest.
    pub unsplit: u64,
    /// Requests made by O_DIRECT.
    pub direct: u64,
    /// WRITE requests that asked for stable storage.
    pub stable: u64,
    /// With which error the requests ended that were not folded.
    pub errnos: Errnos,
    /// Latencies of the timed requests that were not folded: its total is `requests - folded - untimed`.
    pub latency: Histogram,
}

impl Direction {
    /// Its counters, in the order of [`DIRECTION_COUNTERS`], times in ns.
    pub fn counters(&self) -> [u64; DIRECTION_COUNTERS.len()] {
        let Self {
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            queue_ns_sum,
            rtt_ns_sum,
            errors,
            retrans,
            short,
            sequential,
            folded,
            untimed,
            unsplit,
            direct,
            stable,
            errnos: _,
            latency: _,
        } = self;
        [
            *requests,
            *bytes,
            *latency_ns_sum,
            *latency_ns_max,
            *queue_ns_sum,
            *rtt_ns_sum,
            *errors,
            *retrans,
            *short,
            *sequential,
            *folded,
            *untimed,
            *unsplit,
            *direct,
            *stable,
        ]
    }

    /// The direction with these [`Self::counters`], without lists.
    pub fn of_counters(counters: [u64; DIRECTION_COUNTERS.len()]) -> Self {
        let [
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            queue_ns_sum,
            rtt_ns_sum,
            errors,
            retrans,
            short,
            sequential,
            folded,
            untimed,
            unsplit,
            direct,
            stable,
        ] = counters;
        Self {
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            queue_ns_sum,
            rtt_ns_sum,
            errors,
            retrans,
            short,
            sequential,
            folded,
            untimed,
            unsplit,
            direct,
            stable,
            ..Self::default()
        }
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            queue_ns_sum,
            rtt_ns_sum,
            errors,
            retrans,
            short,
            sequential,
            folded,
            untimed,
            unsplit,
            direct,
            stable,
            errnos,
            latency,
        } = other;
        self.requests += requests;
        self.bytes += bytes;
        self.latency_ns_sum = self.latency_ns_sum.saturating_add(*latency_ns_sum);
        self.latency_ns_max = self.latency_ns_max.max(*latency_ns_max);
        self.queue_ns_sum = self.queue_ns_sum.saturating_add(*queue_ns_sum);
        self.rtt_ns_sum = self.rtt_ns_sum.saturating_add(*rtt_ns_sum);
        self.errors += errors;
        self.retrans += retrans;
        self.short += short;
        self.sequential += sequential;
        self.folded += folded;
        self.untimed += untimed;
        self.unsplit += unsplit;
        self.direct += direct;
        self.stable += stable;
        self.errnos.merge(errnos);
        self.latency.merge(latency);
    }

    /// Mean latency of the timed requests, ns; `None` without one.
    pub fn latency_ns_mean(&self) -> Option<f64> {
        let timed = self.requests - self.untimed;
        (timed > 0).then(|| self.latency_ns_sum as f64 / timed as f64)
    }

    /// Nobody has noted of what the latencies consist.
    pub fn leave_unsplit(&mut self) {
        self.unsplit = self.requests.saturating_sub(self.untimed);
    }

    /// Of what that mean consists, ns: waiting in the client, network and server, the client's completion. They add up to
    /// it; the last one has all of what is not known in parts. `None` where nothing is.
    pub fn parts_ns_mean(&self) -> Option<[f64; 3]> {
        let timed = self.requests - self.untimed;
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

/// The counters of one file in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// READ requests.
    pub read: Direction,
    /// WRITE requests.
    pub write: Direction,
    /// All other operations.
    pub ops: FileOps,
}

impl Row {
    /// Whether anything was read or written.
    pub fn is_transfer(&self) -> bool {
        self.read.requests + self.write.requests > 0
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.ops.merge(&other.ops);
    }
}

/// What the recorder knows about itself, and about what has not completed, in one window; mergeable like a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Milliseconds of the window in which every probe was attached.
    pub covered_ms: u64,
    /// Requests that the probes saw complete.
    pub seen: u64,
    /// Requests that reached userspace one by one.
    pub recorded: u64,
    /// Requests for which the rings had no room and which reached userspace in sums per file and window.
    pub folded: u64,
    /// Requests for which there was no room at all: counted, not described.
    pub lost: u64,
    /// Completions at which the kernel skipped the programs: at most so many requests are not in `seen`.
    pub missed: u64,
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Milliseconds of the window in which operations were recorded, too; 0 where they were left out.
    pub ops_covered_ms: u64,
    /// RPCs that the probes of operations saw complete.
    pub ops_seen: u64,
    /// RPCs at whose completion the kernel skipped these programs: at most so many are not in `ops_seen`.
    pub ops_missed: u64,
    /// Single requests that were to be kept one by one and were not, since the disk was too slow or could not be written.
    pub requests_dropped: u64,
    /// Failed attempts to write the store. Windows waited in memory meanwhile.
    pub store_failures: u64,
    /// Requests that waited for their server; `None` where nobody could look.
    pub pending: Option<Pending>,
    /// What a request had to have to be recorded; everything was if `None`. A window of which a part was recorded otherwise has one of both.
    pub filter: Option<Arc<str>>,
}

impl Health {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            covered_ms,
            seen,
            recorded,
            folded,
            lost,
            missed,
            clock_steps,
            ops_covered_ms,
            ops_seen,
            ops_missed,
            requests_dropped,
            store_failures,
            pending,
            filter,
        } = other;
        self.covered_ms += covered_ms;
        self.seen += seen;
        self.recorded += recorded;
        self.folded += folded;
        self.lost += lost;
        self.missed += missed;
        self.clock_steps += clock_steps;
        self.ops_covered_ms += ops_covered_ms;
        self.ops_seen += ops_seen;
        self.ops_missed += ops_missed;
        self.requests_dropped += requests_dropped;
        self.store_failures += store_failures;
        if let Some(pending) = pending {
            self.pending.get_or_insert_default().merge(pending);
        }
        if let Some(filter) = filter {
            self.filter.get_or_insert_with(|| Arc::clone(filter));
        }
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
