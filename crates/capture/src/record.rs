//! RPC messages in a stream: finds record marks (RFC 5531, section 11), and the next record after a hole.
//!
//! Keeps only the beginning of a record, and the bytes that the reader of the message asks for. The rest is only counted.

use std::ops::Range;

use crate::account::Account;
use crate::message::Seen;
use crate::rpc::{HEADER_BYTES, LAST_FRAGMENT, Message, Unread, is_plausible};
use crate::tcp::{Absence, Piece};
use crate::xdr::SparseRecord;

/// Bytes of a record to read first: enough for a call with its credential, or for a reply without data.
const FIRST_BYTES: u64 = 1024;
/// Most bytes of a record in memory. READDIRPLUS needs them: its replies may be as large as `rsize`.
const MOST_BYTES: usize = 1 << 20;
/// A mark with a larger fragment is not a mark.
const LARGEST_FRAGMENT: u32 = 64 << 20;

/// Reads and takes messages.
pub trait MessageReader {
    /// Reads a message of this length, like [`crate::rpc::read`].
    fn read(
        &mut self,
        record: &SparseRecord,
        is_all: bool,
        begin_ns: i64,
        bytes: u64,
    ) -> Result<Message, Unread>;
    /// Takes a message whose last byte was seen.
    fn take(&mut self, message: Message, seen: Seen, account: &mut Account);
    /// Whether a call from the other side waits for a reply.
    fn is_pending(&self, xid: u32) -> bool;
}

#[derive(Debug, Default)]
enum State {
    /// Looking for a record.
    #[default]
    Searching,
    /// In the mark of a record, after this many of its bytes.
    Mark([u8; 4], usize),
    /// In a fragment.
    Body,
    /// The rest of the stream cannot be read.
    Opaque,
}

#[derive(Debug, Default)]
enum Outcome {
    #[default]
    Reading,
    Done(Message),
    Unreadable,
}

/// The records of one direction.
#[derive(Debug, Default)]
pub struct RecordReader {
    state: State,
    record: SparseRecord,
    /// The part of the record to keep next.
    wanted: Range<u64>,
    outcome: Outcome,
    /// Position in the record, without marks.
    position: u64,
    fragment_left: u64,
    is_last_fragment: bool,
    /// Bytes of the record that were captured, and bytes of its marks.
    seen_bytes: u64,
    mark_bytes: u64,
    begin_ns: i64,
    end_ns: i64,
    /// The last bytes in which no record was found: one may begin in them.
    tail: Vec<u8>,
}

impl RecordReader {
    /// Takes the next piece of the stream.
    pub fn piece(
        &mut self,
        piece: Piece<'_>,
        time_ns: i64,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) {
        match piece {
            Piece::Data(data) => self.data(data, time_ns, reader, account),
            Piece::Hole(bytes, absence) => self.hole(bytes, absence, time_ns, reader, account),
            Piece::Begin => {
                self.abandon(account);
                self.state = State::Mark([0; 4], 0);
            }
            Piece::Jump => self.abandon(account),
        }
    }

    /// Bytes in memory.
    pub fn kept_bytes(&self) -> usize {
        self.record.kept()
    }

    /// Reads the message as far as it was captured, and drops its bytes.
    pub fn let_go(&mut self, reader: &mut impl MessageReader) {
        if matches!(self.state, State::Body) && matches!(self.outcome, Outcome::Reading) {
            self.read(true, reader);
        }
        self.record.forget();
    }

    /// Nothing after this can be read: TLS begins.
    pub fn make_opaque(&mut self, account: &mut Account) {
        self.abandon(account);
        self.state = State::Opaque;
    }

    /// Gives up the current record, and looks for the next one.
    pub fn abandon(&mut self, account: &mut Account) {
        account.not_understood_bytes += match &self.state {
            State::Searching => self.tail.len() as u64,
            State::Mark(_, read) => *read as u64 + self.seen_bytes + self.mark_bytes,
            State::Body => self.seen_bytes + self.mark_bytes,
            State::Opaque => 0,
        };
        self.tail.clear();
        self.clear();
        self.state = State::Searching;
    }

    fn clear(&mut self) {
        self.record.clear();
        self.wanted = 0..FIRST_BYTES;
        self.outcome = Outcome::Reading;
        self.position = 0;
        self.seen_bytes = 0;
        self.mark_bytes = 0;
        self.end_ns = i64::MIN;
    }

    fn data(
        &mut self,
        mut data: &[u8],
        time_ns: i64,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) {
        while !data.is_empty() {
            let used = match &mut self.state {
                State::Opaque => {
                    account.not_understood_bytes += data.len() as u64;
                    data.len()
                }
                State::Searching => self.search(data, time_ns, reader, account),
                State::Mark(mark, read) => {
                    if *read == 0 && self.mark_bytes == 0 {
                        self.begin_ns = time_ns;
                    }
                    let used = data.len().min(4 - *read);
                    mark[*read..*read + used].copy_from_slice(&data[..used]);
                    *read += used;
                    if *read == 4 {
                        let mark = u32::from_be_bytes(*mark);
                        self.begin_fragment(mark, account);
                    }
                    used
                }
                State::Body => self.body(data, time_ns, reader, account),
            };
            data = &data[used..];
        }
    }

    fn begin_fragment(&mut self, mark: u32, account: &mut Account) {
        let bytes = mark & !LAST_FRAGMENT;
        let is_last = mark & LAST_FRAGMENT != 0;
        // 24: the smallest reply; a record of several fragments may have an empty last one.
        let is_small = is_last && self.mark_bytes == 0 && bytes < 20;
        if bytes > LARGEST_FRAGMENT || is_small || self.mark_bytes > 1 << 20 {
            self.abandon(account);
            return;
        }
        if self.mark_bytes == 0 {
            self.clear();
        }
        self.mark_bytes += 4;
        self.fragment_left = u64::from(bytes);
        self.is_last_fragment = is_last;
        self.state = State::Body;
    }

    fn body(
        &mut self,
        data: &[u8],
        time_ns: i64,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) -> usize {
        self.end_ns = self.end_ns.max(time_ns);
        let len =
            usize::try_from(self.fragment_left).map_or(data.len(), |left| left.min(data.len()));
        let mut used = 0;
        while used < len {
            let rest = &data[used..len];
            let before = self.wanted.start.saturating_sub(self.position);
            let step = match self.outcome {
                Outcome::Reading if before > 0 => clamp(before, rest.len()),
                Outcome::Reading => {
                    let kept = clamp(self.wanted.end - self.position, rest.len());
                    self.record.push(self.position, &rest[..kept]);
                    kept
                }
                _ => rest.len(),
            };
            used += step;
            self.step(step as u64);
            self.seen_bytes += step as u64;
            self.look(reader);
        }
        self.end_fragment(true, reader, account);
        used
    }

    fn step(&mut self, bytes: u64) {
        self.position += bytes;
        self.fragment_left -= bytes;
    }

    /// Reads the message if all wanted bytes are there.
    fn look(&mut self, reader: &mut impl MessageReader) {
        if matches!(self.outcome, Outcome::Reading) && self.position >= self.wanted.end {
            self.read(false, reader);
        }
    }

    fn read(&mut self, is_all: bool, reader: &mut impl MessageReader) {
        let is_all = is_all || self.record.known() > MOST_BYTES;
        let bytes = self.position + self.fragment_left;
        self.outcome = match reader.read(&self.record, is_all, self.begin_ns, bytes) {
            Ok(message) => Outcome::Done(message),
            Err(Unread::Need(at)) if !is_all && at >= self.position => {
                let more = (self.record.known() as u64).max(FIRST_BYTES);
                self.wanted = at..at.saturating_add(more);
                Outcome::Reading
            }
            // The message needs a byte that was already passed.
            Err(Unread::Need(_)) if !is_all => return self.read(true, reader),
            Err(_) => Outcome::Unreadable,
        };
    }

    fn end_fragment(
        &mut self,
        has_end: bool,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) {
        if self.fragment_left > 0 {
            return;
        }
        self.state = State::Mark([0; 4], 0);
        if self.is_last_fragment {
            self.end_record(has_end, reader, account);
        }
    }

    fn end_record(
        &mut self,
        has_end: bool,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) {
        if matches!(self.outcome, Outcome::Reading) {
            self.read(true, reader);
        }
        let known = self.record.known() as u64;
        match std::mem::take(&mut self.outcome) {
            Outcome::Done(message) => {
                account.parsed_bytes += known + self.mark_bytes;
                account.skipped_bytes += self.seen_bytes - known;
                let seen = Seen {
                    begin_ns: self.begin_ns,
                    end_ns: self.end_ns.max(self.begin_ns),
                    has_end,
                };
                reader.take(message, seen, account);
            }
            _ => account.not_understood_bytes += self.seen_bytes + self.mark_bytes,
        }
        self.clear();
    }

    fn hole(
        &mut self,
        bytes: u64,
        absence: Absence,
        time_ns: i64,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) {
        let has_end = absence == Absence::Cut;
        match self.state {
            State::Opaque => {}
            State::Body if bytes <= self.fragment_left => {
                if has_end {
                    self.end_ns = self.end_ns.max(time_ns);
                }
                self.step(bytes);
                self.look(reader);
                self.end_fragment(has_end, reader, account);
            }
            State::Body => {
                self.end_record(false, reader, account);
                self.abandon(account);
            }
            State::Searching | State::Mark(..) => self.abandon(account),
        }
    }

    /// Looks for the beginning of a record. Returns the number of bytes that it consumed.
    fn search(
        &mut self,
        data: &[u8],
        time_ns: i64,
        reader: &mut impl MessageReader,
        account: &mut Account,
    ) -> usize {
        let is_record = |bytes: &[u8]| is_plausible(bytes, |xid| reader.is_pending(xid));
        if !self.tail.is_empty() {
            let before = self.tail.len();
            self.tail
                .extend_from_slice(&data[..data.len().min(HEADER_BYTES - 1)]);
            let mut windows = self.tail.windows(HEADER_BYTES).take(before);
            if let Some(begin) = windows.position(is_record) {
                account.not_understood_bytes += begin as u64;
                let header = self.tail[begin..before].to_vec();
                self.tail.clear();
                self.begin_record();
                self.data(&header, time_ns, reader, account);
                return 0;
            }
            self.tail.truncate(before);
        }
        if let Some(begin) = data.windows(HEADER_BYTES).position(is_record) {
            account.not_understood_bytes += (self.tail.len() + begin) as u64;
            self.tail.clear();
            self.begin_record();
            return begin;
        }
        let keep = data.len().min(HEADER_BYTES - 1);
        self.tail.extend_from_slice(&data[data.len() - keep..]);
        let over = self.tail.len().saturating_sub(HEADER_BYTES - 1);
        self.tail.drain(..over);
        account.not_understood_bytes += (over + data.len() - keep) as u64;
        data.len()
    }

    fn begin_record(&mut self) {
        self.clear();
        self.state = State::Mark([0; 4], 0);
    }
}

fn clamp(bytes: u64, most: usize) -> usize {
    usize::try_from(bytes).map_or(most, |bytes| bytes.min(most))
}
