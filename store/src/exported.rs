//! Reads an export of `trackiops export` like journals: window by window, for each of its hosts.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_schemas::columns::{self, META_DATASET, META_GRANULARITY, META_RANGE, rollup_schema};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::row::{ClosedWindow, FileRow, Health};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::batch::{StoredRow, decode_rows};
use crate::decode_panic::caught;
use crate::error::StoreError;
use crate::layout::Dataset;
use crate::segment::metadata::{check_format, value};
use crate::segment::verified::damaged;

/// Columns that identify a file and its user.
const IDENTITY: [&str; 14] = [
    columns::HOST,
    columns::MOUNT,
    columns::PATH,
    columns::PATH_INFERRED,
    columns::FILE_KEY,
    columns::DEV,
    columns::FILEID,
    columns::UID,
    columns::USER,
    columns::CGROUP,
    columns::CONTAINER,
    columns::TENANT_NAME,
    columns::LABELS,
    columns::LEVEL,
];
/// Three months of seconds. Something is kept of each window, also of those without rows, and what
/// range an export claims costs it nothing.
const MOST_WINDOWS: i64 = 1 << 23;
/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// The rows of one host in an export.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) path: PathBuf,
    pub(crate) host: String,
    pub(crate) granularity: Granularity,
    /// Start of the first and end of the last window, including windows without rows.
    pub(crate) span: (UtcMs, UtcMs),
    /// The files, once per user. Rows refer to these.
    pub(crate) files: HashSet<Arc<FileAttributes>>,
}

impl Exported {
    /// Opens an export of rollups. Returns one item per host.
    pub(crate) fn open(path: &Path) -> Result<Vec<Self>, StoreError> {
        let refused = |why| StoreError::NotAStore {
            path: path.to_owned(),
            why,
        };
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let reader = reader(file, path)
            .map_err(|_| refused("it is neither a directory nor an export in Parquet"))?;
        let metadata = reader.metadata().file_metadata().key_value_metadata();
        let is_rollup = value(metadata, META_DATASET) == Some(Dataset::Rollup.name());
        let granularity = value(metadata, META_GRANULARITY).and_then(|text| text.parse().ok());
        let span = value(metadata, META_RANGE).and_then(parse_range);
        let (true, Some(granularity), Some((start, end))) = (is_rollup, granularity, span) else {
            return Err(refused(
                "only Parquet files that `trackiops export` wrote with --dataset rollup can be queried",
            ));
        };
        let end = UtcMs(end.0 - 1).align(granularity).plus(granularity);
        let span = (start.align(granularity), end);
        if (end.0 - span.0.0) / granularity.ms() > MOST_WINDOWS {
            return Err(damaged(path, "its range has more windows than can be read"));
        }
        let mut hosts: BTreeMap<String, HashSet<Arc<FileAttributes>>> = BTreeMap::new();
        each_row(
            reader,
            path,
            |column| IDENTITY.contains(&column),
            |stored| {
                if !hosts.contains_key(stored.host) {
                    hosts.insert(stored.host.to_owned(), HashSet::new());
                }
                let file = stored.file();
                if let Some(files) = hosts.get_mut(stored.host)
                    && !files.contains(&file)
                {
                    files.insert(Arc::new(file));
                }
            },
        )?;
        let exported = |(host, files)| Self {
            path: path.to_owned(),
            host,
            granularity,
            span,
            files,
        };
        Ok(hosts.into_iter().map(exported).collect())
    }

    /// Passes on each window, including those without rows. All time counts as recorded: an export
    /// does not contain gaps.
    pub(crate) fn windows(&self, each: &mut dyn FnMut(ClosedWindow)) -> Result<(), StoreError> {
        let file = File::open(&self.path).map_err(StoreError::io("open", &self.path))?;
        let reader = reader(file, &self.path)?;
        let schema = rollup_schema();
        let (start, end) = self.span;
        let mut window = self.window(start);
        let mut is_in_order = true;
        let is_stored = |column: &str| schema.index_of(column).is_ok();
        each_row(reader, &self.path, is_stored, |stored| {
            if stored.host != self.host {
                return;
            }
            is_in_order &= window.start <= stored.time && stored.time < end;
            if !is_in_order {
                return;
            }
            while window.start.plus(self.granularity) <= stored.time {
                let next = self.window(window.start.plus(self.granularity));
                each(mem::replace(&mut window, next));
            }
            let file = stored.file();
            let known = self.files.get(&file).map(Arc::clone);
            window.rows.push(FileRow {
                file: known.unwrap_or_else(|| Arc::new(file)),
                row: stored.row,
            });
        })?;
        if !is_in_order {
            return Err(damaged(
                &self.path,
                "its rows are not in order of their windows, or outside of its range",
            ));
        }
        while window.start < end {
            let next = self.window(window.start.plus(self.granularity));
            each(mem::replace(&mut window, next));
        }
        Ok(())
    }

    fn window(&self, start: UtcMs) -> ClosedWindow {
        ClosedWindow {
            start,
            rows: Vec::new(),
            ops: Vec::new(),
            health: Health {
                covered_ms: self.granularity.ms().unsigned_abs(),
                ..Health::default()
            },
        }
    }
}

/// An export may have been rewritten by any program, and has no checksums.
type Reader = ParquetRecordBatchReaderBuilder<File>;

fn reader(file: File, path: &Path) -> Result<Reader, StoreError> {
    let reader = caught(|| Reader::try_new(file)).map_err(|why| damaged(path, why))?;
    let metadata = reader.metadata().file_metadata();
    check_format(metadata.key_value_metadata()).map_err(|why| damaged(path, why))?;
    Ok(reader)
}

fn each_row(
    reader: Reader,
    path: &Path,
    wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(StoredRow<'_>),
) -> Result<(), StoreError> {
    let schema = reader.parquet_schema();
    let columns = schema.root_schema().get_fields().iter().enumerate();
    let columns = columns.filter(|(_, column)| wanted(column.name()));
    let columns = ProjectionMask::roots(schema, columns.map(|(place, _)| place));
    let reader = reader.with_projection(columns).with_batch_size(BATCH_ROWS);
    let mut reader = caught(|| reader.build()).map_err(|why| damaged(path, why))?;
    while let Some(batch) =
        caught(|| reader.next().transpose()).map_err(|why| damaged(path, why))?
    {
        decode_rows(&batch, &mut each).map_err(|error| damaged(path, error))?;
    }
    Ok(())
}

/// `start..end`, ms since the epoch.
fn parse_range(text: &str) -> Option<(UtcMs, UtcMs)> {
    let (start, end) = text.split_once("..")?;
    let (start, end) = (start.parse().ok()?, end.parse().ok()?);
    let (start, end) = (UtcMs(start), UtcMs(end));
    let is_range = start.is_in_calendar() && start < end && end.is_in_calendar();
    is_range.then_some((start, end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;

    #[test]
    fn a_range_that_would_take_gigabytes_is_refused() {
        let of = |windows: i64| {
            let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
            let pairs = vec![
                pair(columns::META_FORMAT, columns::FORMAT_VERSION.to_string()),
                pair(META_DATASET, "rollup".into()),
                pair(META_GRANULARITY, "1s".into()),
                pair(META_RANGE, format!("0..{}", windows * 1000)),
            ];
            let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs));
            let file = tempfile::NamedTempFile::new().unwrap();
            let to = file.reopen().unwrap();
            let writer = ArrowWriter::try_new(to, rollup_schema(), Some(properties.build()));
            writer.unwrap().close().unwrap();
            Exported::open(file.path()).map(drop)
        };
        of(90 * 86_400).unwrap();
        let refused = of(4 * 365 * 86_400).unwrap_err().to_string();
        assert!(
            refused.contains("more windows than can be read"),
            "{refused}"
        );
    }

    #[test]
    fn a_range_has_a_start_before_its_end() {
        assert_eq!(parse_range("-5..7"), Some((UtcMs(-5), UtcMs(7))));
        let beyond = format!("0..{}", i64::MAX);
        for text in ["", "..", "5", "7..7", "9..7", "1..x", "1..2..3", &beyond] {
            assert_eq!(parse_range(text), None, "{text}");
        }
    }
}
