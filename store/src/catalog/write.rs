//! Catalog access for sealing.

use rusqlite::{OptionalExtension, Transaction, params};
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::time::UtcMs;

use super::{Catalog, FileSeen, Publish, Restored, Sealed, SegmentEntry};
use crate::error::StoreError;
use crate::layout::Series;
use crate::names::Seen;
use crate::segment::metadata::JournalSpan;

/// Rows of `begun` that are not about journals in use.
pub(super) const MARKS: &str = "marks";
pub(super) const IMPORTS: &str = "imports";
pub(super) const REBUILT: &str = "rebuilt";
pub(super) const WITHOUT_MOUNTS: &str = "mounts";
pub(super) const MACHINE: &str = "machine";
/// The number in such a row.
pub(super) const NOTED: &str = "SELECT journal FROM begun WHERE series = ?1";

impl Catalog {
    /// Whether the journal was sealed, and its segments are in the catalog.
    pub(crate) fn is_sealed(&self, journal: u64) -> Result<bool, StoreError> {
        self.ask(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM sealed_journal WHERE journal = ?1")?
                .exists([journal.cast_signed()])
        })
    }

    /// The last journal that had windows when the catalog was published, or 0.
    pub(crate) fn last_begun(&self, series: Series) -> Result<u64, StoreError> {
        let last = "SELECT coalesce(max(journal), 0) FROM begun WHERE series = ?1";
        let number: i64 =
            self.ask(|connection| connection.query_row(last, [series.name()], |row| row.get(0)))?;
        Ok(number.max(0).cast_unsigned())
    }

    /// Records that a journal is in use, once its content is durable.
    pub(crate) fn begun(
        &self,
        series: Series,
        journal: u64,
        publish: Publish,
    ) -> Result<(), StoreError> {
        self.change(publish, |transaction| {
            enter_begun(transaction, series, journal)
        })
    }

    /// The number that stands for the known marks. `None` if the store has none.
    pub(crate) fn marks(&self) -> Result<Option<u64>, StoreError> {
        self.noted(MARKS)
    }

    /// Records the number that stands for the marks of the store, so that their deletion or replacement is noticed.
    pub(crate) fn enter_marks(&self, number: u64) -> Result<(), StoreError> {
        self.note(MARKS, number)
    }

    /// How many imports the store is known to have the progress of.
    pub(crate) fn imports(&self) -> Result<u64, StoreError> {
        Ok(self.noted(IMPORTS)?.unwrap_or(0))
    }

    /// Records how many imports the store has the progress of, so that the deletion of their files is noticed.
    pub(crate) fn enter_imports(&self, count: u64) -> Result<(), StoreError> {
        self.note(IMPORTS, count)
    }

    /// Records that the catalog was rebuilt without an earlier one, and the number of the first journal of requests that
    /// was found, or 0.
    pub(crate) fn enter_rebuilt(&self, first_requests: u64) -> Result<(), StoreError> {
        self.note(REBUILT, first_requests)
    }

    /// The number of the machine that the store was last written on, if known.
    pub(crate) fn machine(&self) -> Result<Option<u64>, StoreError> {
        self.noted(MACHINE)
    }

    /// Records the number of the machine that the store is written on.
    pub(crate) fn enter_machine(&self, number: u64) -> Result<(), StoreError> {
        self.note(MACHINE, number)
    }

    /// Records that the mounts during all journals up to this one are unknown.
    pub(crate) fn enter_without_mounts(&self, last: u64) -> Result<(), StoreError> {
        self.note(WITHOUT_MOUNTS, last)
    }

    fn noted(&self, what: &str) -> Result<Option<u64>, StoreError> {
        let number: Option<i64> = self.ask(|connection| {
            let mut select = connection.prepare_cached(NOTED)?;
            select.query_row([what], |row| row.get(0)).optional()
        })?;
        Ok(number.map(i64::cast_unsigned))
    }

    fn note(&self, what: &str, number: u64) -> Result<(), StoreError> {
        if self.noted(what)? == Some(number) {
            return Ok(());
        }
        self.change(Publish::Later, |transaction| {
            let enter = "INSERT INTO begun (series, journal) VALUES (?1, ?2)
                         ON CONFLICT (series) DO UPDATE SET journal = excluded.journal";
            let params = params![what, number.cast_signed()];
            transaction.execute(enter, params).map(drop)
        })
    }

    /// The largest number of a sealed journal that has windows, or 0.
    pub(crate) fn last_with_windows(&self) -> Result<u64, StoreError> {
        let largest =
            "SELECT coalesce(max(journal), 0) FROM sealed_journal WHERE start_ms IS NOT NULL";
        let number: i64 =
            self.ask(|connection| connection.query_row(largest, [], |row| row.get(0)))?;
        Ok(number.max(0).cast_unsigned())
    }

    /// The largest number of a sealed journal, or 0.
    pub(crate) fn last_journal(&self) -> Result<u64, StoreError> {
        let largest = "SELECT coalesce(max(journal), 0) FROM sealed_journal";
        let number: i64 =
            self.ask(|connection| connection.query_row(largest, [], |row| row.get(0)))?;
        Ok(number.max(0).cast_unsigned())
    }

    /// Enters a sealed journal with its segments and files, in one transaction. The caller publishes it.
    pub(crate) fn commit(&mut self, sealed: &Sealed<'_>) -> Result<(), StoreError> {
        let blobs: Result<Vec<_>, _> = sealed.segments.iter().map(file_blob).collect();
        let blobs = blobs?;
        self.change(Publish::Later, |transaction| {
            enter(transaction, sealed, &blobs)
        })
    }

    /// Enters a segment that was found on disk, with the files and journals of its rows.
    pub(crate) fn restore(&mut self, restored: &Restored<'_>) -> Result<(), StoreError> {
        let blob = file_blob(restored.segment)?;
        self.change(Publish::Later, |transaction| {
            let host = named(transaction, Named::Host, restored.host)?;
            enter_segment(transaction, host, restored.segment, &blob)?;
            enter_files(transaction, host, restored.files)?;
            let mut journals = restored.journals.iter();
            journals.try_for_each(|journal| {
                let JournalSpan {
                    number, previous, ..
                } = *journal;
                enter_journal(transaction, Some(host), number, previous, Some(*journal))
            })
        })
    }

    /// Records files that may be deleted from `at` on.
    pub(crate) fn remove_later<'p>(
        &mut self,
        mut paths: impl Iterator<Item = &'p str>,
        at: UtcMs,
    ) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            paths.try_for_each(|path| enter_removed(transaction, path, at))
        })
    }
}

pub(super) fn enter_removed(
    transaction: &Transaction<'_>,
    path: &str,
    at: UtcMs,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO removed (path, at_ms) VALUES (?1, ?2)
             ON CONFLICT (path) DO UPDATE SET at_ms = excluded.at_ms",
        )?
        .execute(params![path, at.0])?;
    Ok(())
}

/// Records that a path must not be deleted, or was deleted.
pub(super) fn forget(transaction: &Transaction<'_>, path: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM removed WHERE path = ?1")?
        .execute([path])?;
    Ok(())
}

pub(super) fn enter_begun(
    transaction: &Transaction<'_>,
    series: Series,
    journal: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO begun (series, journal) VALUES (?1, ?2)
             ON CONFLICT (series) DO UPDATE SET journal = max(journal, excluded.journal)",
        )?
        .execute(params![series.name(), journal.cast_signed()])?;
    Ok(())
}

/// `None` for a segment without files.
pub(super) fn file_blob(segment: &SegmentEntry) -> Result<Option<Vec<u8>>, StoreError> {
    if segment.files.is_empty() {
        return Ok(None);
    }
    let encoded = segment.files.encode();
    encoded
        .map(Some)
        .map_err(StoreError::io("index the files of", segment.path.as_ref()))
}

fn enter(
    transaction: &Transaction<'_>,
    sealed: &Sealed<'_>,
    blobs: &[Option<Vec<u8>>],
) -> rusqlite::Result<()> {
    let Sealed {
        journal,
        previous,
        span,
        ..
    } = *sealed;
    let host = named(transaction, Named::Host, sealed.host)?;
    for (segment, blob) in sealed.segments.iter().zip(blobs) {
        enter_segment(transaction, host, segment, blob)?;
    }
    enter_files(transaction, host, sealed.files)?;
    enter_journal(transaction, Some(host), journal, previous, span)
}

pub(super) fn enter_segment(
    transaction: &Transaction<'_>,
    host: i64,
    segment: &SegmentEntry,
    blob: &Option<Vec<u8>>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO segment (dataset, granularity_ms, host, journal, last_journal, start_ms, end_ms, rows, bytes,
                                  path, files, crc32c)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            segment.dataset.name(),
            segment.granularity.ms(),
            host,
            segment.journals.0.cast_signed(),
            segment.journals.1.cast_signed(),
            segment.start.0,
            segment.end.0,
            segment.rows.cast_signed(),
            segment.bytes.cast_signed(),
            segment.path,
            blob,
            segment.crc32c,
        ])?;
    Ok(())
}

/// Does nothing if the journal is known.
pub(super) fn enter_journal(
    transaction: &Transaction<'_>,
    host: Option<i64>,
    journal: u64,
    previous: Option<u64>,
    span: Option<JournalSpan>,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO sealed_journal (journal, previous, host, start_ms, end_ms)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            journal.cast_signed(),
            previous.map(u64::cast_signed),
            host,
            span.map(|span| span.start.0),
            span.map(|span| span.end.0),
        ])?;
    Ok(())
}

fn enter_files(
    transaction: &Transaction<'_>,
    host: i64,
    files: &[FileSeen],
) -> rusqlite::Result<()> {
    // Oldest first, so that a file has the mount on which it was seen first.
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|seen| (seen.first, seen.last));
    files
        .into_iter()
        .try_for_each(|seen| enter_file(transaction, host, seen))
}

fn enter_file(transaction: &Transaction<'_>, host: i64, seen: &FileSeen) -> rusqlite::Result<()> {
    let FileSeen { file, first, last } = seen;
    let mount = file.mount.as_deref();
    let mount = mount
        .map(|name| named(transaction, Named::Mount, name))
        .transpose()?;
    let times = (*first, *last);
    let dev = mount.is_none().then_some(file.id.dev.0);
    enter_numbers(
        transaction,
        file.key,
        mount,
        dev,
        file.id.fileid.cast_signed(),
        times,
    )?;
    if let Some(path) = &file.path {
        enter_name(transaction, file.key, path, times)?;
    }
    enter_mount_period(transaction, host, file.id.dev, mount, times)?;
    // A file that was also seen on another mount gets its numbers there, too.
    let entered: Option<i64> = transaction
        .prepare_cached("SELECT mount FROM file WHERE file_key = ?1")?
        .query_row([file.key.0], |row| row.get(0))?;
    match entered == mount {
        true => Ok(()),
        false => enter_mount_period(transaction, host, file.id.dev, entered, times),
    }
}

/// Enters a file, or extends the time range in which it was seen.
pub(super) fn enter_numbers(
    transaction: &Transaction<'_>,
    key: FileKey,
    mount: Option<i64>,
    dev: Option<u32>,
    fileid: i64,
    (first, last): Seen,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO file (file_key, mount, dev, fileid, first_ms, last_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (file_key) DO UPDATE SET
               first_ms = min(first_ms, excluded.first_ms), last_ms = max(last_ms, excluded.last_ms)",
        )?
        .execute(params![key.0, mount, dev, fileid, first.0, last.0])?;
    Ok(())
}

/// Enters a name of a file, or extends the time range in which the file had it.
pub(super) fn enter_name(
    transaction: &Transaction<'_>,
    key: FileKey,
    path: &str,
    (first, last): Seen,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO file_name (file_key, path, first_ms, last_ms) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (file_key, path) DO UPDATE SET
               first_ms = min(first_ms, excluded.first_ms), last_ms = max(last_ms, excluded.last_ms)",
        )?
        .execute(params![key.0, path, first.0, last.0])?;
    Ok(())
}

/// Extends the time range in which a device stood for a mount. Volumes of one export share a device, so ranges overlap.
pub(super) fn enter_mount_period(
    transaction: &Transaction<'_>,
    host: i64,
    dev: Dev,
    mount: Option<i64>,
    (first, last): Seen,
) -> rusqlite::Result<()> {
    let known: Option<i64> = transaction
        .prepare_cached(
            "SELECT rowid FROM mount_period WHERE dev = ?1 AND host = ?2 AND mount IS ?3",
        )?
        .query_row(params![dev.0, host, mount], |row| row.get(0))
        .optional()?;
    match known {
        Some(id) => transaction
            .prepare_cached(
                "UPDATE mount_period SET first_ms = min(first_ms, ?2), last_ms = max(last_ms, ?3)
                 WHERE rowid = ?1",
            )?
            .execute([id, first.0, last.0])?,
        None => transaction
            .prepare_cached(
                "INSERT INTO mount_period (host, dev, mount, first_ms, last_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![host, dev.0, mount, first.0, last.0])?,
    };
    Ok(())
}

/// A table of names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    Host,
    Mount,
}

/// The id of a name. Inserts the name if it is new.
pub(super) fn named(
    transaction: &Transaction<'_>,
    table: Named,
    name: &str,
) -> rusqlite::Result<i64> {
    let [insert, select] = match table {
        Named::Host => [
            "INSERT INTO host (name) VALUES (?1) ON CONFLICT DO NOTHING",
            "SELECT id FROM host WHERE name = ?1",
        ],
        Named::Mount => [
            "INSERT INTO mount (name) VALUES (?1) ON CONFLICT DO NOTHING",
            "SELECT id FROM mount WHERE name = ?1",
        ],
    };
    transaction.prepare_cached(insert)?.execute([name])?;
    let mut select = transaction.prepare_cached(select)?;
    select.query_row([name], |row| row.get(0))
}
