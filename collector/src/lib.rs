//! The live side of TrackIOps: kernel facts -> plan -> engine -> ring -> rollup.
//!
//! It does not know what is on disk: [`Recorder::run`] hands closed windows to a sink.

mod btf;
mod cast;
mod clock;
mod copies;
mod engine;
mod facts;
mod folds;
mod format;
mod generations;
mod lookout;
mod mappings;
mod mounts;
mod names;
mod open_files;
mod pending;
mod plan;
mod recorder;
mod ring;
mod rings;
mod rollup;
mod rpc_tasks;
mod sequential;
mod settings;
mod shared;
mod stalls;
mod tenants;
mod typed;

pub use btf::{BtfError, Cast, Member, Members};
pub use engine::EngineError;
pub use facts::{KernelFacts, Lockdown, Tracefs};
pub use plan::{Choice, Plan, Programs, Unsupported, plan};
pub use recorder::{RecordError, Recorder, Totals};
pub use rpc_tasks::RpcTasks;
pub use settings::Settings;
pub use stalls::{Change, Stall};
