//! Follows a running recorder.
//!
//! [`Follower`] connects to the recorders at a socket, one after another. [`Steps`] adds their windows up to steps,
//! [`Events`] derives events from their messages, and [`SlowMounts`] judges their last windows. [`Commands`] runs
//! programs at events. [`StatusReport`] judges a recorder's status. [`Source`] is the source of a screen: the last windows of a recorder, or a store.

mod commands;
mod events;
mod follower;
mod frames;
mod recent_windows;
mod slow_mounts;
mod source;
mod status;
mod steps;

pub use commands::{Commands, OnEvent};
pub use events::{Event, Events, KINDS};
pub use follower::{Follower, Heard, SILENCE};
pub use frames::Frames;
pub use slow_mounts::SlowMounts;
pub use source::{Live, Moment, Source, SourceError};
pub use status::StatusReport;
pub use steps::{StepRows, Steps};
