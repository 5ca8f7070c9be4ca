//! Catalog access for single requests.

use rusqlite::{Connection, Row, Transaction, params};
use trackiops_schemas::time::UtcMs;

use super::upkeep::MOST;
use super::write::{enter_removed, forget};
use super::{Catalog, CatalogView, Publish};
use crate::error::StoreError;
use crate::layout;

/// A segment of single requests in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestsEntry {
    /// Number of its journal.
    pub(crate) journal: u64,
    /// Time of its first completion.
    pub(crate) start: UtcMs,
    /// Just after its last completion.
    pub(crate) end: UtcMs,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The checksum that covers the whole file.
    pub(crate) crc32c: u32,
    /// Relative to the store.
    pub(crate) path: String,
}

/// Columns that [`entry`] reads.
const ALL: &str = "SELECT path, journal, start_ms, end_ms, rows, bytes, crc32c
    FROM requests_segment ORDER BY journal, path";

fn entry(row: &Row<'_>) -> rusqlite::Result<RequestsEntry> {
    Ok(RequestsEntry {
        path: row.get(0)?,
        journal: row.get::<_, i64>(1)?.cast_unsigned(),
        start: UtcMs(row.get(2)?),
        end: UtcMs(row.get(3)?),
        rows: row.get::<_, i64>(4)?.cast_unsigned(),
        bytes: row.get::<_, i64>(5)?.cast_unsigned(),
        crc32c: row.get(6)?,
    })
}

impl RequestsEntry {
    /// Only paths of segments of requests are ever opened or deleted.
    fn is_plausible(&self) -> bool {
        layout::parse_requests_segment(&self.path) == Some(self.journal)
            && self.start.is_in_calendar()
            && self.end.is_in_calendar()
            && self.rows.max(self.bytes) < MOST.cast_unsigned()
    }
}

impl Catalog {
    /// Whether the segments of a journal of requests are in the catalog.
    pub(crate) fn are_requests_sealed(&self, journal: u64) -> Result<bool, StoreError> {
        self.ask(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM sealed_requests WHERE journal = ?1")?
                .exists([journal.cast_signed()])
        })
    }

    /// The largest number of a sealed journal of requests, or 0.
    pub(crate) fn last_requests(&self) -> Result<u64, StoreError> {
        self.last_in("SELECT coalesce(max(journal), 0) FROM sealed_requests")
    }

    /// The largest number of a journal of requests that has segments, or 0.
    pub(crate) fn last_with_requests(&self) -> Result<u64, StoreError> {
        self.last_in("SELECT coalesce(max(journal), 0) FROM requests_segment")
    }

    fn last_in(&self, largest: &str) -> Result<u64, StoreError> {
        let number: i64 =
            self.ask(|connection| connection.query_row(largest, [], |row| row.get(0)))?;
        Ok(number.max(0).cast_unsigned())
    }

    /// Enters a sealed journal of requests with its segments, in one transaction. The caller publishes it.
    pub(crate) fn commit_requests(
        &self,
        journal: u64,
        previous: Option<u64>,
        segments: &[RequestsEntry],
    ) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            enter_requests(transaction, segments)?;
            enter_sealed(transaction, journal, previous)
        })
    }

    /// Enters segments and journals of requests that were found on disk or are in another catalog.
    pub(crate) fn restore_requests(
        &self,
        segments: &[RequestsEntry],
        sealed: &[(u64, Option<u64>)],
    ) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            enter_requests(transaction, segments)?;
            let mut sealed = sealed.iter();
            sealed
                .try_for_each(|(journal, previous)| enter_sealed(transaction, *journal, *previous))
        })
    }

    /// All segments of requests, by journal.
    pub(crate) fn kept_requests(&self) -> Result<Vec<RequestsEntry>, StoreError> {
        let mut kept = self.ask(all)?;
        kept.retain(RequestsEntry::is_plausible);
        Ok(kept)
    }

    /// Removes the oldest segments of requests. They may be deleted from now on.
    pub(crate) fn expire_requests(&self, paths: &[String]) -> Result<(), StoreError> {
        self.change(Publish::Now, |transaction| {
            for path in paths {
                transaction
                    .prepare_cached("DELETE FROM requests_segment WHERE path = ?1")?
                    .execute([path])?;
                enter_removed(transaction, path, UtcMs(0))?;
            }
            // Journals before the first kept one are not missing. The last one stays.
            const EXPIRED: &str = "journal < (SELECT min(journal) FROM requests_segment)
                 AND journal < (SELECT max(journal) FROM sealed_requests)";
            for change in [
                format!(
                    "UPDATE sealed_requests SET previous = NULL
                     WHERE previous IN (SELECT journal FROM sealed_requests WHERE {EXPIRED})"
                ),
                format!("DELETE FROM sealed_requests WHERE {EXPIRED}"),
            ] {
                transaction.execute(&change, [])?;
            }
            Ok(())
        })
    }

    /// Segments of requests that were removed but not deleted yet.
    pub(crate) fn removed_requests(&self) -> Result<Vec<String>, StoreError> {
        let removed =
            "SELECT path FROM removed WHERE path NOT IN (SELECT path FROM requests_segment)";
        let mut removed = self.ask(|connection| {
            let mut select = connection.prepare_cached(removed)?;
            let paths = select.query_map([], |row| row.get::<_, String>(0))?;
            paths.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        removed.retain(|path| layout::parse_requests_segment(path).is_some());
        Ok(removed)
    }
}

impl CatalogView {
    /// All segments of requests, by journal.
    pub(crate) fn requests_segments(&self) -> Result<Vec<RequestsEntry>, StoreError> {
        let segments = self.rows(ALL, [], entry)?;
        match segments.iter().all(RequestsEntry::is_plausible) {
            true => Ok(segments),
            false => Err(self.damaged("a segment of requests has an implausible entry")),
        }
    }
}

fn all(connection: &Connection) -> rusqlite::Result<Vec<RequestsEntry>> {
    let mut select = connection.prepare_cached(ALL)?;
    let rows = select.query_map([], entry)?;
    rows.collect()
}

fn enter_requests(
    transaction: &Transaction<'_>,
    segments: &[RequestsEntry],
) -> rusqlite::Result<()> {
    for segment in segments {
        transaction
            .prepare_cached(
                "INSERT INTO requests_segment (path, journal, start_ms, end_ms, rows, bytes, crc32c)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                segment.path,
                segment.journal.cast_signed(),
                segment.start.0,
                segment.end.0,
                segment.rows.cast_signed(),
                segment.bytes.cast_signed(),
                segment.crc32c,
            ])?;
        forget(transaction, &segment.path)?;
    }
    Ok(())
}

fn enter_sealed(
    transaction: &Transaction<'_>,
    journal: u64,
    previous: Option<u64>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO sealed_requests (journal, previous) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute([Some(journal.cast_signed()), previous.map(u64::cast_signed)])?;
    Ok(())
}
