//! Imports other programs' recordings into a store.

pub mod captures;
mod error;
mod hosts;
mod names;
mod process;
mod source;

pub use error::ImportError;
pub use hosts::{Completed, Done, Hosts, Target, is_in_store};
pub use names::Names;
pub use process::{Notice, Process};
pub use source::{Source, SourceError, bytes_to_read, id, must_stop};
