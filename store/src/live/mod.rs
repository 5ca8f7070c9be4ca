//! Closed windows as a stream, for programs on the same host.
//!
//! ```text
//! stream   magic "TIOL" | format version u32 | chunks
//! chunk    length u32 | kind u8 | 1 in the last chunk of its message, or 0 | part of the message
//! window   journal u64 | offset u64 | a journal that holds this window alone
//! ```
//!
//! Numbers are little-endian. All messages except windows are JSON. The stream begins with [`Message::Hello`]. A chunk
//! of another kind discards an incomplete message.
//!
//! Totals are encoded as a window, from the begin of the recording to now: the sums of mounts, of their operations and of
//! connections ([`totals`]). Its position is the position of the last durable window.
//!
//! A window is sent when it is in the store. Its [`Position`] shows a subscriber whether a [`crate::Snapshot`] already
//! had it. To get each window once: subscribe, open a snapshot, and skip windows up to the snapshot's position.
//!
//! Windows wait for slow subscribers in a buffer of limited size. A subscriber that is too slow receives
//! [`Message::Gap`] in place of the windows that it missed.

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
pub use self::totals::{MOST_CONNECTIONS, MOST_MOUNTS, MOST_OPERATIONS, MOST_TENANTS, OTHER};
use crate::identity::StoreId;

const MAGIC: [u8; 4] = *b"TIOL";
/// Version of the stream, apart from the journals in it.
const VERSION: u32 = 1;
const CHUNK_PREFIX_BYTES: usize = 6;
/// Bytes of a message in one chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Subscribers at once. Each may keep a chunk.
const MOST_SUBSCRIBERS: usize = 64;
/// Most subscribers of one user other than root, so that other users find room.
const MOST_OF_A_USER: usize = 32;
/// Windows that wait for subscribers. With a chunk for each subscriber, this is 16 MiB.
const BUFFER_BYTES: usize = (16 << 20) - MOST_SUBSCRIBERS * CHUNK_BYTES;

/// Connects to a socket. Fails at once if too many connections wait to be accepted (`EAGAIN`).
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

/// A message to a subscriber.
#[derive(Clone, Debug)]
pub enum Message {
    /// The recorder. Always the first message.
    Hello(Box<Hello>),
    /// The existing mounts on which the recorder's filter may want files: at the begin, and when they change.
    Mounts(Vec<MountPoint>),
    /// The status of the recording: at the begin, and every second.
    Status(Box<Status>),
    /// Totals since the recording began, after each status.
    Totals(LiveWindow),
    /// A window that has become durable.
    Window(LiveWindow),
    /// Windows missing from the stream, because the subscriber was too slow.
    Gap(Gap),
    /// The recorder ends. Nothing follows.
    End,
}

/// Where a window ends in a store: a journal, and an offset in it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
pub struct Position {
    /// Number of the journal.
    pub journal: u64,
    /// Offset in it, bytes.
    pub offset: u64,
}

/// The first message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Hello {
    /// The recorder.
    pub recorder: RecorderInfo,
    /// The last window before the stream.
    pub position: Position,
}

/// A description of a recorder.
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
    /// How it observes requests: `direct` or `tracepoint`.
    pub engine: String,
    /// The store.
    pub store: PathBuf,
    /// Size limit of its windows, bytes. `None` if unlimited.
    pub store_size: Option<u64>,
    /// How long windows are kept, in the syntax of `--retain`. Empty for forever.
    pub retention: String,
    /// When the recording began, ms since 1970.
    pub started_ms: i64,
    /// Length of the windows, ms.
    pub granularity_ms: i64,
}

/// The status of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Status {
    /// Windows that were closed since the recording began.
    pub windows: u64,
    /// Windows that are not in the store yet.
    pub waiting: u64,
    /// Why the store cannot be written.
    pub store_error: Option<String>,
    /// Activity since the recording began.
    pub total: Activity,
    /// Activity in windows that were closed in the last minute.
    pub recent: Activity,
    /// Time since a window was closed, or else since the recording began.
    pub silent_ms: u64,
    /// Activity in the last window.
    pub last: Activity,
    /// Start of the last window, ms since 1970.
    pub last_ms: Option<i64>,
    /// Servers that did not answer in the last window.
    pub stalled: Vec<Stalled>,
    /// The id of the store. `None` until the store is open.
    pub store_id: Option<StoreId>,
    /// Size of the store without single requests, bytes, when journals were last sealed.
    pub store_bytes: Option<u64>,
    /// Resources that the recorder itself uses.
    pub own: OwnUsage,
}

/// Resources that a recorder uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct OwnUsage {
    /// CPU time of its process, without its programs in the kernel, ms.
    pub cpu_ms: u64,
    /// Resident memory of its process, bytes.
    pub rss_bytes: u64,
    /// Resources that its programs in the kernel use.
    pub kernel: KernelUsage,
}

/// Recorded I/O, and the recorder's account of it.
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
    /// Longest wait of the oldest request, ms.
    pub age_ms: u64,
}

/// Windows that a subscriber missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Gap {
    /// Number of windows.
    pub windows: u64,
    /// The last window before them.
    pub after: Position,
    /// The last missed window.
    pub until: Position,
    /// Earliest start of the missed windows, ms since 1970.
    pub since_ms: i64,
    /// Latest end of the missed windows, ms since 1970.
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

    /// Missing counters are zero.
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
