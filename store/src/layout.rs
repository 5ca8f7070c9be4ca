//! The layout of a store. Only this module knows paths.
//!
//! ```text
//! <store>/catalog.db
//! <store>/journal/<n>.tij
//! <store>/journal/requests-<n>.tij
//! <store>/journal/*.end                 the length of the journal of that name
//! <store>/journal/*.tij.damaged         a journal that was found damaged; *.end.damaged is beside it
//! <store>/requests/date=<YYYY-MM-DD>/<host>-<start>-<n>.parquet
//! <store>/<dataset>/granularity=<g>/date=<YYYY-MM-DD>/<host>-<start>-<n>.parquet
//! <store>/<dataset>/granularity=<g>/date=<YYYY-MM-DD>/<host>-<start>-<first n>-<last n>.parquet   merged
//! <store>/imports/<id>.open             an open import; .json when it is closed
//! .<segment>.tmp        incomplete, or about to count
//! .<segment>.removed    no longer counts, and will be deleted
//! ```
//!
//! A segment's name depends only on its journal's content, so sealing again writes the same names.
//! Names of files that do not count begin with a dot and do not end in `.parquet`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use trackiops_schemas::time::{DAY_MS, Granularity, UtcMs};

use crate::beneath;
use crate::error::StoreError;

/// Extension of a journal.
const JOURNAL_EXTENSION: &str = "tij";
/// Extension of a file with the length of a journal.
const END_EXTENSION: &str = "end";
/// Suffix of a damaged journal.
const SET_ASIDE: &str = ".damaged";
/// Suffix of a segment that does not count yet.
const TEMPORARY: &str = ".tmp";
/// Suffix of a segment that no longer counts.
const HIDDEN: &str = ".removed";
/// Prefix of journals of requests.
const REQUESTS_PREFIX: &str = "requests-";
/// Format of the start of a segment in its name.
const SEGMENT_START: &str = "%Y%m%dT%H%M%SZ";
/// Limit on attempts to list journals. A recorder rotates them every few minutes.
const MOST_LISTS: usize = 100;
const JOURNAL_DIR: &str = "journal";
/// Extension of an open import.
const OPEN_IMPORT: &str = "open";
/// Extension of a closed import.
const CLOSED_IMPORT: &str = "json";
/// Directory and dataset of segments of requests.
pub(crate) const REQUESTS_DIR: &str = "requests";

/// A sequence of journals with shared numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    /// Journals of windows.
    Windows,
    /// Journals of single requests.
    Requests,
}

impl Series {
    pub(crate) const ALL: [Self; 2] = [Self::Windows, Self::Requests];

    /// Its name in the catalog.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Requests => "requests",
        }
    }

    /// The numbers of its journals in a store, ascending.
    pub(crate) fn journals(self, store: &Path) -> Result<Vec<u64>, StoreError> {
        journals_of(self.prefix(), store)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Windows => "",
            Self::Requests => REQUESTS_PREFIX,
        }
    }

    /// The path of one of its journals.
    pub(crate) fn journal(self, store: &Path, number: u64) -> PathBuf {
        journal_of(self.prefix(), store, number)
    }

    /// Whether the file of a journal exists, including one that was set aside.
    pub(crate) fn has(self, store: &Path, number: u64) -> bool {
        let path = self.journal(store, number);
        let mut names = [quarantined(&path), path].into_iter();
        names.any(|path| path.symlink_metadata().is_ok())
    }
}

/// The series and the number of a journal, by its name. `None` for other files.
pub(crate) fn parse_journal(path: &Path) -> Option<(Series, u64)> {
    let stem = path.file_stem().filter(|_| is_journal(path))?.to_str()?;
    let number = |series: Series| {
        let number = stem.strip_prefix(series.prefix())?.parse().ok()?;
        Some((series, number))
    };
    Series::ALL.into_iter().find_map(number)
}

/// Kinds of segments of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dataset {
    /// Activity of files.
    Rollup,
    /// The recorder's account of itself.
    Health,
    /// Operations of the NFS protocol.
    Ops,
}

impl Dataset {
    /// Every dataset.
    pub const ALL: [Self; 3] = [Self::Rollup, Self::Health, Self::Ops];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dataset| dataset.name() == name)
    }

    /// Its directory, and its name in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollup => "rollup",
            Self::Health => "health",
            Self::Ops => "ops",
        }
    }
}

pub(crate) fn catalog(store: &Path) -> PathBuf {
    store.join("catalog.db")
}

/// The directory with the progress of imports.
pub(crate) fn imports_dir(store: &Path) -> PathBuf {
    store.join("imports")
}

/// The file with the progress of a closed import.
pub(crate) fn import(store: &Path, id: &str) -> PathBuf {
    imports_dir(store).join(format!("{id}.{CLOSED_IMPORT}"))
}

/// The file with the progress of an open import.
pub(crate) fn open_import(store: &Path, id: &str) -> PathBuf {
    imports_dir(store).join(format!("{id}.{OPEN_IMPORT}"))
}

/// The ids of open imports. Their process may have ended.
pub(crate) fn open_imports(store: &Path) -> Result<Vec<String>, StoreError> {
    imports_with(store, OPEN_IMPORT)
}

/// The ids of closed imports, complete or not.
pub(crate) fn closed_imports(store: &Path) -> Result<Vec<String>, StoreError> {
    imports_with(store, CLOSED_IMPORT)
}

fn imports_with(store: &Path, extension: &str) -> Result<Vec<String>, StoreError> {
    let dir = imports_dir(store);
    let entries = beneath::entries(store, &dir).map_err(StoreError::io("list", &dir))?;
    let of_kind = entries
        .into_iter()
        .filter(|path| path.extension().is_some_and(|own| own == extension));
    let ids = of_kind.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    Ok(ids.collect())
}

/// The file with marks.
pub(crate) fn marks(store: &Path) -> PathBuf {
    store.join("marks.jsonl")
}

/// The file with the length and the checksum of the marks.
pub(crate) fn marks_sum(store: &Path) -> PathBuf {
    store.join("marks.sum")
}

/// The writer locks this file.
pub(crate) fn lock(store: &Path) -> PathBuf {
    store.join("lock")
}

/// The next catalog while it is written. Otherwise, it reserves room for the next catalog.
pub(crate) fn new_catalog(store: &Path) -> PathBuf {
    store.join(".catalog.db.tmp")
}

/// The writer's copy of the catalog, with changes that are not published yet.
pub(crate) fn catalog_scratch(store: &Path) -> PathBuf {
    store.join(".catalog.db.scratch")
}

/// The store of a segment or a journal.
pub(crate) fn store_of(file: &Path) -> &Path {
    let above = |levels| file.ancestors().nth(levels).unwrap_or(file);
    let is_named = |levels, name: &str| above(levels).file_name().is_some_and(|own| own == name);
    match (is_named(1, JOURNAL_DIR), is_named(2, REQUESTS_DIR)) {
        (true, _) => above(2),
        (_, true) => above(3),
        _ => above(4),
    }
}

/// Whether a directory has journals or segments.
pub(crate) fn has_files(store: &Path) -> Result<bool, StoreError> {
    let journals = journal_dir(store);
    let has_journals =
        beneath::exists(store, &journals).map_err(StoreError::io("look for", &journals))?;
    Ok(has_journals || !segment_files(store)?.is_empty())
}

/// Depth to which a directory is searched for stores.
const MOST_DEPTH: usize = 4;

/// The stores at a path: the directory itself if it is a store, else all stores in and below it, ordered by path. Links
/// are not followed. Without any store, or if it is not a directory, the path itself.
pub fn stores_in(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    if dir.is_dir() {
        find_stores(dir, MOST_DEPTH, &mut found)?;
    }
    match found.is_empty() {
        true => Ok(vec![dir.to_owned()]),
        false => Ok(found),
    }
}

fn find_stores(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    if catalog(dir).exists() || has_files(dir)? {
        found.push(dir.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let failed = StoreError::io("list", dir);
    let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(failed)?;
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut below: Vec<_> = entries.iter().filter(|entry| is_dir(entry)).collect();
    below.sort_by_key(|entry| entry.file_name());
    for entry in below {
        find_stores(&entry.path(), depth - 1, found)?;
    }
    Ok(())
}

/// Parses a segment's path relative to the store. Returns the dataset, the granularity, and the number of the last
/// journal.
pub(crate) fn parse_segment(path: &str) -> Option<(Dataset, Granularity, u64)> {
    let [dataset, granularity, date, name] = path.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let dataset = Dataset::named(dataset)?;
    let granularity = granularity.strip_prefix("granularity=")?.parse().ok()?;
    let is_ours =
        date.starts_with("date=") && name.ends_with(".parquet") && file_name_safe(name) == name;
    let number = number_of(Path::new(path))?;
    is_ours.then_some((dataset, granularity, number))
}

/// Parses the path of a segment of requests, relative to the store. Returns the number of its journal.
pub(crate) fn parse_requests_segment(path: &str) -> Option<u64> {
    let [REQUESTS_DIR, date, name] = path.split('/').collect::<Vec<_>>()[..] else {
        return None;
    };
    let is_ours =
        date.starts_with("date=") && name.ends_with(".parquet") && file_name_safe(name) == name;
    number_of(Path::new(path)).filter(|_| is_ours)
}

pub(crate) fn journal_dir(store: &Path) -> PathBuf {
    store.join(JOURNAL_DIR)
}

pub(crate) fn journal(store: &Path, number: u64) -> PathBuf {
    journal_of("", store, number)
}

/// The numbers of the journals in the store, ascending.
pub(crate) fn journals(store: &Path) -> Result<Vec<u64>, StoreError> {
    journals_of("", store)
}

/// A journal of requests.
pub(crate) fn requests_journal(store: &Path, number: u64) -> PathBuf {
    journal_of(REQUESTS_PREFIX, store, number)
}

/// The numbers of the journals of requests in the store, ascending.
pub(crate) fn requests_journals(store: &Path) -> Result<Vec<u64>, StoreError> {
    journals_of(REQUESTS_PREFIX, store)
}

fn journal_of(prefix: &str, store: &Path, number: u64) -> PathBuf {
    journal_dir(store).join(format!("{prefix}{number}.{JOURNAL_EXTENSION}"))
}

/// Lists journals until two lists agree. The kernel returns a directory in pieces, so a list may miss a journal that is
/// created meanwhile but have the next one. Readers would then see newer windows without older ones.
fn journals_of(prefix: &str, store: &Path) -> Result<Vec<u64>, StoreError> {
    let mut last = list_journals(prefix, store)?;
    for _ in 1..MOST_LISTS {
        let list = list_journals(prefix, store)?;
        if list == last {
            break;
        }
        last = list;
    }
    Ok(last)
}

fn list_journals(prefix: &str, store: &Path) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    for path in entries(store, &journal_dir(store))? {
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.strip_prefix(prefix)?.parse().ok());
        // Only names that `journal_of` writes: `007.tij` is not journal 7. The catalog cannot hold larger numbers, and
        // the next number must fit, too.
        let is_ours =
            |n: &u64| *n < i64::MAX.cast_unsigned() && journal_of(prefix, store, *n) == path;
        numbers.extend(number.filter(is_ours));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Path of a segment, relative to the store. `start` is the start of its first window. `journals`
/// are the numbers of its first and last journal.
pub(crate) fn segment(
    dataset: Dataset,
    granularity: Granularity,
    date: Date,
    host: &str,
    start: UtcMs,
    journals: (u64, u64),
) -> String {
    let dataset = dataset.name();
    let name = segment_name(date, host, start, journals);
    format!("{dataset}/granularity={granularity}/{name}")
}

/// Path of a segment of requests, relative to the store. `start` is its first completion.
pub(crate) fn requests_segment(date: Date, host: &str, start: UtcMs, journal: u64) -> String {
    let name = segment_name(date, host, start, (journal, journal));
    format!("{REQUESTS_DIR}/{name}")
}

fn segment_name(date: Date, host: &str, start: UtcMs, (first, last): (u64, u64)) -> String {
    let start = utc(start).map_or_else(
        || format!("{}ms", start.0),
        |t| t.format(SEGMENT_START).to_string(),
    );
    let (date, host) = (date.name(), file_name_safe(host));
    match first == last {
        true => format!("date={date}/{host}-{start}-{last}.parquet"),
        false => format!("date={date}/{host}-{start}-{first}-{last}.parquet"),
    }
}

/// Segments of requests, with the numbers of their journals, ascending.
pub(crate) fn requests_segments(store: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let mut segments = Vec::new();
    for date in entries(store, &store.join(REQUESTS_DIR))? {
        for path in entries(store, &date)? {
            let is_segment = path.extension().is_some_and(|e| e == "parquet");
            let number = number_of(&path).filter(|_| is_segment);
            segments.extend(number.map(|number| (number, path)));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Paths of all segments of windows that a glob matches, relative to the store, in order.
pub(crate) fn segment_files(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, "")
}

/// Paths of all hidden segments of windows, as they were before hiding.
pub(crate) fn hidden_segments(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, HIDDEN)
}

/// Paths of all segments of windows under temporary names, as they will be when they count.
pub(crate) fn temporary_segments(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, TEMPORARY)
}

/// Visible segments of health of the day of a time, and of later days. Every sealed journal with windows has such a
/// segment.
pub(crate) fn health_since(store: &Path, time: Option<UtcMs>) -> Result<Vec<PathBuf>, StoreError> {
    let first = time.map_or_else(String::new, |time| Date::of(time).name());
    let first = format!("date={first}");
    let mut files = Vec::new();
    for granularity in entries(store, &store.join(Dataset::Health.name()))? {
        for date in entries(store, &granularity)? {
            let name = date.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name >= first.as_str()) {
                files.extend(entries(store, &date)?);
            }
        }
    }
    let is_segment = |file: &PathBuf| {
        let relative = file.strip_prefix(store).ok().and_then(Path::to_str);
        relative.is_some_and(|relative| parse_segment(relative).is_some())
    };
    files.retain(is_segment);
    files.sort_unstable();
    Ok(files)
}

/// Segments whose names have this suffix. An empty suffix selects plain names.
fn segments_named(store: &Path, suffix: &str) -> Result<Vec<String>, StoreError> {
    let segment_of = |file: &Path| {
        let name = file.file_name()?.to_str()?;
        let name = match suffix {
            "" => name,
            suffix => name.strip_prefix('.')?.strip_suffix(suffix)?,
        };
        let is_segment = name.ends_with(".parquet") && !name.starts_with('.');
        let segment = file.with_file_name(name);
        let relative = segment.strip_prefix(store).ok()?.to_str()?;
        is_segment.then(|| relative.to_owned())
    };
    let mut files = Vec::new();
    for dataset in Dataset::ALL {
        for granularity in entries(store, &store.join(dataset.name()))? {
            for date in entries(store, &granularity)? {
                for file in entries(store, &date)? {
                    files.extend(segment_of(&file));
                }
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The number of a segment's last journal, from its name.
pub(crate) fn number_of(segment: &Path) -> Option<u64> {
    segment
        .file_stem()?
        .to_str()?
        .rsplit_once('-')?
        .1
        .parse()
        .ok()
}

/// The other parts of a segment's name.
pub(crate) struct SegmentName {
    /// The host, without the characters that a file name cannot contain.
    pub(crate) host: String,
    /// The start of its first window, to the second.
    pub(crate) start: UtcMs,
    /// The number of its first journal.
    pub(crate) first: u64,
}

/// Parses the name of a segment: `<host>-<start>-<n>` or `<host>-<start>-<first n>-<last n>`.
pub(crate) fn parse_name(segment: &Path) -> Option<SegmentName> {
    let (rest, last) = segment.file_stem()?.to_str()?.rsplit_once('-')?;
    let merged = rest.rsplit_once('-');
    let merged = merged.filter(|(_, first)| first.bytes().all(|byte| byte.is_ascii_digit()));
    let (rest, first) = merged.unwrap_or((rest, last));
    let (host, start) = rest.rsplit_once('-')?;
    let start = match start.strip_suffix("ms") {
        Some(ms) => ms.parse().ok()?,
        None => {
            let start = NaiveDateTime::parse_from_str(start, SEGMENT_START).ok()?;
            start.and_utc().timestamp_millis()
        }
    };
    Some(SegmentName {
        host: host.to_owned(),
        start: UtcMs(start),
        first: first.parse().ok()?,
    })
}

/// The numbers of a segment's first and last journal, from its name.
pub(crate) fn journals_in_name(segment: &Path) -> Option<(u64, u64)> {
    Some((parse_name(segment)?.first, number_of(segment)?))
}

/// The day in a segment's directory.
pub(crate) fn date_of(segment: &Path) -> Option<(UtcMs, UtcMs)> {
    let date = segment.parent()?.file_name()?.to_str()?;
    let date: NaiveDate = date.strip_prefix("date=")?.parse().ok()?;
    let start = UtcMs(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis());
    Some((start, UtcMs(start.0.saturating_add(DAY_MS))))
}

/// Whether a segment's directory is the one of this time.
pub(crate) fn is_of_date(segment: &Path, time: UtcMs) -> bool {
    let date = segment.parent().and_then(Path::file_name);
    date.is_some_and(|date| date == format!("date={}", Date::of(time).name()).as_str())
}

/// Damaged journals that were set aside, of windows and of requests.
pub(crate) fn quarantined_journals(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut quarantined = entries(store, &journal_dir(store))?;
    quarantined.retain(|path| quarantined_from(path).is_some_and(|path| is_journal(&path)));
    quarantined.sort_unstable();
    Ok(quarantined)
}

/// The name of a journal, or of its `.end` file, after it was set aside.
pub(crate) fn quarantined(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SET_ASIDE);
    PathBuf::from(name)
}

/// The name before it was set aside.
fn quarantined_from(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(SET_ASIDE)?;
    Some(path.with_file_name(name))
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == JOURNAL_EXTENSION)
}

/// The number of a journal of windows, also if it was set aside. `None` for journals of requests.
pub(crate) fn number_of_journal(path: &Path) -> Option<u64> {
    let own = quarantined_from(path);
    let own = own.as_deref().unwrap_or(path);
    own.file_stem()?.to_str()?.parse().ok()
}

/// The `.end` file of a journal, also if it was set aside.
pub(crate) fn journal_end(journal: &Path) -> PathBuf {
    match quarantined_from(journal) {
        Some(journal) => quarantined(&journal.with_extension(END_EXTENSION)),
        None => journal.with_extension(END_EXTENSION),
    }
}

/// `.end` files without a journal, whether under its name or set aside.
pub(crate) fn orphaned_ends(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut ends = entries(store, &journal_dir(store))?;
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    ends.retain(|path| {
        let own = quarantined_from(path);
        let end = own.as_deref().unwrap_or(path);
        let journal = end.with_extension(JOURNAL_EXTENSION);
        // A journal is set aside before its `.end` file.
        let is_alone = !is_there(&quarantined(&journal)) && (own.is_some() || !is_there(&journal));
        end.extension().is_some_and(|e| e == END_EXTENSION) && is_alone
    });
    Ok(ends)
}

/// The largest number in the directory of journals, including journals that were set aside or left only an `.end` file.
/// A new journal with such a number could be mistaken for the old one. 0 if there is none.
pub(crate) fn last_number(store: &Path) -> Result<u64, StoreError> {
    last_number_of("", store)
}

/// The same for journals of requests.
pub(crate) fn last_requests_number(store: &Path) -> Result<u64, StoreError> {
    last_number_of(REQUESTS_PREFIX, store)
}

fn last_number_of(prefix: &str, store: &Path) -> Result<u64, StoreError> {
    let numbers = entries(store, &journal_dir(store))?.into_iter();
    let numbers = numbers.filter_map(|path| {
        let path = quarantined_from(&path).unwrap_or(path);
        let number = path.file_stem()?.to_str()?.strip_prefix(prefix)?.parse();
        number.ok().filter(|n: &u64| *n < i64::MAX.cast_unsigned())
    });
    Ok(numbers.max().unwrap_or(0))
}

/// The number of the journal of windows of an `.end` file. `None` for other files, and for files that were set aside.
pub(crate) fn number_of_end(store: &Path, end: &Path) -> Option<u64> {
    let number = number_of_journal(end)?;
    (journal_end(&journal(store, number)) == end).then_some(number)
}

/// Entries of a directory. Empty if it does not exist.
fn entries(store: &Path, dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    beneath::entries(store, dir).map_err(StoreError::io("list", dir))
}

/// A segment's name before it counts.
pub(crate) fn temporary(segment: &Path) -> PathBuf {
    concealed(segment, TEMPORARY)
}

/// A segment's name after it no longer counts.
pub(crate) fn hidden(segment: &Path) -> PathBuf {
    concealed(segment, HIDDEN)
}

/// `.<name><suffix>`: globs check the end of a name, and programs that read directories (Spark, Arrow) check its start.
fn concealed(segment: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(segment.file_name().unwrap_or_default());
    name.push(suffix);
    segment.with_file_name(name)
}

/// A UTC day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date(i64);

impl Date {
    pub(crate) fn of(time: UtcMs) -> Self {
        Self(time.0.div_euclid(DAY_MS))
    }

    fn name(self) -> String {
        let midnight = UtcMs(self.0.saturating_mul(DAY_MS));
        utc(midnight).map_or_else(
            || format!("day{}", self.0),
            |t| t.format("%Y-%m-%d").to_string(),
        )
    }
}

/// `None` outside the years that chrono supports.
pub(crate) fn utc(time: UtcMs) -> Option<DateTime<chrono::Utc>> {
    DateTime::from_timestamp_millis(time.0)
}

/// Whether the name of a segment may contain the character.
fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._".contains(c)
}

/// `host` without the characters that a file name cannot contain. It begins with a letter or a
/// digit, because Spark and DuckDB treat names that begin with `.` or `_` as hidden.
fn file_name_safe(host: &str) -> String {
    const LONGEST: usize = 100;
    let safe = |c: char| if is_safe(c) { c } else { '-' };
    let name: String = host.chars().take(LONGEST).map(safe).collect();
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name
    } else {
        format!("host{name}")
    }
}

/// Creates a directory of a store, and its missing parents.
pub(crate) fn create_dir(store: &Path, path: &Path) -> Result<(), StoreError> {
    beneath::create_dir(store, path).map_err(StoreError::io("create directory", path))
}

/// Makes changes of names in a store's directory durable.
pub(crate) fn sync_dir(store: &Path, path: &Path) -> Result<(), StoreError> {
    beneath::sync_dir(store, path).map_err(StoreError::io("sync directory", path))
}

/// Makes the names of segments and of their directories durable. Paths are relative to the store.
pub(crate) fn sync_names<'s>(
    store: &Path,
    segments: impl Iterator<Item = &'s String>,
) -> Result<(), StoreError> {
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    for segment in segments {
        let above = Path::new(segment).ancestors().skip(1);
        dirs.extend(above.map(|dir| store.join(dir)));
    }
    dirs.iter().try_for_each(|dir| sync_dir(store, dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_tell_where_a_row_belongs() {
        let minute = "1m".parse().unwrap();
        let start = UtcMs(1_795_233_120_000);
        let date = Date::of(start);
        let path = segment(Dataset::Rollup, minute, date, "web/1", start, (7, 7));
        assert_eq!(
            path,
            "rollup/granularity=1m/date=2026-11-21/web-1-20261121T035200Z-7.parquet"
        );
        let dir = "rollup/granularity=1m/date=2026-11-21";
        let name = "web-1-20261121T035200Z-7.parquet";
        let segment = Path::new(&path);
        assert_eq!(
            [temporary(segment), hidden(segment)],
            ["tmp", "removed"].map(|suffix| PathBuf::from(format!("{dir}/.{name}.{suffix}")))
        );
    }

    #[test]
    fn names_of_segments_read_back() {
        let second = "1s".parse().unwrap();
        let start = UtcMs(1_795_233_120_000);
        for journals in [(7, 7), (3, 7)] {
            let date = Date::of(start);
            let path = segment(Dataset::Ops, second, date, "web-1.x", start, journals);
            let name = parse_name(Path::new(&path)).unwrap();
            assert_eq!((name.host.as_str(), name.start), ("web-1.x", start));
            assert_eq!(
                (name.first, number_of(Path::new(&path))),
                (journals.0, Some(7))
            );
        }
        for other in ["h.parquet", "h-7.parquet", "h-today-7.parquet"] {
            assert!(parse_name(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn only_what_a_segment_is_called_is_one() {
        let of = |path: &str| parse_segment(path).map(|(.., number)| number);
        assert_eq!(
            of("ops/granularity=1s/date=2026-11-21/h-20261121T035200Z-1-7.parquet"),
            Some(7)
        );
        for path in [
            "/ops/granularity=1s/date=2026-11-21/h-7.parquet",
            "ops/granularity=1s/date=2026-11-21/../h-7.parquet",
            "ops/granularity=1s/../h-7.parquet",
            "ops/granularity=1s/date=2026-11-21/.h-7.parquet",
            "ops/granularity=1s/date=2026-11-21/h-7.parquet/x",
            "ops/granularity=1s/date=2026-11-21/h-7.db",
            "catalog.db",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn no_host_name_leaves_its_directory_or_hides_its_files() {
        assert_eq!(file_name_safe("../etc"), "host..-etc");
        assert_eq!(file_name_safe("_a"), "host_a");
        assert_eq!(file_name_safe(""), "host");
        assert_eq!(file_name_safe("web-1.example"), "web-1.example");
    }

    #[test]
    fn times_that_no_calendar_names_still_have_a_path() {
        let ms = "1ms".parse().unwrap();
        for start in [UtcMs(i64::MIN), UtcMs(i64::MAX)] {
            segment(Dataset::Health, ms, Date::of(start), "h", start, (1, 2));
        }
    }
}
