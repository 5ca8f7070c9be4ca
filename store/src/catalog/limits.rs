//! Limits on reading a catalog.
//!
//! Pages of a forged database may refer to each other in circles, so a few kilobytes can yield endless rows. A
//! statement may therefore take no more steps, and return no more rows, than a valid database of that size needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rusqlite::Connection;

/// Steps of SQLite's virtual machine between two checks.
const LOOK_EVERY: i32 = 1000;
/// Steps for each byte of the database. A row has at least 20 bytes and takes some 100 steps.
const STEPS_PER_BYTE: u64 = 100;
/// Steps that every statement may take, however small the database is.
const ANY_STEPS: u64 = 1_000_000;
/// Bytes of the database for each row that a statement returns. Each row has more.
const BYTES_PER_ROW: u64 = 12;

/// The limits of each statement of a connection.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    bytes: u64,
    /// Checks during the running statement.
    looks: Arc<AtomicU64>,
}

impl Limits {
    /// Limits a connection to a database of `bytes` bytes.
    pub(super) fn set(connection: &mut Connection, bytes: u64) -> rusqlite::Result<Self> {
        let looks = Arc::new(AtomicU64::new(0));
        let most = (bytes.saturating_mul(STEPS_PER_BYTE) + ANY_STEPS)
            / u64::from(LOOK_EVERY.unsigned_abs());
        let limits = Self {
            bytes,
            looks: Arc::clone(&looks),
        };
        connection.progress_handler(
            LOOK_EVERY,
            Some(move || looks.fetch_add(1, Relaxed) >= most),
        )?;
        Ok(limits)
    }

    /// Call this before each statement. Returns the number of rows that it may return.
    pub(super) fn begin(&self) -> u64 {
        self.looks.store(0, Relaxed);
        self.bytes / BYTES_PER_ROW
    }
}
