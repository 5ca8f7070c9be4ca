//! What the recorder's programs in the kernel take.

use serde::{Deserialize, Serialize};

/// Their time, and their rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct KernelUsage {
    /// Time for which the programs on completions ran, ns. `None` if the kernel does not measure that
    /// (`kernel.bpf_stats_enabled`).
    pub run_ns: Option<u64>,
    /// Records for which each ring has room.
    pub ring_records: u64,
    /// Most records that waited in a ring at the looks of the last second.
    pub ring_used_max: u64,
}
