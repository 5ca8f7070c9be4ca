//! What crosses a boundary in TrackIOps.
//!
//! * [`ring`]: the records that the kernel side emits, and the offsets and books it shares with
//!   userspace (`no_std`, the only part that the kernel side builds);
//! * [`rollup`]: the mergeable row, its window and its histogram;
//! * [`columns`]: names and Arrow types of what is on disk;
//! * [`ddl`]: the SQLite catalog's tables.
#![cfg_attr(not(feature = "std"), no_std)]

pub mod ring;
