//! Missed completions: the kernel skipped a program for them, so no counter has them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use trackiops_schemas::ebpf::ring::{RECOVERY_WORDS, Recovery};
use zerocopy::transmute;

use crate::clock::MonotonicNs;
use crate::engine::bpf_calls::program_counters;
use crate::shared_memory::SharedWords;

/// A completion counts as missed if it is not recovered within this many looks. Its RPC is released right after it, unless the thread is
/// interrupted in between.
const LOOKS: usize = 3;
/// How often the last look is repeated, and after what time, before unrecovered completions count.
const LAST_LOOKS: usize = 20;
const LAST_LOOKS_APART: Duration = Duration::from_millis(5);

/// Completions for which the kernel skipped the programs, because that CPU was inside of one. 0 before Linux
/// 5.12, which does not count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedCompletions {
    /// At most this number of requests is missing from the books.
    pub requests: u64,
    /// At most this number of RPCs is missing from the sums of operations.
    pub operations: u64,
    /// At most this number of calls of applications is missing from their sums.
    pub calls: u64,
}

impl MissedCompletions {
    fn each(self, other: Self, choose: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: choose(self.requests, other.requests),
            operations: choose(self.operations, other.operations),
            calls: choose(self.calls, other.calls),
        }
    }
}

/// The programs on completions and on calls of applications.
#[derive(Default)]
pub struct CountedPrograms {
    pub of_requests: Vec<OwnedFd>,
    pub of_operations: Vec<OwnedFd>,
    pub of_calls: Vec<OwnedFd>,
}

impl CountedPrograms {
    /// How often the kernel has skipped these programs.
    fn skipped(&self) -> io::Result<MissedCompletions> {
        let sum = |programs: &[OwnedFd]| {
            let counts = programs.iter().map(|fd| program_counters(fd.as_fd()));
            counts
                .map(|counts| Ok(counts?.recursion_misses))
                .sum::<io::Result<u64>>()
        };
        Ok(MissedCompletions {
            requests: sum(&self.of_requests)?,
            operations: sum(&self.of_operations)?,
            calls: sum(&self.of_calls)?,
        })
    }
}

/// Counters of the programs at the release of an RPC.
pub struct SharedRecovery {
    words: SharedWords,
}

impl SharedRecovery {
    /// Nothing is recovered before [`Self::begin`].
    pub fn new(words: SharedWords) -> Self {
        let recovery = Self { words };
        recovery.set_since(u64::MAX);
        recovery
    }

    /// Starts recovery: all programs are attached by now.
    pub fn begin(&self, now: MonotonicNs) {
        self.set_since(now.0);
    }

    fn set_since(&self, ns: u64) {
        for word in self.words.words().iter().take(1) {
            word.store(ns, Ordering::Release);
        }
    }

    fn read(&self) -> Recovery {
        let mut words = [0_u64; RECOVERY_WORDS];
        for (to, word) in words.iter_mut().zip(self.words.words()) {
            *to = word.load(Ordering::Acquire);
        }
        transmute!(words)
    }
}

/// Separates missed completions from those that are about to be recovered.
#[derive(Default)]
pub struct MissedCounter {
    looks: [MissedCompletions; LOOKS],
    missed: MissedCompletions,
}

impl MissedCounter {
    /// Completions that several looks have seen as unrecovered.
    pub fn look(
        &mut self,
        programs: &CountedPrograms,
        recovery: &SharedRecovery,
    ) -> io::Result<MissedCompletions> {
        Ok(self.note(unrecovered(programs, recovery)?))
    }

    fn note(&mut self, unrecovered: MissedCompletions) -> MissedCompletions {
        self.looks.rotate_right(1);
        if let Some(latest) = self.looks.first_mut() {
            *latest = unrecovered;
        }
        let looks = self.looks.iter().copied();
        let least = looks.reduce(|a, b| a.each(b, u64::min)).unwrap_or_default();
        self.missed = self.missed.each(least, u64::max);
        self.missed
    }

    /// [`Self::look`] when no other look follows.
    pub fn last_look(
        &mut self,
        programs: &CountedPrograms,
        recovery: &SharedRecovery,
    ) -> io::Result<MissedCompletions> {
        let mut least = unrecovered(programs, recovery)?;
        for _ in 0..LAST_LOOKS {
            if self.missed.each(least, u64::max) == self.missed {
                break;
            }
            sleep(LAST_LOOKS_APART);
            least = least.each(unrecovered(programs, recovery)?, u64::min);
        }
        self.missed = self.missed.each(least, u64::max);
        Ok(self.missed)
    }
}

/// Completions that a program was skipped for or left to the release, less those recovered. Reads `recovered` first, so that no recovery
/// counts before its skipped run.
fn unrecovered(
    programs: &CountedPrograms,
    recovery: &SharedRecovery,
) -> io::Result<MissedCompletions> {
    let recovered = recovery.read();
    let skipped = programs.skipped()?;
    let left = recovery.read();
    Ok(MissedCompletions {
        requests: (skipped.requests + left.requests_left).saturating_sub(recovered.requests),
        operations: (skipped.operations + left.operations_left)
            .saturating_sub(recovered.operations),
        calls: skipped.calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(requests: u64) -> MissedCompletions {
        MissedCompletions {
            requests,
            operations: 2 * requests,
            calls: 3 * requests,
        }
    }

    #[test]
    fn what_is_recovered_between_two_looks_is_not_missed() {
        let mut counter = MissedCounter::default();
        for unrecovered in [0, 3, 0, 2, 2, 0] {
            assert_eq!(counter.note(requests(unrecovered)), requests(0));
        }
    }

    #[test]
    fn what_stays_unrecovered_is_missed_from_the_third_look_on() {
        let mut counter = MissedCounter::default();
        let looks = [5, 5, 6, 6, 7, 6];
        let missed = looks.map(|unrecovered| counter.note(requests(unrecovered)));
        assert_eq!(missed, [0, 0, 5, 5, 6, 6].map(requests));
    }
}
