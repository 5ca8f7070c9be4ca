//! Messages of a capture: calls and replies, in order of time.

use arrow::array::RecordBatch;

use super::columns::{Flags, Numbers, Texts};
use super::files::{self, MESSAGES};
use super::names::{Name, Names};
use super::requests::is_within;
use super::{Seen, Source};
use crate::error::AnalysisError;

/// A call or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number in the capture.
    pub id: i64,
    /// Time of its first packet, ns since the epoch.
    pub time_ns: i64,
    /// The sender.
    pub from: Name,
    /// The receiver.
    pub to: Name,
    /// A call, or else a reply.
    pub is_call: bool,
    /// The xid on the wire.
    pub xid: u32,
    /// Its operation's name in the capture.
    pub op: Name,
    /// Bytes of arguments or results.
    pub payload: u64,
}

impl Message {
    /// The client: the sender of a call, or the receiver of a reply.
    pub fn client(&self) -> Name {
        if self.is_call { self.from } else { self.to }
    }

    /// The server.
    pub fn server(&self) -> Name {
        if self.is_call { self.to } else { self.from }
    }
}

/// Names that messages refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    /// Clients and servers.
    pub hosts: Names,
    /// Operations.
    pub ops: Names,
    /// Facts about the rows that were read.
    pub seen: Seen,
    /// Number of messages without a known operation, which are skipped.
    pub unknown: u64,
}

const COLUMNS: [&str; 9] = [
    "record_id",
    "time_ns",
    "src_ip",
    "dst_ip",
    "is_request",
    "xid",
    "op",
    "payload_bytes",
    DROPPED,
];
/// Set if the tool that wrote the capture could not decode the message.
const DROPPED: &str = "dropped_by_reference";

impl Messages {
    /// Passes on all messages of a source.
    pub fn read(
        &mut self,
        source: &Source,
        analysis: &'static str,
        mut each: impl FnMut(&Message, &Self) -> Result<(), AnalysisError>,
    ) -> Result<(), AnalysisError> {
        let range = source.range();
        for path in source.files(MESSAGES, analysis)? {
            files::read(&path, &COLUMNS, |batch| {
                self.decode(
                    batch,
                    &mut |message, names| match is_within(message.time_ns, range) {
                        true => each(message, names),
                        false => Ok(()),
                    },
                )
            })?;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        batch: &RecordBatch,
        each: &mut impl FnMut(&Message, &Self) -> Result<(), AnalysisError>,
    ) -> Result<(), AnalysisError> {
        let numbers = |name| Numbers::of(batch, name);
        let texts = |name| Texts::of(batch, name);
        let (ids, times) = (numbers("record_id")?, Numbers::times(batch, "time_ns")?);
        let (xids, payloads) = (numbers("xid")?, numbers("payload_bytes")?);
        let (from, to, ops) = (texts("src_ip")?, texts("dst_ip")?, texts("op")?);
        let (calls, dropped) = (Flags::of(batch, "is_request")?, Flags::of(batch, DROPPED)?);
        for row in 0..batch.num_rows() {
            if dropped.get(row) == Some(true) {
                continue;
            }
            let (Some(time_ns), Some(op), Some(is_call)) =
                (times.get(row), ops.get(row), calls.get(row))
            else {
                self.unknown += 1;
                continue;
            };
            let xid = xids.count(row).and_then(|xid| u32::try_from(xid).ok());
            let message = Message {
                id: ids.get(row).unwrap_or_default(),
                time_ns,
                from: self.hosts.of(from.get(row).unwrap_or_default()),
                to: self.hosts.of(to.get(row).unwrap_or_default()),
                is_call,
                xid: xid.unwrap_or_default(),
                op: self.ops.of(op),
                payload: payloads.count(row).unwrap_or_default(),
            };
            self.seen.add(time_ns);
            each(&message, self)?;
        }
        Ok(())
    }

    /// Remarks about the rows that a reader of the result should know.
    pub fn remarks(&self) -> Vec<String> {
        let unknown = (self.unknown > 0).then(|| {
            format!(
                "{} messages without a known operation are left out",
                self.unknown
            )
        });
        unknown.into_iter().collect()
    }
}
