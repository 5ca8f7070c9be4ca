//! Recognizes sequential requests: those that continue where an earlier one ended.

use trackiops_schemas::ebpf::ring::RequestRecord;

/// How many requests back a predecessor may lie. Completions arrive out of order by up to the
/// number of requests in flight; more than this is not one stream any more.
const REACH: usize = 16;

/// The offset of an unused slot: no file is so large.
const NOWHERE: u64 = u64::MAX;

/// The last requests of one file in one direction, field by field. Nearly every request is compared
/// with all of them without a match, so digests of their offsets are compared first. That takes two vector
/// instructions for eight of them, even if vectors have 16 bytes and 64-bit integers cannot be
/// compared.
#[derive(Clone)]
pub struct RequestHistory {
    from_digests: [u16; REACH],
    to_digests: [u16; REACH],
    from: [u64; REACH],
    bytes: [u32; REACH],
    start_ns: [u64; REACH],
    /// Whether a successor is already linked.
    continued: [bool; REACH],
    /// Whether the request was already counted as a successor.
    counted: [bool; REACH],
    /// The slot for the next request: the oldest one's.
    next: u8,
}

impl Default for RequestHistory {
    fn default() -> Self {
        Self {
            from_digests: [0; REACH],
            to_digests: [0; REACH],
            from: [NOWHERE; REACH],
            bytes: [0; REACH],
            start_ns: [0; REACH],
            continued: [false; REACH],
            counted: [false; REACH],
            next: 0,
        }
    }
}

impl RequestHistory {
    /// Adds a completed request. Returns how many requests it proves to be sequential: itself,
    /// if its predecessor is known, and a successor that completed before it.
    #[inline]
    pub fn count_sequential(&mut self, record: &RequestRecord) -> u64 {
        if record.done_bytes == 0 {
            return 0;
        }
        let start_ns = record.end_ns.saturating_sub(record.latency_ns);
        let from = record.offset;
        let to = end(from, record.done_bytes);
        let (from_digest, to_digest) = (digest(from), digest(to));
        let follows = has(&self.to_digests, from_digest);
        let precedes = has(&self.from_digests, to_digest);
        let (mut counted, mut continued) = (false, false);
        // One branch for both, because usually neither holds.
        if follows | precedes {
            counted = follows && self.continues(from, start_ns);
            continued = precedes && self.is_continued(to, start_ns);
        }
        // Forgets the oldest request. A request that was linked to it stays counted.
        let slot = usize::from(self.next) % REACH;
        self.from_digests[slot] = from_digest;
        self.to_digests[slot] = to_digest;
        self.from[slot] = from;
        self.bytes[slot] = record.done_bytes;
        self.start_ns[slot] = start_ns;
        self.counted[slot] = counted;
        self.continued[slot] = continued;
        self.next = self.next.wrapping_add(1);
        u64::from(counted) + u64::from(continued)
    }

    /// Links a new request to its predecessor: the latest that has no successor yet.
    fn continues(&mut self, from: u64, start_ns: u64) -> bool {
        let found = self.latest_first().find(|slot| {
            end(self.from[*slot], self.bytes[*slot]) == from
                && !self.continued[*slot]
                && self.start_ns[*slot] <= start_ns
        });
        found.inspect(|slot| self.continued[*slot] = true).is_some()
    }

    /// Links a new request to its successor: the latest that has no predecessor yet.
    fn is_continued(&mut self, to: u64, start_ns: u64) -> bool {
        let found = self.latest_first().find(|slot| {
            self.from[*slot] == to && !self.counted[*slot] && start_ns <= self.start_ns[*slot]
        });
        found.inspect(|slot| self.counted[*slot] = true).is_some()
    }

    fn latest_first(&self) -> impl Iterator<Item = usize> + use<> {
        let next = usize::from(self.next);
        (1..=REACH).map(move |back| (next + REACH - back) % REACH)
    }
}

/// The end offset of a request that begins at `from`.
fn end(from: u64, bytes: u32) -> u64 {
    from.saturating_add(u64::from(bytes))
}

/// Offsets differ in few bits; the highest bits of the product depend on all of them.
fn digest(offset: u64) -> u16 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

/// Without an early exit, so that it compiles to vector instructions.
fn has(digests: &[u16; REACH], digest: u16) -> bool {
    digests.iter().fold(false, |has, d| has | (*d == digest))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn request(start_ns: u64, end_ns: u64, offset: u64) -> RequestRecord {
        RequestRecord {
            end_ns,
            latency_ns: end_ns - start_ns,
            fileid: 1,
            offset,
            asked_bytes: 4096,
            done_bytes: 4096,
            dev: 0,
            handle_hash: 0,
            error: 0,
            pid: 0,
            flags: 0,
            uid: 0,
            cgroup: 0,
            ..RequestRecord::default()
        }
    }

    fn sequential(requests: &[(u64, u64, u64)]) -> u64 {
        let mut history = RequestHistory::default();
        requests
            .iter()
            .map(|(s, e, o)| history.count_sequential(&request(*s, *e, o * 4096)))
            .sum()
    }

    #[test]
    fn a_stream_is_sequential_but_for_its_first_request() {
        let stream: Vec<_> = (0..100).map(|i| (i * 10, i * 10 + 5, i)).collect();
        assert_eq!(sequential(&stream), 99);
    }

    #[test]
    fn completions_out_of_order_do_not_hide_a_stream() {
        assert_eq!(
            sequential(&[(0, 50, 0), (2, 40, 2), (1, 60, 1), (3, 70, 3)]),
            3
        );
    }

    #[test]
    fn jumps_and_backward_reads_are_not_sequential() {
        assert_eq!(
            sequential(&[(0, 1, 7), (2, 3, 90), (4, 5, 3), (6, 7, 50)]),
            0
        );
        assert_eq!(sequential(&[(0, 1, 9), (2, 3, 8), (4, 5, 7)]), 0);
    }

    #[test]
    fn a_block_read_again_and_again_is_not_sequential() {
        assert_eq!(sequential(&[(0, 1, 5), (2, 3, 5), (4, 5, 5)]), 0);
    }

    /// A history without digests and slots, as a reference.
    #[derive(Default)]
    struct Plain(VecDeque<PlainRequest>);

    struct PlainRequest {
        record: RequestRecord,
        continued: bool,
        counted: bool,
    }

    impl Plain {
        fn count_sequential(&mut self, record: &RequestRecord) -> u64 {
            if record.done_bytes == 0 {
                return 0;
            }
            let start = |r: &RequestRecord| r.end_ns - r.latency_ns;
            let end = |r: &RequestRecord| r.offset + u64::from(r.done_bytes);
            let follows = |first: &RequestRecord, second: &RequestRecord| {
                end(first) == second.offset && start(first) <= start(second)
            };
            let requests = &mut self.0;
            let mut new = PlainRequest {
                record: *record,
                continued: false,
                counted: false,
            };
            let before = requests
                .iter_mut()
                .find(|r| !r.continued && follows(&r.record, record));
            if let Some(before) = before {
                (before.continued, new.counted) = (true, true);
            }
            let after = requests
                .iter_mut()
                .find(|r| !r.counted && follows(record, &r.record));
            if let Some(after) = after {
                (after.counted, new.continued) = (true, true);
            }
            let found = u64::from(new.counted) + u64::from(new.continued);
            requests.push_front(new);
            requests.truncate(REACH);
            found
        }
    }

    proptest! {
        #[test]
        fn a_history_is_that_of_the_last_requests(
            requests in prop::collection::vec((0_u64..8, 0_u64..24, 0_u32..4, 0_u32..3), 0..200),
            unit in prop_oneof![Just(1), Just(4096), Just(1 << 31)],
            base in prop_oneof![Just(0), Just(1_u64 << 52)],
        ) {
            let (mut history, mut plain) = (RequestHistory::default(), Plain::default());
            for (n, (latency, offset, bytes, huge)) in requests.into_iter().enumerate() {
                let end_ns = 100 + n as u64;
                let record = RequestRecord {
                    // Offsets that differ in high bits only are not the same.
                    offset: base + (offset + (u64::from(huge) << 16)) * u64::from(unit),
                    done_bytes: bytes.saturating_mul(unit),
                    ..request(end_ns - latency, end_ns, 0)
                };
                prop_assert_eq!(history.count_sequential(&record), plain.count_sequential(&record), "request {}", n);
            }
        }
    }
}
