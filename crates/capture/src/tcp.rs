//! One direction of a TCP connection: its bytes in order, with holes where the capture lacks some.
//!
//! A hole is final when the other side acknowledges bytes after it: the bytes arrived, so the sender will not send them again.

use std::collections::VecDeque;

use crate::account::Account;

/// Most bytes of a direction that wait for earlier bytes.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// The same limit before the first acknowledgement: perhaps the capture has none.
const MOST_WAITING_UNACKNOWLEDGED: usize = 256 << 10;
/// Most segments of a direction that wait.
const MOST_WAITING: usize = 4096;
/// How long a segment waits for a retransmission, ns of the capture's time.
const LONGEST_WAIT_NS: i64 = 5_000_000_000;
/// A segment this far before the next byte is not part of this stream: windows are 1 GiB at most (RFC 7323).
const FARTHEST: i32 = 1 << 30;

/// The next part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes.
    Data(&'a [u8]),
    /// Bytes that are missing: not captured, or cut off.
    Hole(u64, Absence),
    /// Another stream begins, at its first byte.
    Begin,
    /// The stream continues at another position.
    Jump,
}

/// Why bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The capture lost them.
    Lost,
    /// The capture has the packet, but did not store all of it.
    Cut,
}

/// A segment's payload.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of its first byte.
    pub sequence: u32,
    /// Its bytes, as far as they were captured.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub bytes: u32,
    /// When it was captured, ns since the epoch.
    pub time_ns: i64,
}

#[derive(Debug)]
struct Waiting {
    sequence: u32,
    data: Vec<u8>,
    bytes: u32,
    time_ns: i64,
}

impl Waiting {
    fn segment(&self) -> Segment<'_> {
        Segment {
            sequence: self.sequence,
            data: &self.data,
            bytes: self.bytes,
            time_ns: self.time_ns,
        }
    }
}

/// One direction.
#[derive(Debug, Default)]
pub struct Stream {
    /// Sequence number of the next byte.
    next: Option<u32>,
    /// The position up to which the other side has acknowledged.
    acknowledged: Option<u32>,
    /// Segments after a hole, ascending.
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
}

/// How far `a` is after `b`.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

impl Stream {
    /// Whether a SYN with this sequence number begins a stream other than the current one.
    pub fn begins_anew(&self, sequence: u32) -> bool {
        let first = sequence.wrapping_add(1);
        // A retransmitted SYN has the same number as the SYN that began this stream.
        !(self.next == Some(first) && self.waiting.is_empty())
    }

    /// Takes a SYN with this sequence number.
    pub fn begin(
        &mut self,
        sequence: u32,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
        time_ns: i64,
    ) {
        self.finish(account, pieces);
        *self = Self {
            next: Some(sequence.wrapping_add(1)),
            ..Self::default()
        };
        pieces(Piece::Begin, time_ns, account);
    }

    /// Takes a segment with a payload.
    pub fn segment(
        &mut self,
        segment: Segment<'_>,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        let next = *self.next.get_or_insert(segment.sequence);
        let ahead = distance(segment.sequence, next);
        if ahead.unsigned_abs() > FARTHEST.unsigned_abs() {
            self.finish(account, pieces);
            *self = Self {
                next: Some(segment.sequence),
                ..Self::default()
            };
            pieces(Piece::Jump, segment.time_ns, account);
            self.deliver(segment, account, pieces);
        } else if ahead <= 0 {
            self.deliver(segment, account, pieces);
            if !self.waiting.is_empty() {
                self.advance(account, pieces);
            }
        } else {
            self.wait(segment, account);
            self.advance(account, pieces);
            let most = match self.acknowledged {
                Some(_) => MOST_WAITING_BYTES,
                None => MOST_WAITING_UNACKNOWLEDGED,
            };
            let is_late = self.waiting.front().is_some_and(|first| {
                segment.time_ns.saturating_sub(first.time_ns) > LONGEST_WAIT_NS
            });
            if self.waiting_bytes > most || self.waiting.len() > MOST_WAITING || is_late {
                self.flush(account, pieces);
            }
        }
    }

    /// The other side has all bytes before this sequence number.
    pub fn acknowledge(
        &mut self,
        sequence: u32,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        if self
            .acknowledged
            .is_none_or(|before| distance(sequence, before) > 0)
        {
            self.acknowledged = Some(sequence);
            if !self.waiting.is_empty() {
                self.advance(account, pieces);
            }
        }
    }

    /// Bytes that wait for earlier ones.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// There are no more segments.
    pub fn finish(
        &mut self,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        self.flush(account, pieces);
    }

    fn wait(&mut self, segment: Segment<'_>, account: &mut Account) {
        let place = self
            .waiting
            .iter()
            .rposition(|other| distance(other.sequence, segment.sequence) <= 0)
            .map_or(0, |index| index + 1);
        let same = place
            .checked_sub(1)
            .and_then(|index| self.waiting.get(index));
        if same.is_some_and(|same| same.sequence == segment.sequence && same.bytes >= segment.bytes)
        {
            repeat(&segment, account);
            return;
        }
        self.waiting_bytes += segment.data.len();
        let waiting = Waiting {
            sequence: segment.sequence,
            data: segment.data.to_vec(),
            bytes: segment.bytes,
            time_ns: segment.time_ns,
        };
        self.waiting.insert(place, waiting);
    }

    /// Passes on the bytes that are next in order. Skips holes before the acknowledged position.
    fn advance(
        &mut self,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        while let (Some(next), Some(first)) = (self.next, self.waiting.front()) {
            let ahead = distance(first.sequence, next);
            if ahead > 0 {
                let known = self.acknowledged.map_or(0, |acked| distance(acked, next));
                let lost = ahead.min(known);
                if lost <= 0 {
                    return;
                }
                let time_ns = first.time_ns;
                self.lose(next, lost.unsigned_abs(), time_ns, account, pieces);
            } else {
                self.deliver_first(account, pieces);
            }
        }
    }

    /// Passes on everything that waits.
    fn flush(
        &mut self,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        while let (Some(next), Some(first)) = (self.next, self.waiting.front()) {
            let ahead = distance(first.sequence, next);
            if ahead > 0 {
                let time_ns = first.time_ns;
                self.lose(next, ahead.unsigned_abs(), time_ns, account, pieces);
            }
            self.deliver_first(account, pieces);
        }
    }

    fn lose(
        &mut self,
        next: u32,
        bytes: u32,
        time_ns: i64,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        account.lost_bytes += u64::from(bytes);
        account.holes += 1;
        pieces(
            Piece::Hole(u64::from(bytes), Absence::Lost),
            time_ns,
            account,
        );
        self.next = Some(next.wrapping_add(bytes));
    }

    fn deliver_first(
        &mut self,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        if let Some(first) = self.waiting.pop_front() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(first.data.len());
            self.deliver(first.segment(), account, pieces);
        }
    }

    /// Passes on a segment that begins at the next byte or before it.
    fn deliver(
        &mut self,
        segment: Segment<'_>,
        account: &mut Account,
        pieces: &mut impl FnMut(Piece<'_>, i64, &mut Account),
    ) {
        let next = self.next.unwrap_or(segment.sequence);
        let old = distance(next, segment.sequence).max(0).unsigned_abs();
        if old >= segment.bytes {
            repeat(&segment, account);
            return;
        }
        account.repeated_bytes += u64::from(old);
        let data = segment.data.get(old as usize..).unwrap_or_default();
        let new = segment.bytes - old;
        let data = &data[..data.len().min(new as usize)];
        if !data.is_empty() {
            pieces(Piece::Data(data), segment.time_ns, account);
        }
        let cut = u64::from(new) - data.len() as u64;
        if cut > 0 {
            account.cut_bytes += cut;
            pieces(Piece::Hole(cut, Absence::Cut), segment.time_ns, account);
        }
        self.next = Some(next.wrapping_add(new));
    }
}

fn repeat(segment: &Segment<'_>, account: &mut Account) {
    account.repeated_bytes += u64::from(segment.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: u32 = u32::MAX - 100;

    proptest! {
        /// However segments split, repeat, reorder and acknowledge a stream, each byte is passed on once, at its position.
        #[test]
        fn bytes_come_once_in_order_or_are_lost(
            segments in prop::collection::vec((0_u32..300, 1_u32..80, 0_u32..80, any::<Option<u16>>()), 1..60)
        ) {
            let stream: Vec<u8> = (0..400_u32).map(|at| (at * 7 % 251) as u8).collect();
            let (mut tcp, mut account) = (Stream::default(), Account::default());
            let mut position = 0;
            let mut delivered = 0;
            let mut pieces = |piece: Piece<'_>, _: i64, _: &mut Account| match piece {
                Piece::Data(data) => {
                    assert_eq!(data, &stream[position..position + data.len()]);
                    position += data.len();
                    delivered += data.len() as u64;
                }
                Piece::Hole(bytes, _) => position += bytes as usize,
                Piece::Begin | Piece::Jump => {}
            };
            tcp.begin(FIRST.wrapping_sub(1), &mut account, &mut pieces, 0);
            let mut sent = 0;
            for (at, bytes, kept, acknowledged) in &segments {
                let kept = (*kept).min(*bytes);
                let segment = Segment {
                    sequence: FIRST.wrapping_add(*at),
                    data: &stream[*at as usize..(at + kept) as usize],
                    bytes: *bytes,
                    time_ns: 0,
                };
                sent += u64::from(*bytes);
                tcp.segment(segment, &mut account, &mut pieces);
                if let Some(acknowledged) = acknowledged {
                    let sequence = FIRST.wrapping_add(u32::from(*acknowledged) % 400);
                    tcp.acknowledge(sequence, &mut account, &mut pieces);
                }
            }
            tcp.finish(&mut account, &mut pieces);
            prop_assert_eq!(sent, delivered + account.repeated_bytes + account.cut_bytes);
            let end = segments.iter().map(|(at, bytes, ..)| at + bytes).max();
            prop_assert_eq!(Some(position as u32), end);
            prop_assert_eq!(position as u64, delivered + account.cut_bytes + account.lost_bytes);
        }
    }
}
