//! NFS version 2, RFC 1094.

use super::{name, time_ns};
use crate::message::{Attributes, Handle, OperationCall, OperationReply};
use crate::xdr::{Reader, Xdr};

/// Procedures by number.
pub const NAMES: [&str; 18] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "ROOT",
    "LOOKUP",
    "READLINK",
    "READ",
    "WRITECACHE",
    "WRITE",
    "CREATE",
    "REMOVE",
    "RENAME",
    "LINK",
    "SYMLINK",
    "MKDIR",
    "RMDIR",
    "READDIR",
    "STATFS",
];

const HANDLE_BYTES: usize = 32;

fn handle(reader: &mut Reader<'_>) -> Xdr<Handle> {
    reader.fixed(HANDLE_BYTES).map(|bytes| Handle(bytes.into()))
}

/// Reads the arguments of `operation`, whose number is already set.
pub fn read_arguments(reader: &mut Reader<'_>, operation: &mut OperationCall) -> Xdr<()> {
    let number = operation.number;
    if matches!(number, 0 | 3 | 7) {
        return Ok(());
    }
    operation.handle = Some(handle(reader)?);
    match number {
        4 | 9 | 10 | 13..=15 => operation.name = Some(name(reader)?),
        6 => {
            operation.offset = Some(u64::from(reader.u32()?));
            operation.count = Some(reader.u32()?);
        }
        8 => {
            reader.skip(4);
            operation.offset = Some(u64::from(reader.u32()?));
            reader.skip(4);
            operation.count = Some(reader.skip_opaque()?);
            // NFSv2 has no COMMIT: every WRITE is stable (section 2.2.9).
            operation.is_stable = Some(true);
        }
        11 => {
            operation.name = Some(name(reader)?);
            operation.target = Some((Some(handle(reader)?), name(reader)?));
        }
        12 => operation.target = Some((Some(handle(reader)?), name(reader)?)),
        16 => {
            reader.skip(4);
            operation.count = Some(reader.u32()?);
        }
        _ => {}
    }
    Ok(())
}

/// Reads results into `result`, whose number is already set.
pub fn read_results(reader: &mut Reader<'_>, result: &mut OperationReply) -> Xdr<()> {
    let number = result.number;
    if matches!(number, 0 | 3 | 7) {
        return Ok(());
    }
    let status = reader.u32()?;
    result.status = Some(status);
    if status != 0 {
        return Ok(());
    }
    match number {
        1 | 2 | 8 => result.attributes = Some(attributes(reader)?),
        4 | 9 | 14 => {
            result.handle = Some(handle(reader)?);
            result.attributes = Some(attributes(reader)?);
        }
        6 => {
            result.attributes = Some(attributes(reader)?);
            result.count = Some(reader.skip_opaque()?);
        }
        _ => {}
    }
    Ok(())
}

fn attributes(reader: &mut Reader<'_>) -> Xdr<Attributes> {
    let file_type = reader.u32()?;
    reader.skip(16);
    let size = reader.u32()?;
    reader.skip(12);
    let fsid = reader.u32()?;
    let fileid = reader.u32()?;
    reader.skip(8);
    let (seconds, microseconds) = (reader.u32()?, reader.u32()?);
    reader.skip(8);
    Ok(Attributes {
        file_type: Some(file_type),
        size_bytes: Some(u64::from(size)),
        fsid: Some((u64::from(fsid), 0)),
        fileid: Some(u64::from(fileid)),
        mtime_ns: Some(time_ns(seconds, microseconds.saturating_mul(1000))),
    })
}
