//! What readers ask of the catalog.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row, params};
use trackiops_schemas::identity::{Dev, FileId, FileKey};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::{check_format, error_at, open_read_only};
use crate::error::StoreError;
use crate::file_index::FileIndex;
use crate::layout::{self, Dataset};
use crate::snapshot::Segment;

/// The catalog as it was at one moment.
#[derive(Debug)]
pub(crate) struct CatalogView {
    connection: Connection,
    store: PathBuf,
    path: PathBuf,
}

impl CatalogView {
    pub(crate) fn open(store: &Path) -> Result<Self, StoreError> {
        let path = layout::catalog(store);
        let connection = open_read_only(&path)?;
        check_format(&connection, store, &path)?;
        // A deferred transaction takes its view with its first statement.
        connection
            .execute_batch("BEGIN; SELECT count(*) FROM sealed_journal;")
            .map_err(error_at(&path))?;
        Ok(Self {
            connection,
            store: store.to_owned(),
            path,
        })
    }

    pub(crate) fn sealed_journals(&self) -> Result<HashSet<u64>, StoreError> {
        let all = "SELECT journal FROM sealed_journal";
        let numbers = self.rows(all, params![], |row| row.get::<_, i64>(0))?;
        Ok(numbers.into_iter().map(i64::cast_unsigned).collect())
    }

    /// The segments that overlap a range of time, from fine to coarse, by start.
    pub(crate) fn segments(
        &self,
        dataset: Dataset,
        range: Option<(UtcMs, UtcMs)>,
    ) -> Result<Vec<Segment>, StoreError> {
        let (since, until) =
            range.map_or((i64::MIN, i64::MAX), |(since, until)| (since.0, until.0));
        let rows = self.rows(
            "SELECT granularity_ms, host.name, journal, start_ms, end_ms, rows, path, files
             FROM segment JOIN host ON host.id = segment.host
             WHERE dataset = ?1 AND start_ms < ?3 AND end_ms > ?2
             ORDER BY granularity_ms, start_ms, segment.id",
            params![dataset.name(), since, until],
            SegmentRow::read,
        )?;
        rows.into_iter()
            .map(|row| self.segment(dataset, row))
            .collect()
    }

    fn segment(&self, dataset: Dataset, row: SegmentRow) -> Result<Segment, StoreError> {
        let path = self.store.join(&row.path);
        let damaged = |why| StoreError::Damaged {
            path: self.path.clone(),
            offset: 0,
            why,
        };
        let files = match row.files {
            None => FileIndex::default(),
            Some(blob) => FileIndex::decode(&blob, row.rows).map_err(|e| damaged(e.why()))?,
        };
        Ok(Segment {
            path,
            dataset,
            granularity: Granularity::from_ms(row.granularity_ms)
                .map_err(|_| damaged("a segment has no such granularity"))?,
            host: row.host,
            journal: row.journal,
            start: row.start,
            end: row.end,
            rows: row.rows,
            files,
        })
    }

    pub(crate) fn granularities(&self) -> Result<Vec<Granularity>, StoreError> {
        let all = "SELECT DISTINCT granularity_ms FROM segment";
        let lengths = self.rows(all, params![], |row| row.get(0))?;
        Ok(lengths
            .into_iter()
            .filter_map(|ms| Granularity::from_ms(ms).ok())
            .collect())
    }

    /// Start of the first and end of the last window of the finest granularity that each journal
    /// still has: coarse windows reach beyond what was recorded.
    pub(crate) fn span(&self) -> Result<Option<(UtcMs, UtcMs)>, StoreError> {
        let spans = self.rows(
            "WITH finest AS (SELECT journal, min(granularity_ms) AS ms FROM segment GROUP BY journal)
             SELECT min(start_ms), max(end_ms) FROM segment
             JOIN finest ON finest.journal = segment.journal AND finest.ms = granularity_ms",
            params![],
            |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?)),
        )?;
        let span = spans.into_iter().flatten().next();
        Ok(span.map(|(start, end)| (UtcMs(start), UtcMs(end))))
    }

    pub(crate) fn files_named(&self, path: &str) -> Result<Vec<FileKey>, StoreError> {
        let by_path = "SELECT file_key FROM file_name WHERE path = ?1";
        self.rows(by_path, params![path], |row| key(row, 0))
    }

    pub(crate) fn files_with_id(&self, dev: Dev, fileid: u64) -> Result<Vec<FileKey>, StoreError> {
        let candidates = self.rows(
            "SELECT DISTINCT file_key, handle_hash, name FROM file
             JOIN mount_period AS period ON period.mount IS file.mount
             LEFT JOIN mount ON mount.id = file.mount
             WHERE file.fileid = ?1 AND period.dev = ?2",
            params![fileid.cast_signed(), dev.0],
            |row| Ok((key(row, 0)?, row.get(1)?, row.get::<_, Option<String>>(2)?)),
        )?;
        // Files of unknown mounts all have the mount NULL; their keys tell which device they were on.
        let on_device = |(key, handle_hash, mount): (FileKey, u32, Option<String>)| {
            let id = FileId {
                dev,
                fileid,
                handle_hash,
            };
            (FileKey::new(mount.as_deref(), id) == key).then_some(key)
        };
        Ok(candidates.into_iter().filter_map(on_device).collect())
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut select| select.query_map(params, read)?.collect())
            .map_err(error_at(&self.path))
    }
}

/// A row of the `segment` table.
struct SegmentRow {
    granularity_ms: i64,
    host: String,
    journal: u64,
    start: UtcMs,
    end: UtcMs,
    rows: u64,
    path: String,
    files: Option<Vec<u8>>,
}

impl SegmentRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            granularity_ms: row.get(0)?,
            host: row.get(1)?,
            journal: row.get::<_, i64>(2)?.cast_unsigned(),
            start: UtcMs(row.get(3)?),
            end: UtcMs(row.get(4)?),
            rows: row.get::<_, i64>(5)?.cast_unsigned(),
            path: row.get(6)?,
            files: row.get(7)?,
        })
    }
}

fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<FileKey> {
    Ok(FileKey(row.get::<_, i64>(column)?.cast_unsigned()))
}
