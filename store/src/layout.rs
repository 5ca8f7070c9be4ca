//! Where things are in a store: the only module that spells paths.
//!
//! ```text
//! <store>/catalog.db
//! <store>/journal/<n>.tij
//! <store>/journal/requests-<n>.tij
//! <store>/journal/*.end                 how far the journal of that name goes
//! <store>/journal/*.tij.damaged         a journal that was found damaged; *.end.damaged is beside it
//! <store>/requests/date=<YYYY-MM-DD>/<host>-<start>-<n>.parquet
//! <store>/<dataset>/granularity=<g>/date=<YYYY-MM-DD>/<host>-<start>-<n>.parquet
//! <store>/<dataset>/granularity=<g>/date=<YYYY-MM-DD>/<host>-<start>-<first n>-<last n>.parquet   merged
//! .<segment>.tmp        not complete, or just about to count
//! .<segment>.removed    counts no longer, and is to be deleted
//! ```
//!
//! A segment's name is a function of its journal's content, so sealing a journal again writes the
//! same names. What does not count has a name that begins with a dot and does not end in `.parquet`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate};
use trackiops_schemas::time::{DAY_MS, Granularity, UtcMs};

use crate::beneath;
use crate::error::StoreError;

/// Extension of a journal.
const JOURNAL_EXTENSION: &str = "tij";
/// Extension of what says how far a journal goes.
const END_EXTENSION: &str = "end";
/// What follows the name of a journal that was found damaged.
const SET_ASIDE: &str = ".damaged";
/// What follows the name of a segment until it counts.
const TEMPORARY: &str = ".tmp";
/// What follows it once it counts no longer.
const HIDDEN: &str = ".removed";
/// What the names of the journals of requests begin with.
const REQUESTS_PREFIX: &str = "requests-";
/// How often journals are listed at most: a recorder rotates them every few minutes.
const MOST_LISTS: usize = 100;
const JOURNAL_DIR: &str = "journal";
/// Directory of the segments of requests, and the name of their dataset.
pub(crate) const REQUESTS_DIR: &str = "requests";

/// What a segment's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dataset {
    /// What the files did.
    Rollup,
    /// What the recorder knows about itself.
    Health,
    /// What servers were asked to do, operation by operation.
    Ops,
}

impl Dataset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rollup, Self::Health, Self::Ops];

    /// That of a name.
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

/// Whoever writes has locked it.
pub(crate) fn lock(store: &Path) -> PathBuf {
    store.join("lock")
}

/// The next catalog: it is written, or has room to be.
pub(crate) fn new_catalog(store: &Path) -> PathBuf {
    store.join(".catalog.db.tmp")
}

/// What the writer of the catalog changes, before it is published.
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

/// Whether a directory has anything of a store but a catalog.
pub(crate) fn has_files(store: &Path) -> Result<bool, StoreError> {
    let journals = journal_dir(store);
    let has_journals =
        beneath::exists(store, &journals).map_err(StoreError::io("look for", &journals))?;
    Ok(has_journals || !segment_files(store)?.is_empty())
}

/// What the path of a segment, relative to the store, says of it: the dataset, the granularity, and the number of the
/// last journal that it is from.
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

/// A directory is listed in pieces. A journal that is created meanwhile may be missing from a list that has the next one, and then a
/// reader would see newer windows without older ones. So journals are listed until two lists agree.
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
        // Only the name that `journal_of` writes: `007.tij` is not journal 7. The catalog has no larger numbers, and there is a next one.
        let is_ours =
            |n: &u64| *n < i64::MAX.cast_unsigned() && journal_of(prefix, store, *n) == path;
        numbers.extend(number.filter(is_ours));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Path of a segment, relative to the store. `start` is the start of its first window; `journals` are the numbers of the
/// first and the last journal that it is from.
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

/// Path of a segment of requests, relative to the store. `start` is when its first request completed.
pub(crate) fn requests_segment(date: Date, host: &str, start: UtcMs, journal: u64) -> String {
    let name = segment_name(date, host, start, (journal, journal));
    format!("{REQUESTS_DIR}/{name}")
}

fn segment_name(date: Date, host: &str, start: UtcMs, (first, last): (u64, u64)) -> String {
    let start = utc(start).map_or_else(
        || format!("{}ms", start.0),
        |t| t.format("%Y%m%dT%H%M%SZ").to_string(),
    );
    let (date, host) = (date.name(), file_name_safe(host));
    match first == last {
        true => format!("date={date}/{host}-{start}-{last}.parquet"),
        false => format!("date={date}/{host}-{start}-{first}-{last}.parquet"),
    }
}

/// The segments of requests in the store, with the numbers of their journals, ascending.
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

/// Paths of all segments of windows that a glob sees, relative to the store, in order.
pub(crate) fn segment_files(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, "")
}

/// Paths, without what hides them, of all segments of windows that are hidden.
pub(crate) fn hidden_segments(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, HIDDEN)
}

/// Paths of all segments of windows that are, or were, being written.
pub(crate) fn temporary_segments(store: &Path) -> Result<Vec<String>, StoreError> {
    segments_named(store, TEMPORARY)
}

/// Those whose files have such a name, or with an empty suffix their own.
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

/// The number of the last journal that a segment is from, by its name.
pub(crate) fn number_of(segment: &Path) -> Option<u64> {
    segment
        .file_stem()?
        .to_str()?
        .rsplit_once('-')?
        .1
        .parse()
        .ok()
}

/// The day that the directory of a segment names.
pub(crate) fn date_of(segment: &Path) -> Option<(UtcMs, UtcMs)> {
    let date = segment.parent()?.file_name()?.to_str()?;
    let date: NaiveDate = date.strip_prefix("date=")?.parse().ok()?;
    let start = UtcMs(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis());
    Some((start, UtcMs(start.0.saturating_add(DAY_MS))))
}

/// Whether the directory of a segment is that of rows of a time.
pub(crate) fn is_of_date(segment: &Path, time: UtcMs) -> bool {
    let date = segment.parent().and_then(Path::file_name);
    date.is_some_and(|date| date == format!("date={}", Date::of(time).name()).as_str())
}

/// Journals that were found damaged and are kept, of windows and of requests.
pub(crate) fn quarantined_journals(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut quarantined = entries(store, &journal_dir(store))?;
    quarantined.retain(|path| quarantined_from(path).is_some_and(|path| is_journal(&path)));
    quarantined.sort_unstable();
    Ok(quarantined)
}

/// The name that a journal, or what is beside it, has once it was found damaged.
pub(crate) fn quarantined(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SET_ASIDE);
    PathBuf::from(name)
}

/// The name that it had before.
fn quarantined_from(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(SET_ASIDE)?;
    Some(path.with_file_name(name))
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == JOURNAL_EXTENSION)
}

/// The number of a journal of windows, or of one in quarantine; `None` of one of requests.
pub(crate) fn number_of_journal(path: &Path) -> Option<u64> {
    let own = quarantined_from(path);
    let own = own.as_deref().unwrap_or(path);
    own.file_stem()?.to_str()?.parse().ok()
}

/// What says how far a journal goes, whether it is in quarantine or not.
pub(crate) fn journal_end(journal: &Path) -> PathBuf {
    match quarantined_from(journal) {
        Some(journal) => quarantined(&journal.with_extension(END_EXTENSION)),
        None => journal.with_extension(END_EXTENSION),
    }
}

/// What says how far journals go that are not there, not even in quarantine.
pub(crate) fn orphaned_ends(store: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut ends = entries(store, &journal_dir(store))?;
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    ends.retain(|path| {
        let own = quarantined_from(path);
        let end = own.as_deref().unwrap_or(path);
        let journal = end.with_extension(JOURNAL_EXTENSION);
        // One that is being quarantined has its new name before what is beside it.
        let is_alone = !is_there(&quarantined(&journal)) && (own.is_some() || !is_there(&journal));
        end.extension().is_some_and(|e| e == END_EXTENSION) && is_alone
    });
    Ok(ends)
}

/// The largest number of a journal of windows of which anything is in the directory of journals: itself, quarantined or not, or what is beside it.
/// Another one of that number could be taken for it. 0 if there is none.
pub(crate) fn last_number(store: &Path) -> Result<u64, StoreError> {
    last_number_of("", store)
}

/// As [`last_number`], of journals of requests.
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

/// The number of the journal of windows that this is beside; `None` of others, and of what is in quarantine.
pub(crate) fn number_of_end(store: &Path, end: &Path) -> Option<u64> {
    let number = number_of_journal(end)?;
    (journal_end(&journal(store, number)) == end).then_some(number)
}

/// What is in a directory; nothing, if there is none.
fn entries(store: &Path, dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    beneath::entries(store, dir).map_err(StoreError::io("list", dir))
}

/// The name that a segment has until it is complete and counts.
pub(crate) fn temporary(segment: &Path) -> PathBuf {
    concealed(segment, TEMPORARY)
}

/// The name that a segment has once it counts no longer.
pub(crate) fn hidden(segment: &Path) -> PathBuf {
    concealed(segment, HIDDEN)
}

/// `.<name><suffix>`: whoever globs looks at how a name ends, and whoever reads directories (Spark, Arrow) at how it begins.
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

/// `None` beyond the years that chrono can name.
fn utc(time: UtcMs) -> Option<DateTime<chrono::Utc>> {
    DateTime::from_timestamp_millis(time.0)
}

/// Whether a segment's name may have it.
fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._".contains(c)
}

/// `host` without what a file name cannot hold. It begins with a letter or a digit: Spark and
/// DuckDB take names that begin with `.` or `_` for hidden files.
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

/// Creates a directory of a store and what is missing above it.
pub(crate) fn create_dir(store: &Path, path: &Path) -> Result<(), StoreError> {
    beneath::create_dir(store, path).map_err(StoreError::io("create directory", path))
}

/// Makes what happened to the names in a directory of a store durable.
pub(crate) fn sync_dir(store: &Path, path: &Path) -> Result<(), StoreError> {
    beneath::sync_dir(store, path).map_err(StoreError::io("sync directory", path))
}

/// Makes the names of segments durable, given relative to the store, and of the directories that were created for them.
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
