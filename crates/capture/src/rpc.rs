//! ONC RPC (RFC 5531): calls, replies and credentials; RPCSEC_GSS (RFC 2203) around arguments and results.

use std::sync::Arc;

use ahash::RandomState;

use crate::message::{Call, Credential, Opaque, Peers, Protection, Reply, RpcStatus};
use crate::nfs::{self, NFS_PROGRAM, Stop};
use crate::xdr::{Reader, SparseRecord, Xdr, XdrError};

/// Longest body of a credential or verifier (RFC 5531, section 8.2).
const LONGEST_AUTH: usize = 400;
const AUTH_SYS: u32 = 1;
const RPCSEC_GSS: u32 = 6;
/// RPC with TLS (RFC 9289): a NULL call asks for it, and the verifier of its reply says yes.
pub const AUTH_TLS: u32 = 7;

/// Bytes that [`is_plausible`] needs from the beginning of a record: the mark, and a call up to its procedure.
pub const HEADER_BYTES: usize = 28;

/// No server accepts larger records.
const LARGEST_RECORD: u32 = 8 << 20;
/// Smaller records cannot be NFS messages.
const SMALLEST_RECORD: u32 = 24;

/// A message that was read as far as needed.
#[derive(Clone, Debug)]
pub enum Message {
    /// A call, and whether it is a retransmission, which the record reader does not know.
    Call(Arc<Call>, bool),
    /// A reply.
    Reply(Box<Reply>),
}

/// Why a message was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The reader needs the byte at this position of the record.
    Need(u64),
    /// The record is not an RPC message.
    NotRpc,
}

impl From<XdrError> for Unread {
    fn from(error: XdrError) -> Self {
        match error {
            XdrError::Missing(at) => Self::Need(at),
            XdrError::Malformed => Self::NotRpc,
        }
    }
}

/// Origin of a message.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The sender as client, the receiver as server.
    pub peers: Peers,
    /// When its first byte was seen, ns since the epoch.
    pub begin_ns: i64,
    /// Its length as far as known, bytes.
    pub bytes: u64,
}

/// Reads a message. `is_all` means that no more bytes will come: what still needs bytes is [`Opaque::Lost`].
pub fn read(
    record: &SparseRecord,
    is_all: bool,
    origin: Origin,
    call_of: impl FnOnce(u32) -> Option<Arc<Call>>,
) -> Result<Message, Unread> {
    let mut reader = Reader::new(record);
    let xid = reader.u32()?;
    match reader.u32()? {
        0 => {
            let mut call = read_header(&mut reader, xid, origin)?;
            call.payload_bytes = origin.bytes.saturating_sub(reader.position());
            call.opaque = stopped(read_arguments(&mut reader, &mut call), is_all)?;
            call.fingerprint = fingerprint(&call);
            Ok(Message::Call(Arc::new(call), false))
        }
        1 => {
            let peers = Peers {
                client: origin.peers.server,
                server: origin.peers.client,
                ..origin.peers
            };
            let mut reply = Reply {
                peers,
                xid,
                begin_ns: origin.begin_ns,
                bytes: origin.bytes,
                payload_bytes: 0,
                status: read_status(&mut reader)?,
                operations: Vec::new(),
                opaque: None,
                call: call_of(xid),
            };
            reply.payload_bytes = origin.bytes.saturating_sub(reader.position());
            reply.opaque = stopped(read_results(&mut reader, &mut reply), is_all)?;
            Ok(Message::Reply(Box::new(reply)))
        }
        _ => Err(Unread::NotRpc),
    }
}

fn stopped(read: Result<(), Stop>, is_all: bool) -> Result<Option<Opaque>, Unread> {
    match read {
        Ok(()) => Ok(None),
        Err(Stop::Opaque(opaque)) => Ok(Some(opaque)),
        Err(Stop::Need(_)) if is_all => Ok(Some(Opaque::Lost)),
        Err(Stop::Need(at)) => Err(Unread::Need(at)),
    }
}

/// Hash of the content of a call: the same for a retransmission.
pub fn fingerprint(call: &Call) -> u64 {
    // Fixed seeds give one process equal hashes, and no hash outlives the process.
    RandomState::with_seeds(1, 2, 3, 4).hash_one((
        call.program,
        call.version,
        call.procedure,
        &call.operations,
    ))
}

fn read_header(reader: &mut Reader<'_>, xid: u32, origin: Origin) -> Result<Call, Unread> {
    if reader.u32()? != 2 {
        return Err(Unread::NotRpc);
    }
    let (program, version, procedure) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let credential = credential(reader)?;
    reader.u32()?;
    reader.opaque(LONGEST_AUTH)?;
    Ok(Call {
        peers: origin.peers,
        xid,
        begin_ns: origin.begin_ns,
        bytes: origin.bytes,
        payload_bytes: 0,
        program,
        version,
        minor_version: None,
        procedure,
        credential,
        operations: Vec::new(),
        opaque: None,
        fingerprint: 0,
    })
}

fn credential(reader: &mut Reader<'_>) -> Xdr<Credential> {
    let flavor = reader.u32()?;
    let begin = reader.position() + 4;
    let bytes = reader.opaque(LONGEST_AUTH)?.len();
    let after = reader.position();
    let mut credential = Credential {
        flavor,
        ..Credential::default()
    };
    let mut body = reader.clone();
    body.seek(begin);
    match flavor {
        AUTH_SYS => {
            body.skip(4);
            body.skip_opaque()?;
            credential.uid = Some(body.u32()?);
            credential.gid = Some(body.u32()?);
        }
        RPCSEC_GSS => {
            body.skip(4);
            let procedure = body.u32()?;
            body.skip(4);
            credential.protection = match (procedure, body.u32()?) {
                (1 | 2, _) => Protection::Setup,
                (_, 1) => Protection::None,
                (_, 2) => Protection::Integrity,
                _ => Protection::Privacy,
            };
        }
        _ => return Ok(credential),
    }
    if body.position() > begin + bytes as u64 {
        return Err(XdrError::Malformed);
    }
    reader.seek(after);
    Ok(credential)
}

fn read_arguments(reader: &mut Reader<'_>, call: &mut Call) -> Result<(), Stop> {
    if call.program != NFS_PROGRAM {
        return Err(Stop::Opaque(Opaque::Program(call.program)));
    }
    unwrap(reader, call.credential.protection)?;
    nfs::read_arguments(reader, call)
}

/// Skips what RPCSEC_GSS puts before arguments and results.
fn unwrap(reader: &mut Reader<'_>, protection: Protection) -> Result<(), Stop> {
    match protection {
        Protection::None => Ok(()),
        Protection::Integrity => {
            reader.skip(8);
            Ok(())
        }
        Protection::Privacy => Err(Stop::Opaque(Opaque::Encrypted)),
        Protection::Setup => Err(Stop::Opaque(Opaque::SecuritySetup)),
    }
}

fn read_status(reader: &mut Reader<'_>) -> Xdr<RpcStatus> {
    match reader.u32()? {
        0 => {
            reader.u32()?;
            reader.opaque(LONGEST_AUTH)?;
            match reader.u32()? {
                0 => Ok(RpcStatus::Success),
                status => Ok(RpcStatus::NotExecuted(status)),
            }
        }
        1 => reader.u32().map(RpcStatus::Denied),
        _ => Err(XdrError::Malformed),
    }
}

fn read_results(reader: &mut Reader<'_>, reply: &mut Reply) -> Result<(), Stop> {
    let Some(call) = reply.call.clone() else {
        return Err(Stop::Opaque(Opaque::CallMissing));
    };
    if reply.status != RpcStatus::Success {
        return Ok(());
    }
    if call.program != NFS_PROGRAM {
        return Err(Stop::Opaque(Opaque::Program(call.program)));
    }
    unwrap(reader, call.credential.protection)?;
    nfs::read_results(reader, &call, &mut reply.operations)
}

/// Whether this reply to an `AUTH_TLS` call begins TLS.
pub fn begins_tls(reply: &Reply) -> bool {
    let asked = reply.call.as_ref();
    asked.is_some_and(|call| call.credential.flavor == AUTH_TLS)
        && reply.status == RpcStatus::Success
}

/// Whether an NFS call may begin at the first of these bytes, after the record mark.
pub fn is_call(message: &[u8]) -> bool {
    let word = |index: usize| word(message, index);
    word(1) == Some(0)
        && word(2) == Some(2)
        && word(3) == Some(NFS_PROGRAM)
        && matches!(word(4), Some(2..=4))
        && matches!(word(5), Some(0..=21))
}

/// Whether a record may begin at the first of these bytes.
pub fn is_plausible(bytes: &[u8], is_pending: impl FnOnce(u32) -> bool) -> bool {
    let (Some(mark), Some(message)) = (word(bytes, 0), bytes.get(4..)) else {
        return false;
    };
    let len = mark & !LAST_FRAGMENT;
    if mark & LAST_FRAGMENT == 0 || !(SMALLEST_RECORD..LARGEST_RECORD).contains(&len) {
        return false;
    }
    let word = |index: usize| word(message, index);
    match word(1) {
        Some(0) => is_call(message),
        Some(1) => match word(2) {
            // Accepted, without a verifier, and with a valid status.
            Some(0) if (word(3), word(4)) == (Some(0), Some(0)) => {
                word(5).is_some_and(|status| status <= 5)
            }
            Some(0 | 1) => word(0).is_some_and(is_pending),
            _ => false,
        },
        _ => false,
    }
}

/// The bit of a record mark that marks the last fragment (RFC 5531, section 11).
pub const LAST_FRAGMENT: u32 = 1 << 31;

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(index * 4..index * 4 + 4)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}
