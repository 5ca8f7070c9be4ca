//! Payload of a frame with the streams of a capture.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use trackiops_schemas::captured::{Captured, Carrier, Stream, StreamBytes, StreamDirection};

use super::payload::{put_row_counters, row_counters};
use crate::varint::{DecodeError, Input, put_u64};

/// Bits of a stream.
const NAMED: u8 = 1;
const UDP: u8 = 2;
const REPLIES: u8 = 4;
const IPV6: u8 = 8;

pub(super) fn put_captured(out: &mut Vec<u8>, captured: &Captured) {
    let streams = captured.iter();
    put_u64(out, streams.len() as u64);
    for (stream, bytes) in streams {
        put_stream(out, stream);
        put_row_counters(out, &StreamBytes::COUNTERS, bytes.counters());
    }
}

fn put_stream(out: &mut Vec<u8>, stream: Option<&Stream>) {
    let Some(Stream {
        client,
        server,
        carrier,
        direction,
    }) = stream
    else {
        return out.push(0);
    };
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let is_ipv6 = client.is_ipv6() || server.is_ipv6();
    out.push(
        NAMED
            | bit(*carrier == Carrier::Udp, UDP)
            | bit(*direction == StreamDirection::Replies, REPLIES)
            | bit(is_ipv6, IPV6),
    );
    for end in [client, server] {
        match end.ip() {
            IpAddr::V4(ip) if is_ipv6 => out.extend(ip.to_ipv6_mapped().octets()),
            IpAddr::V4(ip) => out.extend(ip.octets()),
            IpAddr::V6(ip) => out.extend(ip.octets()),
        }
        out.extend(end.port().to_le_bytes());
    }
}

pub(super) fn captured(input: &mut Input<'_>) -> Result<Captured, DecodeError> {
    let mut captured = Captured::default();
    for _ in 0..input.u64()? {
        let stream = stream(input)?;
        let counters = row_counters(input, &StreamBytes::COUNTERS)?;
        captured.add(stream, &StreamBytes::of_counters(counters));
    }
    Ok(captured)
}

fn stream(input: &mut Input<'_>) -> Result<Option<Stream>, DecodeError> {
    let bits = input.byte()?;
    if bits & !(NAMED | UDP | REPLIES | IPV6) != 0 {
        return Err(DecodeError::Malformed("a stream has unknown bits"));
    }
    if bits & NAMED == 0 {
        return Ok(None);
    }
    let is = |bit| bits & bit != 0;
    Ok(Some(Stream {
        client: end(input, is(IPV6))?,
        server: end(input, is(IPV6))?,
        carrier: if is(UDP) { Carrier::Udp } else { Carrier::Tcp },
        direction: match is(REPLIES) {
            true => StreamDirection::Replies,
            false => StreamDirection::Calls,
        },
    }))
}

fn end(input: &mut Input<'_>, is_ipv6: bool) -> Result<SocketAddr, DecodeError> {
    let ip = match is_ipv6 {
        true => IpAddr::from(Ipv6Addr::from(bytes::<16>(input)?)).to_canonical(),
        false => IpAddr::from(Ipv4Addr::from(bytes::<4>(input)?)),
    };
    Ok(SocketAddr::new(ip, u16::from_le_bytes(bytes(input)?)))
}

fn bytes<const COUNT: usize>(input: &mut Input<'_>) -> Result<[u8; COUNT], DecodeError> {
    let mut bytes = [0; COUNT];
    for byte in &mut bytes {
        *byte = input.byte()?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream_of(ip: IpAddr, port: u16, is_udp: bool, is_reply: bool) -> Stream {
        Stream {
            client: SocketAddr::new(ip, port),
            server: SocketAddr::from(([10, 0, 0, 2], 2049)),
            carrier: if is_udp { Carrier::Udp } else { Carrier::Tcp },
            direction: match is_reply {
                true => StreamDirection::Replies,
                false => StreamDirection::Calls,
            },
        }
    }

    proptest! {
        #[test]
        fn streams_read_back(
            ends in prop::collection::vec((any::<bool>(), any::<u16>(), any::<bool>(), any::<bool>()), 0..6),
            others in prop::option::of(0_u64..1 << 50),
        ) {
            let mut expected = Captured::default();
            for (i, (is_ipv6, port, is_udp, is_reply)) in ends.into_iter().enumerate() {
                let ip = match is_ipv6 {
                    true => IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, i as u16)),
                    false => IpAddr::from([10, 0, 0, i as u8]),
                };
                let mut counters = [0; StreamBytes::COUNT];
                counters.iter_mut().enumerate().for_each(|(place, counter)| *counter = (i * place) as u64);
                let stream = stream_of(ip, port, is_udp, is_reply);
                expected.add(Some(stream), &StreamBytes::of_counters(counters));
            }
            if let Some(lost_bytes) = others {
                expected.add(None, &StreamBytes { lost_bytes, ..StreamBytes::default() });
            }
            let mut out = Vec::new();
            put_captured(&mut out, &expected);
            let mut input = Input::new(&out);
            prop_assert_eq!(captured(&mut input), Ok(expected));
            prop_assert_eq!(input.remaining(), 0);
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = captured(&mut Input::new(&bytes));
        }
    }
}
