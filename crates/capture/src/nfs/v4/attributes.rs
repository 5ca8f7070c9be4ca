//! Attributes of NFSv4 (`fattr4`): a bitmap lists them, and they follow in the order of their numbers.

use super::arguments::{LONGEST_HANDLE, MOST_ELEMENTS, skip_bitmap};
use crate::message::{Attributes, Handle};
use crate::nfs::handle;
use crate::xdr::{Reader, Xdr, XdrError};

/// The last attribute that is read: `fileid`. Later ones are skipped together.
const LAST: u32 = 20;

/// Reads attributes, and the handle if it is one of them.
pub fn read(reader: &mut Reader<'_>) -> Xdr<(Attributes, Option<Handle>)> {
    let words = reader.u32()?;
    if words > MOST_ELEMENTS {
        return Err(XdrError::Malformed);
    }
    let bitmap = if words > 0 { reader.u32()? } else { 0 };
    reader.skip(u64::from(words.saturating_sub(1)) * 4);
    let bytes = u64::from(reader.u32()?);
    let begin = reader.position();
    let mut attributes = Attributes::default();
    let mut found = None;
    for number in (0..=LAST).filter(|number| bitmap & 1 << number != 0) {
        match number {
            0 => skip_bitmap(reader)?,
            1 => attributes.file_type = Some(reader.u32()?),
            3 => reader.skip(8),
            4 => attributes.size_bytes = Some(reader.u64()?),
            8 => attributes.fsid = Some((reader.u64()?, reader.u64()?)),
            12 => skip_access_list(reader)?,
            19 => found = Some(handle(reader, LONGEST_HANDLE)?),
            20 => attributes.fileid = Some(reader.u64()?),
            // Booleans and 32-bit numbers: RFC 8881, section 5.6.
            _ => reader.skip(4),
        }
    }
    reader.seek(begin);
    reader.skip(bytes);
    Ok((attributes, found))
}

fn skip_access_list(reader: &mut Reader<'_>) -> Xdr<()> {
    reader
        .array(MOST_ELEMENTS, |reader| {
            reader.skip(12);
            reader.skip_opaque().map(drop)
        })
        .map(drop)
}
