//! Adds a request to its row.

use trackiops_schemas::ebpf::ring::{FoldValue, RequestRecord, flags};
use trackiops_schemas::row::{Direction, Row};

use crate::rollup::sequential::RequestHistory;

/// The recent reads and the recent writes. Boxed to keep the map small: many files are only read,
/// or not even that, and half of the map's places are empty.
pub type RequestHistories = [Option<Box<RequestHistory>>; 2];

/// Counts requests of a row.
#[inline(always)]
pub fn count(row: &mut Row, histories: &mut RequestHistories, requests: &[RequestRecord]) {
    for alike in requests.chunk_by(|a, b| a.flags == b.flags) {
        let write = alike[0].flags & flags::WRITE != 0;
        let direction = if write { &mut row.write } else { &mut row.read };
        count_alike(direction, &mut histories[usize::from(write)], alike);
    }
}

/// Counts requests with the same flags, which are tested once for all of them.
#[inline(always)]
fn count_alike(
    direction: &mut Direction,
    history: &mut Option<Box<RequestHistory>>,
    requests: &[RequestRecord],
) {
    let has = |flag| requests[0].flags & flag != 0;
    // Another record counts this request.
    if has(flags::PIECE) {
        for piece in requests {
            direction.bytes += u64::from(piece.done_bytes);
        }
        return;
    }
    let count = requests.len() as u64;
    direction.requests += count;
    let history = match history {
        Some(history) => history,
        None => begin(history),
    };
    for request in requests {
        direction.bytes += u64::from(request.done_bytes);
        direction.sequential += history.count_sequential(request);
        direction.retrans += u64::from(request.retransmissions);
        if request.error < 0 {
            direction.errors += 1;
            direction.errnos.add(request.error.saturating_neg(), 1);
        } else if request.done_bytes < request.asked_bytes && !has(flags::EOF) {
            direction.short += 1;
        }
    }
    if has(flags::UNTIMED) {
        direction.untimed += count;
    } else {
        count_latencies(direction, requests);
        if has(flags::UNSPLIT) {
            direction.unsplit += count;
        }
    }
    if has(flags::DIRECT) {
        direction.direct += count;
    }
    if has(flags::STABLE) {
        direction.stable += count;
    }
}

#[inline(always)]
fn count_latencies(direction: &mut Direction, requests: &[RequestRecord]) {
    let (mut latency, mut max) = (direction.latency_ns_sum, direction.latency_ns_max);
    let (mut queue, mut rtt) = (direction.queue_ns_sum, direction.rtt_ns_sum);
    for request in requests {
        latency = latency.saturating_add(request.latency_ns);
        max = max.max(request.latency_ns);
        queue = queue.saturating_add(request.queue_ns);
        rtt = rtt.saturating_add(request.rtt_ns);
        direction.latency.record(request.latency_ns);
    }
    direction.latency_ns_sum = latency;
    direction.latency_ns_max = max;
    direction.queue_ns_sum = queue;
    direction.rtt_ns_sum = rtt;
}

/// `#[inline(never)]`: cold path. Otherwise each call of [`count`] reserves stack for a history.
#[cold]
#[inline(never)]
fn begin(history: &mut Option<Box<RequestHistory>>) -> &mut RequestHistory {
    history.get_or_insert_default()
}

/// Bytes that were written from the page cache by these requests.
pub fn written_from_cache(requests: &[RequestRecord]) -> u64 {
    let is_write = |r: &&RequestRecord| r.flags & (flags::WRITE | flags::DIRECT) == flags::WRITE;
    let written = requests.iter().filter(is_write);
    written.map(|r| u64::from(r.done_bytes)).sum()
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
