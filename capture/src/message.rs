//! What is found in a capture: calls, replies, and requests, which are a call with its reply.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::account::Account;

/// Which protocol carries RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP, with record marks.
    Tcp,
    /// UDP, a datagram for each message.
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

/// Whom a call goes from and to. For callbacks of NFSv4 the client is the NFS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peers {
    /// Who calls.
    pub client: SocketAddr,
    /// Who answers.
    pub server: SocketAddr,
    /// How.
    pub transport: Transport,
}

/// When a message was seen at the capture's place, ns since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its first byte.
    pub begin_ns: i64,
    /// Its last byte, as far as it was seen.
    pub end_ns: i64,
    /// Whether the capture has its last byte.
    pub has_end: bool,
}

/// A file handle, as it is on the wire.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub Box<[u8]>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Who calls, as the call says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// `AUTH_NONE` 0, `AUTH_SYS` 1, `RPCSEC_GSS` 6, `AUTH_TLS` 7.
    pub flavor: u32,
    /// User, of `AUTH_SYS`.
    pub uid: Option<u32>,
    /// Group, of `AUTH_SYS`.
    pub gid: Option<u32>,
    /// What RPCSEC_GSS protects.
    pub protection: Protection,
}

/// What RPCSEC_GSS (RFC 2203) does with arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// They are as without it: also of other flavors, and of krb5.
    #[default]
    None,
    /// They stand behind their length and a sequence number: krb5i.
    Integrity,
    /// They are encrypted: krb5p.
    Privacy,
    /// They are tokens that make a security context.
    Setup,
}

/// Type of a file, as NFSv3 numbers it (RFC 1813, `ftype3`).
pub const DIRECTORY: u32 = 2;

/// What a reply says of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type: regular 1, directory 2, and so on; NFSv4 has more.
    pub file_type: Option<u32>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Number of its file system.
    pub fsid: Option<(u64, u64)>,
    /// Its number there.
    pub fileid: Option<u64>,
    /// When it was modified, ns since the epoch; of NFSv2 and v3.
    pub mtime_ns: Option<i64>,
}

/// An entry of READDIRPLUS, or of READDIR of NFSv4, that has a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name, bytes of any encoding.
    pub name: Box<[u8]>,
    /// Handle.
    pub handle: Handle,
    /// Attributes.
    pub attributes: Attributes,
}

/// An operation as it was called. NFSv2 and v3 have one in a call, NFSv4 several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OperationCall {
    /// Number: the procedure, or the operation of NFSv4.
    pub number: u32,
    /// File or directory that it is about, where that is known: NFSv4 has it from the operations before.
    pub handle: Option<Handle>,
    /// Name in that directory.
    pub name: Option<Box<[u8]>>,
    /// Directory and name that RENAME and LINK make.
    pub target: Option<(Option<Handle>, Box<[u8]>)>,
    /// First byte.
    pub offset: Option<u64>,
    /// Bytes, or for READDIR most bytes of the reply.
    pub count: Option<u32>,
    /// WRITE: whether stable storage was asked for.
    pub is_stable: Option<bool>,
}

/// How an operation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationReply {
    /// Number: the procedure, or the operation of NFSv4.
    pub number: u32,
    /// NFS status, 0 if it succeeded; `None` for NULL, which has none.
    pub status: Option<u32>,
    /// File or directory that it was about (NFSv4), or that it found or made.
    pub handle: Option<Handle>,
    /// Bytes read or written.
    pub count: Option<u32>,
    /// READ: whether the file ends there.
    pub is_eof: Option<bool>,
    /// Attributes of the file that it was about, found or made.
    pub attributes: Option<Attributes>,
    /// Attributes of the directory in which it looked for, made or removed a name.
    pub directory: Option<Attributes>,
    /// Entries with handles of a directory.
    pub entries: Vec<DirectoryEntry>,
}

/// Why arguments or results were not read although the message is there.
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
    /// An operation of NFSv4 that is not known; those after it are not read.
    Operation(u32),
    /// Values that the protocol does not have.
    Malformed,
    /// Bytes that the capture does not have, or more than are looked at.
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
    /// From whom to whom.
    pub peers: Peers,
    /// Transaction id.
    pub xid: u32,
    /// When its first byte was seen, ns since the epoch.
    pub begin_ns: i64,
    /// Its length, without record marks, bytes.
    pub bytes: u64,
    /// Of these, those of the arguments: behind the header of the RPC.
    pub payload_bytes: u64,
    /// RPC program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Minor version, of a COMPOUND.
    pub minor_version: Option<u32>,
    /// Procedure.
    pub procedure: u32,
    /// Who calls.
    pub credential: Credential,
    /// Operations, in order.
    pub operations: Vec<OperationCall>,
    /// Why they are not all there.
    pub opaque: Option<Opaque>,
    /// Hash of the arguments that were looked at: a retransmission has the same.
    pub(crate) fingerprint: u64,
}

/// How the server took an RPC (RFC 5531, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcStatus {
    /// It was executed.
    Success,
    /// It was accepted and not executed: `accept_stat`.
    NotExecuted(u32),
    /// It was denied: `reject_stat`.
    Denied(u32),
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// From whom (server) to whom (client).
    pub peers: Peers,
    /// Transaction id.
    pub xid: u32,
    /// When its first byte was seen, ns since the epoch.
    pub begin_ns: i64,
    /// Its length, without record marks, bytes.
    pub bytes: u64,
    /// Of these, those of the results: behind the header of the RPC.
    pub payload_bytes: u64,
    /// How the RPC was taken.
    pub status: RpcStatus,
    /// Results, in order; of NFSv4 those up to the one that failed.
    pub operations: Vec<OperationReply>,
    /// Why they are not all there.
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
    /// Last byte of the reply, ns since the epoch.
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

/// Takes what is found. All methods do nothing unless they are written.
pub trait Receiver {
    /// A call, also one that is a retransmission, when its last byte was seen.
    fn call(&mut self, call: &Arc<Call>, seen: Seen, is_retransmission: bool) {
        let _ = (call, seen, is_retransmission);
    }
    /// A reply, when its last byte was seen. `is_repeated` if its call was answered before.
    fn reply(&mut self, reply: &Reply, seen: Seen, is_repeated: bool) {
        let _ = (reply, seen, is_repeated);
    }
    /// A call with its reply.
    fn request(&mut self, request: Request) {
        let _ = request;
    }
    /// A call that will not be answered: the client connected again, or minutes passed.
    fn unanswered(&mut self, call: &Arc<Call>) {
        let _ = call;
    }
    /// What a direction of a connection has more in its account, whose last packet was captured at `last_ns`.
    fn account(&mut self, peers: &Peers, is_from_client: bool, last_ns: i64, more: &Account) {
        let _ = (peers, is_from_client, last_ns, more);
    }
}

impl Receiver for () {}
