//! Single requests on a timeline, as Perfetto's page and others draw them.
//!
//! A process of a host is a group of tracks. A file has as many tracks there as requests were in flight at once, because slices of one track
//! may only nest. The parts of a request's latency are slices inside its own.

mod chrome;
mod perfetto;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use trackiops_query::columns::Value;
use trackiops_query::requests::KeptRequest;
use trackiops_schemas::columns::{
    ASKED_BYTES, CGROUP, CONTAINER, DEV, DIRECT, DONE_BYTES, END_TIME_NS, ERRNO, FILE_KEY, FILEID,
    HOST, LATENCY_NS, LEVEL, MOUNT, OFFSET_BYTES, OP, PATH, PID, QUEUE_NS, RETRANS, RTT_NS,
    TENANT_NAME, UID, USER, XID,
};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::unit::Unit;
use trackiops_store::Mark;

use crate::units;

use chrome::TraceEvents;
use perfetto::Packets;

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

/// A file of events during writing.
trait Events {
    /// Names a group of tracks, by its number.
    fn process(&mut self, number: u64, name: &str) -> io::Result<()>;
    /// Names a track. Numbers of tracks are unique.
    fn track(&mut self, process: u64, number: u64, name: &str) -> io::Result<()>;
    /// Writes a slice of a track, with those inside.
    fn slice(&mut self, place: Place, slice: &Slice<'_>) -> io::Result<()>;
}

/// One of the formats of such files.
enum Encoded<W> {
    Chrome(TraceEvents<W>),
    Perfetto(Packets<W>),
}

/// Where a slice is.
#[derive(Clone, Copy)]
struct Place {
    process: u64,
    track: u64,
}

/// What took a while.
struct Slice<'a> {
    name: Cow<'a, str>,
    /// The level.
    category: &'a str,
    /// ns since the epoch.
    start_ns: i64,
    /// `None` where the end, which is the start then, is all that is known.
    length_ns: Option<i64>,
    arguments: Vec<(&'static str, Argument<'a>)>,
    /// Inside, one after the other.
    parts: Vec<Slice<'a>>,
}

/// What is known of a request.
enum Argument<'a> {
    Text(&'a str),
    Number(i64),
    Flag(bool),
}

/// A timeline during writing.
pub struct Timeline<W> {
    file: Encoded<W>,
    /// By host, level and number.
    processes: HashMap<(String, String, Option<i64>), u64>,
    /// Tracks of a file in a process: their numbers, and when the last request of each ended.
    tracks: HashMap<(u64, i64), Vec<(u64, i64)>>,
    /// Tracks that have a number.
    numbered: u64,
}

impl<W: Write> Timeline<W> {
    /// Starts a file of trace events in JSON.
    pub fn chrome(out: W) -> io::Result<Self> {
        Ok(Self::new(Encoded::Chrome(TraceEvents::new(out)?)))
    }

    /// Starts a file of Perfetto's packets.
    pub fn perfetto(out: W) -> Self {
        Self::new(Encoded::Perfetto(Packets::new(out)))
    }

    fn new(file: Encoded<W>) -> Self {
        Self {
            file,
            processes: HashMap::new(),
            tracks: HashMap::new(),
            numbered: 0,
        }
    }

    fn events(&mut self) -> &mut dyn Events {
        match &mut self.file {
            Encoded::Chrome(events) => events,
            Encoded::Perfetto(packets) => packets,
        }
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
        let level = request.text(LEVEL).unwrap_or_default();
        let text = |column| request.text(column).unwrap_or_default();
        let process = self.process(text(HOST), level, number(PID))?;
        let track = self.track(process, request, start_ns, end_ns)?;
        let op = request.text(OP).unwrap_or_default();
        let bytes = number(DONE_BYTES).unwrap_or_default();
        let slice = |name, start_ns, length_ns| Slice {
            name,
            category: level,
            start_ns,
            length_ns,
            arguments: Vec::new(),
            parts: Vec::new(),
        };
        let name = format!("{op} {}", units::show(Unit::Bytes, bytes as f64));
        let mut whole = slice(name.into(), start_ns, latency_ns);
        whole.arguments = arguments(request);
        if let (Some(all), Some(queue), Some(rtt)) = (latency_ns, number(QUEUE_NS), number(RTT_NS))
        {
            let answered_by = match level.parse() {
                Ok(IoLevel::Block) => "device",
                _ => "network and server",
            };
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
                    whole.parts.push(slice(name.into(), at_ns, Some(length_ns)));
                }
                at_ns += length_ns;
            }
        }
        self.events().slice(Place { process, track }, &whole)
    }

    /// The number of a process of a host, which begins with the first use. Where the process is not known, the level stands for it.
    fn process(&mut self, host: &str, level: &str, pid: Option<i64>) -> io::Result<u64> {
        let next = self.processes.len() as u64 + 1;
        let key = (host.to_owned(), level.to_owned(), pid);
        if let Some(known) = self.processes.get(&key) {
            return Ok(*known);
        }
        let name = match pid {
            Some(pid) => format!("{} process {pid}", key.0),
            None => format!("{} {}", key.0, key.1),
        };
        self.processes.insert(key, next);
        self.events().process(next, &name)?;
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
        tracks.push((self.numbered + 1, end_ns));
        let name = match request.text(PATH) {
            Some(path) => path.to_owned(),
            None => {
                let dev = request.text(DEV).unwrap_or_default();
                format!("{dev}:{}", request.number(FILEID).unwrap_or_default())
            }
        };
        self.new_track(process, &name)
    }

    /// The next track.
    fn new_track(&mut self, process: u64, name: &str) -> io::Result<u64> {
        self.numbered += 1;
        let number = self.numbered;
        self.events().track(process, number, name)?;
        Ok(number)
    }

    /// Writes what was noted about moments: a track of each host.
    pub fn marks(&mut self, marks: &[Mark]) -> io::Result<()> {
        let mut places: HashMap<&str, Place> = HashMap::new();
        for mark in marks {
            let place = match places.get(&*mark.host) {
                Some(place) => *place,
                None => {
                    let process = self.process(&mark.host, "marks", None)?;
                    let track = self.new_track(process, "marks")?;
                    *places.entry(&mark.host).or_insert(Place { process, track })
                }
            };
            let instant = Slice {
                name: (&*mark.text).into(),
                category: "mark",
                start_ns: mark.time.0.saturating_mul(1_000_000),
                length_ns: None,
                arguments: Vec::new(),
                parts: Vec::new(),
            };
            self.events().slice(place, &instant)?;
        }
        Ok(())
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<W> {
        match self.file {
            Encoded::Chrome(events) => events.finish(),
            Encoded::Perfetto(packets) => Ok(packets.finish()),
        }
    }
}

fn arguments(request: &KeptRequest) -> Vec<(&'static str, Argument<'_>)> {
    let texts = TEXTS.map(|column| Some((column, Argument::Text(request.text(column)?))));
    let numbers = NUMBERS.map(|column| Some((column, Argument::Number(request.number(column)?))));
    let flag = match request.value(DIRECT) {
        Value::Flag(direct) => Some((DIRECT, Argument::Flag(direct))),
        _ => None,
    };
    let all = texts.into_iter().chain(numbers).chain([flag]);
    all.flatten().collect()
}
