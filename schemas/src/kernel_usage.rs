//! What the recorder's programs in the kernel take, and tracing as a whole.

use serde::{Deserialize, Serialize};

use crate::shed::Details;

/// Their time, and their rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct KernelUsage {
    /// Time that the programs took since the recording began, ns, by samples of their run times. `None` if the kernel lets nobody
    /// measure them.
    pub run_ns: Option<u64>,
    /// Records for which each ring has room.
    pub ring_records: u64,
    /// Most records that waited in a ring at the looks of the last second.
    pub ring_used_max: u64,
    /// What tracing takes of the machine.
    #[serde(default)]
    pub tracing: TracingLoad,
    /// Files that can be followed at a time.
    #[serde(default)]
    pub files_most: u64,
    /// Some were counted as the file `(other)` of their mount for want of room, in the last seconds.
    #[serde(default)]
    pub files_are_full: bool,
}

/// What tracing takes of the machine's CPUs, in millionths of them, and what it leaves out for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TracingLoad {
    /// Of the recorder's process.
    pub own_ppm: u64,
    /// Of its programs in the kernel, with what the kernel does to run them.
    pub programs_ppm: u64,
    /// What both may take together (`--max-overhead`).
    pub ceiling_ppm: u64,
    /// What is left out now, so that they do not take more.
    pub shed: Details,
}

impl TracingLoad {
    /// Of both.
    pub fn ppm(&self) -> u64 {
        self.own_ppm.saturating_add(self.programs_ppm)
    }
}
