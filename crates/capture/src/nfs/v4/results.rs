//! Results of operations.

use super::arguments::{
    LONGEST_HANDLE, MOST_ELEMENTS, SESSION, STATEID, skip_array, skip_bitmap, skip_channel,
    skip_implementation, skip_location, skip_opaques, skip_optional, skip_owner,
};
use super::attributes;
use crate::message::{DirectoryEntry, Opaque, OperationReply};
use crate::nfs::{Stop, handle, name};
use crate::xdr::{Reader, Xdr, XdrError};

/// `change_info4`.
const CHANGE: u64 = 20;
/// Most entries of a directory in one reply.
const MOST_ENTRIES: usize = 1 << 16;

/// Error statuses that have results (RFC 8881, section 15.1).
mod status {
    pub const TOOSMALL: u32 = 10_005;
    pub const DENIED: u32 = 10_010;
    pub const CLID_INUSE: u32 = 10_017;
    pub const LAYOUTTRYLATER: u32 = 10_058;
    pub const OFFLOAD_NO_REQS: u32 = 10_094;
}

/// Reads the number, status and results of an operation.
pub fn read(reader: &mut Reader<'_>, result: &mut OperationReply) -> Result<(), Stop> {
    result.number = reader.u32()?;
    let status = reader.u32()?;
    result.status = Some(status);
    let number = result.number;
    if super::operation_name(number).is_none() {
        return Err(Stop::Opaque(Opaque::Operation(number)));
    }
    if status != 0 {
        return Ok(failed(reader, number, status)?);
    }
    match number {
        9 => result.attributes = Some(attributes::read(reader)?.0),
        10 => result.handle = Some(handle(reader, LONGEST_HANDLE)?),
        25 => {
            result.is_eof = Some(reader.bool()?);
            result.count = Some(reader.skip_opaque()?);
        }
        26 => entries(reader, result)?,
        38 => {
            result.count = Some(reader.u32()?);
            reader.skip(12);
        }
        68 => read_plus(reader, result)?,
        _ => return others(reader, number),
    }
    Ok(())
}

fn failed(reader: &mut Reader<'_>, number: u32, status: u32) -> Xdr<()> {
    match (number, status) {
        (12 | 13, status::DENIED) => {
            reader.skip(20);
            skip_owner(reader)?;
        }
        (34, _) => skip_bitmap(reader)?,
        (35, status::CLID_INUSE) => skip_opaques(reader, 2)?,
        (47, status::TOOSMALL) | (50, status::LAYOUTTRYLATER) => reader.skip(4),
        (60, status::OFFLOAD_NO_REQS) => reader.skip(8),
        _ => {}
    }
    Ok(())
}

/// Skips the results of other operations.
fn others(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        3 => reader.skip(8),
        4 | 12 | 14 | 20 | 21 => reader.skip(STATEID),
        5 => reader.skip(8),
        6 => {
            reader.skip(CHANGE);
            skip_bitmap(reader)?;
        }
        11 | 28 => reader.skip(CHANGE),
        29 => reader.skip(2 * CHANGE),
        7 | 8 | 13 | 15..=17 | 19 | 22..=24 | 30..=32 | 36 | 37 | 39 => {}
        18 => open(reader)?,
        27 => reader.skip_opaque().map(drop)?,
        33 | 52 => security(reader)?,
        34 => skip_bitmap(reader)?,
        35 => reader.skip(16),
        40..=58 => sessions(reader, number)?,
        59..=75 => minor_2(reader, number)?,
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

/// Operations of NFSv4.1.
fn sessions(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        40 | 44 | 45 | 57 | 58 => {}
        41 => reader.skip(SESSION + 8),
        42 => exchange_id(reader)?,
        43 => {
            reader.skip(SESSION + 8);
            skip_channel(reader)?;
            skip_channel(reader)?;
        }
        47 => {
            reader.skip(4);
            reader.skip_opaque()?;
            skip_bitmap(reader)?;
        }
        48 => {
            reader.skip(16);
            skip_array(reader, 16)?;
            reader.skip(4);
        }
        49 => skip_optional(reader, 8)?,
        50 => {
            reader.skip(4 + STATEID);
            reader.array(MOST_ELEMENTS, |reader| {
                reader.skip(24);
                reader.skip_opaque().map(drop)
            })?;
        }
        51 => skip_optional(reader, STATEID)?,
        53 => reader.skip(SESSION + 20),
        54 => reader.skip_opaque().map(drop)?,
        55 => skip_array(reader, 4)?,
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

/// Operations of NFSv4.2, and extended attributes (RFC 8276).
fn minor_2(reader: &mut Reader<'_>, number: u32) -> Result<(), Stop> {
    match number {
        59 | 62 | 64..=66 | 71 => {}
        60 => {
            write_response(reader)?;
            reader.skip(8);
        }
        61 => {
            reader.skip(12 + STATEID);
            reader.array(MOST_ELEMENTS, skip_location)?;
        }
        63 => skip_bitmap(reader)?,
        67 => {
            reader.skip(8);
            skip_array(reader, 4)?;
        }
        69 => reader.skip(12),
        70 => write_response(reader)?,
        72 => reader.skip_opaque().map(drop)?,
        73 | 75 => reader.skip(CHANGE),
        74 => {
            reader.skip(8);
            reader.array(MOST_ELEMENTS, |reader| reader.skip_opaque().map(drop))?;
            reader.skip(4);
        }
        _ => return Err(Stop::Opaque(Opaque::Operation(number))),
    }
    Ok(())
}

fn write_response(reader: &mut Reader<'_>) -> Xdr<()> {
    skip_array(reader, STATEID)?;
    reader.skip(8 + 4 + 8);
    Ok(())
}

fn open(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(STATEID + CHANGE + 4);
    skip_bitmap(reader)?;
    match reader.u32()? {
        0 => {}
        // 4 and 5 also delegate attributes (RFC 9754).
        1 | 4 => {
            reader.skip(STATEID + 4);
            access_entry(reader)?;
        }
        2 | 5 => {
            reader.skip(STATEID + 4 + 4 + 8);
            access_entry(reader)?;
        }
        3 => {
            if matches!(reader.u32()?, 1 | 2) {
                reader.skip(4);
            }
        }
        _ => return Err(XdrError::Malformed),
    }
    Ok(())
}

/// `nfsace4`.
fn access_entry(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(12);
    reader.skip_opaque().map(drop)
}

fn entries(reader: &mut Reader<'_>, result: &mut OperationReply) -> Xdr<()> {
    reader.skip(8);
    reader.list(MOST_ENTRIES, |reader| {
        reader.skip(8);
        let name = name(reader)?;
        if let (attributes, Some(handle)) = attributes::read(reader)? {
            result.entries.push(DirectoryEntry {
                name,
                handle,
                attributes,
            });
        }
        Ok(())
    })?;
    reader.skip(4);
    Ok(())
}

fn read_plus(reader: &mut Reader<'_>, result: &mut OperationReply) -> Xdr<()> {
    result.is_eof = Some(reader.bool()?);
    let mut bytes = 0_u64;
    reader.array(MOST_ELEMENTS, |reader| {
        let kind = reader.u32()?;
        reader.skip(8);
        bytes = bytes.saturating_add(match kind {
            0 => u64::from(reader.skip_opaque()?),
            1 => reader.u64()?,
            _ => return Err(XdrError::Malformed),
        });
        Ok(())
    })?;
    result.count = Some(u32::try_from(bytes).unwrap_or(u32::MAX));
    Ok(())
}

fn security(reader: &mut Reader<'_>) -> Xdr<()> {
    reader
        .array(MOST_ELEMENTS, |reader| {
            if reader.u32()? == 6 {
                reader.skip_opaque()?;
                reader.skip(8);
            }
            Ok(())
        })
        .map(drop)
}

fn exchange_id(reader: &mut Reader<'_>) -> Xdr<()> {
    reader.skip(16);
    match reader.u32()? {
        0 => {}
        1 => {
            skip_bitmap(reader)?;
            skip_bitmap(reader)?;
        }
        2 => {
            skip_bitmap(reader)?;
            skip_bitmap(reader)?;
            reader.skip(16);
            reader.array(MOST_ELEMENTS, |reader| reader.skip_opaque().map(drop))?;
        }
        _ => return Err(XdrError::Malformed),
    }
    reader.skip(8);
    skip_opaques(reader, 2)?;
    skip_implementation(reader)
}
