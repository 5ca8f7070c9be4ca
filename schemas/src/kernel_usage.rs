//! Resources that the recorder's kernel programs and tracing as a whole use.

use serde::{Deserialize, Serialize};

use crate::shed::Details;

/// Run time of the programs, and fill of their rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct KernelUsage {
    /// Time that the programs ran since the recording began, ns, estimated from samples. `None` if the kernel does not
    /// allow measuring it.
    pub run_ns: Option<u64>,
    /// Capacity of each ring, in records.
    pub ring_records: u64,
    /// Most records that waited in a ring at the looks of the last second.
    pub ring_used_max: u64,
    /// Tracing's share of the machine.
    #[serde(default)]
    pub tracing: TracingLoad,
    /// Most files that can be followed at a time.
    #[serde(default)]
    pub files_most: u64,
    /// Whether files were counted as `(other)` of their mount in the last seconds, because there was no room.
    #[serde(default)]
    pub files_are_full: bool,
}

/// Tracing's share of the machine's CPU time, in millionths, and the details that it sheds to stay below its ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TracingLoad {
    /// Share of the recorder's process.
    pub own_ppm: u64,
    /// Share of its kernel programs, including the kernel's work to run them.
    pub programs_ppm: u64,
    /// The ceiling for both together (`--max-overhead`).
    pub ceiling_ppm: u64,
    /// Details that are shed now to stay below the ceiling.
    pub shed: Details,
}

impl TracingLoad {
    /// Share of both together.
    pub fn ppm(&self) -> u64 {
        self.own_ppm.saturating_add(self.programs_ppm)
    }
}
