//! From a frame to the payload of its IP packet: Ethernet with VLAN tags, Linux cooked (1 and 2), raw IP, loopback; IPv4 and IPv6.

use std::fmt;
use std::net::IpAddr;

use etherparse::LaxIpSlice;

/// Why a frame was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skipped {
    /// An unknown link type, by its number in the file.
    LinkType(i32),
    /// Not IP: ARP, LLDP and the like.
    NotIp,
    /// Headers that end too early or contradict each other.
    Malformed,
    /// A packet inside a packet.
    Tunnel(&'static str),
    /// RoCE, which carries among others NFS over RDMA.
    Rdma,
    /// TCP or UDP that is not NFS, and other protocols.
    OtherTraffic,
    /// Fragments of datagrams that the capture does not have completely.
    IncompleteDatagram,
    /// Datagrams that the capture contains twice.
    Repeated,
    /// Packets of pcapng without a readable time.
    Untimed,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(number) => write!(f, "link type {number}"),
            Self::NotIp => f.write_str("not IP"),
            Self::Malformed => f.write_str("malformed headers"),
            Self::Tunnel(name) => write!(f, "tunnel ({name})"),
            Self::Rdma => f.write_str("RDMA"),
            Self::OtherTraffic => f.write_str("other traffic"),
            Self::IncompleteDatagram => f.write_str("incomplete datagrams"),
            Self::Repeated => f.write_str("captured twice"),
            Self::Untimed => f.write_str("without a time (simple packets of pcapng)"),
        }
    }
}

/// Place of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identifies the datagram, together with addresses and protocol.
    pub identification: u32,
    /// Its first byte in the datagram.
    pub offset: u32,
    /// Whether others follow.
    pub has_more: bool,
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct IpPacket<'a> {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Number of the datagram; 0 where there is none.
    pub identification: u32,
    /// Set if the packet is only a part of a datagram.
    pub fragment: Option<Fragment>,
    /// Payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Length of the payload on the wire.
    pub payload_bytes: u32,
}

/// Protocol numbers.
pub mod protocol {
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Finds the IP packet in a frame of `frame_bytes` on the wire.
pub fn ip_packet(link_type: i32, frame: &[u8], frame_bytes: u32) -> Result<IpPacket<'_>, Skipped> {
    let (ether_type, header) = match link_type {
        1 => (u16_at(frame, 12)?, 14),
        113 => (u16_at(frame, 14)?, 16),
        276 => (u16_at(frame, 0)?, 20),
        // BSD loopback: the address family, in the byte order of the capturing host or of the network.
        0 | 108 => (IPV4, 4),
        // Raw IP, also with its numbers in files of other systems.
        12 | 14 | 101 | 228 | 229 => (IPV4, 0),
        other => return Err(Skipped::LinkType(other)),
    };
    let (ether_type, header) = behind_vlan_tags(frame, ether_type, header)?;
    match ether_type {
        IPV4 | IPV6 => {}
        0x8847 | 0x8848 => return Err(Skipped::Tunnel("MPLS")),
        0x8864 => return Err(Skipped::Tunnel("PPPoE")),
        0x8915 => return Err(Skipped::Rdma),
        _ => return Err(Skipped::NotIp),
    }
    let packet = frame.get(header..).ok_or(Skipped::Malformed)?;
    let packet_bytes = frame_bytes.saturating_sub(u32::try_from(header).unwrap_or(0));
    sliced(packet, packet_bytes)
}

fn behind_vlan_tags(
    frame: &[u8],
    mut ether_type: u16,
    mut header: usize,
) -> Result<(u16, usize), Skipped> {
    while matches!(ether_type, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
        ether_type = u16_at(frame, header + 2)?;
        header += 4;
    }
    Ok((ether_type, header))
}

fn u16_at(frame: &[u8], at: usize) -> Result<u16, Skipped> {
    match frame.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Skipped::Malformed),
    }
}

fn sliced(packet: &[u8], packet_bytes: u32) -> Result<IpPacket<'_>, Skipped> {
    let (ip, _) = LaxIpSlice::from_slice(packet).map_err(|_| Skipped::Malformed)?;
    let payload = ip.payload();
    // Headers and extension headers before the payload.
    let header = payload.payload.as_ptr() as usize - packet.as_ptr() as usize;
    let header = u32::try_from(header).map_err(|_| Skipped::Malformed)?;
    let (total, identification, fragment) = match &ip {
        LaxIpSlice::Ipv4(v4) => {
            let header = v4.header();
            let identification = u32::from(header.identification());
            let fragment = v4.is_payload_fragmented().then(|| Fragment {
                identification,
                offset: u32::from(header.fragments_offset().value()) * 8,
                has_more: header.more_fragments(),
            });
            (u32::from(header.total_len()), identification, fragment)
        }
        LaxIpSlice::Ipv6(v6) => {
            let first = v6.header().next_header().0;
            let part = ipv6_fragment(first, v6.extensions().slice());
            let length = v6.header().payload_length();
            let total = if length == 0 {
                0
            } else {
                u32::from(length) + 40
            };
            let part = part.filter(|_| v6.is_payload_fragmented());
            (total, part.map_or(0, |part| part.identification), part)
        }
    };
    // The length is 0 if the network card splits the packet later (TSO, BIG TCP).
    let total = if total == 0 { packet_bytes } else { total };
    let captured = u32::try_from(payload.payload.len()).map_err(|_| Skipped::Malformed)?;
    Ok(IpPacket {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        protocol: payload.ip_number.0,
        identification,
        fragment,
        payload: payload.payload,
        payload_bytes: total.saturating_sub(header).max(captured),
    })
}

/// Finds the place of a fragment among extension headers (RFC 8200, section 4). `first` is the number of the first header.
///
/// The iterator of etherparse 0.21.0 reads past the end of headers that contradict each other.
fn ipv6_fragment(first: u8, headers: &[u8]) -> Option<Fragment> {
    let (mut number, mut rest) = (first, headers);
    while let Some(header) = rest.first_chunk::<8>() {
        let len = match number {
            0 | 43 | 60 => (usize::from(header[1]) + 1) * 8,
            51 => (usize::from(header[1]) + 2) * 4,
            44 => {
                let offset = u16::from_be_bytes([header[2], header[3]]);
                return Some(Fragment {
                    identification: u32::from_be_bytes([
                        header[4], header[5], header[6], header[7],
                    ]),
                    offset: u32::from(offset & !7),
                    has_more: offset & 1 != 0,
                });
            }
            _ => return None,
        };
        number = header[0];
        rest = rest.get(len..)?;
    }
    None
}

/// The name of a tunnel, by IP protocol or UDP port.
pub fn tunnel(protocol: u8, udp_port: Option<u16>) -> Option<Skipped> {
    Some(match (protocol, udp_port) {
        (4 | 41, _) => Skipped::Tunnel("IP in IP"),
        (47, _) => Skipped::Tunnel("GRE"),
        (50, _) => Skipped::Tunnel("IPsec"),
        (_, Some(4789 | 8472)) => Skipped::Tunnel("VXLAN"),
        (_, Some(6081)) => Skipped::Tunnel("Geneve"),
        (_, Some(4791)) => Skipped::Rdma,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv6 packet with these headers and a payload.
    fn ipv6(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, first, 64];
        packet.extend([0; 32]);
        packet.extend(rest);
        packet
    }

    #[test]
    fn fragments_of_ipv6_are_found_behind_other_headers() {
        let options = [44, 0, 1, 4, 0, 0, 0, 0];
        let fragment = [17, 0, 5, 0xa9, 0, 0, 0, 7];
        let packet = ipv6(0, &[&options[..], &fragment, b"payload"].concat());
        let ip = ip_packet(101, &packet, packet.len() as u32).unwrap();
        let expected = Fragment {
            identification: 7,
            offset: 0x5a8,
            has_more: true,
        };
        assert_eq!(ip.fragment, Some(expected));
        assert_eq!(
            (ip.payload, ip.payload_bytes, ip.protocol),
            (&b"payload"[..], 7, 17)
        );
    }

    #[test]
    fn headers_that_end_early_are_no_fragments() {
        // A routing header, followed by another one that claims to be longer than the packet.
        let packet = ipv6(43, &[43, 0, 0, 0, 0, 0, 0, 0, 44, 200, 0, 0]);
        for end in 40..packet.len() {
            if let Ok(ip) = ip_packet(101, &packet[..end], packet.len() as u32) {
                assert_eq!(ip.fragment, None);
            }
        }
        assert_eq!(ipv6_fragment(43, &[44, 0, 0, 0, 0, 0, 0, 0, 17, 0]), None);
    }
}
