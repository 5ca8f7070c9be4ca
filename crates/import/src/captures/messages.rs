//! Messages of a capture and the attributes in replies, as Parquet files for `trackiops analyze`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use trackiops_capture::{Call, NFS_PROGRAM, Peers, Reply, Request, Seen};
use trackiops_render::formats::{Kind, Writer};
use trackiops_schemas::identity::path_text;

use super::operations::{Found, SeenFile, name_of_call};

/// Rows to write at once.
const BATCH: usize = 1 << 16;
/// Messages that wait to be sorted by time: a call begins before messages that end before it.
const REORDERED: usize = 1 << 14;
/// Most calls that wait for a reply: as many as the capture's connections remember. Further ones are forgotten.
const MOST_CALLS: usize = 1 << 20;

/// Why messages cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum MessagesError {
    /// A directory or a file cannot be created.
    #[error("cannot create {path}", path = .path.display())]
    Create {
        /// The directory or the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is there already.
    #[error("cannot create {path}, which exists; name a directory without it", path = .0.display())]
    Exists(PathBuf),
    /// Writing to a file failed.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Messages do not fit into columns.
    #[error(transparent)]
    Rows(#[from] ArrowError),
}

/// A call or a reply.
struct Message {
    id: i64,
    time_ns: i64,
    peers: Peers,
    is_call: bool,
    version: Option<u32>,
    xid: u32,
    procedure: Option<u32>,
    op: Option<String>,
    status: Option<u32>,
    payload_bytes: u64,
}

/// The attributes of a file in a reply.
struct Told {
    call_id: Option<i64>,
    reply_id: i64,
    name: Option<String>,
    handle: String,
    parent: Option<String>,
    file_type: Option<u32>,
    size: Option<u64>,
    fileid: Option<u64>,
    mtime_ns: Option<i64>,
}

/// The files that are written.
pub struct MessageFiles {
    messages: Table,
    told: Table,
    /// Sorted except for the last [`REORDERED`].
    waiting: Vec<Message>,
    waiting_told: Vec<Told>,
    /// Calls without a reply yet.
    calls: HashMap<(Peers, u32), i64>,
    next_id: i64,
    failed: Result<(), MessagesError>,
}

impl MessageFiles {
    /// Creates `records.parquet` and `attrs.parquet` in a directory.
    pub fn create(dir: &Path) -> Result<Self, MessagesError> {
        fs::create_dir_all(dir).map_err(cannot_create(dir))?;
        let number = |name| Field::new(name, DataType::Int64, true);
        let text = |name| Field::new(name, DataType::Utf8, true);
        let messages = Schema::new(vec![
            number("record_id"),
            number("time_ns"),
            text("src_ip"),
            number("src_port"),
            text("dst_ip"),
            number("dst_port"),
            text("transport"),
            Field::new("is_request", DataType::Boolean, true),
            number("nfs_version"),
            number("xid"),
            number("proc"),
            text("op"),
            number("status"),
            number("payload_bytes"),
        ]);
        let told = Schema::new(vec![
            number("request_id"),
            number("reply_id"),
            text("name"),
            text("fh"),
            text("dir_fh"),
            text("ftype"),
            number("file_size"),
            number("fileid"),
            number("mtime_ns"),
        ]);
        Ok(Self {
            messages: Table::create(dir.join("records.parquet"), messages)?,
            told: Table::create(dir.join("attrs.parquet"), told)?,
            waiting: Vec::new(),
            waiting_told: Vec::new(),
            calls: HashMap::new(),
            next_id: 0,
            failed: Ok(()),
        })
    }

    fn id(&mut self) -> i64 {
        self.next_id += 1;
        self.next_id
    }

    /// Adds a call whose last byte was seen.
    pub fn call(&mut self, call: &Call) {
        if call.program != NFS_PROGRAM {
            return;
        }
        let id = self.id();
        if self.calls.len() >= MOST_CALLS {
            self.calls.clear();
        }
        // The attributes of a reply belong to the first of several calls.
        self.calls.entry((call.peers, call.xid)).or_insert(id);
        self.put(Message {
            id,
            time_ns: call.begin_ns,
            peers: call.peers,
            is_call: true,
            version: Some(call.version),
            xid: call.xid,
            procedure: Some(call.procedure),
            op: Some(name_of_call(call).to_ascii_lowercase()),
            status: None,
            payload_bytes: call.payload_bytes,
        });
    }

    /// Adds a reply whose last byte was seen.
    pub fn reply(&mut self, reply: &Reply, seen: Seen) {
        let call = reply.call.as_deref();
        if call.is_some_and(|call| call.program != NFS_PROGRAM) {
            return;
        }
        let id = self.id();
        let mut statuses = reply.operations.iter().filter_map(|result| result.status);
        self.put(Message {
            id,
            time_ns: seen.end_ns,
            peers: reply.peers,
            is_call: false,
            version: call.map(|call| call.version),
            xid: reply.xid,
            procedure: call.map(|call| call.procedure),
            op: call.map(|call| name_of_call(call).to_ascii_lowercase()),
            status: statuses.next_back(),
            payload_bytes: reply.payload_bytes,
        });
    }

    /// Adds the attributes in the last reply.
    pub fn request(&mut self, request: &Request) {
        let call_id = self.calls.remove(&(request.call.peers, request.call.xid));
        let Some(found) = Found::new(request) else {
            return;
        };
        let (told, reply_id) = (&mut self.waiting_told, self.next_id);
        found.files_seen(|file| told.push(Told::new(&file, call_id, reply_id)));
        if self.waiting_told.len() >= BATCH {
            self.write_told();
        }
    }

    /// Removes a call that will not be answered.
    pub fn unanswered(&mut self, call: &Call) {
        self.calls.remove(&(call.peers, call.xid));
    }

    fn put(&mut self, message: Message) {
        self.waiting.push(message);
        if self.waiting.len() >= BATCH + REORDERED {
            self.write_messages(BATCH);
        }
    }

    fn write_messages(&mut self, count: usize) {
        self.waiting.sort_by_key(|message| message.time_ns);
        let rows: Vec<Message> = self.waiting.drain(..count).collect();
        let written = self.messages.write(of_messages(&rows));
        self.fail(written);
    }

    fn write_told(&mut self) {
        let rows = std::mem::take(&mut self.waiting_told);
        let written = self.told.write(of_told(&rows));
        self.fail(written);
    }

    fn fail(&mut self, written: Result<(), MessagesError>) {
        if self.failed.is_ok() {
            self.failed = written;
        }
    }

    /// Removes the files.
    pub fn discard(self) {
        for table in [self.messages, self.told] {
            let _ = fs::remove_file(table.draft);
        }
    }

    /// Completes the files. Also returns the error of any earlier write.
    pub fn finish(mut self) -> Result<(), MessagesError> {
        self.write_messages(self.waiting.len());
        self.write_told();
        self.failed?;
        self.messages.finish()?;
        self.told.finish()
    }
}

impl Told {
    fn new(file: &SeenFile<'_>, call_id: Option<i64>, reply_id: i64) -> Self {
        let attributes = file.attributes.copied().unwrap_or_default();
        let (parent, name) = file.named.unzip();
        Self {
            call_id,
            reply_id,
            name: name.map(path_text),
            handle: format!("{:?}", file.handle),
            parent: parent.map(|parent| format!("{parent:?}")),
            file_type: attributes.file_type,
            size: attributes.size_bytes,
            fileid: attributes.fileid,
            mtime_ns: attributes.mtime_ns,
        }
    }
}

/// Name of a file type (RFC 1813, `ftype3`).
fn type_name(number: u32) -> &'static str {
    match number {
        1 => "file",
        2 => "directory",
        3 => "block device",
        4 => "character device",
        5 => "symbolic link",
        6 => "socket",
        7 => "pipe",
        _ => "other",
    }
}

fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn of_messages(rows: &[Message]) -> Vec<ArrayRef> {
    let each = || rows.iter();
    let ends = |message: &Message| match message.is_call {
        true => (message.peers.client, message.peers.server),
        false => (message.peers.server, message.peers.client),
    };
    let ip = |of: fn(&(std::net::SocketAddr, std::net::SocketAddr)) -> std::net::SocketAddr| {
        let addresses = each().map(|message| Some(of(&ends(message)).ip().to_string()));
        let ports = each().map(|message| Some(i64::from(of(&ends(message)).port())));
        let addresses: ArrayRef = Arc::new(addresses.collect::<StringArray>());
        (addresses, numbers(ports))
    };
    let ((from, from_port), (to, to_port)) = (ip(|ends| ends.0), ip(|ends| ends.1));
    let transports = each().map(|message| Some(message.peers.transport.to_string()));
    let calls = each().map(|message| Some(message.is_call));
    vec![
        numbers(each().map(|message| Some(message.id))),
        numbers(each().map(|message| Some(message.time_ns))),
        from,
        from_port,
        to,
        to_port,
        Arc::new(transports.collect::<StringArray>()),
        Arc::new(calls.collect::<BooleanArray>()),
        numbers(each().map(|message| message.version.map(i64::from))),
        numbers(each().map(|message| Some(i64::from(message.xid)))),
        numbers(each().map(|message| message.procedure.map(i64::from))),
        texts(each().map(|message| message.op.as_deref())),
        numbers(each().map(|message| message.status.map(i64::from))),
        numbers(each().map(|message| i64::try_from(message.payload_bytes).ok())),
    ]
}

fn of_told(rows: &[Told]) -> Vec<ArrayRef> {
    let each = || rows.iter();
    let count = |value: Option<u64>| value.map(u64::cast_signed);
    vec![
        numbers(each().map(|told| told.call_id)),
        numbers(each().map(|told| Some(told.reply_id))),
        texts(each().map(|told| told.name.as_deref())),
        texts(each().map(|told| Some(&*told.handle))),
        texts(each().map(|told| told.parent.as_deref())),
        texts(each().map(|told| told.file_type.map(type_name))),
        numbers(each().map(|told| count(told.size))),
        numbers(each().map(|told| count(told.fileid))),
        numbers(each().map(|told| told.mtime_ns)),
    ]
}

fn cannot_create(path: &Path) -> impl FnOnce(io::Error) -> MessagesError + use<'_> {
    move |source| MessagesError::Create {
        path: path.to_owned(),
        source,
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> MessagesError + use<'_> {
    move |source| MessagesError::Write {
        path: path.to_owned(),
        source,
    }
}

/// A file that is being written.
struct Table {
    path: PathBuf,
    /// Its name until it is complete.
    draft: PathBuf,
    schema: SchemaRef,
    writer: Writer<BufWriter<File>>,
}

impl Table {
    fn create(path: PathBuf, schema: Schema) -> Result<Self, MessagesError> {
        let schema = Arc::new(schema);
        if path.symlink_metadata().is_ok() {
            return Err(MessagesError::Exists(path));
        }
        let mut draft = path.clone().into_os_string();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        // An interrupted import may have left one behind.
        let file = File::create(&draft).map_err(cannot_create(&draft))?;
        let writer = Writer::new(Kind::Parquet, &schema, BufWriter::new(file));
        let writer = writer.map_err(cannot_write(&path))?;
        Ok(Self {
            path,
            draft,
            schema,
            writer,
        })
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), MessagesError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let written = self.writer.write(&batch);
        written.map_err(cannot_write(&self.path))
    }

    fn finish(self) -> Result<(), MessagesError> {
        let Self {
            path,
            draft,
            writer,
            ..
        } = self;
        let out = writer.finish().map_err(cannot_write(&path))?;
        out.out
            .into_inner()
            .map_err(|error| error.into_error())
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(draft, &path))
            .map_err(cannot_write(&path))
    }
}
