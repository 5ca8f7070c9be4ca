//! The journal's header.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::time::Granularity;

use super::bytes::{read_at, u32_at};
use super::file::JournalFile;
use super::frame::Seed;
use super::frame_reader::FrameReader;
use crate::beneath;
use crate::error::StoreError;
use crate::identity::{FOREIGN, Identity};
use crate::layout;
use crate::options::{GranularitySet, Options};
use crate::varint::{DecodeError, Input, put_optional_str, put_str, put_u64};

const MAGIC: [u8; 4] = *b"TIOJ";
/// Magic, version, length, checksum.
const FIXED_HEADER_BYTES: usize = 16;
/// Limit on the fields of a header: far more than a host name and a list of granularities need.
const MAX_FIELDS_BYTES: u32 = 64 * 1024;

/// A journal's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) granularities: GranularitySet,
    pub(crate) host: String,
    pub(crate) number: u64,
    /// Version of the program that wrote the journal.
    pub(crate) writer: String,
    /// The filter of all its windows.
    pub(crate) filter: Option<Arc<str>>,
    /// The kind of import of all its windows.
    pub(crate) source: Option<Arc<str>>,
    /// Its predecessor in the store.
    pub(crate) previous: Option<Previous>,
    /// The store that it was written in.
    pub(crate) store: Identity,
}

/// A journal's record of its predecessor, which does not grow any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Previous {
    pub(crate) number: u64,
    /// The least number of its durable bytes.
    pub(crate) bytes: u64,
}

impl Header {
    /// The header of a new journal of a store, with windows of the granularity `finest`.
    pub(crate) fn new(
        store: Identity,
        options: &Options,
        number: u64,
        finest: Granularity,
    ) -> Result<Self, StoreError> {
        let granularities = options.granularities.from(finest);
        Ok(Self {
            granularities: granularities.ok_or(StoreError::NotKept(finest))?,
            host: options.host.clone(),
            number,
            writer: env!("CARGO_PKG_VERSION").to_owned(),
            filter: options.filter.as_deref().map(Arc::from),
            source: options.source.as_deref().map(Arc::from),
            previous: None,
            store,
        })
    }

    /// The header of a journal that follows another one.
    pub(crate) fn after(self, previous: Option<Previous>) -> Self {
        Self { previous, ..self }
    }

    /// Encodes the header. Also returns the initial value of the frames' checksums.
    pub(crate) fn encode(&self) -> (Vec<u8>, Seed) {
        let mut fields = Vec::new();
        put_str(&mut fields, &self.granularities.to_string());
        put_str(&mut fields, &self.host);
        put_u64(&mut fields, self.number);
        put_str(&mut fields, &self.writer);
        put_optional_str(&mut fields, self.filter.as_deref());
        put_optional_str(&mut fields, self.source.as_deref());
        let previous = self.previous.unwrap_or(Previous {
            number: 0,
            bytes: 0,
        });
        put_u64(&mut fields, previous.number);
        put_u64(&mut fields, previous.bytes);
        put_str(&mut fields, &self.store.to_string());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        let crc = checksum_of(FORMAT_VERSION, &fields);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&fields);
        (out, Seed(crc))
    }

    /// Reads the header of a journal, and returns a reader of the frames after it. `is_kind` returns whether a kind is
    /// valid. `None` if the journal was never used: it ends within its header, or a power cut came before the header
    /// was durable.
    pub(crate) fn read(
        journal: &JournalFile,
        is_kind: fn(u8) -> bool,
    ) -> Result<Option<(Self, FrameReader)>, StoreError> {
        let JournalFile { file, path, .. } = journal;
        let read = || StoreError::io("read", path);
        let damaged = |offset: usize, why| StoreError::Damaged {
            path: path.clone(),
            offset: offset as u64,
            why,
        };
        let too_short = |offset: usize| match journal.vouched() {
            // Nothing was ever appended.
            0 => Ok(None),
            _ => Err(damaged(offset, "it ends within its header")),
        };
        let (bytes, vouched) = (journal.bytes, journal.vouched());
        let mut fixed = [0; FIXED_HEADER_BYTES];
        let got = read_at(file, &mut fixed, 0).map_err(read())?;
        if !MAGIC.starts_with(&fixed[..got.min(MAGIC.len())]) {
            if journal.vouched() == 0 && is_unwritten(journal).map_err(read())? {
                return Ok(None);
            }
            return Err(damaged(0, "it does not begin like a journal"));
        }
        if got < FIXED_HEADER_BYTES {
            return too_short(got);
        }
        let [version, length, crc] = [4, 8, 12].map(|at| u32_at(&fixed, at));
        if length > MAX_FIELDS_BYTES {
            return Err(damaged(8, "its header is too long"));
        }
        let mut fields = vec![0; length as usize];
        let start = FIXED_HEADER_BYTES as u64;
        let got = read_at(file, &mut fields, start).map_err(read())?;
        if got < fields.len() {
            // If frames follow, the header was complete before, and its length is wrong.
            let mut frames = FrameReader::new(bytes, vouched, start, Seed(crc), is_kind);
            return match frames.next(file).map_err(read())? {
                None => too_short(FIXED_HEADER_BYTES + got),
                Some(_) => Err(damaged(8, "its header is shorter than it says")),
            };
        }
        if checksum_of(version, &fields) != crc {
            // A power cut may have torn a header that is longer than a sector.
            if journal.vouched() == 0 && journal.bytes == start + u64::from(length) {
                return Ok(None);
            }
            return Err(damaged(12, "its header does not match its checksum"));
        }
        // Only after the checksum: a flipped bit in the version is damage, not another version.
        if version != FORMAT_VERSION {
            return Err(StoreError::OtherFormat {
                path: path.clone(),
                found: version,
            });
        }
        let header =
            Self::decode(&fields).map_err(|error| damaged(FIXED_HEADER_BYTES, error.why()))?;
        // A live window has a path without a number.
        if layout::parse_journal(path).is_some_and(|(_, number)| number != header.number) {
            let why = "its header has the number of another journal: it is a copy";
            return Err(damaged(FIXED_HEADER_BYTES, why));
        }
        if !journal.is_of(header.store.id) {
            return Err(damaged(FIXED_HEADER_BYTES, FOREIGN));
        }
        let at = start + u64::from(length);
        Ok(Some((
            header,
            FrameReader::new(bytes, vouched, at, Seed(crc), is_kind),
        )))
    }

    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(fields);
        let granularities = input.str()?.parse();
        Ok(Self {
            granularities: granularities
                .map_err(|_| DecodeError::Malformed("its granularities are not a list"))?,
            host: input.str()?.to_owned(),
            number: input.u64()?,
            writer: input.str()?.to_owned(),
            filter: input.optional_str()?.map(Arc::from),
            source: input.optional_str()?.map(Arc::from),
            previous: match (input.u64()?, input.u64()?) {
                (0, _) => None,
                (number, bytes) => Some(Previous { number, bytes }),
            },
            store: input.str()?.parse().map_err(DecodeError::Malformed)?,
        })
    }

    /// The header of a journal, if it can be read.
    fn of(file: &File) -> Option<Self> {
        let mut fixed = [0; FIXED_HEADER_BYTES];
        read_at(file, &mut fixed, 0).ok()?;
        let [version, length, crc] = [4, 8, 12].map(|at| u32_at(&fixed, at));
        if !fixed.starts_with(&MAGIC) || version != FORMAT_VERSION || length > MAX_FIELDS_BYTES {
            return None;
        }
        let mut fields = vec![0; length as usize];
        read_at(file, &mut fields, FIXED_HEADER_BYTES as u64).ok()?;
        match checksum_of(version, &fields) == crc {
            true => Self::decode(&fields).ok(),
            false => None,
        }
    }
}

/// The store that a journal was written in, if its header can be read.
pub(crate) fn identity(journal: &Path) -> Option<Identity> {
    let file = beneath::read(layout::store_of(journal), journal).ok()?;
    Some(Header::of(&file)?.store)
}

/// Number of a journal's bytes that were durable when the next journal was begun, from the next one's header. 0 if
/// unknown.
pub(crate) fn said_by_next(journal: &Path) -> u64 {
    let said = || {
        let (series, number) = layout::parse_journal(journal)?;
        let store = layout::store_of(journal);
        let next = series.journal(store, number.checked_add(1)?);
        let header = Header::of(&beneath::read(store, &next).ok()?)?;
        let previous = header
            .previous
            .filter(|previous| previous.number == number)?;
        Some(previous.bytes)
    };
    said().unwrap_or(0)
}

/// Whether the header may never have become durable: all zeros, because file systems can make a length durable before
/// the data.
fn is_unwritten(journal: &JournalFile) -> io::Result<bool> {
    if journal.bytes > FIXED_HEADER_BYTES as u64 + u64::from(MAX_FIELDS_BYTES) {
        return Ok(false);
    }
    let mut bytes = vec![0; usize::try_from(journal.bytes).unwrap_or(usize::MAX)];
    let got = read_at(&journal.file, &mut bytes, 0)?;
    Ok(bytes[..got].iter().all(|byte| *byte == 0))
}

/// The checksum of a header covers its fields, then the version.
fn checksum_of(version: u32, fields: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(fields), &version.to_le_bytes())
}
