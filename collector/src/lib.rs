//! The live side of TrackIOps: kernel facts -> plan -> engine -> ring -> rollup.
//!
//! It does not know what is on disk: [`Recorder::run`] hands closed windows to a sink.

mod books;
mod btf;
mod clock;
mod engine;
mod facts;
mod format;
mod generations;
mod mounts;
mod names;
mod open_files;
mod plan;
mod recorder;
mod rollup;
mod sequential;

pub use btf::{BtfError, Member, Members};
pub use engine::EngineError;
pub use facts::{KernelFacts, Lockdown, Tracefs};
pub use plan::{Choice, Plan, Programs, Unsupported, plan};
pub use recorder::{RecordError, Recorder, Totals};
