//! Single requests on a timeline: trace events in JSON, which Perfetto's page and chrome://tracing open.
//!
//! A process of a host is a group of tracks. A file has as many tracks there as requests were in flight at once, because slices of one track
//! may only nest. The parts of a request's latency are slices inside its own.

use std::collections::HashMap;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use serde_json::{Map, Value, json};
use trackiops_query::requests::KeptRequest;
use trackiops_query::times::rfc3339;
use trackiops_schemas::columns::{
    ASKED_BYTES, CGROUP, CONTAINER, DEV, DIRECT, DONE_BYTES, END_TIME_NS, ERRNO, FILE_KEY, FILEID,
    HOST, LATENCY_NS, LEVEL, MOUNT, OFFSET_BYTES, OP, PATH, PID, QUEUE_NS, RETRANS, RTT_NS,
    TENANT_NAME, UID, USER, XID,
};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;
use trackiops_schemas::unit::Unit;

use crate::units;

const DAY_NS: i64 = 86_400_000_000_000;
/// What a slice tells beside its name, where known.
const TEXTS: [&str; 6] = [MOUNT, PATH, USER, CGROUP, CONTAINER, TENANT_NAME];
const NUMBERS: [&str; 8] = [
    OFFSET_BYTES,
    ASKED_BYTES,
    DONE_BYTES,
    PID,
    UID,
    RETRANS,
    ERRNO,
    XID,
];

/// A timeline during writing.
pub struct Timeline<W> {
    out: W,
    /// Whether an event was written.
    has_events: bool,
    /// What times count from, ns since the epoch: a number of JSON has no room for nanoseconds since then.
    begin_ns: Option<i64>,
    /// By host, level and number.
    processes: HashMap<(String, String, Option<i64>), u64>,
    /// Tracks of a file in a process: their numbers, and when the last request of each ended.
    tracks: HashMap<(u64, i64), Vec<(u64, i64)>>,
    /// Tracks that have a number.
    numbered: u64,
}

impl<W: Write> Timeline<W> {
    /// Starts a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        Ok(Self {
            out,
            has_events: false,
            begin_ns: None,
            processes: HashMap::new(),
            tracks: HashMap::new(),
            numbered: 0,
        })
    }

    /// Writes requests, in order of completion.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        KeptRequest::all_of(batch).try_for_each(|request| self.request(&request))
    }

    fn request(&mut self, request: &KeptRequest) -> io::Result<()> {
        let number = |column| request.number(column);
        let end_ns = number(END_TIME_NS).unwrap_or_default();
        let latency_ns = number(LATENCY_NS);
        let start_ns = end_ns - latency_ns.unwrap_or_default();
        let begin_ns = *self
            .begin_ns
            // A request may have begun before the first one ended.
            .get_or_insert_with(|| (end_ns.div_euclid(DAY_NS) - 1) * DAY_NS);
        let level = request.text(LEVEL).unwrap_or_default();
        let process = self.process(request)?;
        let track = self.track(process, request, start_ns, end_ns)?;
        let slice = |name: &str, start_ns: i64, length_ns: Option<i64>, arguments: Value| {
            let mut event = json!({
                "name": name, "cat": level, "pid": process, "tid": track,
                "ts": us(start_ns - begin_ns), "args": arguments,
            });
            match length_ns {
                Some(length_ns) => {
                    event["ph"] = json!("X");
                    event["dur"] = us(length_ns);
                }
                // When it ended is all that is known.
                None => {
                    event["ph"] = json!("i");
                    event["s"] = json!("t");
                }
            }
            event
        };
        let answered_by = match level.parse() {
            Ok(IoLevel::Block) => "device",
            _ => "network and server",
        };
        let op = request.text(OP).unwrap_or_default();
        let bytes = number(DONE_BYTES).unwrap_or_default();
        let name = format!("{op} {}", units::show(Unit::Bytes, bytes as f64));
        let whole = slice(&name, start_ns, latency_ns, arguments(request));
        let mut events = vec![whole];
        if let (Some(all), Some(queue), Some(rtt)) = (latency_ns, number(QUEUE_NS), number(RTT_NS))
        {
            let parts = [
                ("queue", queue),
                (answered_by, rtt),
                ("completion", all - queue - rtt),
            ];
            let mut at_ns = start_ns;
            for (name, length_ns) in parts {
                // Of clocks that differ by some nanoseconds.
                let length_ns = length_ns.clamp(0, end_ns - at_ns);
                if length_ns > 0 {
                    events.push(slice(name, at_ns, Some(length_ns), json!({})));
                }
                at_ns += length_ns;
            }
        }
        events.iter().try_for_each(|event| self.event(event))
    }

    /// The number of the process that a request was made by, which begins with it. Where that is not known, the level stands for it.
    fn process(&mut self, request: &KeptRequest) -> io::Result<u64> {
        let text = |column| request.text(column).unwrap_or_default().to_owned();
        let pid = request.number(PID);
        let next = self.processes.len() as u64 + 1;
        let key = (text(HOST), text(LEVEL), pid);
        if let Some(known) = self.processes.get(&key) {
            return Ok(*known);
        }
        let name = match pid {
            Some(pid) => format!("{} process {pid}", key.0),
            None => format!("{} {}", key.0, key.1),
        };
        self.processes.insert(key, next);
        let event = json!({"ph": "M", "name": "process_name", "pid": next, "args": {"name": name}});
        self.event(&event)?;
        Ok(next)
    }

    /// A track of the file that is free from the request's begin on: the one that has been free for the shortest time, or a new one.
    fn track(
        &mut self,
        process: u64,
        request: &KeptRequest,
        start_ns: i64,
        end_ns: i64,
    ) -> io::Result<u64> {
        let file = request.number(FILE_KEY).unwrap_or_default();
        let tracks = self.tracks.entry((process, file)).or_default();
        let free = tracks.iter_mut().filter(|(_, ended)| *ended <= start_ns);
        if let Some((number, ended)) = free.max_by_key(|(_, ended)| *ended) {
            *ended = end_ns;
            return Ok(*number);
        }
        self.numbered += 1;
        let number = self.numbered;
        tracks.push((number, end_ns));
        let name = match request.text(PATH) {
            Some(path) => path.to_owned(),
            None => {
                let dev = request.text(DEV).unwrap_or_default();
                format!("{dev}:{}", request.number(FILEID).unwrap_or_default())
            }
        };
        let event = json!({
            "ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": name},
        });
        self.event(&event)?;
        Ok(number)
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let separator: &[u8] = if self.has_events { b",\n" } else { b"\n" };
        self.has_events = true;
        self.out.write_all(separator)?;
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<W> {
        let mut about = Map::new();
        about.insert("writer".to_owned(), json!("trackiops"));
        if let Some(begin_ns) = self.begin_ns {
            let begin = UtcMs(begin_ns.div_euclid(1_000_000));
            about.insert("times_count_from".to_owned(), json!(rfc3339(begin)));
        }
        write!(self.out, "\n],\"otherData\":{}}}\n", Value::Object(about))?;
        Ok(self.out)
    }
}

/// Trace events count in microseconds.
fn us(ns: i64) -> Value {
    json!(ns as f64 / 1000.0)
}

/// What is known of a request.
fn arguments(request: &KeptRequest) -> Value {
    let mut arguments = Map::new();
    for column in TEXTS {
        if let Some(text) = request.text(column) {
            arguments.insert(column.to_owned(), json!(text));
        }
    }
    for column in NUMBERS {
        if let Some(number) = request.number(column) {
            arguments.insert(column.to_owned(), json!(number));
        }
    }
    if let trackiops_query::columns::Value::Flag(direct) = request.value(DIRECT) {
        arguments.insert(DIRECT.to_owned(), json!(direct));
    }
    Value::Object(arguments)
}
