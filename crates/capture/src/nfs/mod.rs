//! NFS v2 (RFC 1094), v3 (RFC 1813), v4.0 (RFC 7530), v4.1 (RFC 8881) and v4.2 (RFC 7862): reads files, names, offsets and counts from
//! calls and replies, and skips everything else.

mod v2;
mod v3;
mod v4;

use crate::message::{Call, Handle, Opaque, OperationCall, OperationReply};
use crate::xdr::{Reader, Xdr, XdrError};

/// RPC program of NFS.
pub const NFS_PROGRAM: u32 = 100_003;

/// Longest name that is read; file systems allow 255 bytes.
const LONGEST_NAME: usize = 4096;

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The reader needs the byte at this position of the record.
    Need(u64),
    /// The rest cannot be read.
    Opaque(Opaque),
}

impl From<XdrError> for Stop {
    fn from(error: XdrError) -> Self {
        match error {
            XdrError::Missing(at) => Self::Need(at),
            XdrError::Malformed => Self::Opaque(Opaque::Malformed),
        }
    }
}

/// Name of a procedure of NFSv2 and v3, or of an operation of NFSv4. `COMPOUND` itself has none here.
pub fn operation_name(version: u32, number: u32) -> Option<&'static str> {
    match version {
        2 => v2::NAMES.get(number as usize).copied(),
        3 => v3::NAMES.get(number as usize).copied(),
        4 => v4::operation_name(number),
        _ => None,
    }
}

/// Name of a procedure.
pub fn procedure_name(version: u32, procedure: u32) -> Option<&'static str> {
    match (version, procedure) {
        (4, 0) => Some("NULL"),
        (4, 1) => Some("COMPOUND"),
        (4, _) => None,
        _ => operation_name(version, procedure),
    }
}

/// Reads arguments into `call`.
pub fn read_arguments(reader: &mut Reader<'_>, call: &mut Call) -> Result<(), Stop> {
    call.operations.clear();
    if procedure_name(call.version, call.procedure).is_none() {
        return Err(Stop::Opaque(match call.version {
            2..=4 => Opaque::Procedure(call.procedure),
            version => Opaque::Version(version),
        }));
    }
    match call.version {
        4 if call.procedure == 1 => v4::read_arguments(reader, call),
        4 => Ok(()),
        version => {
            let mut operation = OperationCall {
                number: call.procedure,
                ..OperationCall::default()
            };
            let read = match version {
                2 => v2::read_arguments(reader, &mut operation),
                _ => v3::read_arguments(reader, &mut operation),
            };
            call.operations.push(operation);
            Ok(read?)
        }
    }
}

/// Reads the results of a call that was executed.
pub fn read_results(
    reader: &mut Reader<'_>,
    call: &Call,
    results: &mut Vec<OperationReply>,
) -> Result<(), Stop> {
    results.clear();
    match call.version {
        4 if call.procedure == 1 => v4::read_results(reader, call, results),
        4 => Ok(()),
        version => {
            let mut result = OperationReply {
                number: call.procedure,
                ..OperationReply::default()
            };
            let read = match version {
                2 => v2::read_results(reader, &mut result),
                _ => v3::read_results(reader, &mut result),
            };
            results.push(result);
            Ok(read?)
        }
    }
}

/// Converts to ns since the epoch.
fn time_ns(seconds: u32, nanoseconds: u32) -> i64 {
    i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds)
}

fn name(reader: &mut Reader<'_>) -> Xdr<Box<[u8]>> {
    reader.opaque(LONGEST_NAME).map(Box::from)
}

fn handle(reader: &mut Reader<'_>, longest: usize) -> Xdr<Handle> {
    reader.opaque(longest).map(|bytes| Handle(Box::from(bytes)))
}
