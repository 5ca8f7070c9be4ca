//! The arguments of the tracepoint `rpc_stats_latency`, by their numbers.

pub const TASK: usize = 0;
pub const QUEUE: usize = 1;
pub const RTT: usize = 2;
pub const EXECUTE: usize = 3;
/// How many there are.
pub const ARGUMENTS: usize = 4;
