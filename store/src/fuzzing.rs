//! Entry points for `fuzz/`: the code that reads a store's files, with arbitrary bytes in them.
//!
//! Each function writes the bytes to that file's place in a store in the temporary directory. It reads them like a
//! query, a check or the recorder. An error is a valid result.

use std::fs;
use std::iter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use arrow::array::RecordBatch;
use trackiops_schemas::columns;
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::row::{Health, Row};
use trackiops_schemas::time::UtcMs;

use crate::batch::{BatchError, decode_health, decode_ops, decode_rows};
use crate::catalog::{Catalog, CatalogView};
use crate::error::StoreError;
use crate::exported::Exported;
use crate::file_index::{FileIndex, PackedIndex};
use crate::journal::cursor;
use crate::journal::file::JournalFile;
use crate::journal::scan::JournalScan;
use crate::layout::{self, Dataset};
use crate::mount_roots::MountRoots;
use crate::names::Names;
use crate::requests::{RequestsView, ends_ns};
use crate::seal::{self, Step};
use crate::segment::Segment;
use crate::segment::metadata;
use crate::segment::reader::SegmentReader;

const BATCH_ROWS: usize = 8192;
const SEGMENT: &str = "rollup/granularity=1s/date=2026-11-21/h-20261121T235959Z-1.parquet";
const REQUESTS: &str = "requests/date=2026-11-21/h-20261121T235959Z-1.parquet";

/// A store that is reused for all inputs.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory = format!("trackiops-fuzz-{}", std::process::id());
        let store = std::env::temp_dir().join(directory).join(name);
        for file in ["journal/1.tij", SEGMENT, REQUESTS] {
            let directory = store.join(file);
            let directory = directory.parent().unwrap_or(&store);
            fs::create_dir_all(directory).expect("a temporary directory can be made");
        }
        fs::write(layout::catalog(&store), "").expect("a temporary file can be written");
        Self(store)
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).expect("a temporary file can be written");
    }

    /// Writes a journal and its `.end` file.
    fn journal(&self, path: &Path, bytes: &[u8], end: &[u8]) -> Option<JournalFile> {
        self.write(path, bytes);
        self.write(&layout::journal_end(path), end);
        JournalFile::open(path).ok().flatten()
    }
}

/// Scans a journal of windows, reads it completely, and adds it up.
pub fn journal(journal: &[u8], end: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("journal"));
    let scratch = &*SCRATCH;
    let path = layout::journal(&scratch.0, 1);
    let opened = scratch.journal(&path, journal, end);
    let Some(Ok(Some(scan))) = opened.map(JournalScan::new) else {
        return;
    };
    let bytes = journal.len() as u64;
    assert!(scan.torn_bytes <= bytes, "more is torn than there is");
    for damage in &scan.damage {
        assert!(damage.bytes > 0 && damage.offset <= bytes, "{damage:?}");
        assert!(
            damage.covers.is_none_or(|(start, end)| start < end),
            "{damage:?}"
        );
    }
    let _ = scan.span();
    let known = scan.files().count();
    let (mut sum, mut health) = (Row::default(), Health::default());
    for frame in &scan.windows {
        health.merge(&frame.head.health);
        let _ = scan.ops(frame);
        if let Ok(window) = cursor::window(&scan, frame) {
            assert!(known > 0 || window.rows.is_empty(), "rows of no file");
            window.rows.iter().for_each(|row| sum.merge(&row.row));
        }
    }
}

/// Seals a journal of windows until its segments are written, and reads these.
pub fn seal(journal: &[u8], end: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("seal"));
    static CATALOG: LazyLock<Mutex<Catalog>> = LazyLock::new(|| {
        let catalog = Catalog::anew(&SCRATCH.0, &[]).expect("an empty catalog can be made");
        Mutex::new(catalog)
    });
    // Windows far apart each need a directory.
    const MOST_WINDOWS: usize = 16;
    let store = &SCRATCH.0;
    let path = layout::journal(store, 1);
    let id = match SCRATCH.journal(&path, journal, end).map(JournalScan::new) {
        Some(Ok(Some(scan))) if scan.windows.len() <= MOST_WINDOWS => scan.header.store.id,
        _ => return,
    };
    let mut until_written = |step| match step {
        Step::Written => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut catalog = CATALOG.lock().unwrap_or_else(PoisonError::into_inner);
    // Journals of other stores are not sealed.
    if !catalog.ids().contains(&id) {
        catalog.enter_ids(&[id]).expect("an id can be entered");
    }
    let _ = seal::seal(store, &mut catalog, &[1], &mut until_written);
    for path in layout::temporary_segments(store).expect("segments are listed") {
        let path = layout::temporary(&store.join(path));
        let file = fs::File::open(&path).expect("a segment that was written is there");
        let reader = SegmentReader::open(file, &path).expect("a segment that was written opens");
        reader
            .verify()
            .expect("a segment that was written is whole");
        for batch in reader.batches(BATCH_ROWS).expect("it has rows") {
            batch.expect("rows that were written are read");
        }
    }
    for directory in Dataset::ALL.map(|dataset| store.join(dataset.name())) {
        let _ = fs::remove_dir_all(directory);
    }
    for path in layout::quarantined_journals(store).expect("journals are listed") {
        let _ = fs::remove_file(path);
    }
}

/// Reads a journal of single requests as a query does.
pub fn requests(journal: &[u8], end: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("requests"));
    let path = layout::requests_journal(&SCRATCH.0, 1);
    let _ = SCRATCH.journal(&path, journal, end);
    read_requests(&SCRATCH.0);
}

fn read_requests(store: &Path) {
    let Ok(mut view) = RequestsView::open(store) else {
        return;
    };
    let _ = view.start();
    for range in [i64::MIN..i64::MAX, 0..1] {
        let _ = view.read(range, &mut |batch| {
            assert_eq!(ends_ns(&batch).len(), batch.num_rows());
            Ok(true)
        });
    }
}

/// Reads a segment as queries, merging and `check` do.
pub fn segment(bytes: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("segment"));
    let scratch = &*SCRATCH;
    let path = scratch.0.join(SEGMENT);
    scratch.write(&path, bytes);
    let open = || SegmentReader::open(fs::File::open(&path).expect("it was written"), &path);
    let Ok(reader) = open() else {
        return;
    };
    let segment = described(&path, &reader);
    let _ = segment.agrees_with(&reader);
    let _ = reader.verify();
    let columns = match segment.dataset {
        Dataset::Rollup => columns::rollup_schema(),
        Dataset::Health => columns::health_schema(),
        Dataset::Ops => columns::ops_schema(),
    };
    let names = || columns.fields().iter().map(|field| field.name().as_str());
    let mut sums = Sums::default();
    let all = reader
        .only(names())
        .and_then(|reader| reader.batches(BATCH_ROWS));
    sums.add(segment.dataset, all.into_iter().flatten());
    // Two ranges as a file index returns them: ascending and apart.
    let last = segment.rows.saturating_sub(1);
    let few = match last {
        0..3 => iter::once(0..segment.rows).collect(),
        _ => vec![1..2, last..segment.rows],
    };
    let some = open().and_then(|reader| {
        reader
            .only(names().take(6))?
            .within(&few)?
            .batches(BATCH_ROWS)
    });
    sums.add(segment.dataset, some.into_iter().flatten());
    let pieces = open().and_then(SegmentReader::pieces);
    sums.add(segment.dataset, pieces.into_iter().flatten());
}

/// Reads a segment of single requests as a query does.
pub fn requests_segment(bytes: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("requests-segment"));
    SCRATCH.write(&SCRATCH.0.join(REQUESTS), bytes);
    read_requests(&SCRATCH.0);
}

/// Reads an export as queries do.
pub fn export(bytes: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("export"));
    let path = SCRATCH.0.join("export.parquet");
    SCRATCH.write(&path, bytes);
    let mut sum = Row::default();
    let opened = Exported::open(&path).into_iter();
    for host in opened.flat_map(|(hosts, _)| hosts) {
        let mut left = 1000;
        // Windows without rows take time, and a range may have a hundred million of them.
        if (host.span.1.0 - host.span.0.0) / host.granularity.ms() > left {
            continue;
        }
        let _ = host.windows(&mut |window| {
            left -= 1;
            window.rows.iter().for_each(|row| sum.merge(&row.row));
        });
        assert!(left >= 0, "more windows than the range has");
    }
}

/// The catalog's entry of a segment, from its metadata.
fn described(path: &Path, reader: &SegmentReader) -> Segment {
    let value = |key| metadata::value(reader.metadata(), key);
    let journals = value(columns::META_JOURNALS).and_then(metadata::journals);
    let journals = journals.unwrap_or_default();
    let granularity = value(columns::META_GRANULARITY).and_then(|text| text.parse().ok());
    let first = journals.first();
    Segment {
        store: 0,
        path: path.to_owned(),
        dataset: value(columns::META_DATASET)
            .and_then(Dataset::named)
            .unwrap_or(Dataset::Rollup),
        granularity: granularity.unwrap_or_else(|| "1s".parse().expect("a second is one")),
        host: value(columns::META_HOST).unwrap_or_default().to_owned(),
        journal: first.map_or(0, |journal| journal.number),
        last_journal: journals.last().map_or(0, |journal| journal.number),
        start: first.map_or(UtcMs(0), |journal| journal.start),
        end: first.map_or(UtcMs(0), |journal| journal.end),
        rows: reader.rows(),
        bytes: reader.bytes(),
        crc32c: reader.crc32c(),
        files: PackedIndex::default(),
    }
}

#[derive(Default)]
struct Sums {
    row: Row,
    health: Health,
}

impl Sums {
    fn add(
        &mut self,
        dataset: Dataset,
        batches: impl Iterator<Item = Result<RecordBatch, StoreError>>,
    ) {
        for batch in batches.map_while(Result::ok) {
            let decoded: Result<(), BatchError> = match dataset {
                Dataset::Rollup => decode_rows(&batch, |stored| self.row.merge(&stored.row)),
                Dataset::Health => {
                    decode_health(&batch, |stored| self.health.merge(&stored.health))
                }
                Dataset::Ops => decode_ops(&batch, drop),
            };
            if decoded.is_err() {
                return;
            }
        }
    }
}

/// Decodes a file index, from the bytes and from the bytes compressed, and looks up files in it.
pub fn file_index(blob: &[u8], rows: u64) {
    if let Ok(index) = FileIndex::decode(blob, rows) {
        let packed = index.encode().expect("an index can be packed");
        assert_eq!(FileIndex::decode(&packed, rows), Ok(index));
    }
    let packed = zstd::bulk::compress(blob, 1).expect("bytes can be packed");
    let index = PackedIndex::new(Some(packed), rows).unpack();
    let keys: Vec<_> = index.keys().collect();
    let ranges = index.rows_of(&keys);
    assert!(ranges.is_sorted_by(|a, b| a.end < b.start), "{ranges:?}");
    assert!(
        ranges.last().is_none_or(|last| last.end <= rows),
        "{ranges:?}"
    );
    let _ = index.rows_of(&[FileKey(i64::MIN), FileKey(0), FileKey(i64::MAX)]);
}

/// Opens a catalog like a reader, and runs all queries.
pub fn catalog(bytes: &[u8]) {
    static SCRATCH: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("catalog"));
    let scratch = &*SCRATCH;
    scratch.write(&layout::catalog(&scratch.0), bytes);
    if let Ok(view) = CatalogView::open(&scratch.0) {
        let _ = ask(&view);
    }
}

fn ask(view: &CatalogView) -> Result<(), StoreError> {
    // Continues after a failed query.
    let _ = view.damage();
    let _ = view.sealed_journals();
    let _ = view.removed();
    let _ = view.journals();
    let _ = view.granularities();
    let _ = view.span();
    let _ = view.mounts();
    let _ = view.mount_roots(&mut MountRoots::default());
    let range = Some((UtcMs(0), UtcMs(i64::MAX)));
    for (dataset, range) in Dataset::ALL.into_iter().zip([None, range, None]) {
        for segment in view.segments(dataset, range).into_iter().flatten() {
            let index = segment.files.unpack();
            let keys: Vec<_> = index.keys().collect();
            let _ = index.rows_of(&keys);
        }
    }
    let mut names = Vec::new();
    for wanted in [Names::All, Names::Exactly("/mnt/a"), Names::Below("/mnt")] {
        let _ = view.names(wanted, &mut |name| names.push(name));
    }
    for name in names.iter().take(8) {
        let _ = view.history(name.key);
    }
    view.files_with_id(Dev(49), 1)?;
    Ok(())
}

/// Parses a name of a file in a store.
pub fn names(text: &str) {
    let path = Path::new(text);
    if let Some((dataset, granularity, number)) = layout::parse_segment(text) {
        assert!(text.starts_with(dataset.name()), "{text}");
        let _ = (granularity, number);
        let leads_out = |name| matches!(name, "" | "." | "..");
        assert!(!text.split('/').any(leads_out), "{text}");
    }
    let _ = layout::number_of(path);
    let _ = layout::number_of_journal(path);
    let _ = layout::date_of(path);
    let _ = layout::is_of_date(path, UtcMs(0));
    let _ = layout::journal_end(path);
    let _ = layout::store_of(path);
    let _ = metadata::journals(text);
}
