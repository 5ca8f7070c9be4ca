//! From packets to requests: which connection a packet belongs to, and what is told of all of them at the end.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use ahash::{AHashMap, RandomState};
use etherparse::{TcpHeaderSlice, UdpHeaderSlice};

use crate::account::Account;
use crate::connection::{Connection, Tally, TcpFlags};
use crate::fragments::{Assembled, Fragments};
use crate::link::{IpPacket, Skipped, ip_packet, protocol, tunnel};
use crate::message::{Receiver, Seen, Transport};
use crate::packets::Packet;
use crate::rpc;
use crate::tcp::Segment;

/// The port of NFS.
pub const NFS_PORT: u16 = 2049;

/// So many connections are followed at a time.
const MOST_CONNECTIONS: usize = 1 << 14;
/// So many that are over have an account of their own.
const MOST_REPORTED: usize = 1 << 12;
/// Bytes that all connections keep in memory.
const MOST_KEPT_BYTES: usize = 128 << 20;
/// Datagrams that the capture has twice come within this time, ns.
const TWICE_NS: i64 = 10_000_000;
/// So many datagrams are remembered for that.
const REMEMBERED: usize = 64;
/// So much of a datagram tells it from others.
const TELLING_BYTES: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Flow {
    ends: [SocketAddr; 2],
    transport: Transport,
}

/// Frames, and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Number.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A connection, or for UDP two addresses with ports, when all is over.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Who called, with what it sent.
    pub client: SocketAddr,
    /// Who answered.
    pub server: SocketAddr,
    /// How.
    pub transport: Transport,
    /// What it had.
    pub tally: Tally,
    /// What the client sent.
    pub sent: Account,
    /// What the server sent.
    pub answered: Account,
}

/// What became of every packet.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All packets.
    pub packets: Frames,
    /// Those that were not looked into, by reason.
    pub skipped: BTreeMap<Skipped, Frames>,
    /// Connections, in order of addresses.
    pub connections: Vec<ConnectionReport>,
    /// Of connections beyond those: both directions together.
    pub others: Account,
    /// Number of those.
    pub other_connections: u64,
    /// Packets that were captured before the one that stands before them.
    pub backwards: u64,
    /// Time of the earliest packet and of the latest, ns since the epoch.
    pub time_range_ns: Option<(i64, i64)>,
}

impl Report {
    /// The account of all connections and directions.
    pub fn total(&self) -> Account {
        let mut total = self.others;
        for connection in &self.connections {
            total.add(&connection.sent);
            total.add(&connection.answered);
        }
        total
    }
}

/// Finds requests in packets.
pub struct Decoder<R> {
    receiver: R,
    connections: AHashMap<Flow, Connection>,
    fragments: Fragments,
    ports: Vec<u16>,
    kept_bytes: usize,
    datagrams: VecDeque<(u64, i64)>,
    hasher: RandomState,
    report: Report,
    last_ns: i64,
}

impl<R: Receiver> Decoder<R> {
    /// Gives what it finds to `receiver`. Connections to `ports` and to NFS's own are accounted for from their first packet on, and
    /// others from their first call of NFS at the beginning of a packet.
    pub fn new(receiver: R, ports: &[u16]) -> Self {
        Self {
            receiver,
            connections: AHashMap::new(),
            fragments: Fragments::default(),
            ports: ports.iter().copied().chain([NFS_PORT]).collect(),
            kept_bytes: 0,
            datagrams: VecDeque::new(),
            hasher: RandomState::new(),
            report: Report::default(),
            last_ns: i64::MIN,
        }
    }

    /// Who is given what is found.
    pub fn receiver(&mut self) -> &mut R {
        &mut self.receiver
    }

    /// The next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.report.packets.frames += 1;
        self.report.packets.bytes += u64::from(packet.bytes);
        self.report.backwards += u64::from(packet.time_ns < self.last_ns);
        self.last_ns = packet.time_ns;
        let range = self.report.time_range_ns;
        let (first, last) = range.unwrap_or((packet.time_ns, packet.time_ns));
        self.report.time_range_ns = Some((first.min(packet.time_ns), last.max(packet.time_ns)));
        let taken = ip_packet(packet.link_type, packet.data, packet.bytes)
            .and_then(|ip| self.ip(&ip, packet.time_ns));
        if let Err(reason) = taken {
            self.skip(reason, packet.bytes);
        }
    }

    fn skip(&mut self, reason: Skipped, bytes: u32) {
        let frames = self.report.skipped.entry(reason).or_default();
        frames.frames += 1;
        frames.bytes += u64::from(bytes);
    }

    fn ip(&mut self, ip: &IpPacket<'_>, time_ns: i64) -> Result<(), Skipped> {
        let Some(fragment) = ip.fragment else {
            return self.transport(ip, time_ns, time_ns);
        };
        match self.fragments.add(ip, fragment, time_ns) {
            Assembled::Waiting => Ok(()),
            Assembled::Repeated => Err(Skipped::Repeated),
            Assembled::Complete(datagram) => {
                let whole = IpPacket {
                    fragment: None,
                    payload: &datagram.payload,
                    payload_bytes: datagram.bytes,
                    ..*ip
                };
                self.transport(&whole, datagram.begin_ns, time_ns)
            }
        }
    }

    fn transport(&mut self, ip: &IpPacket<'_>, begin_ns: i64, time_ns: i64) -> Result<(), Skipped> {
        match ip.protocol {
            protocol::TCP => self.tcp(ip, time_ns),
            protocol::UDP => self.udp(ip, begin_ns, time_ns),
            other => Err(tunnel(other, None).unwrap_or(Skipped::OtherTraffic)),
        }
    }

    fn tcp(&mut self, ip: &IpPacket<'_>, time_ns: i64) -> Result<(), Skipped> {
        let tcp = TcpHeaderSlice::from_slice(ip.payload).map_err(|_| Skipped::Malformed)?;
        let header = tcp.slice().len();
        let source = SocketAddr::new(ip.source, tcp.source_port());
        let destination = SocketAddr::new(ip.destination, tcp.destination_port());
        let data = ip.payload.get(header..).unwrap_or_default();
        let begins_call =
            || data.get(4..).is_some_and(rpc::is_call) && rpc::is_plausible(data, |_| false);
        let segment = Segment {
            sequence: tcp.sequence_number(),
            data,
            bytes: ip.payload_bytes.saturating_sub(header as u32),
            time_ns,
        };
        let flags = TcpFlags {
            is_syn: tcp.syn(),
            acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
        };
        let (flow, from_first) = flow(source, destination, Transport::Tcp);
        let connection = connection(&mut self.connections, &self.ports, flow, begins_call)?;
        let more = connection.segment(from_first, flags, segment, &mut self.receiver);
        self.keep(more);
        Ok(())
    }

    /// So many more bytes are in memory: connections end, or forget what they wait for, if that is too much.
    fn keep(&mut self, more: isize) {
        self.kept_bytes = self.kept_bytes.saturating_add_signed(more);
        if self.connections.len() > MOST_CONNECTIONS {
            self.evict();
        }
        if self.kept_bytes > MOST_KEPT_BYTES {
            for connection in self.connections.values_mut() {
                connection.let_go(&mut self.receiver);
            }
            let kept = self.connections.values().map(Connection::kept_bytes);
            self.kept_bytes = kept.sum();
        }
    }

    fn udp(&mut self, ip: &IpPacket<'_>, begin_ns: i64, time_ns: i64) -> Result<(), Skipped> {
        let udp = UdpHeaderSlice::from_slice(ip.payload).map_err(|_| Skipped::Malformed)?;
        let source = SocketAddr::new(ip.source, udp.source_port());
        let destination = SocketAddr::new(ip.destination, udp.destination_port());
        let data = ip.payload.get(8..).unwrap_or_default();
        let bytes = ip.payload_bytes.saturating_sub(8);
        let (flow, from_first) = flow(source, destination, Transport::Udp);
        let ports = &self.ports;
        let found = connection(&mut self.connections, ports, flow, || rpc::is_call(data));
        let connection = found
            .map_err(|reason| tunnel(ip.protocol, Some(destination.port())).unwrap_or(reason))?;
        let telling = &data[..data.len().min(TELLING_BYTES)];
        let hash = self
            .hasher
            .hash_one((source, destination, ip.identification, bytes, telling));
        let is_again = self.datagrams.iter().any(|(other, at_ns)| {
            *other == hash
                && time_ns.saturating_sub(*at_ns).unsigned_abs() < TWICE_NS.unsigned_abs()
        });
        if is_again {
            return Err(Skipped::Repeated);
        }
        self.datagrams.push_back((hash, time_ns));
        if self.datagrams.len() > REMEMBERED {
            self.datagrams.pop_front();
        }
        let seen = Seen {
            begin_ns,
            end_ns: time_ns,
            has_end: true,
        };
        let more = connection.datagram(from_first, data, bytes, seen, &mut self.receiver);
        self.keep(more);
        Ok(())
    }

    /// Ends the connections that were idle for longest.
    fn evict(&mut self) {
        let mut times: Vec<i64> = self.connections.values().map(|c| c.last_ns).collect();
        let (_, &mut until_ns, _) = times.select_nth_unstable(MOST_CONNECTIONS / 4);
        let connections = self.connections.iter();
        let idle = connections.filter(|(_, connection)| connection.last_ns <= until_ns);
        let idle: Vec<Flow> = idle.map(|(flow, _)| *flow).collect();
        for flow in idle {
            if let Some(connection) = self.connections.remove(&flow) {
                self.kept_bytes = self.kept_bytes.saturating_sub(connection.kept_bytes());
                let (receiver, report) = (&mut self.receiver, &mut self.report);
                report_connection(report, flow.transport, connection, receiver);
            }
        }
    }

    /// There are no more packets: who was given what was found, and what became of every packet.
    pub fn finish(mut self) -> (R, Report) {
        for (flow, connection) in self.connections.drain() {
            report_connection(
                &mut self.report,
                flow.transport,
                connection,
                &mut self.receiver,
            );
        }
        let (frames, bytes) = self.fragments.finish();
        if frames > 0 {
            let reason = Skipped::IncompleteDatagram;
            self.report.skipped.insert(reason, Frames { frames, bytes });
        }
        self.report
            .connections
            .sort_by_key(|connection| (connection.client, connection.server));
        (self.receiver, self.report)
    }
}

fn flow(source: SocketAddr, destination: SocketAddr, transport: Transport) -> (Flow, bool) {
    let from_first = source <= destination;
    let ends = match from_first {
        true => [source, destination],
        false => [destination, source],
    };
    (Flow { ends, transport }, from_first)
}

/// The connection of a packet, followed from now on if it is one of NFS.
fn connection<'a>(
    connections: &'a mut AHashMap<Flow, Connection>,
    ports: &[u16],
    flow: Flow,
    begins_call: impl FnOnce() -> bool,
) -> Result<&'a mut Connection, Skipped> {
    use std::collections::hash_map::Entry;
    match connections.entry(flow) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(new) => {
            let is_nfs = flow.ends.iter().any(|end| ports.contains(&end.port())) || begins_call();
            is_nfs
                .then(|| new.insert(Connection::new(flow.ends, flow.transport)))
                .ok_or(Skipped::OtherTraffic)
        }
    }
}

fn report_connection(
    report: &mut Report,
    transport: Transport,
    connection: Connection,
    receiver: &mut impl Receiver,
) {
    let ([first, second], tally, [of_first, of_second]) = connection.finish(receiver);
    if report.connections.len() >= MOST_REPORTED {
        report.others.add(&of_first);
        report.others.add(&of_second);
        report.other_connections += 1;
        return;
    }
    // Who called; if nobody did, who has not NFS's port.
    let first_called = match of_first.calls.cmp(&of_second.calls) {
        std::cmp::Ordering::Equal => second.port() == NFS_PORT,
        order => order.is_gt(),
    };
    let (client, server, sent, answered) = match first_called {
        true => (first, second, of_first, of_second),
        false => (second, first, of_second, of_first),
    };
    report.connections.push(ConnectionReport {
        client,
        server,
        transport,
        tally,
        sent,
        answered,
    });
}
