//! Segments: the Parquet files that journals are sealed to, and merged into larger ones.
//!
//! [`writer`] writes one and [`reader`] reads it, each the only module that knows Parquet's side of it. What a segment says of
//! itself is [`metadata`]; what is read of its file is checked by [`verified`] against its [`checksum`]s, and bounded by
//! [`pages`].

pub(crate) mod checksum;
pub(crate) mod metadata;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod verified;
pub(crate) mod writer;

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use trackiops_schemas::columns;
use trackiops_schemas::time::{Granularity, UtcMs};

use self::reader::SegmentReader;
use self::verified::{cannot_open, damaged};
use crate::error::StoreError;
use crate::file_index::PackedIndex;
use crate::glob_view;
use crate::layout::{self, Dataset};

/// The place of a store among those of a snapshot.
pub type StoreIndex = usize;

/// A Parquet file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its store.
    pub store: StoreIndex,
    /// The file: the store's path, as it was given, and the segment's within it. [`Self::open`] finds it also while it has
    /// another name.
    pub path: PathBuf,
    /// What its rows are.
    pub dataset: Dataset,
    /// Length of its windows.
    pub granularity: Granularity,
    /// The recording host.
    pub host: String,
    /// Number of the first journal that its rows are from.
    pub journal: u64,
    /// Number of the last one: they are all that the host wrote from the first to the last.
    pub last_journal: u64,
    /// Start of its first window.
    pub start: UtcMs,
    /// End of its last window.
    pub end: UtcMs,
    /// Number of its rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The checksum that stands for all of the file.
    pub crc32c: u32,
    /// Which of its rows belong to which file; empty but for rollups.
    pub files: PackedIndex,
}

impl Segment {
    /// Opens its file, which may have been merged meanwhile, or have expired. One that was deleted since is
    /// [`io::ErrorKind::NotFound`]: a new view does without it.
    pub fn open(&self) -> io::Result<File> {
        glob_view::open(layout::store_of(&self.path), &self.path)
    }

    /// Reads all of it, and says whether it is as it was written.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.reader()?.verify()
    }

    /// Opens it for reading its rows. What is not as it was written, or not what the catalog says of it, is
    /// [`StoreError::DamagedSegment`].
    pub fn reader(&self) -> Result<SegmentReader, StoreError> {
        let path = &self.path;
        let file = self.open().map_err(|error| cannot_open(path, error))?;
        let reader = SegmentReader::of_length(file, path, self.bytes)?;
        self.agrees_with(&reader)
            .map_err(|why| damaged(path, why))?;
        Ok(reader)
    }

    /// That a file is the one that the catalog says it is; or in what it differs.
    pub(crate) fn agrees_with(&self, reader: &SegmentReader) -> Result<(), String> {
        let own = |key| metadata::value(reader.metadata(), key);
        let journals = own(columns::META_JOURNALS).unwrap_or_default();
        // It may be of thousands of journals.
        let numbers = [journals.split(',').next(), journals.rsplit(',').next()];
        let numbers = numbers.map(|journal| journal?.split(':').next()?.parse().ok());
        let shown = |[first, last]: [Option<u64>; 2]| {
            let shown = |number: Option<u64>| number.map_or("none".to_owned(), |of| of.to_string());
            format!("from {} to {}", shown(first), shown(last))
        };
        let expected = [Some(self.journal), Some(self.last_journal)];
        let texts = [
            (columns::META_DATASET, "dataset", self.dataset.name()),
            (
                columns::META_GRANULARITY,
                "granularity",
                &self.granularity.to_string(),
            ),
            (columns::META_HOST, "host", &self.host),
        ];
        let differs = |what, found: &dyn Display, expected: &dyn Display| {
            Err(format!(
                "its {what} is {found}, the catalog says {expected}"
            ))
        };
        for (key, what, expected) in texts {
            let found = own(key).unwrap_or("none");
            if found != expected {
                return differs(what, &found, &expected);
            }
        }
        if numbers != expected {
            return differs("range of journals", &shown(numbers), &shown(expected));
        }
        if reader.rows() != self.rows {
            return differs("number of rows", &reader.rows(), &self.rows);
        }
        reader.check_crc32c(self.crc32c)
    }
}
