//! Text of nfsdump (Ellard and Seltzer, LISA 2003), the format of the Harvard traces from 2001 to 2003: one line for each call and each
//! reply of NFS v2 and v3. `ellardnfs2ds` of DataSeries reads the same format.
//!
//! ```text
//! 1006231504.285023 32.03fd 30.0801 T C3 1cf0d105 6 read fh cfbc65 off 0 count 2000 con = 130 len = 140
//! 1006231504.294708 30.0801 32.03fd T R3 1cf0d105 6 read OK ftype 1 size 72520 count 2000 eof 0 status=0 pl = 100 con = 170 len = 180
//! ```

mod fields;
mod line;
mod report;

use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use ahash::AHashMap;

use crate::compression::decompressed;
use crate::message::{
    Call, OperationCall, OperationReply, Peers, Receiver, Reply, Request, RpcStatus,
};
use crate::nfs::NFS_PROGRAM;
use crate::pairing::{Answer, Counting, Pairing};
use crate::rpc::fingerprint;
use line::Line;

pub use report::{ClientTally, DumpReport};

/// Bytes of a line that are read. The longest lines have two names and two handles.
const LONGEST_LINE: usize = 64 << 10;
/// Most connections that are followed at a time.
const MOST_CONNECTIONS: usize = 1 << 14;

/// Why a line was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum NotUnderstood {
    /// It does not begin with a time.
    #[error("it does not begin with seconds and a fraction")]
    Time,
    /// It does not have two addresses.
    #[error("no address and port, as in 31.03f7")]
    Address,
    /// Neither `T` nor `U`.
    #[error("neither T (TCP) nor U (UDP)")]
    Transport,
    /// Neither call nor reply.
    #[error("none of C2, C3, R2 and R3")]
    Direction,
    /// The transaction id is missing or not a number.
    #[error("no transaction id")]
    Xid,
    /// Not a procedure of this version of NFS.
    #[error("no procedure of its version of NFS")]
    Procedure,
    /// Neither `OK` nor an error's number.
    #[error("a reply without a status")]
    Status,
    /// A key that the format does not have.
    #[error("a key that nfsdump does not write")]
    Key,
    /// A key without a value, or with one that it cannot have.
    #[error("a value that its key cannot have")]
    Value,
    /// The line is too long.
    #[error("it is longer than 64 KiB")]
    TooLong,
}

/// The message of a line.
#[derive(Clone, Debug)]
pub struct DumpMessage(Message);

#[derive(Clone, Debug)]
enum Message {
    Call(Call),
    Reply(Reply, (u32, u32)),
}

impl DumpMessage {
    /// Parses a line without its line end.
    pub fn parse(line: &[u8]) -> Result<Self, NotUnderstood> {
        if line.len() > LONGEST_LINE {
            return Err(NotUnderstood::TooLong);
        }
        let Line {
            time_ns,
            peers,
            is_call,
            version,
            xid,
            procedure,
            rest,
        } = Line::parse(line)?;
        if !is_call {
            let mut result = OperationReply {
                number: procedure,
                ..OperationReply::default()
            };
            let opaque = fields::results(version, rest, &mut result)?;
            let reply = Reply {
                peers,
                xid,
                begin_ns: time_ns,
                // `len` is the length of the captured packet, not of the packet that was sent.
                bytes: 0,
                payload_bytes: 0,
                status: RpcStatus::Success,
                operations: vec![result],
                opaque,
                call: None,
            };
            return Ok(Self(Message::Reply(reply, (version, procedure))));
        }
        let mut operation = OperationCall {
            number: procedure,
            ..OperationCall::default()
        };
        let (credential, opaque) = fields::arguments(version, rest, &mut operation)?;
        let mut call = Call {
            peers,
            xid,
            begin_ns: time_ns,
            bytes: 0,
            payload_bytes: 0,
            program: NFS_PROGRAM,
            version,
            minor_version: None,
            procedure,
            credential,
            operations: vec![operation],
            opaque,
            fingerprint: 0,
        };
        call.fingerprint = fingerprint(&call);
        Ok(Self(Message::Call(call)))
    }

    /// When it was captured, ns since the epoch.
    pub fn time_ns(&self) -> i64 {
        match &self.0 {
            Message::Call(call) => call.begin_ns,
            Message::Reply(reply, _) => reply.begin_ns,
        }
    }
}

#[derive(Default)]
struct Connection {
    pairing: Pairing,
    last_ns: i64,
}

/// Pairs calls with replies, and passes requests to a receiver.
pub struct DumpDecoder<R> {
    receiver: R,
    connections: AHashMap<Peers, Connection>,
    report: DumpReport,
    last_ns: i64,
}

impl<R: Receiver> DumpDecoder<R> {
    /// Passes what it finds to `receiver`.
    pub fn new(receiver: R) -> Self {
        Self {
            receiver,
            connections: AHashMap::new(),
            report: DumpReport::default(),
            last_ns: i64::MIN,
        }
    }

    /// The receiver of calls, replies and requests.
    pub fn receiver(&mut self) -> &mut R {
        &mut self.receiver
    }

    /// Takes the next message.
    pub fn message(&mut self, message: DumpMessage) {
        let time_ns = message.time_ns();
        self.report.time(time_ns);
        self.report.backwards += u64::from(time_ns < self.last_ns);
        self.last_ns = time_ns;
        match message.0 {
            Message::Call(call) => self.call(call),
            Message::Reply(reply, procedure) => self.reply(reply, procedure),
        }
        if self.connections.len() > MOST_CONNECTIONS {
            self.evict();
        }
    }

    fn call(&mut self, call: Call) {
        self.report.short += u64::from(call.opaque.is_some());
        let client = call.peers.client.ip();
        let connection = self.connections.entry(call.peers).or_default();
        connection.last_ns = call.begin_ns;
        let mut counting = Counting {
            receiver: &mut self.receiver,
            unanswered: 0,
        };
        let is_again = connection
            .pairing
            .call(true, &Arc::new(call), &mut counting);
        let tally = self.report.tally(client);
        tally.calls += 1;
        tally.unanswered += counting.unanswered;
        tally.retransmissions += u64::from(is_again);
    }

    fn reply(&mut self, mut reply: Reply, procedure: (u32, u32)) {
        self.report.short += u64::from(reply.opaque.is_some());
        let tally = self.report.tally(reply.peers.client.ip());
        tally.replies += 1;
        let connection = self.connections.get_mut(&reply.peers);
        let pairing = connection.map(|connection| &mut connection.pairing);
        // If the procedures differ, the text lacks the call of this reply.
        let pairing = pairing.filter(|pairing| {
            let call = pairing.call_of(true, reply.xid);
            call.is_some_and(|call| (call.version, call.procedure) == procedure)
        });
        match pairing.map(|pairing| pairing.answer(true, reply.xid)) {
            None | Some(Answer::Orphan) => tally.orphans += 1,
            Some(Answer::Repeated) => tally.repeated_replies += 1,
            Some(Answer::First(call, retransmissions)) => {
                tally.requests += 1;
                reply.call = Some(Arc::clone(&call));
                self.receiver.request(Request {
                    call,
                    end_ns: reply.begin_ns,
                    reply,
                    retransmissions,
                });
            }
        }
    }

    /// Ends the connections that have been idle longest.
    fn evict(&mut self) {
        let mut times: Vec<i64> = self.connections.values().map(|c| c.last_ns).collect();
        let (_, &mut until_ns, _) = times.select_nth_unstable(MOST_CONNECTIONS / 4);
        let connections = self.connections.iter();
        let idle = connections.filter(|(_, connection)| connection.last_ns <= until_ns);
        let idle: Vec<Peers> = idle.map(|(peers, _)| *peers).collect();
        for peers in idle {
            if let Some(connection) = self.connections.remove(&peers) {
                self.end(peers, connection);
            }
        }
    }

    fn end(&mut self, peers: Peers, mut connection: Connection) {
        let mut counting = Counting {
            receiver: &mut self.receiver,
            unanswered: 0,
        };
        connection.pairing.finish(&mut counting);
        self.report.tally(peers.client.ip()).unanswered += counting.unanswered;
    }

    /// There are no more messages. Returns the receiver, and the report on every message.
    pub fn finish(mut self) -> (R, DumpReport) {
        for (peers, connection) in std::mem::take(&mut self.connections) {
            self.end(peers, connection);
        }
        (self.receiver, self.report)
    }
}

/// Reads lines until `take` breaks. The text may be compressed with gzip, bzip2 or zstd. `take` gets a line without its end; a line that is
/// too long is cut one byte above the limit. `is_over` ends the reading within such a line, which a small compressed file may make endless.
pub fn read_lines(
    input: impl Read + Send,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 18, decompressed(input)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = LONGEST_LINE as u64 + 2;
        if input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LONGEST_LINE && !skip_line(&mut input, &is_over)? {
            return Ok(());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if take(&line).is_break() {
            return Ok(());
        }
    }
}

/// Skips the rest of a line. Returns whether it came to the end of the line or of the input before `is_over`.
fn skip_line(input: &mut impl BufRead, is_over: impl Fn() -> bool) -> io::Result<bool> {
    while !is_over() {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let is_done = buffer.is_empty() || end.is_some();
        let skipped = end.map_or(buffer.len(), |end| end + 1);
        input.consume(skipped);
        if is_done {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const READ: &str = "1006231504.285023 32.03fd 30.0801 T C3 1cf0d105 6 read fh cfbc off 10 count 2000 con = 1 len = 2";

    #[test]
    fn a_line_says_who_called_whom_for_what_and_when() {
        let Ok(DumpMessage(Message::Call(call))) = DumpMessage::parse(READ.as_bytes()) else {
            panic!("not understood")
        };
        assert_eq!(call.begin_ns, 1_006_231_504_285_023_000);
        assert_eq!(call.peers.client.to_string(), "0.0.0.50:1021");
        assert_eq!(call.peers.server.to_string(), "0.0.0.48:2049");
        assert_eq!(
            (call.version, call.procedure, call.xid),
            (3, 6, 0x1cf0_d105)
        );
        let [read] = &call.operations[..] else {
            panic!("{call:?}")
        };
        assert_eq!((read.offset, read.count), (Some(16), Some(8192)));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_named() {
        let wrong = [
            ("1006231504.285023", "XX", NotUnderstood::Time),
            ("30.0801", "30", NotUnderstood::Address),
            (" T ", " X ", NotUnderstood::Transport),
            ("C3", "R3C3", NotUnderstood::Direction),
            ("1cf0d105", "1cf0d105.03ce", NotUnderstood::Xid),
            (" 6 ", " 16 ", NotUnderstood::Procedure),
            ("C3", "R3", NotUnderstood::Status),
            ("off", "1b6mtime", NotUnderstood::Key),
            ("cfbc", "cfb", NotUnderstood::Value),
        ];
        for (part, other, reason) in wrong {
            let line = READ.replace(part, other);
            let read = DumpMessage::parse(line.as_bytes());
            assert_eq!(read.err(), Some(reason), "{line}");
        }
    }

    #[test]
    fn names_may_have_spaces_and_quotes() {
        let line = "1.0 1.1 2.2 U C2 a b rename fh 00 fn \"a \"b\" fh2 01 fn2 \"\" con = 1 len = 2";
        let Ok(DumpMessage(Message::Call(call))) = DumpMessage::parse(line.as_bytes()) else {
            panic!("not understood")
        };
        let [rename] = &call.operations[..] else {
            panic!("{call:?}")
        };
        assert_eq!(rename.name.as_deref(), Some(&b"a \"b"[..]));
        let target = (Some(crate::Handle([1].into())), Box::default());
        assert_eq!(rename.target, Some(target));
    }

    #[test]
    fn a_line_that_does_not_end_is_left_when_the_reading_is_over() {
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        read_lines(io::repeat(b'0'), |_| panic!("the line has no end"), is_over).unwrap();
        assert_eq!(asked.get(), 4);
    }

    #[test]
    fn the_rest_of_a_line_that_is_too_long_is_skipped() {
        let long = vec![b'0'; 5 << 18];
        let text = [&long[..], b"\na\n", &long, b"\r\nb\n", &long].concat();
        let mut lengths = Vec::new();
        let take = |line: &[u8]| {
            lengths.push(line.len());
            ControlFlow::Continue(())
        };
        read_lines(&text[..], take, || false).unwrap();
        let cut = LONGEST_LINE + 2;
        assert_eq!(lengths, [cut, 1, cut, 1, cut]);
    }

    #[test]
    fn a_call_whose_id_is_used_again_after_minutes_is_unanswered_once() {
        let mut decoder = DumpDecoder::new(());
        for time in ["1006231504", "1006232504"] {
            let line = READ.replace("1006231504", time);
            decoder.message(DumpMessage::parse(line.as_bytes()).unwrap());
        }
        let total = decoder.finish().1.total();
        assert_eq!((total.calls, total.unanswered), (2, 2));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(cut in 0..READ.len(), bytes: Vec<u8>) {
            let line = [&READ.as_bytes()[..cut], &bytes[..]].concat();
            let mut decoder = DumpDecoder::new(());
            if let Ok(message) = DumpMessage::parse(&line) {
                decoder.message(message);
                prop_assert_eq!(decoder.finish().1.total().calls, 1);
            }
        }
    }
}
