//! What crosses a boundary in TrackIOps.
//!
//! * [`ebpf`]: what the kernel side shares with userspace (`no_std`, all that the kernel side builds);
//! * [`time`]: points in time and granularities;
//! * [`histogram`] and [`row`]: the mergeable row and the window that holds it;
//! * [`ops`] and [`file_ops`]: the operations of the NFS client by name, of mounts and of files, mergeable as well;
//! * [`request`]: requests that are kept one by one;
//! * [`pending`]: what has not completed, because a server does not answer;
//! * [`captured`]: where the bytes of a capture went that was imported;
//! * [`kernel_usage`]: what the programs in the kernel take; [`shed`]: details that are left out so that it is not too much;
//! * [`identity`]: what a file is, in memory and on disk; [`container`]: of which container a cgroup is; [`mount`]: where it can be found;
//! * [`counter_macro`] and [`unit`]: how rows, columns and the journal are made of the tables of counters in [`row`], [`ops`] and
//!   [`file_ops`], and what counters count;
//! * [`columns`]: names and Arrow types of what is on disk.
#![cfg_attr(not(feature = "std"), no_std)]

pub mod ebpf;

#[cfg(feature = "std")]
pub mod captured;
#[cfg(feature = "std")]
pub mod columns;
#[cfg(feature = "std")]
pub mod container;
#[cfg(feature = "std")]
pub mod counter_macro;
#[cfg(feature = "std")]
pub mod errnos;
#[cfg(feature = "std")]
pub mod file_ops;
#[cfg(feature = "std")]
pub mod histogram;
#[cfg(feature = "std")]
pub mod identity;
#[cfg(feature = "std")]
pub mod kernel_usage;
#[cfg(feature = "std")]
pub mod level;
#[cfg(feature = "std")]
pub mod mount;
#[cfg(feature = "std")]
pub mod ops;
#[cfg(feature = "std")]
pub mod pending;
#[cfg(feature = "std")]
pub mod request;
#[cfg(feature = "std")]
pub mod row;
#[cfg(feature = "std")]
pub mod shed;
#[cfg(feature = "std")]
pub mod time;
#[cfg(feature = "std")]
pub mod unit;
