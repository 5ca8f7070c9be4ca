//! A TCP connection, or the UDP traffic between two addresses with ports: two directions, and the calls of both.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::account::Account;
use crate::decoder::{ConnectionReport, NFS_PORT};
use crate::message::{Opaque, Peers, Receiver, Request, Seen, Transport};
use crate::pairing::{Answer, Counting, Pairing};
use crate::record::{MessageReader, RecordReader};
use crate::rpc::{self, Message, Origin, Unread};
use crate::tcp::{Piece, Segment, Stream};
use crate::xdr::SparseRecord;

/// Further reasons are counted as malformed. The limit is needed because reasons contain numbers from the capture.
const MOST_REASONS: usize = 64;
/// Bytes of a datagram to read first.
const FIRST_BYTES: usize = 1024;

/// Counts for one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls with a reply.
    pub requests: u64,
    /// Calls without one.
    pub unanswered: u64,
    /// Calls that were sent again.
    pub retransmissions: u64,
    /// Replies to calls that were answered before.
    pub repeated_replies: u64,
    /// Messages that were not read completely, by reason.
    pub opaque: BTreeMap<Opaque, u64>,
    /// TLS began: nothing after it can be read.
    pub is_tls: bool,
}

impl Tally {
    fn note(&mut self, opaque: Option<Opaque>) {
        let Some(opaque) = opaque else {
            return;
        };
        if self.opaque.len() < MOST_REASONS || self.opaque.contains_key(&opaque) {
            *self.opaque.entry(opaque).or_default() += 1;
        } else {
            *self.opaque.entry(Opaque::Malformed).or_default() += 1;
        }
    }
}

/// Facts from the TCP header.
#[derive(Clone, Copy, Debug)]
pub struct TcpFlags {
    /// A connection begins (SYN).
    pub is_syn: bool,
    /// The end of the bytes that the sender has received from the other direction.
    pub acknowledged: Option<u32>,
}

#[derive(Default)]
struct Half {
    stream: Stream,
    records: RecordReader,
    account: Account,
    /// The part of `account` that [`Receiver::account`] was already given.
    reported: Account,
}

/// A connection.
pub struct Connection {
    /// The two ends, the smaller address first.
    ends: [SocketAddr; 2],
    transport: Transport,
    halves: [Half; 2],
    pairing: Pairing,
    tally: Tally,
    /// When its last packet was captured.
    pub(crate) last_ns: i64,
}

impl Connection {
    /// A connection between these two ends.
    pub fn new(ends: [SocketAddr; 2], transport: Transport) -> Self {
        Self {
            ends,
            transport,
            halves: Default::default(),
            pairing: Pairing::default(),
            tally: Tally::default(),
            last_ns: i64::MIN,
        }
    }

    /// The half that carries the messages of one end, and the [`Side`] that reads them.
    fn parts<'a, R: Receiver>(
        &'a mut self,
        from_first: bool,
        receiver: &'a mut R,
    ) -> (&'a mut Half, Side<'a, R>) {
        let [first, second] = self.ends;
        let (client, server) = match from_first {
            true => (first, second),
            false => (second, first),
        };
        let side = Side {
            peers: Peers {
                client,
                server,
                transport: self.transport,
            },
            from_first,
            pairing: &mut self.pairing,
            tally: &mut self.tally,
            receiver,
        };
        (&mut self.halves[usize::from(!from_first)], side)
    }

    /// Takes a TCP segment from one end. Returns by how many bytes the memory in use grew.
    pub fn segment(
        &mut self,
        from_first: bool,
        flags: TcpFlags,
        segment: Segment<'_>,
        receiver: &mut impl Receiver,
    ) -> isize {
        let before = self.kept_bytes();
        self.last_ns = self.last_ns.max(segment.time_ns);
        if flags.is_syn {
            self.syn(from_first, flags, segment, receiver);
        }
        if let Some(sequence) = flags.acknowledged {
            let (other, mut side) = self.parts(!from_first, receiver);
            other.stream.acknowledge(
                sequence,
                &mut other.account,
                &mut pieces(&mut other.records, &mut side),
            );
        }
        if segment.bytes > 0 {
            let segment = Segment {
                sequence: segment.sequence.wrapping_add(u32::from(flags.is_syn)),
                ..segment
            };
            let (own, mut side) = self.parts(from_first, receiver);
            own.account.packets += 1;
            own.account.payload_bytes += u64::from(segment.bytes);
            own.stream.segment(
                segment,
                &mut own.account,
                &mut pieces(&mut own.records, &mut side),
            );
        }
        if self.tally.is_tls {
            for half in &mut self.halves {
                half.records.make_opaque(&mut half.account);
            }
        }
        self.kept_bytes().cast_signed() - before.cast_signed()
    }

    fn syn(
        &mut self,
        from_first: bool,
        flags: TcpFlags,
        segment: Segment<'_>,
        receiver: &mut impl Receiver,
    ) {
        let own = &self.halves[usize::from(!from_first)];
        if !own.stream.begins_anew(segment.sequence) {
            return;
        }
        if flags.acknowledged.is_none() {
            // The client opens a new connection, so the previous one is over.
            self.end(receiver);
            self.tally.is_tls = false;
        }
        let (own, mut side) = self.parts(from_first, receiver);
        own.stream.begin(
            segment.sequence,
            &mut own.account,
            &mut pieces(&mut own.records, &mut side),
            segment.time_ns,
        );
    }

    /// Bytes in memory, approximately.
    pub fn kept_bytes(&self) -> usize {
        let halves = self.halves.iter();
        let halves = halves.map(|half| half.stream.waiting_bytes() + half.records.kept_bytes());
        self.pairing.kept_bytes() + halves.sum::<usize>()
    }

    /// Takes a datagram from one end: its captured payload, and its length on the wire.
    pub fn datagram(
        &mut self,
        from_first: bool,
        payload: &[u8],
        bytes: u32,
        seen: Seen,
        receiver: &mut impl Receiver,
    ) -> isize {
        let before = self.kept_bytes();
        self.last_ns = self.last_ns.max(seen.end_ns);
        let (half, mut side) = self.parts(from_first, receiver);
        let account = &mut half.account;
        account.packets += 1;
        account.payload_bytes += u64::from(bytes);
        account.cut_bytes += u64::from(bytes).saturating_sub(payload.len() as u64);
        let (first, rest) = payload.split_at(payload.len().min(FIRST_BYTES));
        let mut record = SparseRecord::default();
        record.push(0, first);
        let mut read = side.read(&record, rest.is_empty(), seen.begin_ns, u64::from(bytes));
        if matches!(read, Err(Unread::Need(_))) && !rest.is_empty() {
            record.push(first.len() as u64, rest);
            read = side.read(&record, true, seen.begin_ns, u64::from(bytes));
        }
        match read {
            Ok(message) => {
                account.parsed_bytes += record.known() as u64;
                account.skipped_bytes += (payload.len() - record.known()) as u64;
                side.take(message, seen, account);
            }
            Err(_) => account.not_understood_bytes += payload.len() as u64,
        }
        self.kept_bytes().cast_signed() - before.cast_signed()
    }

    /// The client is the end that calls. Before the first call, the server is the end with the NFS port.
    pub fn peers(&self) -> Peers {
        let [first, second] = self.ends;
        let [of_first, of_second] = self.halves.each_ref().map(|half| half.account.calls);
        let first_calls = match of_first.cmp(&of_second) {
            Ordering::Equal => second.port() == NFS_PORT,
            order => order.is_gt(),
        };
        let (client, server) = match first_calls {
            true => (first, second),
            false => (second, first),
        };
        Peers {
            client,
            server,
            transport: self.transport,
        }
    }

    /// Passes on what both accounts gained since the last report.
    pub fn report_accounts(&mut self, receiver: &mut impl Receiver) {
        let peers = self.peers();
        let first_calls = peers.client == self.ends[0];
        for (half, is_first) in self.halves.iter_mut().zip([true, false]) {
            let more = half.account.since(&half.reported);
            if more != Account::default() {
                half.reported = half.account;
                receiver.account(&peers, is_first == first_calls, self.last_ns, &more);
            }
        }
    }

    /// Drops everything that waits: bytes after holes, partial records, calls without replies.
    pub fn let_go(&mut self, receiver: &mut impl Receiver) {
        self.flush(receiver);
        for from_first in [true, false] {
            let (half, mut side) = self.parts(from_first, receiver);
            half.records.let_go(&mut side);
        }
        self.forget_calls(receiver);
    }

    fn flush(&mut self, receiver: &mut impl Receiver) {
        for from_first in [true, false] {
            let (half, mut side) = self.parts(from_first, receiver);
            half.stream
                .finish(&mut half.account, &mut pieces(&mut half.records, &mut side));
        }
    }

    fn forget_calls(&mut self, receiver: &mut impl Receiver) {
        let mut counting = Counting {
            receiver,
            unanswered: 0,
        };
        self.pairing.finish(&mut counting);
        self.tally.unanswered += counting.unanswered;
    }

    /// The connection is over, or another one begins between the same ends.
    fn end(&mut self, receiver: &mut impl Receiver) {
        self.flush(receiver);
        for half in &mut self.halves {
            half.records.abandon(&mut half.account);
            half.stream = Stream::default();
        }
        self.forget_calls(receiver);
    }

    /// There are no more packets. Returns the counts, and the accounts of both directions.
    pub fn finish(mut self, receiver: &mut impl Receiver) -> ConnectionReport {
        self.end(receiver);
        self.report_accounts(receiver);
        let peers = self.peers();
        let [first, second] = self.halves.each_ref().map(|half| half.account);
        let (sent, answered) = match peers.client == self.ends[0] {
            true => (first, second),
            false => (second, first),
        };
        ConnectionReport {
            peers,
            tally: self.tally,
            sent,
            answered,
        }
    }
}

/// Passes pieces of a stream to the reader of its records.
fn pieces<'a, R: Receiver>(
    records: &'a mut RecordReader,
    side: &'a mut Side<'_, R>,
) -> impl FnMut(Piece<'_>, i64, &mut Account) + 'a {
    |piece, time_ns, account| records.piece(piece, time_ns, side, account)
}

/// One direction, as the reader of its messages needs it.
struct Side<'a, R> {
    /// The sender as the client.
    peers: Peers,
    from_first: bool,
    pairing: &'a mut Pairing,
    tally: &'a mut Tally,
    receiver: &'a mut R,
}

impl<R: Receiver> MessageReader for Side<'_, R> {
    fn read(
        &mut self,
        record: &SparseRecord,
        is_all: bool,
        begin_ns: i64,
        bytes: u64,
    ) -> Result<Message, Unread> {
        let origin = Origin {
            peers: self.peers,
            begin_ns,
            bytes,
        };
        let call_of = |xid| self.pairing.call_of(!self.from_first, xid).cloned();
        let message = rpc::read(record, is_all, origin, call_of)?;
        let Message::Call(call, _) = message else {
            return Ok(message);
        };
        // Remember the call before its end is seen: the capture may lack the end, but have the reply.
        let mut counting = Counting {
            receiver: &mut *self.receiver,
            unanswered: 0,
        };
        let is_again = self.pairing.call(self.from_first, &call, &mut counting);
        self.tally.unanswered += counting.unanswered;
        Ok(Message::Call(call, is_again))
    }

    fn take(&mut self, message: Message, seen: Seen, account: &mut Account) {
        match message {
            Message::Call(call, is_again) => {
                account.calls += 1;
                self.tally.retransmissions += u64::from(is_again);
                self.tally.note(call.opaque);
                self.receiver.call(&call, seen, is_again);
            }
            Message::Reply(reply) => {
                account.replies += 1;
                self.tally.note(reply.opaque);
                self.tally.is_tls |= rpc::begins_tls(&reply);
                let answer = self.pairing.answer(!self.from_first, reply.xid);
                let is_repeated = matches!(answer, Answer::Repeated);
                self.receiver.reply(&reply, seen, is_repeated);
                self.tally.repeated_replies += u64::from(is_repeated);
                if let Answer::First(call, retransmissions) = answer {
                    self.tally.requests += 1;
                    self.receiver.request(Request {
                        call,
                        reply: *reply,
                        end_ns: seen.end_ns,
                        retransmissions,
                    });
                }
            }
        }
    }

    fn is_pending(&self, xid: u32) -> bool {
        self.pairing.is_pending(!self.from_first, xid)
    }
}
