//! Reads an export of `trackiops export` like journals: window by window, for each of its hosts.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::columns::{
    self, META_DATASET, META_GRANULARITY, META_RANGE, META_STORES, rollup_schema,
};
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::regular_file::open_regular;
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::batch::{StoredRow, StoredTenant, decode_rows};
use crate::error::StoreError;
use crate::identity::Ids;
use crate::layout::Dataset;
use crate::parquet_file::ParquetFile;
use crate::read_memory::{beyond_limit, most_decoded_bytes};
use crate::segment::metadata::{check_format, value};

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
/// Three months of seconds. Each window takes memory, even without rows, and an export can claim any range.
const MOST_WINDOWS: i64 = 1 << 23;

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
    /// Opens an export of rollups. Returns one item per host, and the ids of its stores as far as known.
    pub(crate) fn open(path: &Path) -> Result<(Vec<Self>, Ids), StoreError> {
        let refused = |why| StoreError::NotAStore {
            path: path.to_owned(),
            why,
        };
        match Begin::of(path)? {
            Begin::Parquet => {}
            Begin::Arrow => {
                return Err(refused(
                    "it is Arrow, which other programs read; export with --format parquet to query it",
                ));
            }
            Begin::Other => {
                return Err(refused(
                    "it is neither a directory nor an export in Parquet",
                ));
            }
        }
        let file = open(path)?;
        let metadata = file.key_values();
        let is_rollup = value(metadata, META_DATASET) == Some(Dataset::Rollup.name());
        let granularity = value(metadata, META_GRANULARITY).and_then(|text| text.parse().ok());
        let span = value(metadata, META_RANGE).and_then(parse_range);
        let (true, Some(granularity), Some((start, end))) = (is_rollup, granularity, span) else {
            return Err(refused(
                "only Parquet files that `trackiops export` wrote with --dataset rollup can be queried",
            ));
        };
        let stores = value(metadata, META_STORES).unwrap_or_default();
        let stores: Ids = stores.split(',').filter_map(|id| id.parse().ok()).collect();
        let end = UtcMs(end.0 - 1).align(granularity).plus(granularity);
        let span = (start.align(granularity), end);
        if (end.0 - span.0.0) / granularity.ms() > MOST_WINDOWS {
            return Err(unreadable(
                path,
                "its range has more windows than can be read",
            ));
        }
        let mut hosts: BTreeMap<String, HashSet<Arc<FileAttributes>>> = BTreeMap::new();
        let mut names_bytes = 0;
        let is_identity = |column: &str| IDENTITY.contains(&column);
        each_row(&file, path, is_identity, |stored| {
            if !hosts.contains_key(stored.host) {
                hosts.insert(stored.host.to_owned(), HashSet::new());
            }
            let file = stored.file();
            if let Some(files) = hosts.get_mut(stored.host)
                && !files.contains(&file)
            {
                names_bytes += file_bytes(&stored);
                files.insert(Arc::new(file));
            }
            names_bytes
        })?;
        let exported = |(host, files)| Self {
            path: path.to_owned(),
            host,
            granularity,
            span,
            files,
        };
        Ok((hosts.into_iter().map(exported).collect(), stores))
    }

    /// Passes on each window, including those without rows. All time counts as recorded: an export
    /// does not contain gaps.
    pub(crate) fn windows(&self, each: &mut dyn FnMut(ClosedWindow)) -> Result<(), StoreError> {
        let file = open(&self.path)?;
        let schema = rollup_schema();
        let (start, end) = self.span;
        let mut window = self.window(start);
        let (mut is_in_order, mut window_bytes) = (true, 0);
        let is_stored = |column: &str| schema.index_of(column).is_ok();
        each_row(&file, &self.path, is_stored, |stored| {
            is_in_order &= window.start <= stored.time && stored.time < end;
            if stored.host != self.host || !is_in_order {
                return window_bytes;
            }
            while window.start.plus(self.granularity) <= stored.time {
                let next = self.window(window.start.plus(self.granularity));
                each(mem::replace(&mut window, next));
                window_bytes = 0;
            }
            window_bytes += row_bytes(&stored.row);
            let file = stored.file();
            let known = self.files.get(&file).map(Arc::clone);
            window.rows.push(FileRow {
                file: known.unwrap_or_else(|| Arc::new(file)),
                row: stored.row,
            });
            window_bytes
        })?;
        if !is_in_order {
            return Err(unreadable(
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

/// The formats that the first bytes of a file distinguish.
enum Begin {
    Parquet,
    /// A file of Arrow, or a stream. A message of a stream begins with a marker that is not a valid length.
    Arrow,
    Other,
}

impl Begin {
    fn of(path: &Path) -> Result<Self, StoreError> {
        let mut bytes = Vec::new();
        let read = open_regular(path).and_then(|file| file.take(6).read_to_end(&mut bytes));
        read.map_err(StoreError::io("read", path))?;
        Ok(match &bytes[..] {
            [b'P', b'A', b'R', b'1', ..] => Self::Parquet,
            b"ARROW1" | [0xff, 0xff, 0xff, 0xff, ..] => Self::Arrow,
            _ => Self::Other,
        })
    }
}

fn open(path: &Path) -> Result<ParquetFile, StoreError> {
    let file = ParquetFile::open(path)?;
    check_format(file.key_values()).map_err(|why| unreadable(path, why))?;
    Ok(file)
}

fn unreadable(path: &Path, why: impl ToString) -> StoreError {
    StoreError::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// Memory of a file.
fn file_bytes(stored: &StoredRow<'_>) -> u64 {
    let StoredTenant {
        uid: _,
        user,
        cgroup,
        container,
        name,
        labels,
    } = stored.tenant;
    let tenant = [user, cgroup, container, name, labels];
    let texts = [Some(stored.host), stored.mount, stored.path].into_iter();
    let texts = texts.chain(tenant).flatten().map(str::len).sum::<usize>();
    (size_of::<FileAttributes>() + texts) as u64
}

/// Memory of a row, without its file.
fn row_bytes(row: &Row) -> u64 {
    let Row {
        read,
        write,
        ops,
        app_read,
        app_write,
        cache: _,
    } = row;
    let histograms = [
        &read.latency,
        &write.latency,
        &app_read.latency,
        &app_write.latency,
    ];
    let of_ops = ops.as_slice().iter().map(|op| &op.execute);
    let histograms = histograms.into_iter().chain(of_ops);
    let buckets = histograms.map(|latency| latency.buckets().len());
    let errnos = read.errnos.counts().len() + write.errnos.counts().len();
    let pairs = buckets.sum::<usize>() + errnos;
    let lists = pairs * size_of::<(i32, u64)>() + size_of_val(ops.as_slice());
    (size_of::<FileRow>() + lists) as u64
}

/// Decodes the rows. `each` returns how much memory is held because of rows so far.
fn each_row(
    file: &ParquetFile,
    path: &Path,
    is_wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(StoredRow<'_>) -> u64,
) -> Result<(), StoreError> {
    let mut held = 0;
    for batch in file.batches(is_wanted)? {
        let decoded = decode_rows(&batch?, |row| held = each(row));
        decoded.map_err(|error| unreadable(path, error))?;
        if held > most_decoded_bytes() {
            return Err(unreadable(
                path,
                format!("its rows take {}", beyond_limit()),
            ));
        }
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

    use std::io::Write as _;

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
    fn arrow_is_refused_with_the_way_to_query_an_export() {
        let refused = |begin: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(begin).unwrap();
            Exported::open(file.path())
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        let of_file = refused(b"ARROW1\0\0\xff\xff\xff\xff");
        let of_stream = refused(b"\xff\xff\xff\xff\x10\x11\0\0");
        for why in [of_file, of_stream] {
            assert!(why.contains("export with --format parquet"), "{why}");
        }
        let why = refused(b"time,host\n");
        assert!(why.contains("neither a directory nor an export"), "{why}");
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
