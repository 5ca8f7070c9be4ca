//! Single requests on a timeline, for Perfetto's page and similar viewers.
//!
//! A process of a host is a group of tracks. A thread has one track, with its calls. A file has as many tracks as requests in flight at
//! once, because slices of a track must nest. The parts of a request's latency are slices inside its slice.
//! Arrows lead from calls to the requests made for them. So a request is held back until all calls that overlap with it have returned.

mod callers;
mod chrome;
mod perfetto;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::mem;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use trackiops_query::columns::Value;
use trackiops_query::requests::KeptRequest;
use trackiops_schemas::columns::{
    ASKED_BYTES, CGROUP, CONTAINER, DEV, DIRECT, DONE_BYTES, END_TIME_NS, ERRNO, FILE_KEY, FILEID,
    HOST, LATENCY_NS, LEVEL, MOUNT, OFFSET_BYTES, OP, PATH, PID, PROCESS, QUEUE_NS, RETRANS,
    RTT_NS, TENANT_NAME, TID, UID, USER, XID,
};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::unit::Unit;
use trackiops_store::Mark;

use crate::units;

use callers::{Call, Deed, Does, RecentCalls};
use chrome::TraceEvents;
use perfetto::Packets;

/// Columns that a slice shows besides its name, if known.
const TEXTS: [&str; 6] = [MOUNT, PATH, USER, CGROUP, CONTAINER, TENANT_NAME];
const NUMBERS: [&str; 9] = [
    OFFSET_BYTES,
    ASKED_BYTES,
    DONE_BYTES,
    PID,
    TID,
    UID,
    RETRANS,
    ERRNO,
    XID,
];

/// How many calls a request was made for, and whether there may be more.
const CALLERS: &str = "callers";
const AMBIGUOUS: &str = "ambiguous";
/// Requests are held back for this long after their ends; calls that last longer are not recognized as their callers. The second constant
/// limits the number of requests held back.
const HELD_BACK_NS: i64 = 10_000_000_000;
const MOST_HELD_BACK: usize = 1 << 18;

/// A file of events during writing.
trait Events {
    /// Names a group of tracks, by its number.
    fn process(&mut self, number: u64, name: &str) -> io::Result<()>;
    /// Names a track. Numbers of tracks are unique.
    fn track(&mut self, process: u64, number: u64, name: &str) -> io::Result<()>;
    /// Writes a slice of a track, with the slices inside.
    fn slice(&mut self, place: Place, slice: &Slice<'_>) -> io::Result<()>;
}

/// One of the formats of such files.
enum Encoded<W> {
    Chrome(TraceEvents<W>),
    Perfetto(Packets<W>),
}

/// Position of a slice.
#[derive(Clone, Copy)]
struct Place {
    process: u64,
    track: u64,
}

/// A slice: an activity that takes time.
struct Slice<'a> {
    name: Cow<'a, str>,
    /// The level.
    category: &'a str,
    /// ns since the epoch.
    start_ns: i64,
    /// `None` if only the end is known; `start_ns` is the end then.
    length_ns: Option<i64>,
    arguments: Vec<(&'static str, Argument<'a>)>,
    /// Arrows that end here.
    arrows: Vec<Arrow>,
    /// Slices inside, one after the other.
    parts: Vec<Slice<'a>>,
}

/// An arrow to a slice: the track and the time of its origin.
#[derive(Clone, Copy)]
struct Arrow {
    number: u64,
    from: Place,
    at_ns: i64,
}

/// A detail of a request.
enum Argument<'a> {
    Text(&'a str),
    Number(i64),
    Flag(bool),
}

/// A timeline during writing.
pub struct Timeline<W> {
    file: Encoded<W>,
    /// Numbers of processes by host, level and number.
    processes: HashMap<(String, String, Option<i64>), u64>,
    /// Tracks of a file in a process: their numbers, and the end of the last request of each.
    tracks: HashMap<(u64, i64), Vec<(u64, i64)>>,
    /// Tracks of threads, by process, thread and name. The name is that of a region between marks of a program; such regions do not nest.
    threads: HashMap<(u64, i64, Option<String>), u64>,
    /// Number of tracks so far.
    numbered: u64,
    calls: RecentCalls,
    hosts: Vec<String>,
    /// Number of arrows so far.
    numbered_arrows: u64,
    /// Requests that are held back, by their ends.
    held_back: VecDeque<(i64, KeptRequest)>,
    /// Requests that may have callers without an arrow.
    partial: u64,
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
            threads: HashMap::new(),
            numbered: 0,
            calls: RecentCalls::default(),
            hosts: Vec::new(),
            numbered_arrows: 0,
            held_back: VecDeque::new(),
            partial: 0,
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
        let rows: Vec<_> = KeptRequest::all_of(batch).collect();
        let are_calls: Vec<_> = rows.iter().map(is_call).collect();
        // A copy, because a row keeps its whole batch alive.
        let requests: UInt32Array = (0..)
            .zip(&are_calls)
            .filter_map(|(row, is_call)| (!is_call).then_some(row))
            .collect();
        let requests = take_record_batch(batch, &requests).map_err(io::Error::other)?;
        let mut requests = KeptRequest::all_of(&requests);
        for (row, is_call) in rows.into_iter().zip(are_calls) {
            if is_call {
                self.call(&row)?;
            }
            let end_ns = row.number(END_TIME_NS).unwrap_or_default();
            let request = if is_call { None } else { requests.next() };
            self.held_back
                .extend(request.map(|request| (end_ns, request)));
            while let Some((held_ns, _)) = self.held_back.front() {
                let is_due = end_ns.saturating_sub(*held_ns) > HELD_BACK_NS;
                if !is_due && self.held_back.len() <= MOST_HELD_BACK {
                    break;
                }
                if let Some((_, request)) = self.held_back.pop_front() {
                    self.request(&request, !is_due)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a call of an application, on the track of its thread.
    fn call(&mut self, call: &KeptRequest) -> io::Result<()> {
        let deed = self.deed(call);
        let host = call.text(HOST).unwrap_or_default();
        let thread = call.number(TID);
        let name = call.text(PROCESS);
        let process = self.process(host, IoLevel::App.as_str(), deed.process, name)?;
        let marks = call
            .text(PATH)
            .filter(|path| level_of(call) == Some(IoLevel::User) && path.split(':').count() > 2);
        let key = (
            process,
            thread.unwrap_or_default(),
            marks.map(str::to_owned),
        );
        let track = match self.threads.get(&key) {
            Some(track) => *track,
            None => {
                let name = match marks {
                    Some(marks) => format!("thread {} {marks}", key.1),
                    None => format!("thread {}", key.1),
                };
                let track = self.new_track(process, &name)?;
                self.threads.insert(key, track);
                track
            }
        };
        let place = Place { process, track };
        self.events().slice(place, &whole_slice(call, &deed))?;
        if deed.does != Does::Other {
            self.calls.add(Call {
                deed,
                thread,
                place,
            });
        }
        Ok(())
    }

    /// The operation, bytes and time of a request or a call.
    fn deed(&mut self, request: &KeptRequest) -> Deed {
        let name = request.text(HOST).unwrap_or_default();
        let known = self.hosts.iter().position(|host| host == name);
        let host = known.unwrap_or_else(|| {
            self.hosts.push(name.to_owned());
            self.hosts.len() - 1
        });
        let number = |column| request.number(column);
        let end_ns = number(END_TIME_NS).unwrap_or_default();
        // At the block level, offsets count from the start of the device.
        let is_of_device = level_of(request) == Some(IoLevel::Block);
        let offset = number(OFFSET_BYTES).filter(|_| !is_of_device);
        let bytes = number(DONE_BYTES).unwrap_or_default();
        Deed {
            file: (host, number(FILE_KEY).unwrap_or_default()),
            does: Does::of(request.text(OP).unwrap_or_default()),
            // A request that moves no bytes, such as at the end of a file, still has a position.
            bytes: offset.map(|offset| offset..offset.saturating_add(bytes.max(1))),
            start_ns: end_ns - number(LATENCY_NS).unwrap_or_default(),
            end_ns,
            process: number(PID),
        }
    }

    /// Writes a request. `is_early`: calls that overlap with it may still come.
    fn request(&mut self, request: &KeptRequest, is_early: bool) -> io::Result<()> {
        let number = |column| request.number(column);
        let deed = self.deed(request);
        let (start_ns, end_ns, latency_ns) = (deed.start_ns, deed.end_ns, number(LATENCY_NS));
        let level = request.text(LEVEL).unwrap_or_default();
        let host = request.text(HOST).unwrap_or_default();
        let process = self.process(host, level, deed.process, request.text(PROCESS))?;
        let track = self.track(process, request, start_ns, end_ns)?;
        let mut whole = whole_slice(request, &deed);
        let callers = self.calls.callers_of(&deed);
        let are_calls_there = !self.calls.is_empty();
        self.partial += u64::from(callers.is_partial || is_early && are_calls_there);
        if !callers.calls.is_empty() {
            let count = callers.calls.len() as i64;
            whole.arguments.push((CALLERS, Argument::Number(count)));
            let is_ambiguous = Argument::Flag(callers.is_ambiguous);
            whole.arguments.push((AMBIGUOUS, is_ambiguous));
            let arrows = (self.numbered_arrows + 1..).zip(&callers.calls);
            let arrows = arrows.map(|(number, call)| Arrow {
                number,
                from: call.place,
                at_ns: call.deed.start_ns,
            });
            whole.arrows = arrows.collect();
            self.numbered_arrows += whole.arrows.len() as u64;
        }
        if let (Some(all), Some(queue), Some(rtt)) = (latency_ns, number(QUEUE_NS), number(RTT_NS))
        {
            let answered_by = match level_of(request) {
                Some(IoLevel::Block) => "device",
                _ => "network and server",
            };
            let parts = [
                ("queue", queue),
                (answered_by, rtt),
                ("completion", all - queue - rtt),
            ];
            let mut at_ns = start_ns;
            for (name, length_ns) in parts {
                // Clamp: the clocks differ by some nanoseconds.
                let length_ns = length_ns.clamp(0, end_ns - at_ns);
                if length_ns > 0 {
                    let part = Slice::new(name.into(), level, at_ns, Some(length_ns));
                    whole.parts.push(part);
                }
                at_ns += length_ns;
            }
        }
        self.events().slice(Place { process, track }, &whole)
    }

    /// The number of a process of a host, which is created at its first use. If the process is unknown, the level replaces it.
    fn process(
        &mut self,
        host: &str,
        level: &str,
        pid: Option<i64>,
        name: Option<&str>,
    ) -> io::Result<u64> {
        let next = self.processes.len() as u64 + 1;
        let level = if pid.is_some() { "" } else { level };
        let key = (host.to_owned(), level.to_owned(), pid);
        if let Some(known) = self.processes.get(&key) {
            return Ok(*known);
        }
        let name = match pid {
            Some(pid) => format!("{} {} {pid}", key.0, name.unwrap_or("process")),
            None => format!("{} {}", key.0, key.1),
        };
        self.processes.insert(key, next);
        self.events().process(next, &name)?;
        Ok(next)
    }

    /// A track of the file that is free at the request's start: the one that became free last, or a new one.
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
                let fileid = request.number(FILEID).unwrap_or_default();
                format!("{dev}:{}", fileid.cast_unsigned())
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

    /// Writes marks on one track per host.
    pub fn marks(&mut self, marks: &[Mark]) -> io::Result<()> {
        let mut places: HashMap<&str, Place> = HashMap::new();
        for mark in marks {
            let place = match places.get(&*mark.host) {
                Some(place) => *place,
                None => {
                    let process = self.process(&mark.host, "marks", None, None)?;
                    let track = self.new_track(process, "marks")?;
                    *places.entry(&mark.host).or_insert(Place { process, track })
                }
            };
            let at_ns = mark.time.0.saturating_mul(1_000_000);
            let instant = Slice::new((&*mark.text).into(), "mark", at_ns, None);
            self.events().slice(place, &instant)?;
        }
        Ok(())
    }

    /// Completes the file. Returns the output, and the number of requests whose callers may be missing.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        for (_, request) in mem::take(&mut self.held_back) {
            self.request(&request, false)?;
        }
        let out = match self.file {
            Encoded::Chrome(events) => events.finish()?,
            Encoded::Perfetto(packets) => packets.finish(),
        };
        Ok((out, self.partial))
    }
}

impl<'a> Slice<'a> {
    fn new(name: Cow<'a, str>, category: &'a str, start_ns: i64, length_ns: Option<i64>) -> Self {
        Self {
            name,
            category,
            start_ns,
            length_ns,
            arguments: Vec::new(),
            arrows: Vec::new(),
            parts: Vec::new(),
        }
    }
}

fn level_of(request: &KeptRequest) -> Option<IoLevel> {
    request.text(LEVEL)?.parse().ok()
}

fn is_call(row: &KeptRequest) -> bool {
    matches!(level_of(row), Some(IoLevel::App | IoLevel::User))
}

/// The slice of a request or a call, without the slices inside.
fn whole_slice<'a>(request: &'a KeptRequest, deed: &Deed) -> Slice<'a> {
    let op = request.text(OP).unwrap_or_default();
    let name = match deed.does {
        Does::Read | Does::Write => {
            let bytes = request.number(DONE_BYTES).unwrap_or_default();
            format!("{op} {}", units::show(Unit::Bytes, bytes as f64)).into()
        }
        // The name is that of a function.
        Does::Other if level_of(request) == Some(IoLevel::User) => {
            request.text(PATH).unwrap_or(op).into()
        }
        Does::Sync | Does::Other => op.into(),
    };
    let level = request.text(LEVEL).unwrap_or_default();
    let mut slice = Slice::new(name, level, deed.start_ns, request.number(LATENCY_NS));
    slice.arguments = arguments(request);
    slice
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
