//! Catalog access for readers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, Row, params};
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::limits::Limits;
use super::upkeep::MOST;
use super::write::{IMPORTS, MACHINE, MARKS, NOTED, REBUILT, WITHOUT_MOUNTS};
use super::{SealedRow, error_at, image, schema};
use crate::error::StoreError;
use crate::file_index::PackedIndex;
use crate::layout::{self, Dataset, Series};
use crate::machine;
use crate::mount_roots::MountRoots;
use crate::names::{FileHistory, NameSeen, Names, Seen};
use crate::segment::Segment;
use crate::segment::metadata::JournalSpan;

/// Longest names of hosts and of mounts (`server:/export`), bytes. The kernel's names are shorter.
const LONGEST_NAMES: [i64; 2] = [1 << 10, 8 << 10];
const ENDLESS: &str = "it has more rows than there is room for";

/// The catalog at one point in time.
#[derive(Debug)]
pub(crate) struct CatalogView {
    connection: Connection,
    limits: Limits,
    store: PathBuf,
    path: PathBuf,
    /// Whether the file is a copy of the one that a recorder wrote.
    is_copy: bool,
}

impl CatalogView {
    pub(crate) fn open(store: &Path) -> Result<Self, StoreError> {
        let path = layout::catalog(store);
        let (connection, limits, is_copy) = image::open(store)?;
        schema::check(&connection, store)?;
        let view = Self {
            connection,
            limits,
            store: store.to_owned(),
            path,
            is_copy,
        };
        view.check_names()?;
        Ok(view)
    }

    /// Checks the lengths of names, because each row that refers to a name reads it again.
    fn check_names(&self) -> Result<(), StoreError> {
        let longest = "SELECT (SELECT max(octet_length(name)) FROM host), (SELECT max(octet_length(name)) FROM mount)";
        let longest = self.rows(longest, [], |row| Ok([row.get(0)?, row.get(1)?]))?;
        let longest: [Option<i64>; 2] = longest.into_iter().next().unwrap_or_default();
        let is_longer = |(name, most): (Option<i64>, i64)| name.is_some_and(|name| name > most);
        match longest.into_iter().zip(LONGEST_NAMES).any(is_longer) {
            true => Err(self.damaged("a host or a mount has a longer name than there can be")),
            false => Ok(()),
        }
    }

    /// Damage that SQLite finds, and invalid entries among the segments to delete.
    pub(crate) fn damage(&self) -> Result<Vec<String>, StoreError> {
        let mut damage = self.rows("PRAGMA integrity_check(10)", params![], |row| {
            row.get::<_, String>(0)
        })?;
        damage.retain(|line| line != "ok");
        for (path, counts) in self.each_removed()? {
            let is_segment = layout::parse_segment(&path).is_some();
            if counts || !is_segment && layout::parse_requests_segment(&path).is_none() {
                damage.push(format!(
                    "it lists {path:?} for deletion, which is not a removed segment"
                ));
            }
        }
        Ok(damage)
    }

    pub(crate) fn sealed_journals(&self) -> Result<HashSet<u64>, StoreError> {
        self.sealed(Series::Windows)
    }

    /// Numbers of sealed journals.
    pub(crate) fn sealed(&self, series: Series) -> Result<HashSet<u64>, StoreError> {
        let links = self.links(series)?.into_iter();
        Ok(links.map(|(number, _)| number).collect())
    }

    /// Sealed journals, each with its predecessor if that one must be known.
    pub(crate) fn links(&self, series: Series) -> Result<Vec<(u64, Option<u64>)>, StoreError> {
        let all = match series {
            Series::Windows => "SELECT journal, previous FROM sealed_journal",
            Series::Requests => "SELECT journal, previous FROM sealed_requests",
        };
        self.rows(all, params![], |row| {
            let (number, previous): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok((number.cast_unsigned(), previous.map(i64::cast_unsigned)))
        })
    }

    /// The last journal that the catalog knows to be in use.
    pub(crate) fn last_begun(&self, series: Series) -> Result<Option<u64>, StoreError> {
        self.noted(series.name())
    }

    /// The number that stands for the known marks. `None` if the store has none.
    pub(crate) fn marks(&self) -> Result<Option<u64>, StoreError> {
        self.noted(MARKS)
    }

    /// How many imports the store is known to have the progress of.
    pub(crate) fn imports(&self) -> Result<u64, StoreError> {
        Ok(self.noted(IMPORTS)?.unwrap_or(0))
    }

    /// If the catalog was rebuilt without an earlier one: the number of the first journal of requests that was found, or
    /// 0.
    pub(crate) fn rebuilt(&self) -> Result<Option<u64>, StoreError> {
        self.noted(REBUILT)
    }

    /// The number of the machine that the store was last written on, if known.
    pub(crate) fn machine(&self) -> Result<Option<u64>, StoreError> {
        self.noted(MACHINE)
    }

    /// Whether the store is a copy or on another machine than before: it takes a new id when it is written to.
    pub(crate) fn is_copy(&self) -> Result<bool, StoreError> {
        Ok(self.is_copy || machine::is_another(self.machine()?, machine::number()))
    }

    /// The last journal with unknown mounts, if the mounts of an earlier catalog could not be taken over.
    pub(crate) fn last_without_mounts(&self) -> Result<Option<u64>, StoreError> {
        self.noted(WITHOUT_MOUNTS)
    }

    /// Whether there is still data of a time in which mounts are unknown.
    pub(crate) fn may_lack_mounts(&self) -> Result<bool, StoreError> {
        let Some(last) = self.last_without_mounts()? else {
            return Ok(false);
        };
        let first = "SELECT min(journal) FROM sealed_journal WHERE start_ms IS NOT NULL";
        let first = self.rows(first, params![], |row| row.get::<_, Option<i64>>(0))?;
        let first = first.into_iter().flatten().next();
        Ok(first.is_none_or(|first| first.cast_unsigned() <= last))
    }

    fn noted(&self, what: &str) -> Result<Option<u64>, StoreError> {
        let numbers = self.rows(NOTED, [what], |row| row.get::<_, i64>(0))?;
        Ok(numbers.into_iter().max().map(i64::cast_unsigned))
    }

    /// All rows of sealed journals, by number.
    pub(crate) fn sealed_rows(&self, series: Series) -> Result<Vec<SealedRow>, StoreError> {
        let all = match series {
            Series::Windows => {
                "SELECT journal, previous, host.name, start_ms, end_ms
                 FROM sealed_journal LEFT JOIN host ON host.id = host ORDER BY journal"
            }
            Series::Requests => {
                // SQLite makes no automatic index of a table without row ids, so a plain join is quadratic.
                "SELECT journal, previous, NULL, start_ms, end_ms
                 FROM sealed_requests LEFT JOIN (
                     SELECT journal, min(start_ms) AS start_ms, max(end_ms) AS end_ms
                     FROM requests_segment GROUP BY journal
                 ) USING (journal) ORDER BY journal"
            }
        };
        self.rows(all, params![], |row| {
            let (start, end): (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
            Ok(SealedRow {
                journal: row.get::<_, i64>(0)?.cast_unsigned(),
                previous: row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned),
                host: row.get(2)?,
                seen: start
                    .zip(end)
                    .map(|(start, end)| (UtcMs(start), UtcMs(end))),
            })
        })
    }

    /// Segments that overlap a time range, ordered from fine to coarse, then by start.
    pub(crate) fn segments(
        &self,
        dataset: Dataset,
        range: Option<(UtcMs, UtcMs)>,
    ) -> Result<Vec<Segment>, StoreError> {
        let (since, until) =
            range.map_or((i64::MIN, i64::MAX), |(since, until)| (since.0, until.0));
        let rows = self.rows(
            "SELECT granularity_ms, host.name, journal, last_journal, start_ms, end_ms, rows, bytes, path, files, crc32c
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

    pub(super) fn damaged(&self, why: &'static str) -> StoreError {
        StoreError::DamagedCatalog {
            store: self.store.clone(),
            why: why.to_owned(),
        }
    }

    /// Checks the time range of a journal or a segment.
    fn in_calendar(&self, start: UtcMs, end: UtcMs) -> Result<(UtcMs, UtcMs), StoreError> {
        match start.is_in_calendar() && end.is_in_calendar() {
            true => Ok((start, end)),
            false => Err(self.damaged("it has times that are out of range")),
        }
    }

    fn segment(&self, dataset: Dataset, row: SegmentRow) -> Result<Segment, StoreError> {
        let damaged = |why| self.damaged(why);
        let granularity = Granularity::from_ms(row.granularity_ms)
            .map_err(|_| damaged("a segment's granularity is invalid"))?;
        // Only paths of segments are ever opened.
        if layout::parse_segment(&row.path) != Some((dataset, granularity, row.last_journal)) {
            return Err(damaged("a segment has the path of something else"));
        }
        if row.rows.max(row.bytes) >= MOST.cast_unsigned() {
            return Err(damaged(
                "a segment has more rows or bytes than there can be",
            ));
        }
        let (start, end) = self.in_calendar(row.start, row.end)?;
        Ok(Segment {
            store: 0,
            path: self.store.join(&row.path),
            dataset,
            granularity,
            host: row.host,
            journal: row.journal,
            last_journal: row.last_journal,
            start,
            end,
            rows: row.rows,
            bytes: row.bytes,
            crc32c: row.crc32c,
            files: PackedIndex::new(row.files, row.rows),
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

    /// Segments to delete, by their paths relative to the store.
    pub(crate) fn removed(&self) -> Result<Vec<String>, StoreError> {
        let mut removed = self.each_removed()?;
        removed.retain(|(path, counts)| !counts && layout::parse_segment(path).is_some());
        Ok(removed.into_iter().map(|(path, _)| path).collect())
    }

    /// Segments to delete, including segments of requests.
    pub(crate) fn all_removed(&self) -> Result<Vec<String>, StoreError> {
        let removed = self.each_removed()?.into_iter();
        Ok(removed.map(|(path, _)| path).collect())
    }

    /// All paths in `removed`, each with whether the segment still counts.
    fn each_removed(&self) -> Result<Vec<(String, bool)>, StoreError> {
        let all = "SELECT path, path IN (SELECT path FROM segment UNION SELECT path FROM requests_segment) FROM removed";
        self.rows(all, params![], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Sealed journals with their hosts, by host and number. Expired journals are missing.
    pub(crate) fn journals(&self) -> Result<Vec<(String, JournalSpan)>, StoreError> {
        let journals = self.rows(
            "SELECT host.name, journal, previous, start_ms, end_ms FROM sealed_journal JOIN host ON host.id = host
             WHERE start_ms IS NOT NULL AND end_ms IS NOT NULL ORDER BY host.name, journal",
            params![],
            |row| {
                let span = JournalSpan {
                    number: row.get::<_, i64>(1)?.cast_unsigned(),
                    previous: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
                    start: UtcMs(row.get(3)?),
                    end: UtcMs(row.get(4)?),
                };
                Ok((row.get(0)?, span))
            },
        )?;
        for (_, span) in &journals {
            self.in_calendar(span.start, span.end)?;
        }
        Ok(journals)
    }

    /// Start of the first and end of the last window of the finest granularity.
    pub(crate) fn span(&self) -> Result<Option<(UtcMs, UtcMs)>, StoreError> {
        let spans = self.rows(
            "SELECT min(start_ms), max(end_ms) FROM sealed_journal",
            params![],
            |row| Ok(row.get::<_, Option<i64>>(0)?.zip(row.get(1)?)),
        )?;
        let span = spans.into_iter().flatten().next();
        span.map(|(start, end)| self.in_calendar(UtcMs(start), UtcMs(end)))
            .transpose()
    }

    /// Passes on names with their files, in no particular order.
    pub(crate) fn names(
        &self,
        names: Names<'_>,
        each: &mut dyn FnMut(NameSeen),
    ) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| {
            each(name(row)?);
            Ok(())
        };
        match names {
            Names::Exactly(path) => {
                self.each(&format!("{NAME_COLUMNS} WHERE path = ?1"), [path], read)
            }
            // `0` follows `/` in ASCII, so that this is the range of all paths that start with
            // `dir/`.
            Names::Below(dir) => self.each(
                &format!(
                    "{NAME_COLUMNS} WHERE path = ?1 OR path >= ?1 || '/' AND path < ?1 || '0'"
                ),
                [dir],
                read,
            ),
            Names::All => self.each(NAME_COLUMNS, [], read),
        }
    }

    pub(crate) fn history(&self, file: FileKey) -> Result<Option<FileHistory>, StoreError> {
        let file = file.0;
        let known = "SELECT first_ms, last_ms FROM file WHERE file_key = ?1";
        let Some(known) = self.rows(known, [file], |row| seen(row, 0))?.pop() else {
            return Ok(None);
        };
        let mut history = FileHistory::new(known);
        let mut names = Vec::new();
        self.names_of(FileKey(file), &mut names)?;
        for NameSeen { path, seen, .. } in names {
            history.add(Some(&path), seen.unwrap_or(known));
        }
        Ok(Some(history))
    }

    pub(crate) fn names_of(
        &self,
        file: FileKey,
        names: &mut Vec<NameSeen>,
    ) -> Result<(), StoreError> {
        let sql = format!("{NAME_COLUMNS} WHERE file_key = ?1");
        self.each(&sql, [file.0], |row| {
            names.push(name(row)?);
            Ok(())
        })
    }

    /// Adds the directory that the names of each mount share.
    pub(crate) fn mount_roots(&self, mount_roots: &mut MountRoots) -> Result<(), StoreError> {
        // All paths between the first and the last are in their common directory. This holds because of the slash at
        // the end: without it, `/a-b` would sort between `/a` and `/a/b`.
        let ends = self.rows(
            "SELECT mount.name, min(path || '/'), max(path || '/') FROM file_name
             JOIN file USING (file_key) LEFT JOIN mount ON mount.id = file.mount
             WHERE path >= '/' AND path < '0' GROUP BY file.mount",
            [],
            |row| Ok((row.get(0)?, [row.get(1)?, row.get(2)?])),
        )?;
        for (mount, paths) in ends {
            let mount: Option<String> = mount;
            let paths: [String; 2] = paths;
            let mut add = |path: &String| {
                mount_roots.add(mount.as_deref(), path.strip_suffix('/').unwrap_or(path))
            };
            paths.iter().for_each(&mut add);
        }
        Ok(())
    }

    pub(crate) fn files_with_id(&self, dev: Dev, fileid: u64) -> Result<Vec<FileKey>, StoreError> {
        self.rows(
            "SELECT file_key FROM file WHERE fileid = ?1 AND (dev = ?2 OR mount IS NOT NULL AND EXISTS (
               SELECT 1 FROM mount_period AS period WHERE period.mount = file.mount AND period.dev = ?2
             ))",
            params![fileid.cast_signed(), dev.0],
            |row| key(row, 0),
        )
    }

    /// Passes on rows one by one.
    fn each(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let mut left = self.limits.begin();
        let mut is_complete = false;
        let run = || -> rusqlite::Result<()> {
            let mut select = self.connection.prepare_cached(sql)?;
            let mut rows = select.query(params)?;
            while let Some(row) = rows.next()? {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                read(row)?;
            }
            is_complete = true;
            Ok(())
        };
        match run() {
            Ok(()) if is_complete => Ok(()),
            Ok(()) => Err(self.damaged(ENDLESS)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Err(self.damaged(ENDLESS))
            }
            Err(error) => Err(error_at(&self.path)(error)),
        }
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut all = Vec::new();
        self.each(sql, params, |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }
}

/// A row of the `segment` table.
struct SegmentRow {
    granularity_ms: i64,
    host: String,
    journal: u64,
    last_journal: u64,
    start: UtcMs,
    end: UtcMs,
    rows: u64,
    bytes: u64,
    path: String,
    files: Option<Vec<u8>>,
    crc32c: u32,
}

impl SegmentRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            granularity_ms: row.get(0)?,
            host: row.get(1)?,
            journal: row.get::<_, i64>(2)?.cast_unsigned(),
            last_journal: row.get::<_, i64>(3)?.cast_unsigned(),
            start: UtcMs(row.get(4)?),
            end: UtcMs(row.get(5)?),
            rows: row.get::<_, i64>(6)?.cast_unsigned(),
            bytes: row.get::<_, i64>(7)?.cast_unsigned(),
            path: row.get(8)?,
            files: row.get(9)?,
            crc32c: row.get(10)?,
        })
    }
}

/// Columns that [`name`] reads.
const NAME_COLUMNS: &str = "SELECT file_key, path, first_ms, last_ms FROM file_name";

fn name(row: &Row<'_>) -> rusqlite::Result<NameSeen> {
    Ok(NameSeen {
        key: key(row, 0)?,
        path: row.get(1)?,
        seen: Some(seen(row, 2)?),
    })
}

fn seen(row: &Row<'_>, column: usize) -> rusqlite::Result<Seen> {
    Ok((UtcMs(row.get(column)?), UtcMs(row.get(column + 1)?)))
}

fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<FileKey> {
    row.get(column).map(FileKey)
}
