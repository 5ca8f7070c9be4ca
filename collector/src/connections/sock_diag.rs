//! Asks the kernel for `struct tcp_info` of sockets (`NETLINK_SOCK_DIAG`).
//!
//! The kernel looks each socket up by its addresses in a hash table. A dump would walk all sockets of the namespace.
//! include/uapi/linux/netlink.h, sock_diag.h, inet_diag.h and tcp.h define the structures.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use trackiops_schemas::tcp::TcpSums;

/// Look-ups in one system call. Their answers fit the socket's buffer, whose least default has room for 160.
const AT_ONCE: usize = 32;
/// Room for an answer; the longest has some 500 bytes.
const ANSWER_BYTES: usize = 4096;

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// A header, and `struct inet_diag_req_v2`.
const REQUEST_BYTES: u32 = 72;
/// `struct inet_diag_msg`.
const SOCKET_BYTES: usize = 72;
/// Offset of `id.idiag_cookie` in it.
const COOKIE: usize = 44;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// The attribute that holds `struct tcp_info`.
const INET_DIAG_INFO: u8 = 2;
/// Bits of an attribute's type that are flags.
const ATTRIBUTE_FLAGS: u16 = 0xC000;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: u8 = 1;

/// The addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub client: SocketAddr,
    /// The server's, of the same family.
    pub server: SocketAddr,
}

/// What the kernel says of a connection's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReading {
    /// Number of the socket, which no other socket gets.
    pub cookie: u64,
    /// Its measurements.
    pub info: TcpInfo,
}

/// Members of `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    rtt_us: u32,
    rtt_var_us: u32,
    rtt_min_us: u32,
    segments: u32,
    segments_received: u32,
    retrans: u32,
    retrans_bytes: u64,
    lost: u32,
    reorderings: u32,
    in_flight: u32,
    cwnd: u32,
    send_window: u32,
    receive_window: Option<u32>,
    receiver_limited_us: u64,
    send_buffer_limited_us: u64,
    delivery_rate: u64,
    busy_us: u64,
    out_of_order: u32,
}

/// Offsets in `struct tcp_info`.
mod offsets {
    pub const STATE: usize = 0;
    pub const UNACKED: usize = 24;
    pub const SACKED: usize = 28;
    pub const LOST: usize = 32;
    pub const RETRANS: usize = 36;
    pub const RTT: usize = 68;
    pub const RTT_VAR: usize = 72;
    pub const CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const MIN_RTT: usize = 148;
    pub const DATA_SEGS_IN: usize = 152;
    pub const DATA_SEGS_OUT: usize = 156;
    pub const DELIVERY_RATE: usize = 160;
    pub const BUSY_TIME: usize = 168;
    pub const RWND_LIMITED: usize = 176;
    pub const SNDBUF_LIMITED: usize = 184;
    pub const BYTES_RETRANS: usize = 208;
    pub const REORD_SEEN: usize = 220;
    /// Since Linux 5.4.
    pub const RCV_OOOPACK: usize = 224;
    /// Since Linux 5.4.
    pub const SND_WND: usize = 228;
    /// Since Linux 6.2.
    pub const RCV_WND: usize = 232;
}

impl TcpInfo {
    /// `None` if the connection is not established, or has measured no RTT yet. The kernel sends as much of the structure
    /// as it has.
    fn parse(info: &[u8]) -> Option<Self> {
        let number = |at| u32_at(info, at);
        if info.get(offsets::STATE) != Some(&ESTABLISHED) {
            return None;
        }
        // As `tcp_packets_in_flight` (include/net/tcp.h).
        let left = number(offsets::SACKED)?.saturating_add(number(offsets::LOST)?);
        let in_flight = number(offsets::UNACKED)?
            .saturating_add(number(offsets::RETRANS)?)
            .saturating_sub(left);
        let read = Self {
            rtt_us: number(offsets::RTT)?,
            rtt_var_us: number(offsets::RTT_VAR)?,
            rtt_min_us: number(offsets::MIN_RTT)?,
            segments: number(offsets::DATA_SEGS_OUT)?,
            segments_received: number(offsets::DATA_SEGS_IN)?,
            retrans: number(offsets::TOTAL_RETRANS)?,
            retrans_bytes: u64_at(info, offsets::BYTES_RETRANS)?,
            lost: number(offsets::LOST)?,
            reorderings: number(offsets::REORD_SEEN)?,
            in_flight,
            cwnd: number(offsets::CWND)?,
            send_window: number(offsets::SND_WND)?,
            receive_window: number(offsets::RCV_WND),
            receiver_limited_us: u64_at(info, offsets::RWND_LIMITED)?,
            send_buffer_limited_us: u64_at(info, offsets::SNDBUF_LIMITED)?,
            delivery_rate: u64_at(info, offsets::DELIVERY_RATE)?,
            busy_us: u64_at(info, offsets::BUSY_TIME)?,
            out_of_order: number(offsets::RCV_OOOPACK)?,
        };
        // Without a sample, the least RTT is the largest number.
        let is_measured = read.rtt_us > 0 && !matches!(read.rtt_min_us, 0 | u32::MAX);
        is_measured.then_some(read)
    }

    /// Whether data moved in either direction, or waited to be sent or acknowledged, between an earlier reading and this
    /// one. While the server's window is closed, no segment moves, and only these times grow.
    pub fn was_used_since(&self, before: &Self) -> bool {
        let segments = |info: &Self| (info.segments, info.segments_received);
        let times = |info: &Self| {
            let limited_us = (info.receiver_limited_us, info.send_buffer_limited_us);
            (limited_us, info.busy_us)
        };
        segments(self) != segments(before) || times(self) != times(before)
    }

    /// One reading, with the differences from an earlier one of the same socket. Narrow counters may wrap.
    pub fn since(&self, before: &Self) -> TcpSums {
        let narrow = |of: fn(&Self) -> u32| u64::from(of(self).wrapping_sub(of(before)));
        let wide = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        let ns = |us: u64| us.saturating_mul(1000);
        let rtt_ns = ns(self.rtt_us.into());
        TcpSums {
            readings: 1,
            reconnects: 0,
            rtt_ns_sum: rtt_ns,
            rtt_ns_max: rtt_ns,
            rtt_ns_min: ns(self.rtt_min_us.into()),
            rtt_var_ns_sum: ns(self.rtt_var_us.into()),
            segments: narrow(|info| info.segments),
            retrans: narrow(|info| info.retrans),
            retrans_bytes: wide(|info| info.retrans_bytes),
            lost_max: self.lost.into(),
            reorderings: narrow(|info| info.reorderings),
            in_flight_sum: self.in_flight.into(),
            in_flight_max: self.in_flight.into(),
            cwnd_sum: self.cwnd.into(),
            send_window_sum: self.send_window.into(),
            receive_window_sum: self.receive_window.unwrap_or(0).into(),
            receive_window_readings: self.receive_window.is_some().into(),
            receiver_limited_ns: ns(wide(|info| info.receiver_limited_us)),
            send_buffer_limited_ns: ns(wide(|info| info.send_buffer_limited_us)),
            delivery_rate_max: self.delivery_rate,
            busy_ns: ns(wide(|info| info.busy_us)),
            out_of_order: narrow(|info| info.out_of_order),
        }
    }
}

/// A socket that asks about the sockets of one network namespace.
pub struct SockDiag {
    socket: OwnedFd,
    /// Number of the next request.
    next: u32,
}

impl SockDiag {
    /// Asks about the namespace in which the calling thread is now.
    pub fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { socket, next: 0 })
    }

    /// Looks up each connection. `None` stands for one that the kernel does not find or that is not established.
    pub fn look_up(&mut self, connections: &[Ends]) -> Vec<Option<SocketReading>> {
        let mut found = vec![None; connections.len()];
        let pieces = connections.chunks(AT_ONCE);
        for (connections, found) in pieces.zip(found.chunks_mut(AT_ONCE)) {
            self.look_up_at_once(connections, found);
        }
        found
    }

    fn look_up_at_once(&mut self, connections: &[Ends], found: &mut [Option<SocketReading>]) {
        let first = self.next;
        let mut requests = Vec::with_capacity(connections.len() * REQUEST_BYTES as usize);
        for ends in connections {
            put_request(&mut requests, ends, self.next);
            self.next = self.next.wrapping_add(1);
        }
        if send(&self.socket, &requests, SendFlags::empty()).is_err() {
            return;
        }
        // The kernel answers within `send`. There may be answers that an earlier call has not taken.
        let mut answer = [0_u8; ANSWER_BYTES];
        for _ in 0..4 * AT_ONCE {
            match recv(&self.socket, &mut answer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => take_answers(&answer[..length], first, found),
                // Some answers had no room: their connections are unknown this time.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Writes the request for a socket, in any state.
fn put_request(out: &mut Vec<u8>, ends: &Ends, number: u32) {
    let family = match ends.server {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    out.extend(REQUEST_BYTES.to_ne_bytes());
    out.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend(NLM_F_REQUEST.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend([0_u8; 4]); // port of the sender, which the kernel knows
    let extensions = 1 << (INET_DIAG_INFO - 1);
    out.extend([family as u8, libc::IPPROTO_TCP as u8, extensions, 0]);
    out.extend(u32::MAX.to_ne_bytes()); // states
    for end in [ends.client, ends.server] {
        out.extend(end.port().to_be_bytes());
    }
    for end in [ends.client, ends.server] {
        match end.ip() {
            IpAddr::V4(address) => {
                out.extend(address.octets());
                out.extend([0_u8; 12]);
            }
            IpAddr::V6(address) => out.extend(address.octets()),
        }
    }
    out.extend([0_u8; 4]); // interface
    out.extend([0xFF_u8; 8]); // any cookie
}

/// Takes the answers of a datagram to the requests from number `first` on.
pub(crate) fn take_answers(mut datagram: &[u8], first: u32, found: &mut [Option<SocketReading>]) {
    while let Some((message, rest)) = next_message(datagram) {
        let place = message.number.wrapping_sub(first) as usize;
        if message.kind == SOCK_DIAG_BY_FAMILY
            && let Some(found) = found.get_mut(place)
        {
            *found = socket_reading(message.content);
        }
        datagram = rest;
    }
}

/// A netlink message.
struct Message<'d> {
    kind: u16,
    /// Number of the request that it answers.
    number: u32,
    content: &'d [u8],
}

/// The first message of a datagram, and the others. `None` if there is none, or its length is impossible.
fn next_message(datagram: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32_at(datagram, 0)? as usize;
    let message = Message {
        kind: u16_at(datagram, 4)?,
        number: u32_at(datagram, 8)?,
        content: datagram.get(HEADER_BYTES..length)?,
    };
    let rest = datagram.get(aligned(length)..).unwrap_or_default();
    Some((message, rest))
}

fn socket_reading(content: &[u8]) -> Option<SocketReading> {
    let attributes = content.get(SOCKET_BYTES..)?;
    let info = attribute(attributes, INET_DIAG_INFO.into())?;
    Some(SocketReading {
        cookie: u64_at(content, COOKIE)?,
        info: TcpInfo::parse(info)?,
    })
}

/// The value of an attribute.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let kind = u16_at(attributes, 2)? & !ATTRIBUTE_FLAGS;
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(aligned(length)..)?;
    }
}

/// Messages and attributes begin at multiples of 4.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Readings for tests of other modules.
#[cfg(test)]
pub fn reading(cookie: u64, segments: u32, retrans: u32) -> SocketReading {
    SocketReading {
        cookie,
        info: TcpInfo {
            rtt_us: 40_000,
            rtt_min_us: 39_000,
            segments,
            retrans,
            ..TcpInfo::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A structure of `bytes` bytes in which each member has another value.
    fn tcp_info(bytes: usize) -> Vec<u8> {
        let mut info = vec![0; bytes];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = info.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        put(offsets::STATE, &[ESTABLISHED]);
        for (at, value) in [
            (offsets::UNACKED, 10),
            (offsets::SACKED, 3),
            (offsets::LOST, 2),
            (offsets::RETRANS, 1),
            (offsets::RTT, 40_100),
            (offsets::RTT_VAR, 150),
            (offsets::CWND, 12),
            (offsets::TOTAL_RETRANS, 5),
            (offsets::MIN_RTT, 40_000),
            (offsets::DATA_SEGS_IN, 900),
            (offsets::DATA_SEGS_OUT, 100),
            (offsets::REORD_SEEN, 4),
            (offsets::RCV_OOOPACK, 9),
            (offsets::SND_WND, 65_536),
            (offsets::RCV_WND, 131_072),
        ] {
            put(at, &u32::to_ne_bytes(value));
        }
        for (at, value) in [
            (offsets::DELIVERY_RATE, 1_000_000),
            (offsets::BUSY_TIME, 6000),
            (offsets::RWND_LIMITED, 7000),
            (offsets::SNDBUF_LIMITED, 8000),
            (offsets::BYTES_RETRANS, 7240),
        ] {
            put(at, &u64::to_ne_bytes(value));
        }
        info
    }

    /// A message as the kernel sends it: an attribute of 5 bytes comes before the structure.
    fn answer(number: u32, cookie: u64, info: &[u8]) -> Vec<u8> {
        let mut content = vec![0; SOCKET_BYTES];
        content[COOKIE..COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
        let mut put = |kind: u16, value: &[u8]| {
            content.extend((4 + value.len() as u16).to_ne_bytes());
            content.extend(kind.to_ne_bytes());
            content.extend(value);
            content.resize(aligned(content.len()), 0);
        };
        put(8, &[0]);
        put(INET_DIAG_INFO.into(), info);
        message(SOCK_DIAG_BY_FAMILY, number, &content)
    }

    fn message(kind: u16, number: u32, content: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(((HEADER_BYTES + content.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([0_u8; 2]);
        message.extend(number.to_ne_bytes());
        message.extend([0_u8; 4]);
        message.extend(content);
        message
    }

    fn taken(datagram: &[u8], first: u32, count: usize) -> Vec<Option<SocketReading>> {
        let mut found = vec![None; count];
        take_answers(datagram, first, &mut found);
        found
    }

    #[test]
    fn answers_belong_to_the_requests_with_their_numbers() {
        let refusal = message(2, 8, &[0xFE, 0xFF, 0xFF, 0xFF]);
        let late = answer(6, 1, &tcp_info(240));
        let own = answer(9, 77, &tcp_info(240));
        let found = taken(&[late, refusal, own].concat(), 7, 3);
        assert_eq!(found[..2], [None, None]);
        let SocketReading { cookie, info } = found[2].unwrap();
        assert_eq!(cookie, 77);
        let sums = info.since(&TcpInfo::default());
        let expected = TcpSums {
            readings: 1,
            reconnects: 0,
            rtt_ns_sum: 40_100_000,
            rtt_ns_max: 40_100_000,
            rtt_ns_min: 40_000_000,
            rtt_var_ns_sum: 150_000,
            segments: 100,
            retrans: 5,
            retrans_bytes: 7240,
            lost_max: 2,
            reorderings: 4,
            in_flight_sum: 6,
            in_flight_max: 6,
            cwnd_sum: 12,
            send_window_sum: 65_536,
            receive_window_sum: 131_072,
            receive_window_readings: 1,
            receiver_limited_ns: 7_000_000,
            send_buffer_limited_ns: 8_000_000,
            delivery_rate_max: 1_000_000,
            busy_ns: 6_000_000,
            out_of_order: 9,
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn what_an_older_kernel_does_not_send_is_unknown() {
        let found = taken(&answer(0, 1, &tcp_info(232)), 0, 1);
        let sums = found[0].unwrap().info.since(&TcpInfo::default());
        assert_eq!(sums.send_window_sum, 65_536);
        assert_eq!(sums.receive_window_mean(), None);
        for bytes in [0, 1, 72, 104, 192, 228, 231] {
            let found = taken(&answer(0, 1, &tcp_info(bytes)), 0, 1);
            assert_eq!(found, [None], "{bytes} bytes");
        }
    }

    #[test]
    fn a_connection_without_a_measured_rtt_is_unknown() {
        for (at, value) in [
            (offsets::STATE, 2),
            (offsets::RTT, 0),
            (offsets::MIN_RTT, u32::MAX),
        ] {
            let mut info = tcp_info(240);
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(taken(&answer(0, 1, &info), 0, 1), [None], "{at}");
        }
    }

    #[test]
    fn counters_are_differences_and_narrow_ones_wrap() {
        let before = TcpInfo {
            segments: u32::MAX - 1,
            retrans: 3,
            retrans_bytes: 100,
            ..TcpInfo::default()
        };
        let now = TcpInfo {
            segments: 4,
            retrans: 5,
            retrans_bytes: 3000,
            rtt_us: 200,
            ..before
        };
        let sums = now.since(&before);
        assert_eq!((sums.segments, sums.retrans), (6, 2));
        assert_eq!((sums.retrans_bytes, sums.rtt_ns_sum), (2900, 200_000));
        assert!(now.was_used_since(&before) && !now.was_used_since(&now));
        let waits = TcpInfo {
            receiver_limited_us: 900_000,
            ..before
        };
        let unanswered = TcpInfo {
            busy_us: 900_000,
            ..before
        };
        assert!(waits.was_used_since(&before) && unanswered.was_used_since(&before));
        let sums = waits.since(&before);
        assert_eq!((sums.segments, sums.receiver_limited_ns), (0, 900_000_000));
    }

    #[test]
    fn requests_have_the_form_of_the_kernel() {
        let mut out = Vec::new();
        let v4 = Ends {
            client: "10.0.0.1:875".parse().unwrap(),
            server: "10.0.0.5:2049".parse().unwrap(),
        };
        let v6 = Ends {
            client: "[fd00::1]:875".parse().unwrap(),
            server: "[fd00::5]:2049".parse().unwrap(),
        };
        put_request(&mut out, &v4, 5);
        put_request(&mut out, &v6, 6);
        assert_eq!(out.len(), 2 * REQUEST_BYTES as usize);
        let (first, rest) = next_message(&out).unwrap();
        let (second, rest) = next_message(rest).unwrap();
        assert!(rest.is_empty());
        assert_eq!((first.number, second.number), (5, 6));
        assert_eq!(first.content[..4], [2, 6, 2, 0]);
        assert_eq!(first.content[8..12], [0x03, 0x6B, 0x08, 0x01]);
        assert_eq!(first.content[12..16], [10, 0, 0, 1]);
        assert_eq!(first.content[28..32], [10, 0, 0, 5]);
        assert_eq!(second.content[..4], [10, 6, 2, 0]);
        assert_eq!(second.content[12..14], [0xFD, 0]);
        assert_eq!(second.content[43], 5);
    }

    #[test]
    fn impossible_lengths_end_a_datagram() {
        let sound = answer(0, 1, &tcp_info(240));
        for length in [0_u32, 3, 15, 16, sound.len() as u32 + 1, u32::MAX] {
            let mut forged = sound.clone();
            forged[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(taken(&forged, 0, 1), [None], "{length}");
        }
        let place = HEADER_BYTES + SOCKET_BYTES;
        for length in [0_u16, 3, 400, u16::MAX] {
            let mut forged = sound.clone();
            forged[place..place + 2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(taken(&forged, 0, 1), [None], "{length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            at in 0_usize..400,
        ) {
            taken(&bytes, 0, 2);
            let mut damaged = answer(0, 1, &tcp_info(240));
            let end = damaged.len().min(at + bytes.len());
            if let Some(place) = damaged.get_mut(at..end) {
                place.copy_from_slice(&bytes[..end - at]);
            }
            taken(&damaged, 0, 2);
        }
    }
}
