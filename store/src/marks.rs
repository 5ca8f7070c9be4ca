//! Marks on the timeline of a store: notes about a moment, such as the start of a job.
//!
//! Marks are lines of JSON in a separate file. Any process may append to it, also beside a recorder. A second file has
//! the checksum of all lines, so a deleted or changed line is noticed. Each mark continues the checksum, so it does not
//! hide earlier damage. The catalog has the length and the checksum at its last publication, so an earlier pair of files
//! is noticed as well.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use trackiops_schemas::time::UtcMs;

use rustix::fs::{FlockOperation, flock};

use crate::beneath;
use crate::catalog::{Catalog, CatalogView};
use crate::error::StoreError;
use crate::identity::{FOREIGN, Identity, StoreId};
use crate::layout;
use crate::snapshot::check_is_store;

/// Most bytes of a text.
const MOST_BYTES: usize = 4096;
/// Most bytes of a line: each byte may be escaped.
const MOST_OF_LINE: u64 = 6 * MOST_BYTES as u64 + 4096;

/// Most bytes that a catalog can know. The file does not get as long.
const MOST_KNOWN: u64 = (1 << 31) - 1;
/// Most bytes of the file: enough for 100,000 marks.
const MOST_OF_FILE: u64 = 64 << 20;

/// A note about a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The moment.
    pub time: UtcMs,
    /// The host on which it was noted.
    pub host: String,
    /// The note.
    pub text: String,
}

/// Length and checksum of the marks, and the id of their store.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    store: String,
    bytes: u64,
    crc32c: u32,
    /// The number of the marks that the catalog knew and that were moved away before the first of these lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
}

impl Sum {
    /// The sum of no lines.
    fn new(store: String) -> Self {
        Self {
            store,
            bytes: 0,
            crc32c: 0,
            after: None,
        }
    }

    fn read(store: &Path) -> io::Result<Option<Self>> {
        match beneath::read(store, &layout::marks_sum(store)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => Ok(Some(serde_json::from_reader(file?.take(MOST_OF_LINE))?)),
        }
    }

    fn write(&self, store: &Path) -> io::Result<()> {
        let path = layout::marks_sum(store);
        let new = path.with_extension("sum.tmp");
        let mut file = beneath::create_anew(store, &new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        beneath::finished(&file)?;
        file.sync_all()?;
        beneath::rename(store, &new, &path)?;
        beneath::sync_dir(store, store)
    }

    /// Extends it over further bytes.
    fn add(&mut self, bytes: &[u8]) {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.bytes += bytes.len() as u64;
    }

    /// As [`Self::add`], but to at most `most` bytes in all.
    fn add_up_to(&mut self, most: u64, bytes: &[u8]) {
        let rest = usize::try_from(most.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        self.add(&bytes[..bytes.len().min(rest)]);
    }

    /// The number that stands for these lines in the catalog.
    fn number(&self) -> u64 {
        self.bytes.min(MOST_KNOWN) << 32 | u64::from(self.crc32c)
    }

    /// Whether these lines continue those that the catalog knows. `first` has as many of the first bytes.
    fn continues(&self, known: u64, first: &Self) -> bool {
        self.after == Some(known) || first.number() == known
    }
}

/// The length in the number of marks in a catalog.
fn bytes_of(known: u64) -> u64 {
    known >> 32
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    time: String,
    host: String,
    text: String,
}

impl Mark {
    /// Adds the mark to a store. It is durable when this returns.
    pub fn add_to(&self, store: &Path) -> Result<(), StoreError> {
        let refused = StoreError::RefusedMark;
        if self.text.trim().is_empty() {
            return Err(refused("it has no text"));
        }
        if self.text.len() > MOST_BYTES {
            return Err(refused("its text has more than 4,096 bytes"));
        }
        let time =
            layout::utc(self.time).ok_or_else(|| refused("its time is beyond the calendar"))?;
        check_is_store(store)?;
        let catalog = CatalogView::open(store)?;
        let id = Identity::of(&catalog.ids()?).id;
        let known = catalog.marks()?;
        let line = Line {
            time: time.to_rfc3339_opts(SecondsFormat::Millis, true),
            host: self.host.clone(),
            text: self.text.clone(),
        };
        let path = layout::marks(store);
        let add = || {
            let mut file = beneath::append_or_create(store, &path)?;
            // Closing the file releases the lock.
            flock(&file, FlockOperation::LockExclusive)?;
            let length = file.metadata()?.len();
            if length > MOST_OF_FILE {
                return Err(io::Error::other("it has more than 64 MiB; move it away"));
            }
            let mut sum = Sum::read(store)?;
            if length == 0 && sum.is_none() {
                // Written before the first line: lines without a sum count as damaged.
                sum = Some(Sum {
                    after: known,
                    ..Sum::new(id.to_string())
                });
                sum.iter().try_for_each(|sum| sum.write(store))?;
            }
            let mut text = serde_json::to_string(&line)?;
            // An incomplete line stays a separate line.
            if !ends_with_a_line(&mut file)? {
                text.insert(0, '\n');
            }
            text.push('\n');
            file.write_all(text.as_bytes())?;
            beneath::finished(&file)?;
            file.sync_all()?;
            // Without a sum, the lines stay unverified.
            let Some(mut sum) = sum else { return Ok(()) };
            // If a process ended in between, its line may be in the file, but not in the sum.
            let mut not_summed = Vec::new();
            file.seek(SeekFrom::Start(sum.bytes.min(length)))?;
            file.read_to_end(&mut not_summed)?;
            sum.add(&not_summed);
            sum.write(store)
        };
        add().map_err(StoreError::io("write", &path))
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let Line { time, host, text } = serde_json::from_slice(line).ok()?;
        let time = DateTime::parse_from_rfc3339(&time).ok()?;
        Some(Self {
            time: UtcMs(time.timestamp_millis()),
            host,
            text,
        })
    }
}

fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The content of the file of marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The file, which need not exist.
    pub path: PathBuf,
    /// The marks, ordered by time.
    pub marks: Vec<Mark>,
    /// The problem with the file, if it is damaged.
    pub damage: Option<String>,
}

/// The marks of a store.
pub fn marks(store: &Path) -> Result<Marks, StoreError> {
    let path = layout::marks(store);
    let (mut marks, mut unread) = (Vec::new(), 0_u64);
    // Each is read before the next one, which may grow in the meantime. Other code reports a damaged catalog.
    let catalog = CatalogView::open(store).ok();
    let known = catalog.as_ref().and_then(|catalog| catalog.marks().ok()?);
    let sum = Sum::read(store);
    let file = match beneath::read(store, &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The files may have been created in the meantime.
            let had_some = known.is_some() && matches!(Sum::read(store), Ok(None));
            let is_missing = !matches!(sum, Ok(None)) || had_some;
            let damage = is_missing.then(|| "it is missing".to_owned());
            return Ok(Marks {
                path,
                marks,
                damage,
            });
        }
        file => file.map_err(StoreError::io("read", &path))?,
    };
    let (mut found, mut first) = (Sum::new(String::new()), Sum::new(String::new()));
    let vouched = sum.as_ref().ok().and_then(Option::as_ref);
    let vouched = vouched.map_or(0, |sum| sum.bytes);
    let is_too_long = file
        .metadata()
        .map_err(StoreError::io("read", &path))?
        .len()
        > MOST_OF_FILE;
    let mut file = BufReader::new(file.take(MOST_OF_FILE));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = file
            .by_ref()
            .take(MOST_OF_LINE)
            .read_until(b'\n', &mut line);
        if read.map_err(StoreError::io("read", &path))? == 0 {
            break;
        }
        found.add_up_to(vouched, &line);
        first.add_up_to(known.map_or(0, bytes_of), &line);
        match Mark::parse(&line) {
            Some(mark) => marks.push(mark),
            None if line.trim_ascii().is_empty() => {}
            None => unread += 1,
        }
    }
    marks.sort_by_key(|mark| mark.time);
    let is_earlier = match (&sum, known) {
        (Ok(Some(sum)), Some(known)) => !sum.continues(known, &first),
        _ => false,
    };
    let damage = match is_too_long {
        true => Some("it has more than 64 MiB, and what follows is not read".to_owned()),
        false if unread > 0 => Some(format!("lines that are no marks: {unread}")),
        false => differs(catalog.as_ref(), sum, &found)
            .or_else(|| is_earlier.then(|| EARLIER.to_owned())),
    };
    Ok(Marks {
        path,
        marks,
        damage,
    })
}

/// When the marks of a store were changed last, and their length: while both stay the same, so do the marks. `None`
/// without marks.
pub fn marks_changed(store: &Path) -> Result<Option<(SystemTime, u64)>, StoreError> {
    let path = layout::marks(store);
    let metadata = match beneath::read(store, &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.and_then(|file| file.metadata()),
    };
    let changed = metadata.and_then(|of| Ok((of.modified()?, of.len())));
    changed.map(Some).map_err(StoreError::io("read", &path))
}

/// Records the marks in the catalog, if the store has any. Does not replace marks that are known, but that the present
/// lines do not continue.
pub(crate) fn enter(store: &Path, catalog: &Catalog) -> Result<(), StoreError> {
    let path = layout::marks_sum(store);
    if !beneath::exists(store, &path).map_err(StoreError::io("look for", &path))? {
        return Ok(());
    }
    let sum = Sum::read(store).ok().flatten();
    let number = sum.as_ref().map_or(0, Sum::number);
    let Some(known) = catalog.marks()?.filter(|known| *known != number) else {
        return catalog.enter_marks(number);
    };
    let first = first_bytes(store, bytes_of(known)).ok();
    match sum.zip(first) {
        Some((sum, first)) if sum.continues(known, &first) => catalog.enter_marks(number),
        _ => Ok(()),
    }
}

/// The sum of the first bytes of the file.
fn first_bytes(store: &Path, bytes: u64) -> io::Result<Sum> {
    let mut first = Sum::new(String::new());
    let mut file = beneath::read(store, &layout::marks(store))?.take(bytes);
    let mut chunk = vec![0; 64 << 10];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(first),
            read => first.add(&chunk[..read]),
        }
    }
}

/// The problem with files that were replaced by earlier ones.
const EARLIER: &str = "lines are missing that the catalog knows: it is of an earlier time";

/// How lines with the sum `found` differ from the recorded sum.
fn differs(
    catalog: Option<&CatalogView>,
    sum: io::Result<Option<Sum>>,
    found: &Sum,
) -> Option<String> {
    let Ok(Some(sum)) = sum else {
        let what = sum
            .err()
            .map_or("missing".to_owned(), |error| error.to_string());
        return Some(format!(
            "marks.sum, which vouches for it, cannot be read: {what}"
        ));
    };
    if (sum.bytes, sum.crc32c) != (found.bytes, found.crc32c) {
        return Some("lines were deleted or changed".to_owned());
    }
    // Other code reports a damaged catalog.
    let ids = catalog?.ids().ok()?;
    let is_own = sum
        .store
        .parse::<StoreId>()
        .is_ok_and(|id| ids.contains(&id));
    (!is_own).then(|| FOREIGN.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;
    use crate::unit_tests::options;
    use crate::{Writer, rebuild_catalog};

    fn mark(ms: i64, text: &str) -> Mark {
        Mark {
            time: UtcMs(ms),
            host: "web-1".to_owned(),
            text: text.to_owned(),
        }
    }

    fn store() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        Catalog::open(dir.path()).unwrap();
        dir
    }

    #[test]
    fn a_line_that_was_deleted_cut_or_changed_is_noticed_from_then_on() {
        let damage = |dir: &tempfile::TempDir| marks(dir.path()).unwrap().damage;
        let dir = store();
        for ms in 1..4 {
            mark(ms, "a").add_to(dir.path()).unwrap();
        }
        assert_eq!(damage(&dir), None);
        let path = layout::marks(dir.path());
        let whole = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = whole.split_inclusive('\n').collect();
        let changed = whole.replacen("\"a\"", "\"b\"", 1);
        let cuts = (0..whole.len()).step_by(7).map(|to| whole[..to].to_owned());
        let deleted = (0..3).map(|i| [&lines[..i], &lines[i + 1..]].concat().concat());
        let other = store();
        mark(9, "of another store").add_to(other.path()).unwrap();
        let sum = layout::marks_sum(dir.path());
        let own = fs::read(&sum).unwrap();
        for text in cuts.chain(deleted).chain([changed]) {
            fs::write(&path, &text).unwrap();
            assert!(damage(&dir).is_some(), "{text:?}");
            mark(4, "later").add_to(dir.path()).unwrap();
            assert!(damage(&dir).is_some(), "{text:?}");
            fs::write(&sum, &own).unwrap();
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(damage(&dir), None);
        for byte in 0..own.len() {
            let mut flipped = own.clone();
            flipped[byte] ^= 1;
            fs::write(&sum, flipped).unwrap();
            assert!(damage(&dir).is_some(), "byte {byte}");
        }
        fs::remove_file(&sum).unwrap();
        for _ in 0..2 {
            assert!(damage(&dir).unwrap().contains("marks.sum"));
            mark(5, "later").add_to(dir.path()).unwrap();
        }
        fs::write(&sum, &own).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(damage(&dir).as_deref(), Some("it is missing"));
        for file in [&path, &sum] {
            fs::copy(other.path().join(file.file_name().unwrap()), file).unwrap();
        }
        assert!(damage(&dir).unwrap().contains("another store"));
    }

    #[test]
    fn marks_whose_files_are_both_deleted_are_missed() {
        let dir = store();
        let record = || Writer::open(dir.path(), options("h")).unwrap().finish();
        let damage = || marks(dir.path()).unwrap().damage;
        record().unwrap();
        assert_eq!(damage(), None);
        mark(1, "a").add_to(dir.path()).unwrap();
        record().unwrap();
        for file in [layout::marks(dir.path()), layout::marks_sum(dir.path())] {
            fs::remove_file(file).unwrap();
        }
        assert_eq!(damage().as_deref(), Some("it is missing"));
        fs::create_dir(layout::journal_dir(dir.path())).unwrap_or_default();
        rebuild_catalog(dir.path()).unwrap();
        assert_eq!(damage().as_deref(), Some("it is missing"));
        // Later marks are not missing.
        mark(2, "b").add_to(dir.path()).unwrap();
        assert_eq!(damage(), None);
    }

    #[test]
    fn an_earlier_pair_of_files_is_noticed() {
        let dir = store();
        let record = || Writer::open(dir.path(), options("h")).unwrap().finish();
        let damage = || marks(dir.path()).unwrap().damage;
        let files = [layout::marks(dir.path()), layout::marks_sum(dir.path())];
        mark(1, "a").add_to(dir.path()).unwrap();
        record().unwrap();
        let earlier = files.each_ref().map(|file| fs::read(file).unwrap());
        mark(2, "b").add_to(dir.path()).unwrap();
        record().unwrap();
        assert_eq!(damage(), None);
        for (file, bytes) in files.iter().zip(earlier) {
            fs::write(file, bytes).unwrap();
        }
        // Neither a recorder nor later marks nor a new catalog hide it.
        for i in 0..4 {
            assert_eq!(damage().as_deref(), Some(EARLIER), "{i}");
            record().unwrap();
            assert_eq!(damage().as_deref(), Some(EARLIER), "{i}");
            mark(3 + i, "later").add_to(dir.path()).unwrap();
            rebuild_catalog(dir.path()).unwrap();
        }
        for file in &files {
            fs::remove_file(file).unwrap();
        }
        mark(9, "c").add_to(dir.path()).unwrap();
        for _ in 0..2 {
            assert_eq!(damage(), None);
            record().unwrap();
        }
    }

    #[test]
    fn a_process_that_ends_before_the_sum_is_written_leaves_no_damage() {
        let dir = store();
        mark(1, "a").add_to(dir.path()).unwrap();
        let sum = layout::marks_sum(dir.path());
        let before = fs::read(&sum).unwrap();
        mark(2, "b").add_to(dir.path()).unwrap();
        fs::write(&sum, before).unwrap();
        assert_eq!(marks(dir.path()).unwrap().damage, None);
        mark(3, "c").add_to(dir.path()).unwrap();
        let found = marks(dir.path()).unwrap();
        assert_eq!((found.marks.len(), found.damage), (3, None));
    }

    #[test]
    fn marks_read_back_as_they_were_made_and_in_order() {
        let dir = store();
        let long = "\u{1}".repeat(MOST_BYTES);
        let all = [
            mark(5, "a\nb \"c\" \u{e9}"),
            mark(7, &long),
            mark(1_795_000_000_000, "end"),
        ];
        for mark in [&all[2], &all[0], &all[1]] {
            mark.add_to(dir.path()).unwrap();
        }
        let found = marks(dir.path()).unwrap();
        assert_eq!((found.marks, found.damage), (all.to_vec(), None));
    }

    #[test]
    fn what_is_no_mark_is_counted_and_loses_no_other() {
        let dir = store();
        assert_eq!(marks(dir.path()).unwrap().marks, []);
        mark(1, "whole").add_to(dir.path()).unwrap();
        let path = layout::marks(dir.path());
        let mut torn = fs::read(&path).unwrap();
        torn.extend(b"{\"time\":\"2026");
        fs::write(&path, torn).unwrap();
        mark(2, "next").add_to(dir.path()).unwrap();
        let found = marks(dir.path()).unwrap();
        assert_eq!(found.marks, [mark(1, "whole"), mark(2, "next")]);
        assert_eq!(found.damage.as_deref(), Some("lines that are no marks: 1"));
    }

    #[test]
    fn a_file_of_any_length_is_read_in_little_time() {
        let dir = store();
        mark(1, "first").add_to(dir.path()).unwrap();
        let path = layout::marks(dir.path());
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let found = marks(dir.path()).unwrap();
        assert_eq!(found.marks, [mark(1, "first")]);
        let damage = found.damage.unwrap();
        assert!(damage.contains("more than 64 MiB"), "{damage}");
        let refused = mark(2, "x").add_to(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("move it away"), "{refused}");
    }

    #[test]
    fn what_cannot_be_marked_says_why() {
        let dir = store();
        for (text, why) in [(" ", "no text"), (&*"x".repeat(MOST_BYTES + 1), "4,096")] {
            let error = mark(1, text).add_to(dir.path()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let error = mark(i64::MAX, "late").add_to(dir.path()).unwrap_err();
        assert!(error.to_string().contains("calendar"), "{error}");
        let nowhere = mark(1, "x")
            .add_to(&dir.path().join("nowhere"))
            .unwrap_err();
        assert!(matches!(nowhere, StoreError::Missing(_)), "{nowhere}");
    }
}
