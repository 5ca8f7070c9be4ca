//! Imports other programs' recordings into a store, and compares a store with a capture.

pub mod account;
pub mod captures;
pub mod compare;
mod error;
mod hosts;
mod names;
mod process;
mod source;
pub mod tables;

pub use error::ImportError;
pub use hosts::{Hosts, Target};
pub use names::Names;
pub use process::{CutShort, Notice, Process};
pub use source::{Source, SourceError, bytes_to_read, id};
