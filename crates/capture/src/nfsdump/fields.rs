//! The keys and values after the name of a procedure: arguments of a call, or results of a reply.

use super::NotUnderstood;
use super::line::{hex, next_word};
use crate::message::{Attributes, Credential, Handle, Opaque, OperationCall, OperationReply};
use crate::nfs::procedure_name;

/// Longest handle (NFSv3), bytes.
const LONGEST_HANDLE: usize = 64;

/// Reads arguments into an operation whose number is already set. Returns the caller, and why arguments are missing.
pub fn arguments(
    version: u32,
    rest: &[u8],
    operation: &mut OperationCall,
) -> Result<(Credential, Option<Opaque>), NotUnderstood> {
    let mut credential = Credential::default();
    let mut target: (Option<Handle>, Option<Box<[u8]>>) = (None, None);
    let mut transfer_bytes = None;
    let procedure = procedure_name(version, operation.number).unwrap_or_default();
    let mut rest = rest;
    while let Some((key, value)) = pair(&mut rest)? {
        match key {
            Key::Short => return Ok((credential, Some(Opaque::Lost))),
            Key::Named(key) => match key {
                b"fh" | b"file" => operation.handle = Some(handle(value)?),
                b"fh2" => target.0 = Some(handle(value)?),
                b"name" | b"fn" => operation.name = Some(name(value)?),
                b"name2" | b"fn2" => target.1 = Some(name(value)?),
                b"off" | b"offset" => operation.offset = Some(number(value)?),
                b"count" => operation.count = Some(small(value)?),
                b"tcount" => transfer_bytes = Some(small(value)?),
                b"stable" => operation.is_stable = Some(is_stable(value)?),
                b"euid" => credential.uid = Some(small(value)?),
                b"egid" => credential.gid = Some(small(value)?),
                key if is_known(key) => {}
                _ => return Err(NotUnderstood::Key),
            },
        }
    }
    if credential.uid.is_some() {
        credential.flavor = 1;
    }
    // WRITE of NFSv2 has no `count`.
    operation.count = operation.count.or(transfer_bytes);
    let (to, new) = target;
    match procedure {
        "RENAME" => operation.target = new.map(|new| (to, new)),
        "LINK" => operation.target = operation.name.take().or(new).map(|new| (to, new)),
        _ => {}
    }
    Ok((credential, None))
}

/// Reads results into an operation whose number is already set.
pub fn results(
    version: u32,
    rest: &[u8],
    result: &mut OperationReply,
) -> Result<Option<Opaque>, NotUnderstood> {
    let procedure = procedure_name(version, result.number).unwrap_or_default();
    let mut rest = rest;
    if procedure != "NULL" {
        result.status = Some(match next_word(&mut rest) {
            b"OK" => 0,
            b"SHORT" => return Ok(Some(Opaque::Lost)),
            status => hex(status)
                .and_then(|status| u32::try_from(status).ok())
                .ok_or(NotUnderstood::Status)?,
        });
    }
    let mut sets: Vec<Attributes> = Vec::new();
    while let Some((key, value)) = pair(&mut rest)? {
        let Key::Named(key) = key else {
            return Ok(Some(Opaque::Lost));
        };
        match key {
            b"fh" => result.handle = Some(handle(value)?),
            b"count" => result.count = Some(small(value)?),
            b"eof" => result.is_eof = Some(number(value)? != 0),
            // Each set of attributes begins with the type.
            b"ftype" => sets.push(Attributes {
                file_type: Some(small(value)?),
                ..Attributes::default()
            }),
            b"size" | b"fsid" | b"fileid" => {
                let attributes = sets.last_mut().ok_or(NotUnderstood::Key)?;
                let value = number(value)?;
                match key {
                    b"size" => attributes.size_bytes = Some(value),
                    b"fsid" => attributes.fsid = Some((value, 0)),
                    _ => attributes.fileid = Some(value),
                }
            }
            key if is_known(key) => {}
            _ => return Err(NotUnderstood::Key),
        }
    }
    // The file's attributes come before the directory's. Without a file there are only the directory's.
    let is_of_directory = match procedure {
        "REMOVE" | "RMDIR" => true,
        "LOOKUP" | "CREATE" | "MKDIR" | "SYMLINK" | "MKNOD" => result.status != Some(0),
        _ => false,
    };
    let mut sets = sets.into_iter();
    result.attributes = if is_of_directory { None } else { sets.next() };
    result.directory = sets.next();
    Ok(None)
}

enum Key<'a> {
    /// A key that a value follows.
    Named(&'a [u8]),
    /// `SHORT PACKET`: the packet was captured only in part.
    Short,
}

/// The next key and its value; `None` where the lengths begin or the line ends.
fn pair<'a>(rest: &mut &'a [u8]) -> Result<Option<(Key<'a>, &'a [u8])>, NotUnderstood> {
    let key = next_word(rest);
    if matches!(key, b"" | b"con") || key.starts_with(b"status=") {
        return Ok(None);
    }
    if key == b"SHORT" {
        return Ok(Some((Key::Short, b"")));
    }
    let value = next_word(rest);
    if value.is_empty() {
        return Err(NotUnderstood::Value);
    }
    Ok(Some((Key::Named(key), value)))
}

/// Keys of the format that a store has no use for.
fn is_known(key: &[u8]) -> bool {
    matches!(
        key,
        b"mode"
            | b"nlink"
            | b"uid"
            | b"gid"
            | b"size"
            | b"used"
            | b"rdev"
            | b"rdev2"
            | b"fsid"
            | b"fileid"
            | b"ftype"
            | b"atime"
            | b"mtime"
            | b"ctime"
            | b"acc"
            | b"how"
            | b"cookie"
            | b"maxcnt"
            | b"sdata"
            | b"pre-size"
            | b"pre-mtime"
            | b"pre-ctime"
            | b"blksize"
            | b"blocks"
            | b"tsize"
            | b"bsize"
            | b"bfree"
            | b"bavail"
            | b"nfsstat"
            | b"begoff"
            | b"name"
            | b"fn"
            | b"fn2"
            | b"eof"
            | b"stable"
            | b"count"
            | b"tcount"
            | b"off"
            | b"offset"
    )
}

fn number(value: &[u8]) -> Result<u64, NotUnderstood> {
    hex(value).ok_or(NotUnderstood::Value)
}

fn small(value: &[u8]) -> Result<u32, NotUnderstood> {
    u32::try_from(number(value)?).map_err(|_| NotUnderstood::Value)
}

fn handle(value: &[u8]) -> Result<Handle, NotUnderstood> {
    let pairs = value.chunks_exact(2);
    if !pairs.remainder().is_empty() || value.len() > 2 * LONGEST_HANDLE {
        return Err(NotUnderstood::Value);
    }
    let bytes = pairs.map(|pair| hex(pair).and_then(|byte| u8::try_from(byte).ok()));
    let bytes: Option<Box<[u8]>> = bytes.collect();
    bytes.map(Handle).ok_or(NotUnderstood::Value)
}

fn name(value: &[u8]) -> Result<Box<[u8]>, NotUnderstood> {
    let inner = value.strip_prefix(b"\"");
    let inner = inner.and_then(|value| value.strip_suffix(b"\""));
    inner.map(Box::from).ok_or(NotUnderstood::Value)
}

/// Unstable, data or file; the protocol has no other values.
fn is_stable(value: &[u8]) -> Result<bool, NotUnderstood> {
    match value {
        b"U" => Ok(false),
        b"D" | b"F" => Ok(true),
        _ => Err(NotUnderstood::Value),
    }
}
