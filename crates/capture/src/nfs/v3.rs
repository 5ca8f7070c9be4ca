//! NFS version 3, RFC 1813.

use super::{name, time_ns};
use crate::message::{Attributes, DirectoryEntry, Handle, OperationCall, OperationReply};
use crate::xdr::{Reader, Xdr};

/// Procedures by number.
pub const NAMES: [&str; 22] = [
    "NULL",
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "ACCESS",
    "READLINK",
    "READ",
    "WRITE",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "FSSTAT",
    "FSINFO",
    "PATHCONF",
    "COMMIT",
];

const LONGEST_HANDLE: usize = 64;
/// A reply with more entries is malformed: 1 MiB cannot hold more.
const MOST_ENTRIES: usize = 1 << 16;

fn handle(reader: &mut Reader<'_>) -> Xdr<Handle> {
    super::handle(reader, LONGEST_HANDLE)
}

/// Reads the arguments of `operation`, whose number is already set.
pub fn read_arguments(reader: &mut Reader<'_>, operation: &mut OperationCall) -> Xdr<()> {
    if operation.number == 0 {
        return Ok(());
    }
    operation.handle = Some(handle(reader)?);
    match operation.number {
        3 | 8..=13 => operation.name = Some(name(reader)?),
        6 | 21 => {
            operation.offset = Some(reader.u64()?);
            operation.count = Some(reader.u32()?);
        }
        7 => {
            operation.offset = Some(reader.u64()?);
            operation.count = Some(reader.u32()?);
            operation.is_stable = Some(reader.u32()? != 0);
        }
        14 => {
            operation.name = Some(name(reader)?);
            operation.target = Some((Some(handle(reader)?), name(reader)?));
        }
        15 => operation.target = Some((Some(handle(reader)?), name(reader)?)),
        16 => {
            reader.skip(16);
            operation.count = Some(reader.u32()?);
        }
        _ => {}
    }
    Ok(())
}

/// Reads results into `result`, whose number is already set.
pub fn read_results(reader: &mut Reader<'_>, result: &mut OperationReply) -> Xdr<()> {
    if result.number == 0 {
        return Ok(());
    }
    let status = reader.u32()?;
    result.status = Some(status);
    let is_ok = status == 0;
    match result.number {
        1 if is_ok => result.attributes = Some(attributes(reader)?),
        1 => {}
        2 | 21 => result.attributes = after(reader)?,
        3 if is_ok => {
            result.handle = Some(handle(reader)?);
            result.attributes = optional_attributes(reader)?;
            result.directory = optional_attributes(reader)?;
        }
        3 => result.directory = optional_attributes(reader)?,
        6 => {
            result.attributes = optional_attributes(reader)?;
            if is_ok {
                result.count = Some(reader.u32()?);
                result.is_eof = Some(reader.bool()?);
            }
        }
        7 => {
            result.attributes = after(reader)?;
            if is_ok {
                result.count = Some(reader.u32()?);
            }
        }
        8..=11 => {
            if is_ok {
                result.handle = optional_handle(reader)?;
                result.attributes = optional_attributes(reader)?;
            }
            result.directory = after(reader)?;
        }
        12 | 13 => result.directory = after(reader)?,
        14 => {
            let from = after(reader)?;
            result.directory = from.or(after(reader)?);
        }
        15 => {
            result.attributes = optional_attributes(reader)?;
            result.directory = after(reader)?;
        }
        17 => {
            result.attributes = optional_attributes(reader)?;
            if is_ok {
                reader.skip(8);
                return entries(reader, &mut result.entries);
            }
        }
        _ => result.attributes = optional_attributes(reader)?,
    }
    Ok(())
}

fn entries(reader: &mut Reader<'_>, entries: &mut Vec<DirectoryEntry>) -> Xdr<()> {
    reader.list(MOST_ENTRIES, |reader| {
        reader.skip(8);
        let name = name(reader)?;
        reader.skip(8);
        let attributes = optional_attributes(reader)?.unwrap_or_default();
        if let Some(handle) = optional_handle(reader)? {
            entries.push(DirectoryEntry {
                name,
                handle,
                attributes,
            });
        }
        Ok(())
    })
}

fn optional_handle(reader: &mut Reader<'_>) -> Xdr<Option<Handle>> {
    reader.bool()?.then(|| handle(reader)).transpose()
}

fn optional_attributes(reader: &mut Reader<'_>) -> Xdr<Option<Attributes>> {
    reader.bool()?.then(|| attributes(reader)).transpose()
}

/// Attributes after a change (`wcc_data`).
fn after(reader: &mut Reader<'_>) -> Xdr<Option<Attributes>> {
    if reader.bool()? {
        reader.skip(24);
    }
    optional_attributes(reader)
}

fn attributes(reader: &mut Reader<'_>) -> Xdr<Attributes> {
    let file_type = reader.u32()?;
    reader.skip(16);
    let size = reader.u64()?;
    reader.skip(16);
    let fsid = reader.u64()?;
    let fileid = reader.u64()?;
    reader.skip(8);
    let mtime_ns = time_ns(reader.u32()?, reader.u32()?);
    reader.skip(8);
    Ok(Attributes {
        file_type: Some(file_type),
        size_bytes: Some(size),
        fsid: Some((fsid, 0)),
        fileid: Some(fileid),
        mtime_ns: Some(mtime_ns),
    })
}
