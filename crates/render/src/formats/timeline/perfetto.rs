//! Packets of Perfetto's own format (protos/perfetto/trace/trace_packet.proto and its imports). It is smaller than JSON, and its times are
//! nanoseconds since the epoch.

use std::io::{self, Write};

use prost::Message;

use super::{Argument, Events, Place, Slice};

/// Value of `BuiltinClock`.
const CLOCK_REALTIME: u32 = 1;
const CLOCK_BOOTTIME: u32 = 6;
/// Value of `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
/// The writer of the packets: any number but 0.
const SEQUENCE: u32 = 1;
/// First identifier of process tracks. Identifiers of file tracks start at 1.
const PROCESSES: u64 = 1 << 48;

/// A file of packets.
pub struct Packets<W> {
    out: W,
    has_clock: bool,
    buffer: Vec<u8>,
}

impl<W: Write> Packets<W> {
    /// Starts a file.
    pub fn new(out: W) -> Self {
        Self {
            out,
            has_clock: false,
            buffer: Vec::new(),
        }
    }

    /// Completes the file; the format has no trailer.
    pub fn finish(self) -> W {
        self.out
    }

    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let trace = Trace {
            packet: vec![TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..packet
            }],
        };
        self.buffer.clear();
        trace.encode(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    fn event(&mut self, at_ns: i64, event: TrackEvent) -> io::Result<()> {
        let timestamp = u64::try_from(at_ns).unwrap_or(0);
        if !self.has_clock {
            self.has_clock = true;
            // Times in the trace are wall-clock times.
            let clock = |clock_id| Clock {
                clock_id: Some(clock_id),
                timestamp: Some(timestamp),
            };
            let clocks = vec![clock(CLOCK_BOOTTIME), clock(CLOCK_REALTIME)];
            self.packet(TracePacket {
                clock_snapshot: Some(ClockSnapshot { clocks }),
                ..Default::default()
            })?;
        }
        self.packet(TracePacket {
            timestamp: Some(timestamp),
            track_event: Some(event),
            ..Default::default()
        })
    }

    fn describe(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.packet(TracePacket {
            track_descriptor: Some(track),
            ..Default::default()
        })
    }
}

impl<W: Write> Events for Packets<W> {
    fn process(&mut self, number: u64, name: &str) -> io::Result<()> {
        self.describe(TrackDescriptor {
            uuid: Some(PROCESSES + number),
            name: Some(name.to_owned()),
            parent_uuid: None,
        })
    }

    fn track(&mut self, process: u64, number: u64, name: &str) -> io::Result<()> {
        self.describe(TrackDescriptor {
            uuid: Some(number),
            name: Some(name.to_owned()),
            parent_uuid: Some(PROCESSES + process),
        })
    }

    fn slice(&mut self, place: Place, slice: &Slice<'_>) -> io::Result<()> {
        let event = |kind| TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(place.track),
            ..Default::default()
        };
        let kind = slice.length_ns.map_or(INSTANT, |_| SLICE_BEGIN);
        // Each arrow starts at a separate event. Arrows from the call itself would chain its requests to each other.
        for arrow in &slice.arrows {
            let leaves = TrackEvent {
                r#type: Some(INSTANT),
                track_uuid: Some(arrow.from.track),
                categories: vec![slice.category.to_owned()],
                name: Some(format!("for {}", slice.name)),
                flow_ids: vec![arrow.number],
                ..Default::default()
            };
            self.event(arrow.at_ns, leaves)?;
        }
        let begin = TrackEvent {
            debug_annotations: slice.arguments.iter().map(annotation).collect(),
            categories: vec![slice.category.to_owned()],
            name: Some(slice.name.clone().into_owned()),
            flow_ids: slice.arrows.iter().map(|arrow| arrow.number).collect(),
            ..event(kind)
        };
        self.event(slice.start_ns, begin)?;
        for part in &slice.parts {
            self.slice(place, part)?;
        }
        match slice.length_ns {
            Some(length_ns) => self.event(slice.start_ns + length_ns, event(SLICE_END)),
            None => Ok(()),
        }
    }
}

fn annotation((name, argument): &(&'static str, Argument<'_>)) -> DebugAnnotation {
    let name = Some((*name).to_owned());
    match argument {
        Argument::Text(text) => DebugAnnotation {
            name,
            string_value: Some((*text).to_owned()),
            ..Default::default()
        },
        Argument::Number(number) => DebugAnnotation {
            name,
            int_value: Some(*number),
            ..Default::default()
        },
        Argument::Flag(flag) => DebugAnnotation {
            name,
            bool_value: Some(*flag),
            ..Default::default()
        },
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TracePacket {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DebugAnnotation {
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}
