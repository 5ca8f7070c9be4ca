//! The journal of requests. It has the format of a journal of windows, but its frames are batches
//! of requests and definitions of files.
//!
//! Each batch is written at once, and batches are synced once a second. So batches survive if the process is killed,
//! and a power cut costs a second.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::time::UtcMs;

use crate::chain::Link;
use crate::error::StoreError;
use crate::journal::bytes::read_at;
use crate::journal::definitions::{Defined, Definitions};
use crate::journal::end::EndWriter;
use crate::journal::file::JournalFile;
use crate::journal::frame::{Frame, Kind, NewFrames, longest_payload};
use crate::journal::frame_reader::Piece;
use crate::journal::header::{Header, Previous};
use crate::journal::write::create;
use crate::layout;
use crate::varint::{DecodeError, Input, put_i64, put_u64};

/// Kind of a frame of requests: their number, the first completion, then the requests. It is not part of [`Kind`].
const REQUESTS: u8 = 0x80;
/// Longest encoding of the first two numbers of such a frame.
const MAX_HEAD_BYTES: u64 = 2 * 10;
/// Time that a power cut may cost.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// An open journal of requests.
#[derive(Debug)]
pub(super) struct RequestsJournalWriter {
    file: File,
    path: PathBuf,
    number: u64,
    bytes: u64,
    synced_bytes: u64,
    end: EndWriter,
    definitions: Definitions,
    frames: NewFrames,
    synced: Instant,
    /// First and last completion of the requests that are not synced yet. The end is exclusive.
    not_synced: Option<(UtcMs, UtcMs)>,
}

impl RequestsJournalWriter {
    /// Creates the journal. Its header and its name are durable when this returns.
    pub(super) fn create(store: &Path, header: &Header) -> Result<Self, StoreError> {
        let path = layout::requests_journal(store, header.number);
        let created = create(store, &path, header)?;
        Ok(Self {
            file: created.file,
            path,
            number: header.number,
            bytes: created.bytes,
            synced_bytes: created.bytes,
            end: created.end,
            definitions: Definitions::default(),
            frames: created.frames,
            synced: Instant::now(),
            not_synced: None,
        })
    }

    /// The record of this journal for the next one's header.
    pub(super) fn as_previous(&self) -> Previous {
        Previous {
            number: self.number,
            bytes: self.synced_bytes,
        }
    }

    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of files that it defines.
    pub(super) fn files(&self) -> usize {
        self.definitions.count()
    }

    /// Writes a batch with the definitions that it needs. After an error, append nothing more.
    pub(super) fn append(&mut self, batch: &RequestBatch) -> Result<(), StoreError> {
        self.frames.begin(self.bytes);
        let ids = self.definitions.ids(batch.files.iter(), &mut self.frames)?;
        self.frames.put(REQUESTS, |out| {
            put_requests(out, &batch.requests, &ids);
        })?;
        self.file
            .write_all(self.frames.bytes())
            .map_err(StoreError::io("write journal", &self.path))?;
        self.bytes += self.frames.bytes().len() as u64;
        let ends = batch.requests.iter().map(|request| {
            let ms = request.end_ns.div_euclid(1_000_000);
            (UtcMs(ms), UtcMs(ms + 1))
        });
        let spans = self.not_synced.into_iter().chain(ends);
        self.not_synced = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        if let Some(span) = self.not_synced {
            self.end.note_written(self.bytes, span);
        }
        self.sync_if_due()
    }

    /// Syncs, unless the last sync was less than a second ago.
    pub(super) fn sync_if_due(&mut self) -> Result<(), StoreError> {
        match self.synced.elapsed() >= SYNC_EVERY {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// Syncs written batches. After an error, append nothing more.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        // Only once: after a failed sync, the next one may succeed although the kernel dropped
        // data.
        let Some(span) = self.not_synced.take() else {
            return Ok(());
        };
        self.file
            .sync_data()
            .map_err(StoreError::io("sync journal", &self.path))?;
        self.synced = Instant::now();
        self.synced_bytes = self.bytes;
        self.end.note(self.bytes, span);
        Ok(())
    }
}

/// The valid part of a journal that does not grow any more.
pub(crate) struct RequestsScan {
    journal: JournalFile,
    pub(super) header: Header,
    pub(super) definitions: Defined,
    pub(super) batches: Vec<BatchFrame>,
    /// Damaged bytes: frames follow them, or they were durable.
    pub(crate) damaged_bytes: u64,
    /// Bytes after the last frame that are not known to have been durable.
    pub(crate) torn_bytes: u64,
}

fn is_kind(byte: u8) -> bool {
    byte == REQUESTS || byte == u8::from(Kind::Definitions)
}

/// The position of a batch in a journal.
pub(super) struct BatchFrame {
    /// The earliest completion of its requests.
    pub(super) first_ns: i64,
    payload: u64,
    /// The offset at which it ends.
    pub(super) end: u64,
}

impl RequestsScan {
    pub(super) fn path(&self) -> &Path {
        &self.journal.path
    }

    /// Its link in the chain of journals.
    pub(super) fn link(&self) -> Link {
        let starts = self.batches.iter().map(|batch| batch.first_ns);
        let start = starts.min().map(|ns| UtcMs(ns.div_euclid(1_000_000)));
        Link::of(&self.header, start)
    }

    /// Number of its requests.
    pub(crate) fn count(&self) -> Result<u64, StoreError> {
        let counts = self.batches.iter().map(|batch| self.requests(batch));
        counts.map(|requests| Ok(requests?.len() as u64)).sum()
    }

    /// Whether no part of it is damaged. Its end may be torn.
    pub(crate) fn is_whole(&self) -> bool {
        self.damaged_bytes == 0
    }

    /// Whether its end is torn, and may have been durable. See [`JournalFile::has_unknown_length`].
    pub(super) fn may_have_lost_its_end(&self) -> bool {
        let is_used = !self.batches.is_empty();
        self.torn_bytes > 0 && self.journal.has_unknown_length(is_used)
    }

    /// The host of its requests.
    pub(crate) fn into_host(self) -> String {
        self.header.host
    }

    /// Scans an open journal. `None` if it ends within its header.
    pub(crate) fn new(journal: JournalFile) -> Result<Option<Self>, StoreError> {
        let Some((header, mut frames)) = Header::read(&journal, is_kind)? else {
            return Ok(None);
        };
        let mut scan = Self {
            journal,
            header,
            definitions: Defined::default(),
            batches: Vec::new(),
            damaged_bytes: 0,
            torn_bytes: 0,
        };
        loop {
            let JournalFile { file, path, .. } = &scan.journal;
            match frames.next(file).map_err(StoreError::io("read", path))? {
                Some(Piece::Whole(frame)) => scan.take(&frame)?,
                Some(Piece::Damaged { bytes, .. }) => scan.damaged_bytes += bytes,
                None => break,
            }
        }
        scan.torn_bytes = frames.torn_bytes();
        Ok(Some(scan))
    }

    /// Records the contents of a frame. Its checksum matches, so a frame that does not decode is an
    /// error, not a torn tail.
    fn take(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let path = self.journal.path.clone();
        let damaged = |error: DecodeError| StoreError::Damaged {
            path,
            offset: frame.payload,
            why: error.why(),
        };
        if frame.end - frame.payload > longest_payload(frame.kind) {
            return Err(damaged(DecodeError::Malformed("a frame is too long")));
        }
        match frame.kind {
            REQUESTS => {
                let head_end = frame.end.min(frame.payload + MAX_HEAD_BYTES);
                let payload = self.read(frame.payload, head_end)?;
                let mut input = Input::new(&payload);
                let first_ns = input.u64().and_then(|_| input.i64()).map_err(damaged)?;
                self.batches.push(BatchFrame {
                    first_ns,
                    payload: frame.payload,
                    end: frame.end,
                });
                Ok(())
            }
            kind if kind == u8::from(Kind::Definitions) => {
                let payload = self.read(frame.payload, frame.end)?;
                let taken = self.definitions.take(&payload, self.damaged_bytes > 0);
                taken.map(drop).map_err(damaged)
            }
            _ => Err(damaged(DecodeError::Malformed(
                "a frame is of an unknown kind",
            ))),
        }
    }

    /// The requests of a batch. Their files are indexes into [`Self::definitions`]. Skips requests whose file has no
    /// definition, because it may have been in a damaged part.
    pub(super) fn requests(&self, batch: &BatchFrame) -> Result<Vec<Request>, StoreError> {
        let payload = self.read(batch.payload, batch.end)?;
        let most_files = match self.damaged_bytes {
            0 => self.definitions.count(),
            _ => usize::MAX,
        };
        let mut requests = requests(&mut Input::new(&payload), most_files)
            .map_err(|error| self.damaged(batch.payload, error))?;
        requests.retain(|request| self.definitions.get(request.file).is_some());
        Ok(requests)
    }

    /// Reads bytes that existed when the file was scanned.
    fn read(&self, at: u64, end: u64) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX)];
        let JournalFile { file, path, .. } = &self.journal;
        read_at(file, &mut bytes, at).map_err(StoreError::io("read", path))?;
        Ok(bytes)
    }

    fn damaged(&self, offset: u64, error: DecodeError) -> StoreError {
        StoreError::Damaged {
            path: self.journal.path.clone(),
            offset,
            why: error.why(),
        }
    }
}

/// Encodes requests, with `ids` in place of their files.
fn put_requests(out: &mut Vec<u8>, requests: &[Request], ids: &[u32]) {
    let first_ns = requests.iter().map(|request| request.end_ns).min();
    put_u64(out, requests.len() as u64);
    put_i64(out, first_ns.unwrap_or(0));
    let mut before_ns = first_ns.unwrap_or(0);
    for request in requests {
        let Request {
            end_ns,
            file,
            flags,
            offset,
            asked_bytes,
            done_bytes,
            latency_ns,
            queue_ns,
            rtt_ns,
            xid,
            retransmissions,
            error,
            pid,
            process: _,
        } = *request;
        put_i64(out, end_ns.wrapping_sub(before_ns));
        put_u64(out, u64::from(ids[file as usize]));
        put_u64(out, u64::from(flags));
        put_u64(out, offset);
        put_u64(out, u64::from(asked_bytes));
        // Nearly always 0.
        put_i64(out, i64::from(asked_bytes) - i64::from(done_bytes));
        for ns in [latency_ns, queue_ns, rtt_ns] {
            put_u64(out, ns);
        }
        put_u64(out, u64::from(xid));
        put_u64(out, u64::from(retransmissions));
        put_i64(out, i64::from(error));
        put_u64(out, u64::from(pid));
        before_ns = end_ns;
    }
    put_processes(out, requests);
}

/// Encodes the names of processes, each once.
fn put_processes(out: &mut Vec<u8>, requests: &[Request]) {
    let named = requests
        .iter()
        .map(|request| (request.pid, request.process));
    let named: BTreeMap<_, _> = named
        .filter(|(_, process)| *process != ProcessName::default())
        .collect();
    put_u64(out, named.len() as u64);
    for (pid, process) in named {
        put_u64(out, u64::from(pid));
        for half in halves(process) {
            put_u64(out, half);
        }
    }
}

/// Reads the names of processes that follow the requests.
fn take_processes(input: &mut Input<'_>, requests: &mut [Request]) -> Result<(), DecodeError> {
    let mut named = HashMap::new();
    for _ in 0..input.u64()? {
        let (pid, halves) = (input.u32()?, [input.u64()?, input.u64()?]);
        let mut process = [0; 16];
        for (to, half) in process.chunks_exact_mut(8).zip(halves) {
            to.copy_from_slice(&half.to_le_bytes());
        }
        named.insert(pid, ProcessName(process));
    }
    for request in requests {
        request.process = named.get(&request.pid).copied().unwrap_or_default();
    }
    Ok(())
}

/// The first 8 bytes of a name and the last 8, which are mostly 0 in short names.
fn halves(ProcessName(bytes): ProcessName) -> [u64; 2] {
    let [first, second] = [&bytes[..8], &bytes[8..]].map(|half| {
        let mut word = [0; 8];
        word.copy_from_slice(half);
        u64::from_le_bytes(word)
    });
    [first, second]
}

/// Decodes requests of `files` files.
fn requests(input: &mut Input<'_>, files: usize) -> Result<Vec<Request>, DecodeError> {
    let count = input.u64()?;
    let first_ns = input.i64()?;
    let mut before_ns = first_ns;
    let mut requests = Vec::new();
    for _ in 0..count {
        let request = request(input, before_ns)?;
        if request.file as usize >= files {
            return Err(DecodeError::Malformed("a request is of no known file"));
        }
        if request.end_ns < first_ns {
            return Err(DecodeError::Malformed("a request is before the first one"));
        }
        if request.flags & !flags::ALL != 0 {
            return Err(DecodeError::Malformed("a request has an unknown flag"));
        }
        before_ns = request.end_ns;
        requests.push(request);
    }
    take_processes(input, &mut requests)?;
    match input.remaining() {
        0 => Ok(requests),
        _ => Err(DecodeError::Malformed(
            "bytes follow the last process of a batch",
        )),
    }
}

fn request(input: &mut Input<'_>, before_ns: i64) -> Result<Request, DecodeError> {
    let end_ns = before_ns.wrapping_add(input.i64()?);
    let (file, flags, offset) = (input.u32()?, input.u32()?, input.u64()?);
    let asked_bytes = input.u32()?;
    let done_bytes = i64::from(asked_bytes).checked_sub(input.i64()?);
    let done_bytes = done_bytes.and_then(|bytes| u32::try_from(bytes).ok());
    Ok(Request {
        end_ns,
        file,
        flags,
        offset,
        asked_bytes,
        done_bytes: done_bytes.ok_or(DecodeError::Malformed("a request's size is out of range"))?,
        latency_ns: input.u64()?,
        queue_ns: input.u64()?,
        rtt_ns: input.u64()?,
        xid: input.u32()?,
        retransmissions: input.u32()?,
        error: i32::try_from(input.i64()?)
            .map_err(|_| DecodeError::Malformed("an errno is too large"))?,
        pid: input.u32()?,
        process: ProcessName::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any request for the files 0 to 2.
    fn request() -> impl Strategy<Value = Request> {
        let words = prop::array::uniform7(any::<u32>());
        let longs = prop::array::uniform4(any::<u64>());
        (any::<i64>(), any::<i32>(), words, longs).prop_map(|(end_ns, error, words, longs)| {
            let [
                file,
                flags,
                asked_bytes,
                done_bytes,
                xid,
                retransmissions,
                pid,
            ] = words;
            let [offset, latency_ns, queue_ns, rtt_ns] = longs;
            Request {
                end_ns,
                file: file % 3,
                flags: flags & flags::ALL,
                offset,
                asked_bytes,
                done_bytes,
                latency_ns,
                queue_ns,
                rtt_ns,
                xid,
                retransmissions,
                error,
                pid,
                // A process has one name in a batch.
                process: ProcessName::new(pid.to_string().as_bytes()),
            }
        })
    }

    proptest! {
        #[test]
        fn requests_read_back(mut expected in prop::collection::vec(request(), 0..20)) {
            let mut out = Vec::new();
            put_requests(&mut out, &expected, &[7, 5, 6]);
            for request in &mut expected {
                request.file = [7, 5, 6][request.file as usize];
            }
            prop_assert_eq!(requests(&mut Input::new(&out), 8), Ok(expected));
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = requests(&mut Input::new(&bytes), 3);
            let _ = Defined::default().take(&bytes, true);
        }
    }
}
