//! What a recording is asked for.

use crate::filter::Filter;
use trackiops_schemas::time::Granularity;

/// What is to be recorded, and how much memory that may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of the windows.
    pub granularity: Granularity,
    /// Memory of the rings, bytes, for all CPUs together.
    pub ring_memory: u64,
    /// Whether latencies are told in parts, where the engine knows them.
    pub latency_parts: bool,
    /// Which requests are wanted.
    pub filter: Filter,
    /// Whether requests are wanted one by one, with the ids of their RPCs where their parts are told.
    pub requests: bool,
}
