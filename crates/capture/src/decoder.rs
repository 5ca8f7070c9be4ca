//! From packets to requests: finds the connection of each packet, and reports all connections at the end.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use ahash::{AHashMap, RandomState};
use etherparse::{TcpHeaderSlice, UdpHeaderSlice};

use crate::account::Account;
use crate::connection::{Connection, Tally, TcpFlags};
use crate::fragments::{Assembled, Fragments};
use crate::link::{IpPacket, Skipped, ip_packet, protocol, tunnel};
use crate::message::{Peers, Receiver, Seen, Transport};
use crate::packets::Packet;
use crate::rpc;
use crate::tcp::Segment;

/// The NFS port.
pub const NFS_PORT: u16 = 2049;

/// Most connections that are followed at a time.
const MOST_CONNECTIONS: usize = 1 << 14;
/// Most ended connections with a report each.
const MOST_REPORTED: usize = 1 << 12;
/// Most bytes that all connections keep in memory.
const MOST_KEPT_BYTES: usize = 128 << 20;
/// A datagram that comes again within this time, ns, is the same one captured twice.
const TWICE_NS: i64 = 10_000_000;
/// Packets may be out of order by this time at most, ns.
const REORDERED_NS: i64 = 1_000_000_000;
/// Datagrams that are remembered to detect repetitions.
const REMEMBERED: usize = 64;
/// Bytes of a datagram that are hashed to recognise it.
const TELLING_BYTES: usize = 64;

/// The connection of a packet, in few words: it is hashed and compared for each packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    /// Addresses and ports, the smaller one first.
    ends: [(u128, u16); 2],
    is_ipv6: bool,
    is_tcp: bool,
}

impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [(first, first_port), (second, second_port)] = self.ends;
        state.write_u128(first);
        state.write_u128(second);
        let ports = u64::from(first_port) << 16 | u64::from(second_port);
        state.write_u64(ports << 2 | u64::from(self.is_ipv6) << 1 | u64::from(self.is_tcp));
    }
}

/// Frames, and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Number.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A TCP connection, or the UDP traffic between two addresses with ports, after its end.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// The client, whose bytes are in `sent`, and the server.
    pub peers: Peers,
    /// Its counts.
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
    /// Packets that were not read, by reason.
    pub skipped: BTreeMap<Skipped, Frames>,
    /// Connections, in order of addresses.
    pub connections: Vec<ConnectionReport>,
    /// The sum over both directions of all connections beyond `MOST_REPORTED`.
    pub others: Account,
    /// The number of connections in `others`.
    pub other_connections: u64,
    /// Packets that were captured earlier than the packet before them in the file.
    pub backwards: u64,
    /// Times of the earliest and the latest packet, ns since the epoch.
    pub time_range_ns: Option<(i64, i64)>,
}

impl Report {
    /// The sum over all connections and directions.
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
    /// `last_ns` at the last [`Self::report_accounts`].
    reported_ns: i64,
}

impl<R: Receiver> Decoder<R> {
    /// Passes what it finds to `receiver`. Connections to `ports` and to the NFS port are counted from their first packet on. Other
    /// connections are counted from the first packet that begins with an NFS call.
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
            reported_ns: i64::MIN,
        }
    }

    /// The receiver of calls, replies and requests.
    pub fn receiver(&mut self) -> &mut R {
        &mut self.receiver
    }

    /// Takes the next packet.
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

    /// Counts packets that cannot be used because they have no time.
    pub fn untimed(&mut self, frames: u64, bytes: u64) {
        if frames == 0 {
            return;
        }
        for counted in [
            &mut self.report.packets,
            self.report.skipped.entry(Skipped::Untimed).or_default(),
        ] {
            counted.frames += frames;
            counted.bytes += bytes;
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
        let (connections, ends) = (&mut self.connections, [source, destination]);
        let (connection, from_first) =
            connection(connections, &self.ports, ends, Transport::Tcp, begins_call)?;
        let more = connection.segment(from_first, flags, segment, &mut self.receiver);
        self.keep(more);
        Ok(())
    }

    /// Counts bytes that were added to memory. Above the limit, connections end or drop what they wait for.
    fn keep(&mut self, more: isize) {
        self.kept_bytes = self.kept_bytes.saturating_add_signed(more);
        if self.connections.len() > MOST_CONNECTIONS {
            self.evict();
        }
        if self.kept_bytes > MOST_KEPT_BYTES {
            let connections = self.connections.iter_mut();
            for (_, connection) in in_order(connections.map(|(flow, kept)| (*flow, kept))) {
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
        let (connections, ends) = (&mut self.connections, [source, destination]);
        let begins_call = || rpc::is_call(data);
        let found = connection(connections, &self.ports, ends, Transport::Udp, begins_call);
        let (connection, from_first) = found
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

    /// Ends the connections that have been idle longest.
    fn evict(&mut self) {
        let mut times: Vec<i64> = self.connections.values().map(|c| c.last_ns).collect();
        let (_, &mut until_ns, _) = times.select_nth_unstable(MOST_CONNECTIONS / 4);
        let connections = self.connections.iter();
        let idle = connections.filter(|(_, connection)| connection.last_ns <= until_ns);
        let idle = in_order(idle.map(|(flow, _)| (*flow, ())));
        for (flow, ()) in idle {
            if let Some(connection) = self.connections.remove(&flow) {
                self.kept_bytes = self.kept_bytes.saturating_sub(connection.kept_bytes());
                let (receiver, report) = (&mut self.receiver, &mut self.report);
                report_connection(report, connection, receiver);
            }
        }
    }

    /// Passes on what the accounts of all connections gained since the last report. If it is never called, the receiver gets the whole
    /// account when a connection ends.
    pub fn report_accounts(&mut self) {
        let since_ns = std::mem::replace(&mut self.reported_ns, self.last_ns);
        for connection in self.connections.values_mut() {
            // Packets that several CPUs captured are not exactly in order.
            if connection.last_ns >= since_ns.saturating_sub(REORDERED_NS) {
                connection.report_accounts(&mut self.receiver);
            }
        }
    }

    /// There are no more packets. Returns the receiver, and the report on every packet.
    pub fn finish(mut self) -> (R, Report) {
        for (_, connection) in in_order(self.connections.drain()) {
            report_connection(&mut self.report, connection, &mut self.receiver);
        }
        let (frames, bytes) = self.fragments.finish();
        if frames > 0 {
            let reason = Skipped::IncompleteDatagram;
            self.report.skipped.insert(reason, Frames { frames, bytes });
        }
        self.report
            .connections
            .sort_by_key(|connection| (connection.peers.client, connection.peers.server));
        (self.receiver, self.report)
    }
}

/// Sorts connections, because the order of the map differs from run to run.
fn in_order<T>(connections: impl Iterator<Item = (Flow, T)>) -> Vec<(Flow, T)> {
    let mut connections: Vec<_> = connections.collect();
    connections.sort_unstable_by_key(|(flow, _)| *flow);
    connections
}

/// An address and a port as numbers.
fn end(address: SocketAddr) -> (u128, u16) {
    let number = match address.ip() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    (number, address.port())
}

/// Finds the connection of a packet, and starts to follow it if it is an NFS connection. Also returns whether the packet comes from the
/// first of the two ends.
fn connection<'a>(
    connections: &'a mut AHashMap<Flow, Connection>,
    ports: &[u16],
    [source, destination]: [SocketAddr; 2],
    transport: Transport,
    begins_call: impl FnOnce() -> bool,
) -> Result<(&'a mut Connection, bool), Skipped> {
    use std::collections::hash_map::Entry;
    let (from, to) = (end(source), end(destination));
    let from_first = from <= to;
    let flow = Flow {
        ends: [from.min(to), from.max(to)],
        is_ipv6: source.is_ipv6(),
        is_tcp: transport == Transport::Tcp,
    };
    match connections.entry(flow) {
        Entry::Occupied(known) => Ok((known.into_mut(), from_first)),
        Entry::Vacant(new) => {
            let is_nfs = flow.ends.iter().any(|(_, port)| ports.contains(port)) || begins_call();
            let ends = match from_first {
                true => [source, destination],
                false => [destination, source],
            };
            is_nfs
                .then(|| (new.insert(Connection::new(ends, transport)), from_first))
                .ok_or(Skipped::OtherTraffic)
        }
    }
}

fn report_connection(report: &mut Report, connection: Connection, receiver: &mut impl Receiver) {
    let connection = connection.finish(receiver);
    if report.connections.len() < MOST_REPORTED {
        report.connections.push(connection);
        return;
    }
    report.others.add(&connection.sent);
    report.others.add(&connection.answered);
    report.other_connections += 1;
}
