//! NFS version 4: a COMPOUND is a list of operations. Each one uses the current file that earlier operations set.

mod arguments;
mod attributes;
mod current;
mod names;
mod results;

use crate::message::{Call, Opaque, OperationCall, OperationReply};
use crate::nfs::Stop;
use crate::xdr::Reader;
use current::CurrentFile;

pub use names::operation_name;

/// A COMPOUND with more operations is malformed: Linux clients send 8 at most.
const MOST_OPERATIONS: u32 = 256;

/// Numbers of the operations that the code names.
mod number {
    pub const CREATE: u32 = 6;
    pub const GETFH: u32 = 10;
    pub const LINK: u32 = 11;
    pub const LOOKUP: u32 = 15;
    pub const LOOKUPP: u32 = 16;
    pub const OPEN: u32 = 18;
    pub const OPENATTR: u32 = 19;
    pub const PUTFH: u32 = 22;
    pub const PUTPUBFH: u32 = 23;
    pub const PUTROOTFH: u32 = 24;
    pub const RENAME: u32 = 29;
    pub const RESTOREFH: u32 = 31;
    pub const SAVEFH: u32 = 32;
}

/// Reads the arguments of a COMPOUND.
pub fn read_arguments(reader: &mut Reader<'_>, call: &mut Call) -> Result<(), Stop> {
    reader.skip_opaque()?;
    call.minor_version = Some(reader.u32()?);
    let operations = reader.u32()?;
    if operations > MOST_OPERATIONS {
        return Err(Stop::Opaque(Opaque::Malformed));
    }
    let mut current = CurrentFile::default();
    for _ in 0..operations {
        let mut operation = OperationCall {
            number: reader.u32()?,
            ..OperationCall::default()
        };
        let read = arguments::read(reader, &mut operation);
        if read.is_ok() {
            current.apply(&mut operation, None);
        }
        call.operations.push(operation);
        read?;
    }
    Ok(())
}

/// Reads the results of a COMPOUND, and finds the file of each operation.
pub fn read_results(
    reader: &mut Reader<'_>,
    call: &Call,
    results: &mut Vec<OperationReply>,
) -> Result<(), Stop> {
    reader.skip(4);
    reader.skip_opaque()?;
    let operations = reader.u32()?;
    if operations > MOST_OPERATIONS {
        return Err(Stop::Opaque(Opaque::Malformed));
    }
    let mut read = Ok(());
    for _ in 0..operations {
        let mut result = OperationReply::default();
        read = results::read(reader, &mut result);
        if read.is_ok() || result.status.is_some() {
            results.push(result);
        }
        if read.is_err() {
            break;
        }
    }
    find_files(call, results);
    read
}

fn find_files(call: &Call, results: &mut [OperationReply]) {
    let mut current = CurrentFile::default();
    let mut files = Vec::with_capacity(results.len());
    for (operation, result) in call.operations.iter().zip(results.iter()) {
        if operation.number != result.number || result.status.is_some_and(|status| status != 0) {
            break;
        }
        files.push(current.apply(&mut operation.clone(), result.handle.as_ref()));
    }
    // The operation that failed used the file that was current before it.
    files.push(current.file());
    for (result, file) in results.iter_mut().zip(files) {
        result.handle = current.handle(file);
    }
}
