//! Arguments of operations.

use crate::message::{Opaque, OperationCall};
use crate::nfs::{Stop, handle, name};
use crate::xdr::{Reader, Xdr, XdrError};

pub(super) const LONGEST_HANDLE: usize = 128;
pub(super) const STATEID: u64 = 16;
pub(super) const SESSION: u64 = 16;
/// An array of arguments or results with more elements is malformed.
pub(super) const MOST_ELEMENTS: u32 = 4096;

/// Reads the arguments of `operation`, whose number is already set.
pub fn read(reader: &mut Reader<'_>, operation: &mut OperationCall) -> Result<(), Stop> {
    match operation.number {
        // Operations with an offset or a name.
        5 => {
            operation.offset = Some(reader.u64()?);
            operation.count = Some(reader.u32()?);
        }
        6 => {
            match reader.u32()? {
                5 => reader.skip_opaque().map(drop)?,
                3 | 4 => reader.skip(8),
                _ => {}
            }
            operation.name = Some(name(reader)?);
            skip_fattr(reader)?;
        }
        11 => operation.target = Some((None, name(reader)?)),
        15 | 28 | 33 => operation.name = Some(name(reader)?),
        18 => operation.name = open(reader)?,
        22 => operation.handle = Some(handle(reader, LONGEST_HANDLE)?),
        25 | 68 => {
            reader.skip(STATEID);
            operation.offset = Some(reader.u64()?);
            operation.count = Some(reader.u32()?);
        }
        26 => {
            reader.skip(8 + 8 + 4);
            operation.count = Some(reader.u32()?);
            skip_bitmap(reader)?;
        }
        29 => {
            operation.name = Some(name(reader)?);
            operation.target = Some((None, name(reader)?));
        }
        38 => {
            reader.skip(STATEID);
            operation.offset = Some(reader.u64()?);
            operation.is_stable = Some(reader.u32()? != 0);
            operation.count = Some(reader.skip_opaque()?);
        }
        number => return others(reader, number),
    }
    Ok(())
}

/// Skips the arguments of operations that have neither.
fn others(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        3 | 19 | 52 | 58 => reader.skip(4),
        4 => reader.skip(4 + STATEID),
        7 | 30 | 57 => reader.skip(8),
        8 | 45 | 66 | 67 => reader.skip(STATEID),
        9 => skip_bitmap(reader)?,
        10 | 16 | 23 | 24 | 27 | 31 | 32 => {}
        12 => {
            reader.skip(4 + 4 + 8 + 8);
            if reader.bool()? {
                reader.skip(4 + STATEID + 4);
                skip_owner(reader)?;
            } else {
                reader.skip(STATEID + 4);
            }
        }
        13 => {
            reader.skip(4 + 8 + 8);
            skip_owner(reader)?;
        }
        14 => reader.skip(4 + 4 + STATEID + 8 + 8),
        17 | 37 => skip_fattr(reader)?,
        20 => reader.skip(STATEID + 4),
        21 => reader.skip(STATEID + 12),
        34 => {
            reader.skip(STATEID);
            skip_fattr(reader)?;
        }
        35 => {
            reader.skip(8);
            reader.skip_opaque()?;
            reader.skip(4);
            skip_opaques(reader, 2)?;
            reader.skip(4);
        }
        36 => reader.skip(16),
        39 => skip_owner(reader)?,
        40..=58 => sessions(reader, number)?,
        59..=75 => minor_2(reader, number)?,
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

/// Operations of NFSv4.1.
fn sessions(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        40 => {
            reader.skip(4);
            callback_security(reader)?;
        }
        41 => reader.skip(SESSION + 8),
        42 => exchange_id(reader)?,
        43 => {
            reader.skip(8 + 4 + 4);
            skip_channel(reader)?;
            skip_channel(reader)?;
            reader.skip(4);
            callback_security(reader)?;
        }
        44 => reader.skip(SESSION),
        46 => {
            reader.skip(4);
            skip_bitmap(reader)?;
            reader.skip(24);
            skip_bitmap(reader)?;
            skip_bitmap(reader)?;
        }
        47 => {
            reader.skip(16 + 8);
            skip_bitmap(reader)?;
        }
        48 => reader.skip(4 + 4 + 8 + 8),
        49 => {
            reader.skip(8 + 8 + 4 + STATEID);
            skip_optional(reader, 8)?;
            skip_optional(reader, 12)?;
            reader.skip(4);
            reader.skip_opaque()?;
        }
        50 => reader.skip(4 + 4 + 4 + 24 + STATEID + 4),
        51 => {
            reader.skip(12);
            if reader.u32()? == 1 {
                reader.skip(16 + STATEID);
                reader.skip_opaque()?;
            }
        }
        53 => reader.skip(SESSION + 16),
        54 => skip_opaques(reader, 2)?,
        55 => skip_array(reader, STATEID)?,
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

/// Operations of NFSv4.2, and extended attributes (RFC 8276).
fn minor_2(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        59 | 62 => reader.skip(STATEID + 16),
        60 => {
            reader.skip(2 * STATEID + 24 + 8);
            reader.array(MOST_ELEMENTS, skip_location)?;
        }
        61 => {
            reader.skip(STATEID);
            skip_location(reader)?;
        }
        63 => {
            reader.skip(STATEID + 16);
            skip_bitmap(reader)?;
        }
        64 => {
            reader.skip(16 + STATEID);
            skip_array(reader, 24)?;
        }
        65 => {
            reader.skip(16 + STATEID + 32 + 16 + 4);
            reader.skip_opaque()?;
        }
        69 => reader.skip(STATEID + 12),
        70 => {
            reader.skip(STATEID + 4 + 32 + 4 + 8);
            reader.skip_opaque()?;
        }
        71 => reader.skip(2 * STATEID + 24),
        72 | 75 => reader.skip_opaque().map(drop)?,
        73 => {
            reader.skip(4);
            skip_opaques(reader, 2)?;
        }
        74 => reader.skip(12),
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

/// The name that OPEN opens, if it opens by name.
fn open(reader: &mut Reader<'_>) -> Xdr<Option<Box<[u8]>>> {
    reader.skip(12);
    skip_owner(reader)?;
    if reader.u32()? == 1 {
        match reader.u32()? {
            0 | 1 => skip_fattr(reader)?,
            2 => reader.skip(8),
            3 => {
                reader.skip(8);
                skip_fattr(reader)?;
            }
            _ => return Err(XdrError::Malformed),
        }
    }
    match reader.u32()? {
        0 | 3 => name(reader).map(Some),
        1 => {
            reader.skip(4);
            Ok(None)
        }
        2 => {
            reader.skip(STATEID);
            name(reader).map(Some)
        }
        5 => {
            reader.skip(STATEID);
            Ok(None)
        }
        4 | 6 => Ok(None),
        _ => Err(XdrError::Malformed),
    }
}

fn exchange_id(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(8);
    reader.skip_opaque()?;
    reader.skip(4);
    match reader.u32()? {
        0 => {}
        1 => {
            skip_bitmap(reader)?;
            skip_bitmap(reader)?;
        }
        2 => {
            skip_bitmap(reader)?;
            skip_bitmap(reader)?;
            for _ in 0..2 {
                reader.array(MOST_ELEMENTS, |reader| reader.skip_opaque().map(drop))?;
            }
            reader.skip(8);
        }
        _ => return Err(XdrError::Malformed),
    }
    skip_implementation(reader)
}

/// `nfs_impl_id4<1>`.
pub(super) fn skip_implementation(reader: &mut Reader<'_>) -> Xdr<()> {
    reader
        .array(1, |reader| {
            skip_opaques(reader, 2)?;
            reader.skip(12);
            Ok(())
        })
        .map(drop)
}

fn callback_security(reader: &mut Reader<'_>) -> Xdr<()> {
    reader
        .array(MOST_ELEMENTS, |reader| {
            match reader.u32()? {
                0 => {}
                1 => {
                    reader.skip(4);
                    reader.skip_opaque()?;
                    reader.skip(8);
                    skip_array(reader, 4)?;
                }
                6 => {
                    reader.skip(4);
                    skip_opaques(reader, 2)?;
                }
                _ => return Err(XdrError::Malformed),
            }
            Ok(())
        })
        .map(drop)
}

/// `channel_attrs4`.
pub(super) fn skip_channel(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(24);
    skip_array(reader, 4)
}

/// `netloc4`.
pub(super) fn skip_location(reader: &mut Reader<'_>) -> Xdr<()> {
    match reader.u32()? {
        1 | 2 => skip_opaques(reader, 1),
        3 => skip_opaques(reader, 2),
        _ => Err(XdrError::Malformed),
    }
}

/// `bitmap4`.
pub(super) fn skip_bitmap(reader: &mut Reader<'_>) -> Xdr<()> {
    skip_array(reader, 4)
}

/// An array of elements of `element_bytes` each.
pub(super) fn skip_array(reader: &mut Reader<'_>, element_bytes: u64) -> Xdr<()> {
    let elements = reader.u32()?;
    if elements > MOST_ELEMENTS {
        return Err(XdrError::Malformed);
    }
    reader.skip(u64::from(elements) * element_bytes);
    Ok(())
}

pub(super) fn skip_opaques(reader: &mut Reader<'_>, number: usize) -> Xdr<()> {
    (0..number).try_for_each(|_| reader.skip_opaque().map(drop))
}

/// Bytes after a Boolean that says whether they are there.
pub(super) fn skip_optional(reader: &mut Reader<'_>, bytes: u64) -> Xdr<()> {
    if reader.bool()? {
        reader.skip(bytes);
    }
    Ok(())
}

/// `state_owner4`.
pub(super) fn skip_owner(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(8);
    reader.skip_opaque().map(drop)
}

/// `fattr4`.
fn skip_fattr(reader: &mut Reader<'_>) -> Xdr<()> {
    skip_bitmap(reader)?;
    reader.skip_opaque().map(drop)
}
