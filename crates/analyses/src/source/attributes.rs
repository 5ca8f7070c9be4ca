//! Attributes of files in the replies of a capture.

use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use arrow::array::RecordBatch;

use super::Source;
use super::columns::{Numbers, Texts};
use super::files::{ATTRIBUTES, Batches};
use crate::error::AnalysisError;

/// Attributes in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number of the call in the capture.
    pub call_id: i64,
    /// Number of the reply in the capture.
    pub reply_id: i64,
    /// Name by which the file was looked up.
    pub name: Option<Arc<str>>,
    /// The file's handle, in hexadecimal digits.
    pub handle: Option<Arc<str>>,
    /// Its parent directory in the lookup.
    pub parent: Option<Arc<str>>,
    /// Its type.
    pub file_type: Option<Arc<str>>,
    /// Its size, bytes.
    pub size: Option<u64>,
    /// Modification time, ns since the epoch.
    pub mtime_ns: Option<i64>,
}

const COLUMNS: [&str; 8] = [
    "request_id",
    "reply_id",
    "name",
    "fh",
    "dir_fh",
    "ftype",
    "file_size",
    "mtime_ns",
];

/// Attributes of a source, in order.
pub struct AttributesReader {
    paths: vec::IntoIter<PathBuf>,
    batches: Option<Batches>,
    rows: vec::IntoIter<Attributes>,
}

impl AttributesReader {
    /// Opens the source.
    pub fn open(source: &Source, analysis: &'static str) -> Result<Self, AnalysisError> {
        Ok(Self {
            paths: source.files(ATTRIBUTES, analysis)?.into_iter(),
            batches: None,
            rows: Vec::new().into_iter(),
        })
    }

    /// The next attributes.
    pub fn read_next(&mut self) -> Result<Option<Attributes>, AnalysisError> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            if let Some(batch) = self.batches.as_mut().and_then(Iterator::next) {
                self.rows = rows(&batch?)?.into_iter();
                continue;
            }
            match self.paths.next() {
                Some(path) => self.batches = Some(Batches::open(&path, &COLUMNS)?),
                None => return Ok(None),
            }
        }
    }
}

fn rows(batch: &RecordBatch) -> Result<Vec<Attributes>, AnalysisError> {
    let texts = |name| Texts::of(batch, name);
    let numbers = |name| Numbers::of(batch, name);
    let (calls, replies) = (numbers("request_id")?, numbers("reply_id")?);
    let (names, handles, parents) = (texts("name")?, texts("fh")?, texts("dir_fh")?);
    let (types, sizes) = (texts("ftype")?, numbers("file_size")?);
    let mtimes = Numbers::times(batch, "mtime_ns")?;
    let text = |texts: &Texts, row| texts.get(row).map(Arc::from);
    let row = |row| Attributes {
        call_id: calls.get(row).unwrap_or_default(),
        reply_id: replies.get(row).unwrap_or_default(),
        name: text(&names, row),
        handle: text(&handles, row),
        parent: text(&parents, row),
        file_type: text(&types, row),
        size: sizes.count(row),
        mtime_ns: mtimes.get(row),
    };
    Ok((0..batch.num_rows()).map(row).collect())
}
