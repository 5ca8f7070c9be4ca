//! The process around a command.
//!
//! [`output`] writes answers and messages, [`lifeline`] ends a process that has lost its reader or its terminal, and [`recorder`] is the
//! process around a recording.

// These macros panic if the reader is gone or the disk is full. Use `output` instead.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod lifeline;
pub mod output;
pub mod progress;
pub mod recorder;
pub mod signals;
pub mod stderr_queue;
pub mod terminal;
