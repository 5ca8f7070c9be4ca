//! Catalog access for merging, expiring and deleting.

use rusqlite::{Transaction, params};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::write::{Named, enter_removed, enter_segment, file_blob, forget, named};
use super::{Catalog, Publish, SegmentEntry};
use crate::error::StoreError;
use crate::layout::{self, Dataset};
use crate::segment::metadata::JournalSpan;

/// No segment has that many bytes or rows. Sums over all segments cannot overflow.
pub(super) const MOST: i64 = 1 << 50;

/// A segment without the index of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptSegment {
    pub(crate) dataset: Dataset,
    pub(crate) granularity: Granularity,
    pub(crate) host: String,
    /// Numbers of the first and the last journal of its rows.
    pub(crate) journals: (u64, u64),
    pub(crate) start: UtcMs,
    pub(crate) end: UtcMs,
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
    /// Relative to the store.
    pub(crate) path: String,
}

impl Catalog {
    /// All segments, from fine to coarse, by start.
    pub(crate) fn kept_segments(&self) -> Result<Vec<KeptSegment>, StoreError> {
        self.ask(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT dataset, granularity_ms, host.name, journal, last_journal, start_ms, end_ms, bytes, path, crc32c
                 FROM segment JOIN host ON host.id = segment.host
                 ORDER BY granularity_ms, start_ms, journal, path",
            )?;
            let mut rows = select.query([])?;
            let mut kept = Vec::new();
            while let Some(row) = rows.next()? {
                let dataset = Dataset::named(&row.get::<_, String>(0)?);
                let granularity = Granularity::from_ms(row.get(1)?).ok();
                // Implausible rows are skipped here. `store check` reports them.
                let Some((dataset, granularity)) = dataset.zip(granularity) else {
                    continue;
                };
                let journals: (i64, i64) = (row.get(3)?, row.get(4)?);
                let path: String = row.get(8)?;
                if layout::parse_segment(&path)
                    != Some((dataset, granularity, journals.1.cast_unsigned()))
                {
                    continue;
                }
                let (start, end): (i64, i64) = (row.get(5)?, row.get(6)?);
                let bytes: i64 = row.get(7)?;
                let are_journals = 0 < journals.0 && journals.0 <= journals.1;
                if !are_journals || start >= end || !(0..MOST).contains(&bytes) {
                    continue;
                }
                kept.push(KeptSegment {
                    dataset,
                    granularity,
                    host: row.get(2)?,
                    journals: (journals.0.cast_unsigned(), journals.1.cast_unsigned()),
                    start: UtcMs(start),
                    end: UtcMs(end),
                    bytes: bytes.cast_unsigned(),
                    path,
                    crc32c: row.get(9)?,
                });
            }
            Ok(kept)
        })
    }

    /// Journals of a host, from the first to the last of these numbers.
    pub(crate) fn spans(
        &self,
        host: &str,
        (first, last): (u64, u64),
    ) -> Result<Vec<JournalSpan>, StoreError> {
        self.ask(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT journal, previous, start_ms, end_ms FROM sealed_journal JOIN host ON host.id = host
                 WHERE name = ?1 AND journal BETWEEN ?2 AND ?3 AND start_ms IS NOT NULL ORDER BY journal",
            )?;
            let params = params![host, first.cast_signed(), last.cast_signed()];
            let spans = select.query_map(params, |row| {
                Ok(JournalSpan {
                    number: row.get::<_, i64>(0)?.cast_unsigned(),
                    previous: row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned),
                    start: UtcMs(row.get(2)?),
                    end: UtcMs(row.get(3)?),
                })
            })?;
            spans.collect::<rusqlite::Result<_>>()
        })
    }

    /// Replaces segments by their merged segment, in one transaction. They may be deleted from `at` on.
    pub(crate) fn replace(
        &mut self,
        host: &str,
        merged: &[SegmentEntry],
        inputs: &[String],
        at: UtcMs,
    ) -> Result<(), StoreError> {
        let blobs: Result<Vec<_>, _> = merged.iter().map(file_blob).collect();
        let blobs = blobs?;
        self.change(Publish::Now, |transaction| {
            for path in inputs {
                remove_segment(transaction, path, at)?;
            }
            let host = named(transaction, Named::Host, host)?;
            for (segment, blob) in merged.iter().zip(&blobs) {
                enter_segment(transaction, host, segment, blob)?;
                forget(transaction, &segment.path)?;
            }
            Ok(())
        })
    }

    /// Removes segments, which may be deleted from `at` on, in one transaction. Also removes names,
    /// files, mounts and journals from the time before the oldest remaining segment.
    ///
    /// Keeps the journals from the one before `first_unsealed` on, because unsealed journals refer to
    /// them.
    pub(crate) fn expire(
        &mut self,
        paths: &[String],
        at: UtcMs,
        first_unsealed: Option<u64>,
    ) -> Result<(), StoreError> {
        let first_unsealed = first_unsealed.map_or(i64::MAX, u64::cast_signed);
        self.change(Publish::Now, |transaction| {
            for path in paths {
                remove_segment(transaction, path, at)?;
            }
            let oldest = "SELECT coalesce(min(start_ms), 9223372036854775807) FROM segment";
            let oldest: i64 = transaction.query_row(oldest, [], |row| row.get(0))?;
            for table in ["file_name", "file", "mount_period", "mount_point"] {
                let delete = format!("DELETE FROM {table} WHERE last_ms <= ?1");
                transaction.execute(&delete, [oldest])?;
            }
            // The next journal's number follows from the last journal's.
            const EXPIRED: &str = "end_ms <= ?1
                 AND journal < (SELECT max(journal) FROM sealed_journal WHERE journal < ?2)";
            for change in [
                // These journals are not missing.
                format!(
                    "UPDATE sealed_journal SET previous = NULL
                     WHERE previous IN (SELECT journal FROM sealed_journal WHERE {EXPIRED})"
                ),
                format!("DELETE FROM sealed_journal WHERE {EXPIRED}"),
            ] {
                transaction.execute(&change, [oldest, first_unsealed])?;
            }
            Ok(())
        })
    }

    /// All removed segments.
    pub(crate) fn removed(&self) -> Result<Vec<String>, StoreError> {
        self.due(UtcMs(i64::MAX))
    }

    /// Removed segments that may be deleted now. Health comes first: without its health, no query
    /// reads the other segments of a journal.
    pub(crate) fn due(&self, now: UtcMs) -> Result<Vec<String>, StoreError> {
        self.ask(|connection| {
            // The catalog may be forged. It must not cause the deletion of other files, or of segments that count.
            let due = "SELECT path FROM removed WHERE at_ms <= ?1 AND path NOT IN (SELECT path FROM segment) ORDER BY path";
            let mut select = connection.prepare_cached(due)?;
            let due = select.query_map([now.0], |row| row.get(0))?;
            let mut due: Vec<String> = due.collect::<rusqlite::Result<_>>()?;
            due.retain(|path| layout::parse_segment(path).is_some());
            Ok(due)
        })
    }

    /// Records that files were deleted.
    pub(crate) fn deleted(&mut self, paths: &[String]) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            paths.iter().try_for_each(|path| forget(transaction, path))
        })
    }
}

fn remove_segment(transaction: &Transaction<'_>, path: &str, at: UtcMs) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM segment WHERE path = ?1")?
        .execute([path])?;
    enter_removed(transaction, path, at)
}
