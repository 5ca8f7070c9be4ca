//! Damages a store: each number gives another damage.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::states::{Image, State, restore};
use trackiops_testkit::generated::Numbers;
use trackiops_testkit::stores::seal_catalog;

const CATALOG: &str = "catalog.db";

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Bit,
    Byte,
    Bits,
    Sector,
    Page,
    Cut,
    Grown,
    Shifted,
    Swapped,
    Copied,
    Deleted,
    Exchanged,
    Numbered,
    Older,
    Torn,
    Foreign,
    Fifo,
    Directory,
    Link,
    Edited,
    Forged,
}

/// Shares of kinds among mutants of a file's bytes.
const OF_BYTES: [(Kind, u64); 10] = [
    (Kind::Bit, 11),
    (Kind::Byte, 10),
    (Kind::Bits, 8),
    (Kind::Sector, 8),
    (Kind::Page, 4),
    (Kind::Cut, 9),
    (Kind::Grown, 4),
    (Kind::Shifted, 4),
    (Kind::Swapped, 5),
    (Kind::Copied, 5),
];
/// Shares of kinds among mutants of whole files.
const OF_WHOLE_FILES: [(Kind, u64); 9] = [
    (Kind::Deleted, 2),
    (Kind::Exchanged, 2),
    (Kind::Numbered, 2),
    (Kind::Older, 3),
    (Kind::Torn, 3),
    (Kind::Foreign, 3),
    (Kind::Fifo, 1),
    (Kind::Directory, 1),
    (Kind::Link, 2),
];
const OF_SQL: [(Kind, u64); 2] = [(Kind::Edited, 2), (Kind::Forged, 11)];

/// The damaged part. All parts get equally many mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Catalog,
    Journal,
    RequestsJournal,
    End,
    Marks,
    SumOfMarks,
    Rollup,
    Ops,
    Health,
    Requests,
    WholeFiles,
    Sql,
}

impl Part {
    const ALL: [Self; 12] = [
        Self::Catalog,
        Self::Journal,
        Self::RequestsJournal,
        Self::End,
        Self::Marks,
        Self::SumOfMarks,
        Self::Rollup,
        Self::Ops,
        Self::Health,
        Self::Requests,
        Self::WholeFiles,
        Self::Sql,
    ];

    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalog => "bytes of the catalog",
            Self::Journal => "bytes of journals of windows",
            Self::RequestsJournal => "bytes of journals of requests",
            Self::End => "bytes of the lengths of journals",
            Self::Marks => "bytes of marks",
            Self::SumOfMarks => "bytes of the sum of marks",
            Self::Rollup => "bytes of segments of files",
            Self::Ops => "bytes of segments of operations",
            Self::Health => "bytes of segments of health",
            Self::Requests => "bytes of segments of requests",
            Self::WholeFiles => "whole files",
            Self::Sql => "values of the catalog",
        }
    }

    /// Whether its mutants change the bytes of this file.
    fn is(self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_journal =
            |prefix: bool| name.ends_with(".tij") && name.starts_with("requests-") == prefix;
        match self {
            Self::Catalog => name == CATALOG,
            Self::Journal => is_journal(false),
            Self::RequestsJournal => is_journal(true),
            Self::End => name.ends_with(".end"),
            Self::Marks => name == "marks.jsonl",
            Self::SumOfMarks => name == "marks.sum",
            Self::Rollup => path.starts_with("rollup"),
            Self::Ops => path.starts_with("ops"),
            Self::Health => path.starts_with("health"),
            Self::Requests => path.starts_with("requests"),
            Self::WholeFiles | Self::Sql => true,
        }
    }

    fn kinds(self) -> &'static [(Kind, u64)] {
        match self {
            Self::WholeFiles => &OF_WHOLE_FILES,
            Self::Sql => &OF_SQL,
            _ => &OF_BYTES,
        }
    }
}

impl Kind {
    /// The name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "a bit flipped",
            Self::Byte => "a byte changed",
            Self::Bits => "bits of several files flipped",
            Self::Sector => "a sector of 512 bytes zeroed",
            Self::Page => "a page of 4096 bytes zeroed",
            Self::Cut => "a file cut",
            Self::Grown => "a file grown",
            Self::Shifted => "bytes inserted or taken out",
            Self::Swapped => "blocks of a file swapped",
            Self::Copied => "a block of another file",
            Self::Deleted => "a file deleted",
            Self::Exchanged => "two files exchanged",
            Self::Numbered => "a file copied under another number",
            Self::Older => "an older version of a file",
            Self::Torn => "an older version of the catalog, of all journals or of all segments",
            Self::Foreign => "a file of another store",
            Self::Fifo => "a FIFO in place of a file",
            Self::Directory => "a directory in place of a file",
            Self::Link => "a symbolic link in place of a file",
            Self::Edited => "the catalog edited by SQL",
            Self::Forged => "the catalog edited by SQL, with its checksum",
        }
    }
}

/// A damaged store.
pub struct Mutant {
    pub state: usize,
    pub part: Part,
    pub kind: Kind,
    /// The damage, and the files.
    pub what: String,
}

/// The random numbers of a mutant.
fn numbers(seed: u64, number: u64) -> Numbers {
    let mut numbers = Numbers(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // Skip the first numbers, which are similar for neighbouring seeds.
    for _ in 0..4 {
        numbers.below(2);
    }
    numbers
}

/// Turns `store` into the mutant of a number. `outside` is beside the store, with a file that must stay untouched.
pub fn make(
    states: &[State],
    seed: u64,
    number: u64,
    store: &Path,
    outside: &Path,
) -> Result<Mutant> {
    let mut numbers = numbers(seed, number);
    let part = Part::ALL[(number % Part::ALL.len() as u64) as usize];
    let has_part = |state: &usize| states[*state].image.keys().any(|path| part.is(path));
    let with_part: Vec<_> = (0..states.len()).filter(has_part).collect();
    let state = with_part[numbers.below(with_part.len() as u64) as usize];
    let State { image, older, .. } = &states[state];
    let shares = part.kinds();
    let mut share = numbers.below(shares.iter().map(|(_, of_it)| of_it).sum());
    let kind = shares.iter().find(|(_, of_it)| {
        let found = share < *of_it;
        share = share.saturating_sub(*of_it);
        found
    });
    let (kind, _) = kind.context("a share is less than their sum")?;
    let mut change = Change {
        numbers,
        part,
        image: image.clone(),
        older,
        other: &states[(state + 1) % states.len()].image,
        store,
        outside,
    };
    let what = change.make(*kind)?;
    Ok(Mutant {
        state,
        part,
        kind: *kind,
        what,
    })
}

struct Change<'s> {
    numbers: Numbers,
    part: Part,
    image: Image,
    older: &'s Image,
    other: &'s Image,
    store: &'s Path,
    outside: &'s Path,
}

impl Change<'_> {
    fn below(&mut self, end: usize) -> usize {
        self.numbers.below(end.max(1) as u64) as usize
    }

    /// A random file for the mutant to damage; not an empty one if `with_bytes`.
    fn file(&mut self, with_bytes: bool) -> Result<PathBuf> {
        self.file_of(self.part, with_bytes)
    }

    fn file_of(&mut self, part: Part, with_bytes: bool) -> Result<PathBuf> {
        let image = self.image.iter().filter(|(path, _)| part.is(path));
        let files = image.filter(|(_, bytes)| !with_bytes || !bytes.is_empty());
        let files: Vec<_> = files.map(|(path, _)| path.clone()).collect();
        let at = self.below(files.len());
        files.get(at).cloned().context("there is a file")
    }

    fn bytes(&mut self, path: &Path) -> Result<&mut Vec<u8>> {
        self.image.get_mut(path).context("it is in the store")
    }

    /// A position in a file: anywhere, or at one of its ends.
    fn place(&mut self, path: &Path) -> Result<usize> {
        let length = self.bytes(path)?.len();
        Ok(match self.below(8) {
            0 => self.below(length.min(64)),
            1 => length - 1 - self.below(length.min(64)),
            _ => self.below(length),
        })
    }

    fn make(&mut self, kind: Kind) -> Result<String> {
        let what = match kind {
            Kind::Bit => self.flip(self.part)?,
            Kind::Bits => {
                let mut flips = vec![self.flip(self.part)?];
                for _ in 0..1 + self.below(7) {
                    flips.push(self.flip(Part::WholeFiles)?);
                }
                flips.join(", ")
            }
            Kind::Byte => {
                let path = self.file(true)?;
                let at = self.place(&path)?;
                let by = 1 + self.below(255) as u8;
                let byte = &mut self.bytes(&path)?[at];
                *byte = byte.wrapping_add(by);
                format!("byte {at} of {} plus {by}", path.display())
            }
            Kind::Sector => self.zero(512)?,
            Kind::Page => self.zero(4096)?,
            Kind::Cut => {
                let path = self.file(true)?;
                let at = self.place(&path)?;
                self.bytes(&path)?.truncate(at);
                format!("{} cut at {at}", path.display())
            }
            Kind::Grown => {
                let path = self.file(false)?;
                let by = 1 + self.below(9000);
                let noise = self.below(2) == 0;
                let more = (0..by).map(|_| match noise {
                    true => self.numbers.below(256) as u8,
                    false => 0,
                });
                let more: Vec<_> = more.collect();
                self.bytes(&path)?.extend(more);
                let of = if noise { "noise" } else { "zeros" };
                format!("{} grown by {by} bytes of {of}", path.display())
            }
            Kind::Shifted => {
                let path = self.file(true)?;
                let at = self.place(&path)?;
                let by = 1 + self.below(600);
                let take = self.below(2) == 0;
                let bytes = self.bytes(&path)?;
                let end = (at + by).min(bytes.len());
                match take {
                    true => drop(bytes.drain(at..end)),
                    false => drop(bytes.splice(at..at, vec![0; by])),
                }
                let done = if take { "taken out" } else { "inserted" };
                format!("{by} bytes {done} at {at} of {}", path.display())
            }
            Kind::Swapped => self.swap()?,
            Kind::Copied => {
                let (path, from) = (self.file(true)?, self.file_of(Part::WholeFiles, true)?);
                let length = [512, 4096, 8192][self.below(3)];
                let source = self.bytes(&from)?.clone();
                let start = self.below(source.len() / length + 1) * length;
                let block = &source[start.min(source.len())..(start + length).min(source.len())];
                let bytes = self.bytes(&path)?;
                let at = start.min(bytes.len());
                let end = (at + block.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&block[..end - at]);
                format!(
                    "{} bytes at {at} of {} from {start} of {}",
                    end - at,
                    path.display(),
                    from.display()
                )
            }
            Kind::Deleted => {
                let path = self.file(false)?;
                self.image.remove(&path);
                format!("{} deleted", path.display())
            }
            Kind::Exchanged => {
                let (first, second) = (self.file(false)?, self.file(false)?);
                let bytes = self.bytes(&first)?.clone();
                let other = std::mem::replace(self.bytes(&second)?, bytes);
                *self.bytes(&first)? = other;
                format!("{} and {} exchanged", first.display(), second.display())
            }
            Kind::Numbered => self.copy_numbered()?,
            Kind::Older => {
                let changed = self
                    .older
                    .iter()
                    .filter(|(path, bytes)| self.image.get(*path).is_some_and(|now| now != *bytes));
                let changed: Vec<_> = changed.map(|(path, _)| path.clone()).collect();
                let at = self.below(changed.len());
                match changed.get(at) {
                    Some(path) => {
                        self.image.insert(path.clone(), self.older[path].clone());
                        format!("an older {}", path.display())
                    }
                    None => "no older file".to_owned(),
                }
            }
            Kind::Torn => self.tear()?,
            Kind::Foreign => self.take_foreign()?,
            Kind::Fifo | Kind::Directory | Kind::Link => return self.replace(kind),
            Kind::Edited | Kind::Forged => return self.edit(kind == Kind::Forged),
        };
        restore(&self.image, self.store)?;
        Ok(what)
    }

    /// A copy of a journal with its `.end` file, or of a segment, under another number.
    fn copy_numbered(&mut self) -> Result<String> {
        let number = |path: &Path| -> Option<(String, u64)> {
            let stem = path.file_stem()?.to_str()?;
            let digits = stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            Some((stem[..digits].to_owned(), stem[digits..].parse().ok()?))
        };
        let numbered = self.image.keys().filter(|path| number(path).is_some());
        let numbered: Vec<_> = numbered.cloned().collect();
        let at = self.below(numbered.len());
        let Some(path) = numbered.get(at) else {
            return self.flip(self.part);
        };
        let (stem, of) = number(path).context("it has a number")?;
        let to = [of + 1, of + 100, of.saturating_sub(1)][self.below(3)];
        for extension in ["tij", "end", "parquet"] {
            if let Some(bytes) = self.image.get(&path.with_extension(extension)).cloned() {
                let copy = path.with_file_name(format!("{stem}{to}.{extension}"));
                self.image.entry(copy).or_insert(bytes);
            }
        }
        Ok(format!("{} copied as number {to}", path.display()))
    }

    /// Simulates a file-by-file copy of a store that is being recorded to: one part is of an earlier time.
    fn tear(&mut self) -> Result<String> {
        let part = |path: &Path| match path.components().count() {
            1 if path == Path::new(CATALOG) => Some(0),
            1 => None,
            _ => Some(1 + usize::from(!path.starts_with("journal"))),
        };
        let torn = self.below(3);
        let is_kept = |path: &PathBuf| part(path) != Some(torn);
        let older = self.older.iter().filter(|(path, _)| !is_kept(path));
        let mut image: Image = older
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect();
        let kept = self.image.iter().filter(|(path, _)| is_kept(path));
        image.extend(kept.map(|(path, bytes)| (path.clone(), bytes.clone())));
        let of = |image: &Image, is_part: fn(usize) -> bool| -> Image {
            let of = image
                .iter()
                .filter(|(path, _)| part(path).is_some_and(is_part));
            of.map(|(path, bytes)| (path.clone(), bytes.clone()))
                .collect()
        };
        // A store in an earlier state is not damaged. Neither is one with the current catalog, if that lists the same journals: the catalog
        // does not store the lengths of open journals.
        let is_older = |is_part| of(&image, is_part) == of(self.older, is_part);
        let journals =
            |image: &Image| -> Vec<PathBuf> { of(image, |part| part == 1).into_keys().collect() };
        let has_same_journals = journals(&self.image) == journals(self.older);
        if is_older(|_| true) || has_same_journals && is_older(|part| part > 0) {
            return self.flip(self.part);
        }
        self.image = image;
        let name = ["the catalog", "all journals", "all segments"][torn];
        Ok(format!("{name} of an earlier time"))
    }

    /// A file of another store, with its companion files.
    fn take_foreign(&mut self) -> Result<String> {
        let files = self.other.keys().filter(|path| *path != Path::new("lock"));
        let files: Vec<_> = files.collect();
        let at = self.below(files.len());
        let path = files.get(at).context("the other store has files")?;
        for extension in ["tij", "end", "jsonl", "sum", "parquet", "db"] {
            let path = path.with_extension(extension);
            if let Some(bytes) = self.other.get(&path) {
                self.image.insert(path, bytes.clone());
            }
        }
        Ok(format!("{} of another store", path.display()))
    }

    fn flip(&mut self, part: Part) -> Result<String> {
        let path = self.file_of(part, true)?;
        let at = self.place(&path)?;
        let bit = self.below(8);
        self.bytes(&path)?[at] ^= 1 << bit;
        Ok(format!("bit {bit} of byte {at} of {}", path.display()))
    }

    fn zero(&mut self, length: usize) -> Result<String> {
        let path = self.file(true)?;
        let at = self.place(&path)? / length * length;
        let bytes = self.bytes(&path)?;
        let end = (at + length).min(bytes.len());
        bytes[at..end].fill(0);
        Ok(format!("zeros from {at} to {end} of {}", path.display()))
    }

    fn swap(&mut self) -> Result<String> {
        let path = self.file(true)?;
        let length = [64, 512, 4096, 8192][self.below(4)];
        let blocks = self.bytes(&path)?.len() / length;
        if blocks < 2 {
            return self.flip(self.part);
        }
        let (first, second) = (self.below(blocks) * length, self.below(blocks) * length);
        let (first, second) = (first.min(second), first.max(second));
        if first < second {
            let (before, from) = self.bytes(&path)?.split_at_mut(second);
            before[first..first + length].swap_with_slice(&mut from[..length]);
        }
        Ok(format!(
            "{length} bytes at {first} and {second} of {} swapped",
            path.display()
        ))
    }

    /// Replaces a regular file by another kind of file.
    fn replace(&mut self, kind: Kind) -> Result<String> {
        let path = self.file(false)?;
        let bytes = self.image.remove(&path).unwrap_or_default();
        restore(&self.image, self.store)?;
        let place = self.store.join(&path);
        fs::create_dir_all(place.parent().context("it is in a directory")?)?;
        let by = match kind {
            Kind::Fifo => {
                mknodat(CWD, &place, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
                "a FIFO".to_owned()
            }
            Kind::Directory => {
                fs::create_dir(&place)?;
                if self.below(2) == 0 {
                    fs::write(place.join("file"), bytes)?;
                }
                "a directory".to_owned()
            }
            _ => {
                let moved = self.outside.join("moved");
                fs::write(&moved, bytes)?;
                let canary = self.outside.join("canary");
                let targets = [moved, canary, "/dev/zero".into(), "nowhere".into()];
                let target = &targets[self.below(targets.len())];
                symlink(target, &place)?;
                let name = target.file_name().unwrap_or_default();
                format!("a link to {}", name.display())
            }
        };
        Ok(format!("{by} in place of {}", path.display()))
    }

    /// Changes values in the catalog. With `forge`, also corrects its checksum.
    fn edit(&mut self, forge: bool) -> Result<String> {
        restore(&self.image, self.store)?;
        let path = self.store.join(CATALOG);
        let edits = 1 + self.below(3);
        let mut done = Vec::new();
        {
            let connection = Connection::open(&path)?;
            connection.execute_batch(
                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; \
                 PRAGMA ignore_check_constraints = ON;",
            )?;
            for _ in 0..edits {
                done.push(self.edit_once(&connection)?);
            }
        }
        let what = done.join("; ");
        if forge {
            seal_catalog(self.store);
        }
        Ok(what)
    }

    fn edit_once(&mut self, connection: &Connection) -> Result<String> {
        let names = |sql: &str| -> Result<Vec<String>> {
            let mut select = connection.prepare(sql)?;
            let names = select.query_map([], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        };
        let mut tables =
            names("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
        tables.retain(|table| !table.starts_with("sqlite_"));
        // Segments, journals and files to delete decide which files are read.
        tables.extend(["segment", "segment", "sealed_journal", "removed"].map(str::to_owned));
        let table = tables[self.below(tables.len())].clone();
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        let column = columns[self.below(columns.len())].clone();
        let rows: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })?;
        let value = self.value();
        if rows == 0 || self.below(8) == 0 {
            let values: Vec<_> = columns.iter().map(|_| self.value()).collect();
            let places = vec!["?"; columns.len()].join(", ");
            let sql = format!("INSERT OR REPLACE INTO {table} VALUES ({places})");
            let done = connection.execute(&sql, params_from_iter(&values));
            return Ok(format!("{sql} of {values:?}: {done:?}"));
        }
        let row = self.below(rows as usize);
        let whose = format!("{column} IS (SELECT {column} FROM {table} LIMIT 1 OFFSET {row})");
        let sql = match self.below(10) {
            0 => format!("DELETE FROM {table} WHERE {whose}"),
            1 => format!("UPDATE OR REPLACE {table} SET {column} = {column} + 1 WHERE {whose}"),
            _ => {
                let sql = format!("UPDATE OR REPLACE {table} SET {column} = ? WHERE {whose}");
                let done = connection.execute(&sql, [&value]);
                return Ok(format!("{sql} with {value:?}: {done:?}"));
            }
        };
        let done = connection.execute(&sql, []);
        Ok(format!("{sql}: {done:?}"))
    }

    fn value(&mut self) -> Value {
        let outside = self.outside.join("canary");
        let name = outside.parent().and_then(Path::file_name);
        let name = name.unwrap_or_default().display().to_string();
        match self.below(16) {
            0 => Value::Null,
            1 => Value::Integer(i64::MAX),
            2 => Value::Integer(i64::MIN),
            3 => Value::Integer(-1),
            4 => Value::Integer(0),
            5 => Value::Integer(1),
            6 => Value::Integer(self.below(1 << 30) as i64),
            7 => Value::Integer(1 << self.below(63)),
            8 => Value::Real(-0.5),
            9 => Value::Text(String::new()),
            10 => Value::Text(format!("../{name}/canary")),
            11 => Value::Text(outside.display().to_string()),
            12 => Value::Text(format!(
                "rollup/granularity=1s/date=2026-11-21/../../../../{name}/canary"
            )),
            13 => Value::Text("x".repeat(self.below(100_000))),
            14 => Value::Blob(
                (0..self.below(200))
                    .map(|_| self.numbers.below(256) as u8)
                    .collect(),
            ),
            _ => {
                let paths: Vec<_> = self.image.keys().collect();
                let at = self.numbers.below(paths.len() as u64) as usize;
                Value::Text(paths[at].display().to_string())
            }
        }
    }
}
