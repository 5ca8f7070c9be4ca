//! Single requests, one after the other.

use arrow::array::RecordBatch;
use trackiops_query::{EmptyReason, Range};
use trackiops_schemas::columns::{
    DONE_BYTES, END_TIME, END_TIME_NS, EOF, ERRNO, FILE_KEY, HOST, LATENCY_NS, LEVEL, MOUNT,
    OFFSET_BYTES, OP, PATH, PID, PROCESS, QUEUE_NS, RETRANS, RTT_NS, TENANT_NAME, USER,
};
use trackiops_schemas::level::IoLevel;
use trackiops_store::{beyond_limit, most_decoded_bytes};

use super::columns::{Flags, Numbers, Texts};
use super::files::{self, REQUESTS};
use super::names::{Name, Names};
use super::{Seen, Source, stores};
use crate::error::AnalysisError;

/// Size of the file, if a reply had it. Stores do not have this column.
pub const FILE_SIZE: &str = "file_size";
/// Stores name operations in capitals and calls in small letters. So do joined captures.
const READ: &str = "READ";
const WRITE: &str = "WRITE";

/// A READ or WRITE that completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its completion, ns since the epoch.
    pub end_ns: i64,
    /// Its latency, if known.
    pub latency_ns: Option<u64>,
    /// Time until it was sent, and time from there to the reply, if known and wanted.
    pub parts_ns: Option<(u64, u64)>,
    /// The process that initiated it, if known and wanted.
    pub pid: Option<u64>,
    /// The name of that process.
    pub process: Option<Name>,
    /// The number of its file on the server.
    pub file: i64,
    /// The client that sent it.
    pub client: Name,
    /// The mount of the file.
    pub mount: Name,
    /// The server: the part of the mount before the colon.
    pub server: Name,
    /// Its tenant.
    pub tenant: Name,
    /// Its operation, in small letters, including reads and writes. For a function of a program: the function.
    pub op: Name,
    /// A READ. Otherwise a WRITE, unless other operations are wanted.
    pub is_read: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Size of the file, if a reply had it.
    pub file_size: Option<u64>,
    /// Whether a READ reached the end of the file, if known.
    pub eof: Option<bool>,
    /// Number of retransmissions, if known.
    pub retransmissions: Option<u64>,
    /// Whether it failed, and transferred nothing.
    pub has_failed: bool,
}

impl Request {
    /// Its start, if known, ns since the epoch.
    pub fn start_ns(&self) -> Option<i64> {
        let latency = i64::try_from(self.latency_ns?).unwrap_or(i64::MAX);
        Some(self.end_ns.saturating_sub(latency))
    }

    /// The byte after its last byte.
    pub fn end_offset(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// Which optional columns a source has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Has {
    /// Sizes of files.
    pub file_size: bool,
    /// Flags for READs that reached the end of the file.
    pub eof: bool,
    /// Retransmissions.
    pub retransmissions: bool,
}

/// Names that requests refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Clients.
    pub clients: Names,
    /// Mounts.
    pub mounts: Names,
    /// Servers.
    pub servers: Names,
    /// Tenants.
    pub tenants: Names,
    /// Processes.
    pub processes: Names,
    /// Operations.
    pub ops: Names,
    /// The server of each mount.
    server_of: Vec<Name>,
    /// The optional columns that were present.
    pub has: Has,
    /// Paths of files by server and file, if wanted.
    pub paths: Option<ahash::AHashMap<(Name, i64), Name>>,
    /// Texts of [`Self::paths`].
    pub path_names: Names,
    /// Facts about the rows that were read.
    pub seen: Seen,
    /// Whether processes and parts of latencies are wanted.
    has_parts: bool,
    /// Whether other calls are wanted: calls that are neither reads nor writes, and calls with an unknown offset.
    has_others: bool,
    /// Level of the rows so far.
    level: Option<String>,
}

impl Requests {
    /// The level of the rows that were read; `None` without rows.
    pub fn level(&self) -> Option<IoLevel> {
        self.level.as_deref()?.parse().ok()
    }
}

/// Columns that many analyses do not use.
const PARTS: [&str; 4] = [PID, PROCESS, QUEUE_NS, RTT_NS];
const COLUMNS: [&str; 17] = [
    END_TIME,
    END_TIME_NS,
    LATENCY_NS,
    FILE_KEY,
    HOST,
    MOUNT,
    TENANT_NAME,
    USER,
    OP,
    OFFSET_BYTES,
    DONE_BYTES,
    FILE_SIZE,
    EOF,
    RETRANS,
    ERRNO,
    PATH,
    LEVEL,
];

impl Requests {
    /// Also reads processes and parts of latencies, and calls that are neither reads nor writes.
    pub fn with_parts() -> Self {
        Self {
            has_parts: true,
            ..Self::of_any_operation()
        }
    }

    /// Also reads calls that are neither reads nor writes.
    pub fn of_any_operation() -> Self {
        Self {
            has_others: true,
            ..Self::default()
        }
    }

    /// Passes on all requests of a source, with these names. Returns the reason if there are none.
    pub fn read(
        &mut self,
        source: &Source,
        analysis: &'static str,
        mut each: impl FnMut(&Request, &Self),
    ) -> Result<Option<EmptyReason>, AnalysisError> {
        let range = source.range();
        match source {
            Source::Stores(question) => {
                let (none, notes) =
                    stores::read(question, |batch| self.decode(batch, range, &mut each))?;
                self.seen.notes = notes;
                Ok(none)
            }
            Source::Files(files) => {
                let paths = files.needed(REQUESTS, analysis)?;
                let parts = if self.has_parts { &PARTS[..] } else { &[] };
                let columns = [&COLUMNS[..], parts].concat();
                for path in paths {
                    files::read(&path, &columns, |batch| {
                        self.decode(batch, range, &mut each)
                    })?;
                }
                Ok(None)
            }
        }
    }

    fn decode(
        &mut self,
        batch: &RecordBatch,
        range: Range,
        each: &mut impl FnMut(&Request, &Self),
    ) -> Result<(), AnalysisError> {
        let has = |name| batch.column_by_name(name).is_some();
        self.has.file_size |= has(FILE_SIZE);
        self.has.eof |= has(EOF);
        self.has.retransmissions |= has(RETRANS);
        let numbers = |name| Numbers::of(batch, name);
        let texts = |name| Texts::of(batch, name);
        let ends = match has(END_TIME_NS) {
            true => numbers(END_TIME_NS)?,
            false => Numbers::times(batch, END_TIME)?,
        };
        let (latencies, keys) = (numbers(LATENCY_NS)?, numbers(FILE_KEY)?);
        let (offsets, done) = (numbers(OFFSET_BYTES)?, numbers(DONE_BYTES)?);
        let has_offsets = has(OFFSET_BYTES);
        let (sizes, retrans, errnos) = (numbers(FILE_SIZE)?, numbers(RETRANS)?, numbers(ERRNO)?);
        let (hosts, mounts, ops) = (texts(HOST)?, texts(MOUNT)?, texts(OP)?);
        let (tenants, users) = (texts(TENANT_NAME)?, texts(USER)?);
        let paths = texts(PATH)?;
        let levels = texts(LEVEL)?;
        let parts = match self.has_parts {
            true => Some([numbers(PID)?, numbers(QUEUE_NS)?, numbers(RTT_NS)?]),
            false => None,
        };
        let processes = match self.has_parts {
            true => Some(texts(PROCESS)?),
            false => None,
        };
        let eofs = Flags::of(batch, EOF)?;
        self.check_memory()?;
        for row in 0..batch.num_rows() {
            let Some(end_ns) = ends.get(row).filter(|ns| is_within(*ns, range)) else {
                continue;
            };
            let level = levels.get(row).unwrap_or(IoLevel::Wire.as_str());
            match &self.level {
                Some(first) if first == level => {}
                Some(first) => {
                    return Err(AnalysisError::Unsuitable(format!(
                        "there are rows of the levels {first} and {level}, which are not added up: name one level by --level; of a file, \
                         `trackiops export --requests --level {first}` writes those of one"
                    )));
                }
                None => self.level = Some(level.to_owned()),
            }
            let op = ops.get(row).unwrap_or_default();
            let is_read = op.eq_ignore_ascii_case(READ);
            // Other calls move no bytes. The offset of a call that moves bytes, such as `sendfile`, may be unknown.
            let offset = offsets.count(row);
            let has_place = offset.is_some() || !has_offsets;
            let is_transfer = (is_read || op.eq_ignore_ascii_case(WRITE)) && has_place;
            if !is_transfer && !self.has_others {
                continue;
            }
            let mount = self.mount(mounts.get(row).unwrap_or_default());
            let server = self.server_of.get(mount as usize).copied();
            let tenant = tenants.get(row).or_else(|| users.get(row));
            let parts = parts.as_ref();
            let [pid, queue, rtt] = parts.map_or([None; 3], |all| {
                all.each_ref().map(|numbers| numbers.count(row))
            });
            let process = processes.as_ref().and_then(|all| all.get(row));
            let request = Request {
                end_ns,
                latency_ns: latencies.count(row),
                parts_ns: queue.zip(rtt),
                pid,
                process: process.map(|process| self.processes.of(process)),
                file: keys.get(row).unwrap_or_default(),
                client: self.clients.of(hosts.get(row).unwrap_or_default()),
                mount,
                server: server.unwrap_or_default(),
                tenant: self.tenants.of(tenant.unwrap_or_default()),
                op: match paths.get(row) {
                    // All functions have the same operation; their names distinguish them.
                    Some(function) if level == IoLevel::User.as_str() => self.ops.of(function),
                    _ => self.ops.of(&op.to_ascii_lowercase()),
                },
                is_read,
                offset: offset.unwrap_or_default(),
                bytes: done.count(row).unwrap_or_default(),
                file_size: sizes.count(row),
                eof: eofs.get(row),
                retransmissions: retrans.count(row),
                has_failed: errnos.get(row).is_some_and(|errno| errno != 0),
            };
            if let Some(known) = &mut self.paths
                && let Some(path) = paths.get(row)
            {
                let file = (request.server, request.file);
                known
                    .entry(file)
                    .or_insert_with(|| self.path_names.of(path));
            }
            self.seen.add(end_ns);
            each(&request, self);
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), AnalysisError> {
        let names = [
            &self.clients,
            &self.mounts,
            &self.servers,
            &self.tenants,
            &self.processes,
            &self.ops,
            &self.path_names,
        ];
        let bytes = names.map(Names::bytes).iter().sum::<usize>() as u64;
        match bytes <= most_decoded_bytes() {
            true => Ok(()),
            false => Err(AnalysisError::Unsuitable(format!(
                "the names of files, hosts and users take {}",
                beyond_limit()
            ))),
        }
    }

    /// The path of a request's file, or else its mount and key.
    pub fn file_name(&self, request: &Request) -> std::sync::Arc<str> {
        let file = (request.server, request.file);
        match self.paths.as_ref().and_then(|paths| paths.get(&file)) {
            Some(path) => self.path_names.get(*path),
            None => format!("{}#{:016x}", self.mounts.get(request.mount), request.file).into(),
        }
    }

    fn mount(&mut self, mount: &str) -> Name {
        let name = self.mounts.of(mount);
        if name as usize >= self.server_of.len() {
            let server = mount.rsplit_once(":/").map_or(mount, |(server, _)| server);
            self.server_of.push(self.servers.of(server));
        }
        name
    }
}

/// Whether a time is in a range.
pub(super) fn is_within(ns: i64, range: Range) -> bool {
    let ms = ns.div_euclid(1_000_000);
    range.since.is_none_or(|since| since.0 <= ms) && range.until.is_none_or(|until| ms < until.0)
}
