//! Imports other programs' recordings into a store.

pub mod captures;
mod process;
mod source;

pub use process::Process;
pub use source::{Source, SourceError, bytes_to_read, id, must_stop};
