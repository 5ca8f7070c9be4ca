//! Closed windows as a stream, for programs on the same host.
//!
//! ```text
//! stream   magic "TIOL" | format version u32 | chunks
//! chunk    length u32 | kind u8 | 1 in the last chunk of its message, or 0 | part of the message
//! window   journal u64 | offset u64 | a journal that holds this window alone
//! ```
//!
//! Numbers are little-endian. All messages but windows are JSON. The stream begins with
//! [`Message::Hello`]. A chunk of another kind ends a message that is not complete: it is void.
//!
//! Totals are a window as well, from the begin of the recording to now: the sums of mounts and of
//! their operations ([`totals`]). Its position is that of the last durable window.
//!
//! A window is sent when the store has it. Its [`Position`] tells a subscriber whether a
//! [`crate::Snapshot`] had it: so whoever subscribes, then opens a snapshot, and leaves out windows
//! up to the snapshot's position, has each window once.
//!
//! Windows wait for slow subscribers in a buffer of limited size. A subscriber for whom it is too
//! small is sent [`Message::Gap`] in place of the windows that it missed.

mod buffer;
mod server;
mod subscription;
mod totals;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};
use trackiops_schemas::kernel_usage::KernelUsage;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::pending::StalledServer;
use trackiops_schemas::row::{ClosedWindow, FileRow, Health};

pub use self::buffer::Publisher;
pub use self::server::LiveServer;
pub use self::subscription::{LiveError, LiveWindow, Subscription};
pub use self::totals::{MOST_MOUNTS, MOST_OPERATIONS, MOST_TENANTS, OTHER};

const MAGIC: [u8; 4] = *b"TIOL";
/// Of the stream, apart from the journals in it.
const VERSION: u32 = 1;
const CHUNK_PREFIX_BYTES: usize = 6;
/// Bytes of a message in one chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Subscribers at once. Each may keep a chunk.
const MOST_SUBSCRIBERS: usize = 64;
/// Those of one user who is not root: others shall find room as well.
const MOST_OF_A_USER: usize = 32;
/// Windows that wait for subscribers. With a chunk for each subscriber, this is 16 MiB.
const BUFFER_BYTES: usize = (16 << 20) - MOST_SUBSCRIBERS * CHUNK_BYTES;

/// Connects to a socket, or fails at once where too many wait for that (`EAGAIN`).
fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hello = 1,
    Mounts = 2,
    Status = 3,
    Window = 4,
    Gap = 5,
    End = 6,
    Totals = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        let kinds = [
            Self::Hello,
            Self::Mounts,
            Self::Status,
            Self::Window,
            Self::Gap,
            Self::End,
            Self::Totals,
        ];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What a subscriber receives.
#[derive(Clone, Debug)]
pub enum Message {
    /// Who records. Always the first.
    Hello(Box<Hello>),
    /// The mounts that exist now: at the begin, and when they change.
    Mounts(Vec<MountPoint>),
    /// How the recording goes: at the begin, and every second.
    Status(Box<Status>),
    /// What was recorded since the recording began, after each status.
    Totals(LiveWindow),
    /// A window that has become durable.
    Window(LiveWindow),
    /// Windows that are missing from the stream, because the subscriber was too slow.
    Gap(Gap),
    /// The recorder ends. Nothing follows.
    End,
}

/// Where a window ends in a store: journals are numbered, and windows are appended to them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
pub struct Position {
    /// Number of the journal.
    pub journal: u64,
    /// Offset in it, bytes.
    pub offset: u64,
}

/// Who records.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Hello {
    /// The recorder.
    pub recorder: RecorderInfo,
    /// The last window before the stream.
    pub position: Position,
}

/// What a recorder says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RecorderInfo {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The recording host.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// How requests are observed: `direct` or `tracepoint`.
    pub engine: String,
    /// The store.
    pub store: PathBuf,
    /// Room that its windows may take, bytes. `None` if it is unlimited.
    pub store_size: Option<u64>,
    /// How long windows are kept, as `--retain` takes it. Empty if forever.
    pub retention: String,
    /// When the recording began, ms since 1970.
    pub started_ms: i64,
    /// Length of the windows, ms.
    pub granularity_ms: i64,
}

/// How a recording goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Status {
    /// Windows that were closed since the recording began.
    pub windows: u64,
    /// Windows that are not in the store yet.
    pub waiting: u64,
    /// Why the store cannot be written.
    pub store_error: Option<String>,
    /// Everything since the recording began.
    pub total: Activity,
    /// What was closed in the last minute.
    pub recent: Activity,
    /// Time since a window was closed, or else since the recording began.
    pub silent_ms: u64,
    /// The last window.
    pub last: Activity,
    /// Start of the last window, ms since 1970.
    pub last_ms: Option<i64>,
    /// Servers that did not answer in the last window.
    pub stalled: Vec<Stalled>,
    /// What the store takes without single requests, bytes, since journals were last sealed.
    pub store_bytes: Option<u64>,
    /// What the recorder itself takes.
    pub own: OwnUsage,
}

/// What a recorder takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct OwnUsage {
    /// CPU time of its process, without its programs in the kernel, ms.
    pub cpu_ms: u64,
    /// Resident memory of its process, bytes.
    pub rss_bytes: u64,
    /// What its programs in the kernel take.
    pub kernel: KernelUsage,
}

/// What was recorded, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Activity {
    /// Files with rows in one window; 0 for several windows.
    pub files: u64,
    /// READs.
    pub read_requests: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// WRITEs.
    pub write_requests: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Counters of the recorder itself, by the names of their columns.
    #[serde(with = "health_by_name")]
    pub health: Health,
}

/// A server that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Stalled {
    /// Its address, where known.
    pub server: Option<String>,
    /// The mounts that may have waited for it.
    pub mounts: Vec<String>,
    /// Requests that waited.
    pub requests: u64,
    /// How long the oldest had waited, ms.
    pub age_ms: u64,
}

/// Windows that a subscriber missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Gap {
    /// How many.
    pub windows: u64,
    /// The last window before them.
    pub after: Position,
    /// The last one of them.
    pub until: Position,
    /// Earliest start of them, ms since 1970.
    pub since_ms: i64,
    /// Latest end of them, ms since 1970.
    pub until_ms: i64,
}

impl Activity {
    fn of(window: &ClosedWindow) -> Self {
        let files = window.rows.chunk_by(|a, b| a.file.key == b.file.key);
        let mut activity = Self {
            files: files.count() as u64,
            ..Self::default()
        };
        activity.health.merge(&window.health);
        activity.health.pending = None;
        for FileRow { row, .. } in &window.rows {
            activity.read_requests += row.read.requests;
            activity.read_bytes += row.read.bytes;
            activity.write_requests += row.write.requests;
            activity.write_bytes += row.write.bytes;
        }
        activity
    }

    fn add(&mut self, other: &Self) {
        self.read_requests += other.read_requests;
        self.read_bytes += other.read_bytes;
        self.write_requests += other.write_requests;
        self.write_bytes += other.write_bytes;
        self.health.merge(&other.health);
    }
}

/// Writes the counters of [`Health`] as a map.
mod health_by_name {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};
    use trackiops_schemas::row::Health;

    pub(super) fn serialize<S: Serializer>(health: &Health, to: S) -> Result<S::Ok, S::Error> {
        let counters = Health::COUNTERS.iter();
        to.collect_map(counters.map(|counter| (counter.name, (counter.get)(health))))
    }

    /// Counters that are missing are zero.
    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Health, D::Error> {
        let values = BTreeMap::<String, u64>::deserialize(from)?;
        let value = |name: &str| values.get(name).copied().unwrap_or_default();
        let counters = Health::COUNTERS.each_ref();
        Ok(Health::of_counters(
            counters.map(|counter| value(counter.name)),
        ))
    }
}

impl From<StalledServer> for Stalled {
    fn from(server: StalledServer) -> Self {
        Self {
            server: server.address,
            mounts: server.mounts,
            requests: server.requests_max,
            age_ms: server.age_ms_max,
        }
    }
}
