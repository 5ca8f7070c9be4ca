//! Records requests of the kernel's NFS client into windows: kernel facts -> plan -> engine ->
//! rings -> rollup.
//!
//! It knows nothing of the store: [`Recorder::run`] hands closed windows to a sink.

mod audit;
pub mod btf;
mod ceiling;
mod clock;
mod connections;
mod engine;
mod facts;
mod filter;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod generations;
mod kernel_sums;
mod loads;
mod machine;
mod mount_roots;
mod names;
mod operations;
#[cfg(all(test, feature = "fail-points"))]
#[allow(clippy::unwrap_used)] // only tests use it
mod panic_tests;
mod plan;
mod recorder;
mod replay;
mod rings;
mod rollup;
mod rtt_split;
mod settings;
mod shared_memory;
mod stalls;
mod tenants;
mod timing;
mod tracefs;
mod user_functions;
pub mod verdicts;

pub use audit::judgement::{ALARM_PERCENT, Unprobed};
pub use btf::{BtfError, BtfType, CallFunctions, CastBtfIds, Member, Members};
pub use engine::{EngineError, check_functions};
pub use facts::{KernelFacts, Lockdown, Tracefs};
pub use filter::{Filter, FilterError, MountName, Procedure, ProcedureError};
pub use loads::{KernelLoad, KernelLoads, LoadSafety, kernel_loads};
pub use machine::machine;
pub use plan::{
    AppView, CallPrograms, EngineChoice, Levels, Plan, PreemptedCalls, Programs, RecordedLevel,
    Switches, Unsupported, plan,
};
pub use recorder::{
    KnownMounts, RecordError, Recorder, RecordingTotals, SharedKernelUsage, SharedUnprobed,
};
pub use replay::Replay;
pub use settings::{CALL_RING_BYTES, Settings};
pub use stalls::rpc_tasks::RpcTasks;
pub use stalls::{Stall, StallChange};
pub use tenants::naming::NewRules;
pub use timing::{StartStep, StartTiming};
pub use user_functions::{UserFunction, UserFunctionError};
