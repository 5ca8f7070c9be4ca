//! Datagrams that consist of several IP packets.

use std::collections::VecDeque;
use std::net::IpAddr;

use ahash::AHashMap;

use crate::link::{Fragment, IpPacket};

/// Most bytes of all fragments in memory.
const MOST_BYTES: usize = 16 << 20;
/// A fragment that comes later than this, ns, belongs to another datagram: RFC 791 says 15 s, Linux uses 30 s.
const LONGEST_NS: i64 = 30_000_000_000;
/// A packet that comes again within this time, ns, is the same one captured twice.
const TWICE_NS: i64 = 10_000_000;
/// Complete datagrams that are remembered to detect repetitions.
const REMEMBERED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

/// A complete datagram.
#[derive(Debug)]
pub struct Datagram {
    /// Its payload, up to the first byte that was not captured.
    pub payload: Vec<u8>,
    /// The payload's length on the wire.
    pub bytes: u32,
    /// When its first fragment was captured, ns since the epoch.
    pub begin_ns: i64,
}

/// The result of adding a fragment.
#[derive(Debug)]
pub enum Assembled {
    /// The datagram is not complete yet.
    Waiting,
    /// This fragment completed the datagram.
    Complete(Datagram),
    /// The fragment was already there.
    Repeated,
}

#[derive(Debug, Default)]
struct Partial {
    /// First byte, length on the wire, captured bytes.
    pieces: Vec<(u32, u32, Vec<u8>)>,
    total_bytes: Option<u32>,
    begin_ns: i64,
    kept_bytes: usize,
}

/// Datagrams whose fragments are not all there yet.
#[derive(Debug, Default)]
pub struct Fragments {
    partial: AHashMap<Key, Partial>,
    order: VecDeque<Key>,
    kept_bytes: usize,
    complete: VecDeque<(Key, i64)>,
    /// Fragments that were given up, and their bytes on the wire.
    given_up: (u64, u64),
}

impl Fragments {
    /// Adds a fragment.
    pub fn add(&mut self, packet: &IpPacket<'_>, fragment: Fragment, time_ns: i64) -> Assembled {
        let key = Key {
            source: packet.source,
            destination: packet.destination,
            protocol: packet.protocol,
            identification: fragment.identification,
        };
        let was_complete = self.complete.iter().any(|(other, at_ns)| {
            *other == key && time_ns.saturating_sub(*at_ns).unsigned_abs() < TWICE_NS.unsigned_abs()
        });
        if was_complete {
            return Assembled::Repeated;
        }
        if let Some(old) = self.partial.get(&key)
            && time_ns.saturating_sub(old.begin_ns) > LONGEST_NS
        {
            self.give_up(key);
        }
        let partial = self.partial.entry(key).or_insert_with(|| {
            self.order.push_back(key);
            Partial {
                begin_ns: time_ns,
                ..Partial::default()
            }
        });
        if !partial.add(packet, fragment) {
            return Assembled::Repeated;
        }
        partial.kept_bytes += packet.payload.len();
        self.kept_bytes += packet.payload.len();
        if let Some(bytes) = partial.complete_bytes() {
            return self.complete(key, bytes, time_ns);
        }
        while self.kept_bytes > MOST_BYTES || self.order.len() > 4096 {
            let Some(oldest) = self.order.front().copied() else {
                break;
            };
            self.give_up(oldest);
            self.order.retain(|key| *key != oldest);
        }
        Assembled::Waiting
    }

    fn complete(&mut self, key: Key, bytes: u32, time_ns: i64) -> Assembled {
        let Some(partial) = self.partial.remove(&key) else {
            return Assembled::Waiting;
        };
        self.order.retain(|other| *other != key);
        self.kept_bytes = self.kept_bytes.saturating_sub(partial.kept_bytes);
        self.complete.push_back((key, time_ns));
        if self.complete.len() > REMEMBERED {
            self.complete.pop_front();
        }
        Assembled::Complete(Datagram {
            begin_ns: partial.begin_ns,
            payload: partial.payload(bytes),
            bytes,
        })
    }

    fn give_up(&mut self, key: Key) {
        if let Some(partial) = self.partial.remove(&key) {
            self.kept_bytes = self.kept_bytes.saturating_sub(partial.kept_bytes);
            self.given_up.0 += partial.pieces.len() as u64;
            let bytes = partial.pieces.iter().map(|(_, bytes, _)| u64::from(*bytes));
            self.given_up.1 += bytes.sum::<u64>();
        }
    }

    /// There are no more packets. Returns the number of fragments of incomplete datagrams, and their bytes.
    pub fn finish(&mut self) -> (u64, u64) {
        let keys: Vec<Key> = self.partial.keys().copied().collect();
        for key in keys {
            self.give_up(key);
        }
        self.given_up
    }
}

impl Partial {
    /// Adds a fragment. Returns whether it is new.
    fn add(&mut self, packet: &IpPacket<'_>, fragment: Fragment) -> bool {
        if !fragment.has_more {
            let end = fragment.offset.saturating_add(packet.payload_bytes);
            self.total_bytes.get_or_insert(end);
        }
        let place = self
            .pieces
            .partition_point(|(offset, ..)| *offset < fragment.offset);
        let is_there = self.pieces.get(place);
        if is_there.is_some_and(|(offset, ..)| *offset == fragment.offset) {
            return false;
        }
        let piece = (
            fragment.offset,
            packet.payload_bytes,
            packet.payload.to_vec(),
        );
        self.pieces.insert(place, piece);
        true
    }

    fn complete_bytes(&self) -> Option<u32> {
        let total = self.total_bytes?;
        let mut end = 0_u32;
        for (offset, bytes, _) in &self.pieces {
            if *offset > end {
                return None;
            }
            end = end.max(offset.saturating_add(*bytes));
        }
        (end >= total).then_some(total)
    }

    /// The payload as far as it was captured. Drops bytes of a fragment after the end that the last fragment sets.
    fn payload(&self, total: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        for (offset, bytes, captured) in &self.pieces {
            let Some(overlap) = payload.len().checked_sub(*offset as usize) else {
                break;
            };
            payload.extend_from_slice(captured.get(overlap..).unwrap_or_default());
            if captured.len() < *bytes as usize {
                break;
            }
        }
        payload.truncate(total as usize);
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_ends_where_its_last_fragment_does() {
        let mut fragments = Fragments::default();
        let mut add = |offset: u32, payload: &[u8], has_more: bool| {
            let packet = IpPacket {
                source: IpAddr::from([10, 0, 0, 1]),
                destination: IpAddr::from([10, 0, 0, 2]),
                protocol: 17,
                identification: 0,
                payload,
                payload_bytes: payload.len() as u32,
                fragment: None,
            };
            let fragment = Fragment {
                identification: 7,
                offset,
                has_more,
            };
            fragments.add(&packet, fragment, 0)
        };
        assert!(matches!(add(8, &[2; 40], true), Assembled::Waiting));
        assert!(matches!(add(16, &[3; 8], false), Assembled::Waiting));
        let Assembled::Complete(datagram) = add(0, &[1; 8], true) else {
            panic!("all of it is there");
        };
        assert_eq!((datagram.bytes, datagram.payload.len()), (24, 24));
    }
}
