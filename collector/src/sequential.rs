//! Tells sequential requests: those that continue where an earlier one ended.

use trackiops_schemas::ring::RequestRecord;

/// How many requests back a predecessor may lie. Completions arrive out of order by up to the
/// number of requests in flight; more than this is not one stream any more.
const REACH: usize = 16;

/// Where a request begins or ends that is not there: no file is so large.
const NOWHERE: u64 = u64::MAX;

/// The last requests of one file in one direction, field by field: nearly every request is compared with
/// all of them in vain, and that in a few vector instructions.
#[derive(Clone)]
pub struct History {
    from: [u64; REACH],
    to: [u64; REACH],
    start_ns: [u64; REACH],
    /// Bit by bit: those that have a successor already.
    continued: u16,
    /// Those that were counted as a successor already.
    counted: u16,
    next: u8,
}

impl Default for History {
    fn default() -> Self {
        Self {
            from: [NOWHERE; REACH],
            to: [NOWHERE; REACH],
            start_ns: [0; REACH],
            continued: 0,
            counted: 0,
            next: 0,
        }
    }
}

impl History {
    /// Takes in a completed request; how many requests it proves to be sequential: itself, when its
    /// predecessor is known, and a successor that completed before it.
    pub fn judge(&mut self, record: &RequestRecord) -> u64 {
        if record.done_bytes == 0 {
            return 0;
        }
        let start_ns = record.end_ns.saturating_sub(record.latency_ns);
        let from = record.offset;
        let to = from.saturating_add(u64::from(record.done_bytes));
        let mut touches = false;
        for (old_from, old_to) in self.from.iter().zip(&self.to) {
            touches |= (*old_to == from) | (*old_from == to);
        }
        let slot = usize::from(self.next) % REACH;
        let (counted, continued) = if touches {
            self.link(from, to, start_ns)
        } else {
            (false, false)
        };
        // What was linked to the request that is forgotten now stays counted.
        let found = u64::from(counted) + u64::from(continued);
        (self.from[slot], self.to[slot], self.start_ns[slot]) = (from, to, start_ns);
        set(&mut self.counted, slot, counted);
        set(&mut self.continued, slot, continued);
        self.next = self.next.wrapping_add(1);
        found
    }

    /// Looks for a predecessor, which makes the new request count, and for a successor, which continues it.
    fn link(&mut self, from: u64, to: u64, start_ns: u64) -> (bool, bool) {
        let (mut counted, mut continued) = (false, false);
        for i in 0..REACH {
            let has = |bits: u16| bits & 1 << i != 0;
            if !counted
                && !has(self.continued)
                && self.to[i] == from
                && self.start_ns[i] <= start_ns
            {
                set(&mut self.continued, i, true);
                counted = true;
            } else if !continued
                && !has(self.counted)
                && self.from[i] == to
                && start_ns <= self.start_ns[i]
            {
                set(&mut self.counted, i, true);
                continued = true;
            }
        }
        (counted, continued)
    }
}

fn set(bits: &mut u16, at: usize, to: bool) {
    *bits = *bits & !(1 << at) | u16::from(to) << at;
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
