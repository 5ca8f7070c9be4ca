//! Tells sequential requests: those that continue where an earlier one ended.

use trackiops_schemas::ring::RequestRecord;

/// How many requests back a predecessor may lie. Completions arrive out of order by up to the
/// number of requests in flight; more than this is not one stream any more.
const REACH: usize = 16;

#[derive(Clone, Copy, Default)]
struct Seen {
    start_ns: u64,
    from: u64,
    to: u64,
    /// Has a successor already.
    continued: bool,
    /// Counted as a successor already.
    counted: bool,
}

/// The last requests of one file in one direction.
#[derive(Clone, Default)]
pub struct History {
    seen: [Seen; REACH],
    next: u8,
}

impl History {
    /// Takes in a completed request; how many requests it proves to be sequential: itself, when its
    /// predecessor is known, and a successor that completed before it.
    pub fn judge(&mut self, record: &RequestRecord) -> u64 {
        if record.done_bytes == 0 {
            return 0;
        }
        let mut new = Seen {
            start_ns: record.end_ns.saturating_sub(record.latency_ns),
            from: record.offset,
            to: record.offset.saturating_add(u64::from(record.done_bytes)),
            continued: false,
            counted: false,
        };
        let mut found = 0;
        for old in self.seen.iter_mut().filter(|old| old.to != 0) {
            if !new.counted && !old.continued && old.to == new.from && old.start_ns <= new.start_ns
            {
                old.continued = true;
                new.counted = true;
                found += 1;
            } else if !new.continued
                && !old.counted
                && new.to == old.from
                && new.start_ns <= old.start_ns
            {
                old.counted = true;
                new.continued = true;
                found += 1;
            }
        }
        self.seen[usize::from(self.next) % REACH] = new;
        self.next = self.next.wrapping_add(1);
        found
    }
}

#[cfg(test)]
mod tests {
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
        }
    }

    fn sequential(requests: &[(u64, u64, u64)]) -> u64 {
        let mut history = History::default();
        requests
            .iter()
            .map(|(s, e, o)| history.judge(&request(*s, *e, o * 4096)))
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
}
