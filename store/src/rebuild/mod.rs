//! Rebuilds the catalog from the segments.
//!
//! The new catalog is written beside the old one and replaces it by a rename, so one of them always exists. Metadata of
//! segments name their journals. Rows of the finest remaining granularity show when files and names were seen. A
//! segment was merged if another segment has all of its journals.
//!
//! A segment that counted but cannot be read stays in the catalog ([`lost`](crate::lost)), also if only other segments
//! show that it existed (`implied`).
//!
//! Hidden segments are read, too. A hidden segment that was not merged into a readable one counts again. When the new
//! catalog is in place, segments are renamed to match it.

mod implied;
mod requests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::KeyValue;
use trackiops_schemas::columns;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::batch::{decode_health, decode_ops, decode_rows};
use crate::beneath;
use crate::catalog::{Catalog, CatalogView, FileSeen, Restored, SegmentEntry};
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::file_index::FileIndex;
use crate::glob_view;
use crate::housekeeping::tidy;
use crate::identity::{FOREIGN, Identity, StoreId, of_most};
use crate::imports;
use crate::journal::header;
use crate::layout::{self, Dataset, Series};
use crate::lock::StoreLock;
use crate::lost::{self, Journals, Lost, Readable};
use crate::machine;
use crate::names::{Seen, hull};
use crate::segment::metadata::{self, JournalSpan};
use crate::segment::reader::SegmentReader;
use crate::segment::verified::{cannot_open, damaged};

const BATCH_ROWS: usize = 4096;

/// Result of [`rebuild_catalog`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Segments in the new catalog.
    pub segments: u64,
    /// Journals of these segments.
    pub journals: u64,
    /// Segments that are missing, damaged or written by another program, with the problem as text. They stay in place.
    /// Also the directory of imports, if files are missing there.
    pub left_out: Vec<(PathBuf, String)>,
    /// Segments of `left_out` that the new catalog still lists, because their rows are nowhere else.
    pub lost: BTreeSet<PathBuf>,
}

/// Rebuilds the catalog of a store. No recorder may be running. Queries may be running.
pub fn rebuild_catalog(store: &Path) -> Result<Rebuilt, StoreError> {
    let _lock = StoreLock::of_files(store)?;
    let old = CatalogView::open(store);
    if let Err(error @ StoreError::OtherFormat { .. }) = old {
        return Err(error);
    }
    // A forged catalog may be damaged although its checksum matches.
    let old = old.ok();
    let known = old
        .as_ref()
        .and_then(|old| Some((old.ids().ok()?, old.is_copy().ok()?)));
    // Without its catalog, a store may be a copy.
    let (ids, is_copy) = match &known {
        Some((ids, is_copy)) => (ids.to_vec(), *is_copy),
        None => (of_most(&identities(store)?), true),
    };
    let mut catalog = Catalog::anew(store, &ids)?;
    let machine = machine::number().or_else(|| old.as_ref()?.machine().ok()?);
    catalog.identify(is_copy, machine)?;
    let mut rebuilt = fill(store, &mut catalog, old.as_ref())?;
    let known = old.as_ref().and_then(|old| old.imports().ok());
    let imports = imports::count(store)?;
    if imports < known.unwrap_or(0) {
        let why = "files with the progress of imports are missing: the same files can be imported again, and count twice";
        rebuilt
            .left_out
            .push((layout::imports_dir(store), why.to_owned()));
    }
    if imports > 0 {
        catalog.enter_imports(imports)?;
    }
    restore_mounts(store, &mut catalog, old.as_ref())?;
    catalog.publish()?;
    tidy(store, &mut catalog, &mut FileBackoff::default())?;
    Ok(rebuilt)
}

/// Takes the mount points from the old catalog, if it can be read: segments and journals do not contain them.
fn restore_mounts(
    store: &Path,
    catalog: &mut Catalog,
    old: Option<&CatalogView>,
) -> Result<(), StoreError> {
    let known = old.and_then(|old| Some((old.mounts().ok()?, old.last_without_mounts().ok()?)));
    let last_without = match known {
        Some((mounts, last_without)) => {
            catalog.restore_mounts(&mounts)?;
            last_without
        }
        None => {
            let unsealed = layout::journals(store)?.into_iter().max();
            Some(catalog.last_journal()?.max(unsealed.unwrap_or(0)))
        }
    };
    match last_without {
        Some(last) => catalog.enter_without_mounts(last),
        None => Ok(()),
    }
}

/// The stores that the segments and journals were written in, as far as known.
fn identities(store: &Path) -> Result<Vec<Identity>, StoreError> {
    let files = layout::segment_files(store)?
        .into_iter()
        .map(|path| store.join(path));
    let requests = layout::requests_segments(store)?
        .into_iter()
        .map(|(_, path)| path);
    let identity = |path: PathBuf| {
        let file = beneath::read(store, &path).ok()?;
        metadata::identity(SegmentReader::open(file, &path).ok()?.metadata())
    };
    let mut identities: Vec<_> = files.chain(requests).filter_map(identity).collect();
    for series in Series::ALL {
        let journals = series.journals(store)?.into_iter();
        let journals = journals.map(|number| series.journal(store, number));
        identities.extend(journals.filter_map(|path| header::identity(&path)));
    }
    Ok(identities)
}

/// Enters all segments that are found.
fn fill(
    store: &Path,
    catalog: &mut Catalog,
    old: Option<&CatalogView>,
) -> Result<Rebuilt, StoreError> {
    let mut rebuilt = Rebuilt::default();
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    let seen = layout::segment_files(store)?;
    let mut hidden = layout::hidden_segments(store)?;
    hidden.retain(|path| seen.binary_search(path).is_err());
    // Visible segments follow hidden ones, because the last of equal segments counts.
    let hidden = hidden
        .into_iter()
        .map(|path| (layout::hidden(&store.join(&path)), path));
    let seen = seen.into_iter().map(|path| (store.join(&path), path));
    for (file, path) in hidden.chain(seen) {
        let why = match Found::new(store, path.clone(), catalog.ids()) {
            Ok(segment) => {
                found.push(segment);
                continue;
            }
            Err(StoreError::DamagedSegment { why, .. }) => why,
            Err(StoreError::Io { source, .. }) => format!("it cannot be read: {source}"),
            Err(error) => return Err(error),
        };
        rebuilt.left_out.push((file, why));
        unreadable.push(path);
    }
    let unsealed = unsealed(store, &found)?;
    let lost = lost_of(store, &found, &unreadable, old)?;
    let (merged, mut found) = without_merged(found);
    // Their sealing was interrupted. It will be repeated over the same names.
    found.retain(|segment| !unsealed.contains(&segment.last_journal()));
    let mut lost: Vec<_> = lost
        .into_iter()
        .filter(|lost| !unsealed.contains(&lost.last_journal()))
        .collect();
    let missing = implied::missing(store, &found, &lost);
    lost.extend(missing);
    let finer = Finer::new(&found);
    let mut journals = BTreeSet::new();
    if let Some(old) = old
        && let Ok(mut rows) = old.sealed_rows(Series::Windows)
    {
        // The old catalog knows which journals have expired.
        rows.retain(|row| !unsealed.contains(&row.journal));
        let begun = Series::ALL.into_iter().filter_map(|series| {
            let number = old.last_begun(series).ok()??;
            Some((series, number))
        });
        catalog.restore_journals(&rows, &begun.collect::<Vec<_>>())?;
        if let Some(number) = old.marks().unwrap_or_default() {
            catalog.enter_marks(number)?;
        }
    }
    let first = found.iter().flat_map(Found::numbers).min();
    let spans = found.iter_mut().flat_map(|segment| &mut segment.journals);
    // Journals before the first one have expired.
    spans.for_each(|span| span.previous = span.previous.filter(|of| Some(*of) >= first));
    found.sort_by_key(|segment| {
        (
            segment.journals.first().copied(),
            segment.entry.path.clone(),
        )
    });
    for segment in &found {
        let files = finer.names_of(segment, store)?;
        catalog.restore(&Restored {
            host: &segment.host,
            segment: &segment.entry,
            journals: &segment.journals,
            files: &files,
        })?;
        journals.extend(segment.journals.iter().map(|journal| journal.number));
    }
    lost::keep(catalog, &lost, old)?;
    for lost in &lost {
        let path = store.join(lost.path());
        if !unreadable
            .iter()
            .any(|unreadable| unreadable == lost.path())
        {
            let why = "it is missing".to_owned();
            rebuilt.left_out.push((path.clone(), why));
        }
        rebuilt.lost.insert(path);
    }
    // They may be deleted at once, because no reader has read this catalog yet.
    catalog.remove_later(merged.iter().map(String::as_str), UtcMs(0))?;
    rebuilt.segments = found.len() as u64;
    requests::fill(store, catalog, old, &mut rebuilt)?;
    rebuilt.journals = journals.len() as u64;
    Ok(rebuilt)
}

/// A segment as its file describes it.
struct Found {
    host: String,
    journals: Vec<JournalSpan>,
    entry: SegmentEntry,
    date: Option<(UtcMs, UtcMs)>,
    /// Of health: whether requests had rows.
    has_requests: bool,
    /// Of health: whether there were operations.
    has_operations: bool,
}

impl Found {
    fn new(store: &Path, relative: String, ids: &[StoreId]) -> Result<Self, StoreError> {
        let path = store.join(&relative);
        let no_segment = || damaged(&path, "its path is not that of a segment");
        let (dataset, granularity, _) = layout::parse_segment(&relative).ok_or_else(no_segment)?;
        let file = glob_view::open(store, &path).map_err(|error| cannot_open(&path, error))?;
        let reader = SegmentReader::open(file, &path)?;
        reader.verify()?;
        let (bytes, crc32c) = (reader.bytes(), reader.crc32c());
        let metadata = reader.metadata();
        if !metadata::is_of(metadata, ids) {
            return Err(damaged(&path, FOREIGN));
        }
        let described = described(metadata, dataset, granularity);
        let (host, journals) =
            described.ok_or_else(|| damaged(&path, "its key-value metadata are damaged"))?;
        let rows = SegmentTotals::read(reader, dataset, granularity, &path)?;
        let (start, end) = rows.span.ok_or_else(|| damaged(&path, "it has no rows"))?;
        let ends = journals.first().zip(journals.last());
        let ends = ends.ok_or_else(|| damaged(&path, "its metadata name no journal"))?;
        // Readers refuse a segment whose name has other journals than the catalog.
        let own = (ends.0.number, ends.1.number);
        if layout::journals_in_name(&path) != Some(own) {
            let why = format!(
                "its name does not have its journals, {} to {}: is it a copy?",
                own.0, own.1
            );
            return Err(damaged(&path, why));
        }
        let last = UtcMs(end.0.saturating_sub(granularity.ms()));
        if !layout::is_of_date(&path, start) || !layout::is_of_date(&path, last) {
            let why = "its rows are not of the date of its directory: is it a copy?";
            return Err(damaged(&path, why));
        }
        Ok(Self {
            entry: SegmentEntry {
                dataset,
                granularity,
                journals: own,
                start,
                end,
                rows: rows.rows,
                bytes,
                crc32c,
                path: relative,
                files: rows.files,
            },
            date: layout::date_of(&path),
            has_requests: rows.has_requests,
            has_operations: rows.has_operations,
            host,
            journals,
        })
    }

    fn last_journal(&self) -> u64 {
        self.entry.journals.1
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.journals.iter().map(|journal| journal.number)
    }

    /// The properties that a segment shares with the one that it was merged into.
    fn kind(&self) -> (Dataset, Granularity, &str, Option<(UtcMs, UtcMs)>) {
        let SegmentEntry {
            dataset,
            granularity,
            ..
        } = self.entry;
        (dataset, granularity, &self.host, self.date)
    }
}

/// The host and the journals in a segment's metadata. `None` if these do not fit its path.
fn described(
    metadata: Option<&Vec<KeyValue>>,
    dataset: Dataset,
    granularity: Granularity,
) -> Option<(String, Vec<JournalSpan>)> {
    let value = |key| metadata::value(metadata, key);
    let journals = metadata::journals(value(columns::META_JOURNALS)?)?;
    let same = value(columns::META_DATASET)? == dataset.name()
        && value(columns::META_GRANULARITY)? == granularity.to_string();
    let host = value(columns::META_HOST)?.to_owned();
    same.then_some((host, journals))
}

/// Number, time range and files of a segment's rows. Of health, also whether there must be rows of other datasets.
#[derive(Default)]
struct SegmentTotals {
    rows: u64,
    span: Option<Seen>,
    files: FileIndex,
    has_requests: bool,
    has_operations: bool,
}

impl SegmentTotals {
    fn read(
        reader: SegmentReader,
        dataset: Dataset,
        granularity: Granularity,
        path: &Path,
    ) -> Result<Self, StoreError> {
        let mut rows = Self::default();
        let mut out_of_order = false;
        for batch in reader.batches(BATCH_ROWS)? {
            let batch = batch?;
            match dataset {
                Dataset::Rollup => decode_rows(&batch, |stored| {
                    rows.files.push_checked(stored.file_key, &mut out_of_order);
                    rows.row(stored.time, granularity);
                }),
                Dataset::Health => decode_health(&batch, |stored| {
                    let health = &stored.health;
                    // Lost and missed requests have no row.
                    rows.has_requests |= health.recorded > 0 || health.folded > 0;
                    rows.has_operations |= health.ops_seen > 0;
                    rows.row(stored.time, granularity);
                }),
                Dataset::Ops => decode_ops(&batch, |stored| {
                    rows.row(stored.time, granularity);
                }),
            }
            .map_err(|error| damaged(path, error))?;
        }
        match out_of_order {
            true => Err(damaged(path, "its rows are not in order")),
            false => Ok(rows),
        }
    }

    fn row(&mut self, time: UtcMs, granularity: Granularity) {
        self.rows += 1;
        let seen = (time, time.plus(granularity));
        self.span = Some(self.span.map_or(seen, |span| hull(span, seen)));
    }
}

/// Segments that counted and whose rows are in no readable segment: segments that the old catalog lists, and damaged
/// ones that it does not know.
fn lost_of(
    store: &Path,
    found: &[Found],
    unreadable: &[String],
    old: Option<&CatalogView>,
) -> Result<Vec<Lost>, StoreError> {
    let mut readable = Readable::default();
    let mut journals = Journals::new();
    for segment in found {
        let (dataset, granularity, host, date) = segment.kind();
        let kind = (dataset, granularity, host.to_owned(), date);
        readable.add(kind, segment.numbers());
        let own = segment.journals.iter();
        journals.extend(own.map(|span| (span.number, (segment.host.clone(), *span))));
    }
    let mut lost = match old {
        Some(old) => lost::listed(old, store).unwrap_or_default(),
        None => Vec::new(),
    };
    let unknown = unreadable
        .iter()
        .filter(|path| !lost.iter().any(|lost| lost.path() == **path));
    // An intact file is a copy, or from another program: it never counted.
    let unknown = unknown.filter(|path| !is_whole(store, path));
    let unknown: Vec<_> = unknown
        .filter_map(|path| Lost::named(store, path, &journals))
        .collect();
    lost.extend(unknown);
    let paths: BTreeSet<_> = found
        .iter()
        .map(|segment| segment.entry.path.as_str())
        .collect();
    lost.retain(|lost| !paths.contains(lost.path()) && !readable.has(lost, store));
    Ok(lost)
}

/// Whether a segment matches its checksums.
fn is_whole(store: &Path, relative: &str) -> bool {
    let path = store.join(relative);
    let file = glob_view::open(store, &path).map_err(|error| cannot_open(&path, error));
    let reader = file.and_then(|file| SegmentReader::open(file, &path));
    reader.is_ok_and(|reader| reader.verify().is_ok())
}

/// Journals that are not sealed yet. A journal in a merged segment was sealed, even if its file
/// exists.
fn unsealed(store: &Path, found: &[Found]) -> Result<BTreeSet<u64>, StoreError> {
    let mut unsealed: BTreeSet<_> = layout::journals(store)?.into_iter().collect();
    let merged = found.iter().filter(|segment| segment.journals.len() > 1);
    for number in merged.flat_map(Found::numbers) {
        unsealed.remove(&number);
    }
    Ok(unsealed)
}

/// Separates segments that were merged into others. Returns the merged ones first.
fn without_merged(found: Vec<Found>) -> (Vec<String>, Vec<Found>) {
    let numbers = |segment: &Found| segment.numbers().collect::<BTreeSet<_>>();
    let all: Vec<_> = found.iter().map(numbers).collect();
    let mut kinds: HashMap<_, Vec<usize>> = HashMap::new();
    for (i, segment) in found.iter().enumerate() {
        kinds.entry(segment.kind()).or_default().push(i);
    }
    let is_merged = |i: usize| {
        let mut others = kinds[&found[i].kind()].iter();
        others.any(|other| {
            let later = all[i] != all[*other] || i < *other;
            i != *other && later && all[i].is_subset(&all[*other])
        })
    };
    let merged: Vec<bool> = (0..found.len()).map(is_merged).collect();
    let mut kept = Vec::new();
    let mut paths = Vec::new();
    for (segment, merged) in found.into_iter().zip(merged) {
        match merged {
            true => paths.push(segment.entry.path),
            false => kept.push(segment),
        }
    }
    (paths, kept)
}

/// The finest granularity in which each journal has rows.
struct Finer {
    finest: BTreeMap<(String, u64), Granularity>,
}

impl Finer {
    fn new(found: &[Found]) -> Self {
        let mut finest: BTreeMap<_, Granularity> = BTreeMap::new();
        let rollups = found
            .iter()
            .filter(|segment| segment.entry.dataset == Dataset::Rollup);
        for segment in rollups {
            for journal in &segment.journals {
                let of = (segment.host.clone(), journal.number);
                let known = finest.entry(of).or_insert(segment.entry.granularity);
                *known = (*known).min(segment.entry.granularity);
            }
        }
        Self { finest }
    }

    /// The files of a segment, and when they were seen. Only covers journals without a finer granularity.
    fn names_of(&self, segment: &Found, store: &Path) -> Result<Vec<FileSeen>, StoreError> {
        let granularity = segment.entry.granularity;
        let is_finest = |journal: &&JournalSpan| {
            let of = (segment.host.clone(), journal.number);
            self.finest.get(&of) == Some(&granularity)
        };
        let journals: Vec<_> = segment.journals.iter().filter(is_finest).collect();
        if segment.entry.dataset != Dataset::Rollup || journals.is_empty() {
            return Ok(Vec::new());
        }
        let path = store.join(&segment.entry.path);
        let file = glob_view::open(store, &path).map_err(|error| cannot_open(&path, error))?;
        let mut files: HashMap<Arc<FileAttributes>, Seen> = HashMap::new();
        let mut last: Option<Arc<FileAttributes>> = None;
        for batch in SegmentReader::open(file, &path)?.batches(BATCH_ROWS)? {
            decode_rows(&batch?, |stored| {
                let window = (stored.time, stored.time.plus(granularity));
                let within = journals
                    .iter()
                    .map(|journal| (window.0.max(journal.start), window.1.min(journal.end)));
                let Some(seen) = within.filter(|seen| seen.0 < seen.1).reduce(hull) else {
                    return;
                };
                let same = last.take().filter(|file| stored.is_of(file));
                let file = last.insert(same.unwrap_or_else(|| Arc::new(stored.file())));
                match files.get_mut(file) {
                    Some(known) => *known = hull(*known, seen),
                    None => {
                        files.insert(Arc::clone(file), seen);
                    }
                }
            })
            .map_err(|error| damaged(&path, error))?;
        }
        let files = files.into_iter();
        Ok(files
            .map(|(file, (first, last))| FileSeen { file, first, last })
            .collect())
    }
}
