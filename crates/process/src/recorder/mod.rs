//! The process around a recording: its memory, its messages, its service manager, and its end.

pub mod display;
pub mod last_work;
pub mod log;
pub mod memory;
pub mod messages;
pub mod print;
pub mod service_manager;
pub mod stop;
