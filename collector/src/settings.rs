//! The settings of a recording.

pub use trackiops_schemas::ebpf::syscalls::CALL_RING_BYTES;
use trackiops_schemas::time::Granularity;
use trackiops_tenants::Rules;

use crate::filter::Filter;
use crate::user_functions::UserFunction;

/// What to record, and limits for memory and CPU time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of the windows.
    pub granularity: Granularity,
    /// Bytes of memory for the rings of all CPUs together.
    pub ring_memory: u64,
    /// Bytes of the ring for single calls, a power of two.
    pub call_ring_bytes: u32,
    /// Divisor for the entries of maps that have an entry for each file, or for each key of a filter.
    pub map_share: u32,
    /// CPU time that tracing may take, in millionths of the machine's CPUs.
    pub max_overhead_ppm: u64,
    /// Whether latencies are split into their parts, if the engine knows them.
    pub latency_parts: bool,
    /// Whether rows of operations include what TCP knows of the connections.
    pub connections: bool,
    /// Which requests to record.
    pub filter: Filter,
    /// Rules that name tenants.
    pub tenant_rules: Option<Rules>,
    /// Whether requests are also kept one by one. The ids of their RPCs need `latency_parts`.
    pub requests: bool,
    /// Functions of programs whose calls are kept one by one as well.
    pub functions: Vec<UserFunction>,
}
