//! The content of a capture: calls, replies, and requests. A request is a call with its reply.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::account::Account;

/// The protocol that carries RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP, with record marks.
    Tcp,
    /// UDP, one datagram for each message.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// The two ends of a call. For NFSv4 callbacks, the client is the NFS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peers {
    /// The end that calls.
    pub client: SocketAddr,
    /// The end that answers.
    pub server: SocketAddr,
    /// The protocol between them.
    pub transport: Transport,
}

/// When the capture saw a message, ns since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its first byte.
    pub begin_ns: i64,
    /// Its last byte that was seen.
    pub end_ns: i64,
    /// Whether the capture has its last byte.
    pub has_end: bool,
}

/// A file handle, as on the wire.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub Box<[u8]>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The identity of the caller, as the call gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// `AUTH_NONE` 0, `AUTH_SYS` 1, `RPCSEC_GSS` 6, `AUTH_TLS` 7.
    pub flavor: u32,
    /// User (`AUTH_SYS`).
    pub uid: Option<u32>,
    /// Group (`AUTH_SYS`).
    pub gid: Option<u32>,
    /// What RPCSEC_GSS protects.
    pub protection: Protection,
}

/// How RPCSEC_GSS (RFC 2203) protects arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// Not at all: other flavors, and krb5.
    #[default]
    None,
    /// They follow their length and a sequence number: krb5i.
    Integrity,
    /// They are encrypted: krb5p.
    Privacy,
    /// They are tokens that set up a security context.
    Setup,
}

/// Type of a directory in NFSv3 (RFC 1813, `ftype3`).
pub const DIRECTORY: u32 = 2;

/// The attributes of a file in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type: regular 1, directory 2, and so on; NFSv4 has more.
    pub file_type: Option<u32>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Number of its file system.
    pub fsid: Option<(u64, u64)>,
    /// Its number in that file system.
    pub fileid: Option<u64>,
    /// Time of modification, ns since the epoch; NFSv2 and v3 only.
    pub mtime_ns: Option<i64>,
}

/// An entry of READDIRPLUS, or of NFSv4 READDIR, that has a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name, in any encoding.
    pub name: Box<[u8]>,
    /// Handle.
    pub handle: Handle,
    /// Attributes.
    pub attributes: Attributes,
}

/// An operation of a call. A call has one in NFSv2 and v3, and several in NFSv4.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OperationCall {
    /// Number: the procedure, or the operation of NFSv4.
    pub number: u32,
    /// File or directory of the operation, if known. In NFSv4, earlier operations set it.
    pub handle: Option<Handle>,
    /// Name in that directory.
    pub name: Option<Box<[u8]>>,
    /// Directory and name that RENAME and LINK create.
    pub target: Option<(Option<Handle>, Box<[u8]>)>,
    /// First byte.
    pub offset: Option<u64>,
    /// Bytes; for READDIR, the most bytes of the reply.
    pub count: Option<u32>,
    /// WRITE: whether the client asked for stable storage.
    pub is_stable: Option<bool>,
}

/// How an operation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationReply {
    /// Number: the procedure, or the operation of NFSv4.
    pub number: u32,
    /// NFS status, 0 if it succeeded; `None` for NULL, which has none.
    pub status: Option<u32>,
    /// The file or directory of the operation (NFSv4), or the one it found or created.
    pub handle: Option<Handle>,
    /// Bytes read or written.
    pub count: Option<u32>,
    /// READ: whether the file ends there.
    pub is_eof: Option<bool>,
    /// Attributes of the file that the operation used, found or created.
    pub attributes: Option<Attributes>,
    /// Attributes of the directory in which the operation looked up, created or removed a name.
    pub directory: Option<Attributes>,
    /// Directory entries that have handles.
    pub entries: Vec<DirectoryEntry>,
}

/// Why arguments or results of a captured message were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Opaque {
    /// krb5p.
    Encrypted,
    /// Tokens of RPCSEC_GSS.
    SecuritySetup,
    /// A program other than NFS, by number.
    Program(u32),
    /// A version of NFS other than 2 to 4.
    Version(u32),
    /// A procedure that the version does not have.
    Procedure(u32),
    /// An unknown operation of NFSv4; the operations after it are not read.
    Operation(u32),
    /// Values that the protocol does not allow.
    Malformed,
    /// Bytes that the capture lacks, or more bytes than the reader keeps.
    Lost,
    /// A reply whose call is not in the capture.
    CallMissing,
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encrypted => f.write_str("encrypted (krb5p)"),
            Self::SecuritySetup => f.write_str("security contexts (RPCSEC_GSS)"),
            Self::Program(number) => write!(f, "RPC program {number}"),
            Self::Version(number) => write!(f, "NFS version {number}"),
            Self::Procedure(number) => write!(f, "procedure {number}"),
            Self::Operation(number) => write!(f, "NFSv4 operation {number}"),
            Self::Malformed => f.write_str("malformed"),
            Self::Lost => f.write_str("arguments or results not captured"),
            Self::CallMissing => f.write_str("replies without a call"),
        }
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The client and the server.
    pub peers: Peers,
    /// Transaction id.
    pub xid: u32,
    /// When its first byte was seen, ns since the epoch.
    pub begin_ns: i64,
    /// Length without record marks, bytes.
    pub bytes: u64,
    /// Bytes of the arguments, after the RPC header.
    pub payload_bytes: u64,
    /// RPC program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Minor version of a COMPOUND.
    pub minor_version: Option<u32>,
    /// Procedure.
    pub procedure: u32,
    /// The caller.
    pub credential: Credential,
    /// Operations, in order.
    pub operations: Vec<OperationCall>,
    /// Why `operations` is incomplete.
    pub opaque: Option<Opaque>,
    /// Hash of the arguments that were read: the same for a retransmission.
    pub(crate) fingerprint: u64,
}

/// How the server handled an RPC (RFC 5531, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcStatus {
    /// It was executed.
    Success,
    /// It was accepted but not executed: `accept_stat`.
    NotExecuted(u32),
    /// It was denied: `reject_stat`.
    Denied(u32),
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The client and the server. The reply goes from the server to the client.
    pub peers: Peers,
    /// Transaction id.
    pub xid: u32,
    /// When its first byte was seen, ns since the epoch.
    pub begin_ns: i64,
    /// Length without record marks, bytes.
    pub bytes: u64,
    /// Bytes of the results, after the RPC header.
    pub payload_bytes: u64,
    /// How the server handled the RPC.
    pub status: RpcStatus,
    /// Results, in order; in NFSv4, up to the operation that failed.
    pub operations: Vec<OperationReply>,
    /// Why `operations` is incomplete.
    pub opaque: Option<Opaque>,
    /// Its call.
    pub call: Option<Arc<Call>>,
}

/// A call with its reply.
#[derive(Clone, Debug)]
pub struct Request {
    /// The call, as it was first sent.
    pub call: Arc<Call>,
    /// The reply.
    pub reply: Reply,
    /// When the last byte of the reply was seen, ns since the epoch.
    pub end_ns: i64,
    /// How often the call was sent again.
    pub retransmissions: u32,
}

impl Request {
    /// From the first byte of the call to the last byte of the reply, ns; `None` if the clock went back.
    pub fn latency_ns(&self) -> Option<u64> {
        u64::try_from(self.end_ns.checked_sub(self.call.begin_ns)?).ok()
    }
}

/// Receives calls, replies and requests. The default methods do nothing.
pub trait Receiver {
    /// A call whose last byte was seen. It may be a retransmission.
    fn call(&mut self, call: &Arc<Call>, seen: Seen, is_retransmission: bool) {
        let _ = (call, seen, is_retransmission);
    }
    /// A reply whose last byte was seen. `is_repeated` if its call was already answered.
    fn reply(&mut self, reply: &Reply, seen: Seen, is_repeated: bool) {
        let _ = (reply, seen, is_repeated);
    }
    /// A call with its reply.
    fn request(&mut self, request: Request) {
        let _ = request;
    }
    /// A call without a reply: the client reconnected, or minutes passed.
    fn unanswered(&mut self, call: &Arc<Call>) {
        let _ = call;
    }
    /// What the account of one direction gained. Its last packet was captured at `last_ns`.
    fn account(&mut self, peers: &Peers, is_from_client: bool, last_ns: i64, more: &Account) {
        let _ = (peers, is_from_client, last_ns, more);
    }
}

impl Receiver for () {}
