//! What a recording was asked to do.

pub use trackiops_schemas::ebpf::syscalls::CALL_RING_BYTES;
use trackiops_schemas::time::Granularity;
use trackiops_tenants::Rules;

use crate::filter::Filter;
use crate::user_functions::UserFunction;

/// What to record, and how much memory that may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of the windows.
    pub granularity: Granularity,
    /// Bytes of memory for the rings of all CPUs together.
    pub ring_memory: u64,
    /// Bytes of memory for single calls on their way, a power of two.
    pub call_ring_bytes: u32,
    /// Maps that have an entry for each file, or for each key of a filter, have this part (1/n) of their usual entries.
    pub map_share: u32,
    /// What tracing may take of the machine's CPUs, in millionths of them.
    pub max_overhead_ppm: u64,
    /// Whether latencies are split into their parts, if the engine knows these.
    pub latency_parts: bool,
    /// Which requests to record.
    pub filter: Filter,
    /// Rules that name tenants.
    pub tenant_rules: Option<Rules>,
    /// Whether requests are also kept one by one. Ids of their RPCs need `latency_parts`.
    pub requests: bool,
    /// Functions of programs whose calls are kept as well, one by one.
    pub functions: Vec<UserFunction>,
}
