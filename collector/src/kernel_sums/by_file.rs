//! RPCs of any procedure but READ and WRITE by the file that they are about, added up in the kernel.

use std::time::Duration;

use aya::maps::MapError;
use trackiops_schemas::file_op_sums::{
    FILE_OP_ENTRIES, FILE_OP_KEY_WORDS, FILE_OP_MOUNT_ENTRIES, FILE_OP_VALUE_WORDS,
    FILE_OPS_BY_FILE, FILE_OPS_BY_MOUNT, FILE_OPS_MAPS, FILE_OPS_OF_COMMITS, FileOpKey,
    FileOpValue,
};
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{Dev, FileId, TenantId};

use crate::clock::MonotonicNs;
use crate::kernel_sums::{Begun, Exchanged, InUse};
use crate::rollup::RowKey;
use crate::shared_memory::SharedWords;

/// The maps that the programs add to.
pub struct FileOpSums {
    programs: InUse<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>,
    sums: [(u32, Exchanged<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>); FILE_OPS_MAPS],
    begun: Begun<FILE_OPS_MAPS>,
}

impl FileOpSums {
    /// Makes them, and lets the programs use them. `begun` counts the sums that were begun in each.
    pub fn create(
        mut programs: InUse<FILE_OP_KEY_WORDS, FILE_OP_VALUE_WORDS>,
        begun: SharedWords,
    ) -> Result<Self, MapError> {
        let mut sums = |index, entries| {
            Exchanged::create(&mut programs, index, entries).map(|sums| (index, sums))
        };
        Ok(Self {
            sums: [
                sums(FILE_OPS_BY_FILE, FILE_OP_ENTRIES)?,
                sums(FILE_OPS_OF_COMMITS, FILE_OP_ENTRIES)?,
                sums(FILE_OPS_BY_MOUNT, FILE_OP_MOUNT_ENTRIES)?,
            ],
            programs,
            begun: Begun::new(begun),
        })
    }

    /// Takes everything that was added up so far. Nothing is taken away where there is nothing.
    pub fn take(&mut self) -> Result<Vec<Taken>, MapError> {
        let mut taken = Vec::new();
        for (index, sums) in &mut self.sums {
            if self.begun.is_new(*index) {
                sums.take(&mut self.programs, |key, value| {
                    let (key, value) = (FileOpKey::from_words(key), FileOpValue::from_words(value));
                    taken.extend(Taken::of(&key, &value));
                })?;
            }
        }
        Ok(taken)
    }
}

/// RPCs of a procedure about a file, in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The file, and for whom. It is a file of its own where there was no room for it ([`FileId::others`]).
    pub row: RowKey,
    /// UTC in ns, divided by the length of a window.
    pub window: u64,
    /// The process that made the first of them.
    pub pid: u32,
    /// The procedure, and what they add up to.
    pub op: FileOp,
}

impl Taken {
    /// `None` if the procedure has no name.
    fn of(key: &FileOpKey, value: &FileOpValue) -> Option<Self> {
        let FileOpValue {
            requests,
            errors,
            queue_ns_sum,
            rtt_ns_sum,
            latency_ns_sum,
            latency_ns_max,
            name,
            pid,
            padding: _,
        } = *value;
        Some(Self {
            row: RowKey {
                file: FileId {
                    dev: Dev(key.dev),
                    fileid: key.fileid,
                    handle_hash: key.handle_hash,
                },
                tenant: TenantId {
                    uid: key.uid,
                    cgroup: key.cgroup,
                },
            },
            window: key.window,
            pid,
            op: FileOp {
                op: OpName::from_bytes(&name)?,
                requests,
                errors,
                queue_ns_sum,
                rtt_ns_sum,
                execute_ns_sum: latency_ns_sum,
                execute_ns_max: latency_ns_max,
            },
        })
    }
}

/// How many files may begin to be followed of which there is nothing but metadata. Somebody who looks through a tree of a million
/// files leaves no million of them behind: neither in memory, where a journal knows its files by name, nor on disk.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    refilled: MonotonicNs,
}

/// So many at once: a directory, or the tree of a program.
const AT_ONCE: u64 = 4096;
/// And another one each time this has passed: 64 a second, 58,000 in a rotation of 15 minutes.
const EACH: Duration = Duration::from_nanos(15_625_000);

impl Budget {
    /// Nothing is spent.
    pub fn new() -> Self {
        Self {
            left: AT_ONCE,
            refilled: MonotonicNs(0),
        }
    }

    /// To be called before [`Self::spend`].
    pub fn refill(&mut self, now: MonotonicNs) {
        let each_ns = EACH.as_nanos() as u64;
        let new = now.0.saturating_sub(self.refilled.0) / each_ns;
        self.left = self.left.saturating_add(new).min(AT_ONCE);
        self.refilled.0 += new * each_ns;
    }

    /// Whether there is one more.
    pub fn spend(&mut self) -> bool {
        let there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        there
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_at_once_and_fills_up_slowly_and_no_further() {
        let second = 1_000_000_000;
        let mut budget = Budget::new();
        let spent = |budget: &mut Budget| (0..10_000).filter(|_| budget.spend()).count() as u64;
        budget.refill(MonotonicNs(100 * second));
        assert_eq!(spent(&mut budget), AT_ONCE);
        budget.refill(MonotonicNs(101 * second));
        assert_eq!(spent(&mut budget), 64);
        budget.refill(MonotonicNs(101 * second + 10_000_000));
        assert_eq!(spent(&mut budget), 0);
        budget.refill(MonotonicNs(101 * second + 20_000_000));
        assert_eq!(spent(&mut budget), 1, "what was left over counts");
        budget.refill(MonotonicNs(9000 * second));
        assert_eq!(spent(&mut budget), AT_ONCE);
    }
}
