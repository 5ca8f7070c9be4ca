//! Rows that wait for the next coarser granularity. They wait in a file, because there may be a row for each file and
//! window. The file has no name, and vanishes when it is closed.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;

use super::merge_windows::{Merged, Rows};
use crate::beneath;
use crate::error::StoreError;
use crate::journal::payload;
use crate::journal::scan::JournalScan;
use crate::layout;
use crate::varint::{Input, put_i64};

const BUFFER_BYTES: usize = 64 << 10;

/// Receives rows in order.
pub(super) struct Spool {
    path: PathBuf,
    out: BufWriter<File>,
    encoded: Vec<u8>,
}

impl Spool {
    pub(super) fn create(store: &Path) -> Result<Self, StoreError> {
        let path = layout::journal_dir(store);
        // A file without a name leaves nothing behind and cannot be replaced.
        let real = beneath::real_path(store);
        let file = real.and_then(|store| tempfile::tempfile_in(layout::journal_dir(&store)));
        let file = file.map_err(StoreError::io("create a file in", &path))?;
        Ok(Self {
            path,
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            encoded: Vec::new(),
        })
    }

    pub(super) fn push(&mut self, row: &Merged<u32>) -> Result<(), StoreError> {
        self.encoded.clear();
        put_i64(&mut self.encoded, row.time.0);
        payload::put_row(&mut self.encoded, row.file, &row.row);
        let length = (self.encoded.len() as u32).to_ne_bytes();
        let written = self.out.write_all(&length);
        written
            .and_then(|()| self.out.write_all(&self.encoded))
            .map_err(StoreError::io("write", &self.path))
    }

    /// The rows that were added. `scan` is the scan of their journal.
    pub(super) fn rows(self, scan: &JournalScan) -> Result<SpooledRows<'_>, StoreError> {
        let Self {
            path, out, encoded, ..
        } = self;
        let file = out.into_inner().map_err(|error| error.into_error());
        let rewound = file.and_then(|mut file| file.rewind().map(|()| file));
        let file = rewound.map_err(StoreError::io("write", &path))?;
        Ok(SpooledRows {
            scan,
            path,
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            encoded,
        })
    }
}

/// Reads the rows of a spool.
pub(super) struct SpooledRows<'a> {
    scan: &'a JournalScan,
    path: PathBuf,
    file: BufReader<File>,
    encoded: Vec<u8>,
}

impl Rows for SpooledRows<'_> {
    fn next(&mut self) -> Result<Option<Merged<u32>>, StoreError> {
        let mut length = [0; size_of::<u32>()];
        match self.file.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map_err(StoreError::io("read", &self.path))?,
        }
        self.encoded.resize(u32::from_ne_bytes(length) as usize, 0);
        let read = self.file.read_exact(&mut self.encoded);
        read.map_err(StoreError::io("read", &self.path))?;
        let mut input = Input::new(&self.encoded);
        let decoded = input
            .i64()
            .and_then(|time| Ok((time, payload::row(&mut input)?)));
        let (time, (file, row)) = decoded.map_err(|error| self.damaged(error.why()))?;
        let known = self.scan.file(file);
        let key = known
            .ok_or_else(|| self.damaged("a row is of no known file"))?
            .key;
        Ok(Some(Merged {
            file,
            key,
            time: UtcMs(time),
            row,
        }))
    }
}

impl SpooledRows<'_> {
    fn damaged(&self, why: &'static str) -> StoreError {
        StoreError::Damaged {
            path: self.path.clone(),
            offset: 0,
            why,
        }
    }
}
