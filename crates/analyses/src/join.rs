//! Joins calls, replies and the attributes in replies, and sums such rows by file and filesystem.

use std::sync::Arc;

use ahash::AHashMap;
use trackiops_schemas::unit::{Unit, grouped};

use crate::cube::unified;
use crate::distribution::Distribution;
use crate::error::AnalysisError;
use crate::sheet::{Datum, Heading, Sheet};
use crate::source::attributes::{Attributes, AttributesReader};
use crate::source::messages::{Message, Messages};
use crate::source::{Name, Names, Source};

/// Least number of calls kept for their replies; the most is twice that.
const CALLS_KEPT: usize = 1 << 20;
/// Latency of a reply whose time is not after that of its call, ns.
const LEAST_NS: i64 = 1000;
/// In handles of this many hexadecimal digits, all digits but [`FILE_PART`] identify the filesystem.
const HANDLE_DIGITS: usize = 64;
/// Digits of such a handle that identify the file in its filesystem, on the paper's servers.
const FILE_PART: std::ops::Range<usize> = 24..40;

/// A reply with attributes, and its call.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Time of the reply, ns since the epoch.
    pub end_ns: i64,
    /// Time from call to reply, ns.
    pub latency_ns: i64,
    /// The client.
    pub client: Name,
    /// The server.
    pub server: Name,
    /// The operation's name in the capture.
    pub op: Name,
    /// Bytes of results.
    pub reply_payload: u64,
    /// The attributes in the reply.
    pub attributes: Attributes,
}

/// Passes on each reply with attributes (the first ones, if it has several) whose call was found. Returns the number without a call.
pub fn read(
    source: &Source,
    analysis: &'static str,
    messages: &mut Messages,
    mut each: impl FnMut(&Joined, &Messages),
) -> Result<u64, AnalysisError> {
    let mut attributes = AttributesReader::open(source, analysis)?;
    let mut next = attributes.read_next()?;
    // Two generations, because replies come soon.
    let mut young: AHashMap<i64, i64> = AHashMap::new();
    let mut old: AHashMap<i64, i64> = AHashMap::new();
    let mut without_call = 0;
    messages.read(source, analysis, |message, names| {
        if message.is_call {
            if young.len() >= CALLS_KEPT {
                old = std::mem::take(&mut young);
            }
            young.insert(message.id, message.time_ns);
            return Ok(());
        }
        while next.as_ref().is_some_and(|next| next.reply_id < message.id) {
            next = attributes.read_next()?;
        }
        let Some(found) = next.take_if(|next| next.reply_id == message.id) else {
            return Ok(());
        };
        next = attributes.read_next()?;
        match young
            .remove(&found.call_id)
            .or_else(|| old.remove(&found.call_id))
        {
            Some(start_ns) => each(&joined(message, start_ns, found), names),
            None => without_call += 1,
        }
        Ok(())
    })?;
    Ok(without_call)
}

fn joined(reply: &Message, start_ns: i64, attributes: Attributes) -> Joined {
    let latency_ns = reply.time_ns.saturating_sub(start_ns);
    Joined {
        end_ns: reply.time_ns,
        latency_ns: if latency_ns > 0 { latency_ns } else { LEAST_NS },
        client: reply.to,
        server: reply.from,
        op: reply.op,
        reply_payload: reply.payload,
        attributes,
    }
}

/// How rows are grouped, besides by server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The file.
    File,
    /// Operation and file.
    OpAndFile,
    /// The filesystem, if the handle identifies it.
    Filesystem,
}

impl std::str::FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "file" => Ok(Self::File),
            "op,file" => Ok(Self::OpAndFile),
            "filesystem" => Ok(Self::Filesystem),
            _ => Err(format!("`{text}` is none of file, `op,file`, filesystem")),
        }
    }
}

/// The part of a handle that identifies its filesystem; the whole handle, if it has another length.
fn filesystem(handle: &str) -> String {
    let mut part = handle.to_owned();
    if handle.len() == HANDLE_DIGITS && handle.is_ascii() {
        part.replace_range(FILE_PART, &"0".repeat(FILE_PART.len()));
    }
    part
}

/// Sums of joined rows, and the rows of some files.
pub struct Rollup {
    by: By,
    /// Handles of the files whose rows are kept.
    wanted: Vec<String>,
    handles: Names,
    ops: Names,
    sums: AHashMap<(Name, Option<Name>, Name), (u64, Distribution)>,
    rows: Vec<Vec<Datum>>,
}

impl Rollup {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["sums", "operations"];

    /// Expects rows; keeps the rows of the handles in `wanted`.
    pub fn new(by: By, wanted: Vec<String>) -> Self {
        Self {
            by,
            wanted,
            handles: Names::default(),
            ops: Names::default(),
            sums: AHashMap::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Joined, names: &Messages) {
        let Some(handle) = &row.attributes.handle else {
            return;
        };
        let op = names.ops.get(row.op);
        let op = unified(&op);
        let key = match self.by {
            By::File => (row.server, None, self.handles.of(handle)),
            By::OpAndFile => (row.server, Some(self.ops.of(op)), self.handles.of(handle)),
            By::Filesystem => (row.server, None, self.handles.of(&filesystem(handle))),
        };
        let (payload, latencies) = self
            .sums
            .entry(key)
            .or_insert_with(|| (0, Distribution::new(0)));
        *payload = payload.saturating_add(row.reply_payload);
        latencies.add(row.latency_ns as f64 / 1000.0);
        if self.wanted.iter().any(|wanted| **wanted == **handle) {
            let text = |text: &Option<Arc<str>>| text.clone().map_or(Datum::Unknown, Datum::Text);
            let of = &row.attributes;
            self.rows.push(vec![
                Datum::Int(row.end_ns),
                Datum::Text(names.hosts.get(row.client)),
                Datum::Text(names.hosts.get(row.server)),
                Datum::text(op),
                text(&of.file_type),
                text(&of.handle),
                text(&of.name),
                of.size.map_or(Datum::Unknown, Datum::Count),
                of.mtime_ns.map_or(Datum::Unknown, Datum::Int),
            ]);
        }
    }

    /// Tables: sums, and the rows of the wanted handles.
    pub fn sheets(self, names: &Messages) -> [Sheet; 2] {
        let [name, rows_name] = Self::TABLES;
        let mut headings = vec![Heading::text("server")];
        if self.by == By::OpAndFile {
            headings.push(Heading::text("op"));
        }
        headings.extend([
            Heading::text(if self.by == By::Filesystem {
                "filesystem"
            } else {
                "fh"
            }),
            Heading::count("operations", Unit::Count),
            Heading::count("reply_payload_bytes", Unit::Bytes),
            Heading::figure("mean_latency_us", Unit::Microseconds),
        ]);
        let caption = "each row is a sum over replies with attributes and a call";
        let mut sums = Sheet::new(name, caption, headings);
        let mut rows: Vec<_> = self.sums.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| **key);
        for ((server, op, handle), (payload, latencies)) in rows {
            let mut row = vec![Datum::Text(names.hosts.get(*server))];
            row.extend(op.map(|op| Datum::Text(self.ops.get(op))));
            row.extend([
                Datum::Text(self.handles.get(*handle)),
                Datum::Count(latencies.count()),
                Datum::Count(*payload),
                Datum::some_figure(latencies.mean()),
            ]);
            sums.rows.push(row);
        }
        sums.verdict = Some(format!(
            "{} operations of {} {}",
            grouped(
                self.sums
                    .values()
                    .map(|(_, latencies)| latencies.count())
                    .sum()
            ),
            grouped(sums.rows.len() as u64),
            match self.by {
                By::Filesystem => "filesystems",
                By::OpAndFile => "pairs of an operation and a file",
                _ => "files",
            }
        ));
        let text = |name: &str| Heading::text(name);
        let headings = vec![
            Heading::count("end_time_ns", Unit::Nanoseconds),
            text("client"),
            text("server"),
            text("op"),
            text("ftype"),
            text("fh"),
            text("name"),
            Heading::count("file_size", Unit::Bytes),
            Heading::count("mtime_ns", Unit::Nanoseconds),
        ];
        let caption = "each row is an operation on a file of --handle";
        let operations = Sheet {
            rows: self.rows,
            ..Sheet::new(rows_name, caption, headings)
        };
        [sums, operations]
    }
}
