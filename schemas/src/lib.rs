//! Types and formats that cross a boundary in TrackIOps.
//!
//! * [`ebpf`]: types shared by the kernel side and userspace (`no_std`; the kernel side builds only these);
//! * [`time`]: points in time and granularities;
//! * [`histogram`] and [`row`]: the mergeable row and the window that holds it;
//! * [`ops`] and [`file_ops`]: the operations of the NFS client by name, of mounts and of files, also mergeable; [`tcp`]:
//!   what TCP knows of the connections;
//! * [`request`]: requests that are kept one by one;
//! * [`pending`]: requests that wait, because a server does not answer;
//! * [`captured`]: where the bytes of an imported capture went;
//! * [`kernel_usage`]: resources that the kernel programs use; [`shed`]: details that tracing sheds to limit them;
//! * [`identity`]: files and tenants, in memory and on disk; [`container`]: the container of a cgroup; [`mount`]: mount
//!   points;
//! * [`counter_macro`] and [`unit`]: make rows, columns and journal encoding from the tables of counters in [`row`],
//!   [`ops`], [`tcp`] and [`file_ops`], and define the units of counters;
//! * [`columns`]: names and Arrow types of the columns on disk;
//! * [`place`]: paths as users type them; [`regular_file`]: opens files that they name; [`shortened`]: texts of a user's
//!   files in messages.
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
pub mod place;
#[cfg(feature = "std")]
pub mod regular_file;
#[cfg(feature = "std")]
pub mod request;
#[cfg(feature = "std")]
pub mod row;
#[cfg(feature = "std")]
pub mod shed;
#[cfg(feature = "std")]
pub mod shortened;
#[cfg(feature = "std")]
pub mod tcp;
#[cfg(feature = "std")]
pub mod time;
#[cfg(feature = "std")]
pub mod unit;
