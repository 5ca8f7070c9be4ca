//! Segments: the Parquet files that journals are sealed into, and that are merged into larger ones.
//!
//! [`writer`] writes segments and [`reader`] reads them. Only these modules know the Parquet library. [`metadata`] has
//! a segment's description of itself. [`verified`] checks all reads against the [`checksum`]s, and [`pages`] limits
//! their size.

pub(crate) mod checksum;
pub(crate) mod metadata;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod verified;
pub(crate) mod writer;

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::columns;
use trackiops_schemas::time::{Granularity, UtcMs};

use self::reader::SegmentReader;
use self::verified::{cannot_open, damaged};
use crate::error::StoreError;
use crate::file_index::PackedIndex;
use crate::glob_view;
use crate::layout::{self, Dataset};

/// A store's index in a snapshot.
pub type StoreIndex = usize;

/// A Parquet file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its store.
    pub store: StoreIndex,
    /// The file: the store's path as given, and the segment's path within it. [`Self::open`] also finds the file under
    /// its other names.
    pub path: PathBuf,
    /// The dataset of its rows.
    pub dataset: Dataset,
    /// Length of its windows.
    pub granularity: Granularity,
    /// The recording host.
    pub host: String,
    /// Number of the first journal of its rows.
    pub journal: u64,
    /// Number of the last journal. Its rows are from all of the host's journals from the first to the last one.
    pub last_journal: u64,
    /// Start of its first window.
    pub start: UtcMs,
    /// End of its last window.
    pub end: UtcMs,
    /// Number of its rows.
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
    /// The checksum that covers the whole file.
    pub crc32c: u32,
    /// Which of its rows belong to which file. Empty except for rollups.
    pub files: PackedIndex,
}

impl Segment {
    /// Opens its file, even if it was merged or has expired in the meantime. If it was deleted, the
    /// error is [`io::ErrorKind::NotFound`], and a new snapshot does not contain it.
    pub fn open(&self) -> io::Result<File> {
        glob_view::open(layout::store_of(&self.path), &self.path)
    }

    /// Reads the whole file and verifies all checksums.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.reader()?.verify()
    }

    /// Opens it to read its rows. [`StoreError::DamagedSegment`] if it is damaged, or differs from
    /// the catalog.
    pub fn reader(&self) -> Result<SegmentReader, StoreError> {
        self.reader_by(SegmentReader::of_length)
    }

    /// As [`Self::reader`], with the statistics that [`SegmentReader::without_defaults`] needs.
    pub fn reader_with_statistics(&self) -> Result<SegmentReader, StoreError> {
        self.reader_by(SegmentReader::with_statistics)
    }

    fn reader_by(
        &self,
        open: impl FnOnce(File, &Path, u64) -> Result<SegmentReader, StoreError>,
    ) -> Result<SegmentReader, StoreError> {
        let path = &self.path;
        let file = self.open().map_err(|error| cannot_open(path, error))?;
        let reader = open(file, path, self.bytes)?;
        self.agrees_with(&reader)
            .map_err(|why| damaged(path, why))?;
        Ok(reader)
    }

    /// Checks that a file is the one in the catalog. An error says how it differs.
    pub(crate) fn agrees_with(&self, reader: &SegmentReader) -> Result<(), String> {
        let own = |key| metadata::value(reader.metadata(), key);
        let journals = own(columns::META_JOURNALS).unwrap_or_default();
        // Only the first and the last are parsed: there may be thousands.
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
