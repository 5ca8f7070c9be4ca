//! What a request adds to its row.

use trackiops_schemas::ebpf::ring::{FoldValue, RequestRecord, flags};
use trackiops_schemas::row::{Direction, Row};

use crate::rollup::sequential::RequestHistory;

/// The recent reads and the recent writes. Boxed to keep the map small: many files are only read,
/// or not even that, and half of the map's places are empty.
pub type RequestHistories = [Option<Box<RequestHistory>>; 2];

/// Counts a request in its row.
#[inline(always)]
pub fn count(row: &mut Row, history: &mut RequestHistories, record: &RequestRecord) {
    let write = record.flags & flags::WRITE != 0;
    let direction = if write { &mut row.write } else { &mut row.read };
    direction.bytes += u64::from(record.done_bytes);
    // Another record counts the request.
    if record.flags & flags::PIECE != 0 {
        return;
    }
    direction.requests += 1;
    let history = &mut history[usize::from(write)];
    let history = match history {
        Some(history) => history,
        None => begin(history),
    };
    direction.sequential += history.count_sequential(record);
    if record.error < 0 {
        direction.errors += 1;
        direction.errnos.add(record.error.saturating_neg(), 1);
    } else if record.done_bytes < record.asked_bytes && record.flags & flags::EOF == 0 {
        direction.short += 1;
    }
    if record.flags & flags::UNTIMED != 0 {
        direction.untimed += 1;
    } else {
        direction.latency_ns_sum = direction.latency_ns_sum.saturating_add(record.latency_ns);
        direction.latency_ns_max = direction.latency_ns_max.max(record.latency_ns);
        direction.latency.record(record.latency_ns);
        direction.queue_ns_sum = direction.queue_ns_sum.saturating_add(record.queue_ns);
        direction.rtt_ns_sum = direction.rtt_ns_sum.saturating_add(record.rtt_ns);
        direction.unsplit += u64::from(record.flags & flags::UNSPLIT != 0);
    }
    direction.retrans += u64::from(record.retransmissions);
    direction.direct += u64::from(record.flags & flags::DIRECT != 0);
    direction.stable += u64::from(record.flags & flags::STABLE != 0);
}

/// In a function of its own, because it is seldom called: else each call of [`count`] makes room for a history on the stack.
#[cold]
#[inline(never)]
fn begin(history: &mut Option<Box<RequestHistory>>) -> &mut RequestHistory {
    history.get_or_insert_default()
}

/// Requests that the kernel has added up, as a row counts them.
pub fn folded(sum: &FoldValue) -> Direction {
    let FoldValue {
        requests,
        bytes,
        latency_ns_sum,
        latency_ns_max,
        errors,
        short,
        untimed,
        queue_ns_sum,
        rtt_ns_sum,
        unsplit,
        retransmissions,
        direct,
        direct_bytes: _,
        stable,
    } = *sum;
    Direction {
        requests,
        bytes,
        latency_ns_sum,
        latency_ns_max,
        errors,
        short,
        folded: requests.saturating_sub(untimed),
        untimed,
        queue_ns_sum,
        rtt_ns_sum,
        retrans: retransmissions,
        unsplit,
        direct,
        stable,
        ..Direction::default()
    }
}
