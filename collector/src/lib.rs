//! The live side of TrackIOps: kernel facts -> plan -> engine -> ring -> rollup.
//!
//! It does not know what is on disk: [`Recorder::run`] hands closed windows to a sink.

mod bpf_calls;
pub mod btf;
mod cast;
mod clock;
mod copies;
mod engine;
mod facts;
mod file_ops;
mod filter;
mod folds;
mod format;
mod generations;
mod lookout;
mod mappings;
mod mountinfo;
mod mounts;
mod names;
mod op_sums;
mod open_files;
mod ops;
#[cfg(all(test, feature = "fail-points"))]
#[allow(clippy::unwrap_used)] // helpers of tests are tests
mod panics;
mod path_ring;
mod paths;
mod pending;
mod plan;
mod recorder;
mod replay;
mod ring;
mod rings;
mod rollup;
mod rpc_clients;
mod rpc_tasks;
mod sequential;
mod settings;
mod shared;
mod stalls;
mod sums;
mod tenants;
mod typed;
mod users;
mod wanted;

pub use btf::{BtfError, Cast, Event, Member, Members};
pub use engine::EngineError;
pub use facts::{KernelFacts, Lockdown, Tracefs};
pub use filter::{Filter, FilterError, Procedure, ProcedureError};
pub use plan::{Choice, Plan, Programs, Unsupported, plan};
pub use recorder::{RecordError, Recorder, Totals};
pub use replay::Replay;
pub use rpc_tasks::RpcTasks;
pub use settings::Settings;
pub use stalls::{Change, Stall};
