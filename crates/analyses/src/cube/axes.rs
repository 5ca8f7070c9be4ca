//! Axes of cubes and rates, and their values for requests, messages and packets.

use std::str::FromStr;

use trackiops_query::EmptyReason;

use super::{ANY, Cell, Key, Kind, MOST_AXES};
use crate::error::AnalysisError;
use crate::sheet::{Datum, Heading};
use crate::source::messages::{Message, Messages};
use crate::source::packets::{Packet, Packets};
use crate::source::{Name, Names, Request, Requests, Seen, Source};

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Intervals.
    Time,
    /// Of requests: the client. Of messages: the sender or the receiver.
    Host,
    /// Of messages: whether the host sent or received it.
    Direction,
    /// Operations.
    Op,
    /// Of messages: calls and replies.
    Message,
    /// Of requests: the mount.
    Mount,
    /// Of requests: the server.
    Server,
    /// Of requests: the tenant.
    Tenant,
    /// Of requests: the file.
    File,
    /// Of packets: the sender.
    From,
    /// Of packets: the sender's port.
    FromPort,
    /// Of packets: the receiver.
    To,
    /// Of packets: the receiver's port.
    ToPort,
    /// Of packets: udp, tcp or other.
    Transport,
}

impl Axis {
    const ALL: [(&'static str, Self); 14] = [
        ("time", Self::Time),
        ("host", Self::Host),
        ("direction", Self::Direction),
        ("op", Self::Op),
        ("message", Self::Message),
        ("mount", Self::Mount),
        ("server", Self::Server),
        ("tenant", Self::Tenant),
        ("file", Self::File),
        ("src_ip", Self::From),
        ("src_port", Self::FromPort),
        ("dst_ip", Self::To),
        ("dst_port", Self::ToPort),
        ("transport", Self::Transport),
    ];

    /// The value of `--by`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, axis)| *axis == self);
        found.map_or("?", |(name, _)| name)
    }

    /// Its column.
    pub fn heading(self) -> Heading {
        Heading::text(self.name())
    }
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, axis)| axis).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is none of {}", names.join(", "))
        })
    }
}

const SEND: Name = 0;
const RECEIVE: Name = 1;
const CALL: Name = 0;
const REPLY: Name = 1;
const NO_PORT: u32 = ANY - 1;
const NS_PER_S: i64 = 1_000_000_000;

/// Reads a source and turns its rows into keys.
pub struct Events {
    kind: Kind,
    axes: Vec<Axis>,
    interval_s: i64,
    requests: Requests,
    messages: Messages,
    packets: Packets,
    files: Names,
    ops: Names,
    /// Why there are no rows, if there are none.
    pub none: Option<EmptyReason>,
}

impl Events {
    /// The kind of events.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Prepares to read, with intervals of this length, s.
    pub fn new(kind: Kind, axes: Vec<Axis>, interval_s: u32) -> Result<Self, AnalysisError> {
        let lacking = axes.iter().find(|axis| !kind.axes().contains(axis));
        if let Some(axis) = lacking {
            let known: Vec<_> = kind.axes().iter().map(|axis| axis.name()).collect();
            let (axis, known) = (axis.name(), known.join(", "));
            let what = kind.plural();
            return Err(AnalysisError::Unsuitable(format!(
                "--by {axis}: {what} do not have it; write {known}, or choose with --of what is counted"
            )));
        }
        if axes.len() > MOST_AXES {
            let why = format!("--by has {MOST_AXES} values at most; write fewer");
            return Err(AnalysisError::Unsuitable(why));
        }
        let mut requests = Requests::default();
        if axes.contains(&Axis::File) {
            requests.paths = Some(Default::default());
        }
        Ok(Self {
            kind,
            axes,
            interval_s: i64::from(interval_s.max(1)),
            requests,
            messages: Messages::default(),
            packets: Packets::default(),
            files: Names::default(),
            ops: Names::default(),
            none: None,
        })
    }

    /// Passes on all events with their times, ns, in order of time.
    pub fn read(
        &mut self,
        source: &Source,
        analysis: &'static str,
        mut each: impl FnMut(i64, Key, Cell),
    ) -> Result<(), AnalysisError> {
        let (axes, interval_s) = (&self.axes, self.interval_s);
        let key_of = |time_ns: i64, value: &mut dyn FnMut(Axis) -> u32| {
            let mut key = Key::default();
            for (place, axis) in key.iter_mut().zip(axes) {
                *place = match axis {
                    Axis::Time => interval_of(time_ns, interval_s),
                    axis => value(*axis),
                };
            }
            key
        };
        match self.kind {
            Kind::Requests => {
                let (files, ops) = (&mut self.files, &mut self.ops);
                self.none = self.requests.read(source, analysis, |request, names| {
                    let key = key_of(request.end_ns, &mut |axis| {
                        of_request(axis, request, names, files, ops)
                    });
                    each(
                        request.end_ns,
                        key,
                        Cell {
                            count: 1,
                            bytes: request.bytes,
                        },
                    );
                })?;
            }
            Kind::Messages => {
                let ops = &mut self.ops;
                // Without an axis that separates sender and receiver, a message is one event.
                let is_of_host = axes.contains(&Axis::Host) || axes.contains(&Axis::Direction);
                let directions = if is_of_host {
                    &[SEND, RECEIVE][..]
                } else {
                    &[SEND]
                };
                self.messages.read(source, analysis, |message, names| {
                    let op = ops.of(unified(&names.ops.get(message.op)));
                    for direction in directions {
                        let key = key_of(message.time_ns, &mut |axis| {
                            of_message(axis, message, *direction, op)
                        });
                        each(
                            message.time_ns,
                            key,
                            Cell {
                                count: 1,
                                bytes: message.payload,
                            },
                        );
                    }
                    Ok(())
                })?;
            }
            Kind::Packets => {
                self.packets.read(source, analysis, |packet, _| {
                    let key = key_of(packet.time_ns, &mut |axis| of_packet(axis, packet));
                    each(
                        packet.time_ns,
                        key,
                        Cell {
                            count: 1,
                            bytes: packet.bytes,
                        },
                    );
                })?;
            }
        }
        Ok(())
    }

    /// Facts about the rows that were read.
    pub fn seen(&self) -> &Seen {
        match self.kind {
            Kind::Requests => &self.requests.seen,
            Kind::Messages => &self.messages.seen,
            Kind::Packets => &self.packets.seen,
        }
    }

    /// Remarks that a reader of the result should know.
    pub fn remarks(&self) -> Vec<String> {
        self.messages.remarks()
    }

    /// The value of an axis.
    pub fn datum(&self, axis: Axis, value: u32) -> Datum {
        match axis {
            Axis::Time => Datum::text((i64::from(value) * self.interval_s).to_string()),
            Axis::Host if self.kind == Kind::Messages => {
                Datum::Text(self.messages.hosts.get(value))
            }
            Axis::Host => Datum::Text(self.requests.clients.get(value)),
            Axis::Direction => Datum::text(if value == SEND { "send" } else { "recv" }),
            Axis::Message => Datum::text(if value == CALL { "request" } else { "response" }),
            Axis::Op => Datum::Text(self.ops.get(value)),
            Axis::Mount => Datum::Text(self.requests.mounts.get(value)),
            Axis::Server => Datum::Text(self.requests.servers.get(value)),
            Axis::Tenant => Datum::Text(self.requests.tenants.get(value)),
            Axis::File => Datum::Text(self.files.get(value)),
            Axis::From | Axis::To => Datum::Text(self.packets.hosts.get(value)),
            Axis::FromPort | Axis::ToPort if value == NO_PORT => Datum::text("-1"),
            Axis::FromPort | Axis::ToPort => Datum::text(value.to_string()),
            Axis::Transport => Datum::Text(self.packets.transports.get(value)),
        }
    }
}

/// The number of an interval since the epoch.
pub fn interval_of(time_ns: i64, interval_s: i64) -> u32 {
    let interval = time_ns.div_euclid(NS_PER_S).div_euclid(interval_s);
    u32::try_from(interval).unwrap_or(0).min(NO_PORT - 1)
}

fn of_request(
    axis: Axis,
    request: &Request,
    names: &Requests,
    files: &mut Names,
    ops: &mut Names,
) -> u32 {
    match axis {
        Axis::Host => request.client,
        Axis::Mount => request.mount,
        Axis::Server => request.server,
        Axis::Tenant => request.tenant,
        Axis::File => files.of(&names.file_name(request)),
        _ => ops.of(if request.is_read { "read" } else { "write" }),
    }
}

fn of_message(axis: Axis, message: &Message, direction: Name, op: Name) -> u32 {
    match axis {
        Axis::Host if direction == SEND => message.from,
        Axis::Host => message.to,
        Axis::Direction => direction,
        Axis::Message if message.is_call => CALL,
        Axis::Message => REPLY,
        _ => op,
    }
}

fn of_packet(axis: Axis, packet: &Packet) -> u32 {
    match axis {
        Axis::From => packet.from,
        Axis::FromPort => packet.from_port.map_or(NO_PORT, u32::from),
        Axis::To => packet.to,
        Axis::ToPort => packet.to_port.map_or(NO_PORT, u32::from),
        _ => packet.transport,
    }
}

/// A common name for the operation in both versions of NFS.
pub fn unified(op: &str) -> &str {
    match op {
        "statfs" => "fsstat",
        op => op,
    }
}
