//! Compares both sides' requests: counts, differences and distributions.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_analyses::distribution::Distribution;

use super::captured::{Captured, Transfer};
use super::recorded::Recorded;

/// Fields that can differ, by name; `bytes` are the requested and the transferred ones.
pub const FIELDS: [&str; 4] = ["file", "offset", "bytes", "errno"];

/// Parts of latencies, by name.
pub const PARTS: [&str; 7] = [
    "latency",
    "queue",
    "network",
    "completion",
    "captured",
    "answered",
    "network - answered",
];

/// Totals of READs, or of WRITEs.
#[derive(Default)]
pub struct Totals {
    /// In the store and in the capture.
    pub both: u64,
    /// Requests in `both` with equal fields.
    pub equal: u64,
    /// Only in the store.
    pub only_recorded: u64,
    /// Only in the capture, and they did not fail.
    pub only_captured: u64,
    /// Only in the capture, and they failed.
    pub only_captured_failed: u64,
    /// Requests with a difference in each of [`FIELDS`].
    pub differ: [u64; FIELDS.len()],
    /// Distributions of [`PARTS`], us.
    pub parts_us: [Distribution; PARTS.len()],
}

impl Totals {
    /// Whether a request is missing on one side, or a field differs.
    pub fn differs(&self) -> bool {
        self.both > self.equal || self.only_recorded > 0 || self.only_captured > 0
    }
}

/// A request as both sides have it.
pub struct Pair<'c> {
    /// As the store has it.
    pub recorded: Option<Recorded>,
    /// As the capture has it.
    pub captured: Option<&'c Transfer>,
    /// Which of [`FIELDS`] differ.
    pub differ: [bool; FIELDS.len()],
}

impl Pair<'_> {
    /// Whether both sides have it and agree.
    pub fn is_equal(&self) -> bool {
        self.recorded.is_some() && self.captured.is_some() && self.differ == [false; FIELDS.len()]
    }

    /// When it completed, ns since the epoch.
    pub fn end_ns(&self) -> i64 {
        let recorded = self.recorded.as_ref().map(|recorded| recorded.end_ns);
        let captured = self.captured.map(|captured| captured.end_ns);
        recorded.or(captured).unwrap_or(0)
    }

    /// Parts of its latency as in [`PARTS`], ns. The last part is known only if the call was sent once. For several sends, the recorder's
    /// `rtt` begins with the last, and the capture's latency with the first. `rtt` ends when the client has the first bytes of the reply
    /// (`xprt_lookup_rqst`, net/sunrpc/xprt.c), so the capture's time up to these bytes is compared.
    pub fn parts_ns(&self) -> [Option<i64>; PARTS.len()] {
        let of = self.recorded.as_ref();
        let latency = of.and_then(|of| of.latency_ns);
        let queue = of.and_then(|of| of.queue_ns);
        let rtt = of.and_then(|of| of.rtt_ns);
        let completion = of.and_then(Recorded::completion_ns);
        let captured = self.captured.and_then(|captured| captured.latency_ns);
        let captured = captured.and_then(|ns| i64::try_from(ns).ok());
        let again = of.and_then(|of| of.retransmissions).unwrap_or(0);
        let is_sent_once = again == 0 && self.captured.is_some_and(|of| of.retransmissions == 0);
        let answered = self.captured.and_then(|captured| captured.answered_ns);
        let apart = rtt.zip(answered).map(|(rtt, answered)| rtt - answered);
        let apart = apart.filter(|_| is_sent_once);
        [latency, queue, rtt, completion, captured, answered, apart]
    }
}

/// A handle of a server, on a mount of a client.
type FileOn = ((Arc<str>, Arc<str>), std::net::IpAddr, u32);

/// Which requests to list.
#[derive(Clone, Copy)]
pub enum RowsWanted {
    /// All.
    All,
    /// Differing requests, at most this many.
    Differing(usize),
}

/// Compares requests one by one.
pub struct Comparison<'c> {
    captured: &'c Captured,
    /// Totals of READs and of WRITEs.
    pub totals: [Totals; 2],
    /// File number of each handle.
    files: HashMap<FileOn, u64>,
    /// The rows to list.
    pub rows: Vec<Pair<'c>>,
    rows_wanted: RowsWanted,
}

impl<'c> Comparison<'c> {
    /// An empty comparison.
    pub fn new(captured: &'c Captured, rows_wanted: RowsWanted) -> Self {
        Self {
            captured,
            totals: Default::default(),
            files: HashMap::new(),
            rows: Vec::new(),
            rows_wanted,
        }
    }

    /// Adds a request of the store, with the matching request of the capture.
    pub fn recorded(&mut self, recorded: Recorded, captured: Option<&'c Transfer>) {
        let differ = captured.map_or([false; FIELDS.len()], |captured| {
            self.difference(&recorded, captured)
        });
        let totals = &mut self.totals[usize::from(recorded.is_write)];
        let pair = Pair {
            recorded: Some(recorded),
            captured,
            differ,
        };
        match captured {
            None => totals.only_recorded += 1,
            Some(_) => {
                totals.both += 1;
                totals.equal += u64::from(pair.is_equal());
                for (count, differs) in totals.differ.iter_mut().zip(differ) {
                    *count += u64::from(differs);
                }
                let parts = totals.parts_us.iter_mut().zip(pair.parts_ns());
                for (part, ns) in parts.filter_map(|(part, ns)| Some((part, ns?))) {
                    part.add(ns as f64 / 1000.0);
                }
            }
        }
        self.keep(pair);
    }

    /// Adds a request that only the capture has.
    pub fn only_captured(&mut self, captured: &'c Transfer) {
        let totals = &mut self.totals[usize::from(captured.is_write)];
        match captured.outcome {
            Some((_, errno)) if errno != 0 => totals.only_captured_failed += 1,
            _ => totals.only_captured += 1,
        }
        self.keep(Pair {
            recorded: None,
            captured: Some(captured),
            differ: [false; FIELDS.len()],
        });
    }

    fn keep(&mut self, pair: Pair<'c>) {
        let is_kept = match self.rows_wanted {
            RowsWanted::All => true,
            RowsWanted::Differing(most) => !pair.is_equal() && self.rows.len() < most,
        };
        if is_kept {
            self.rows.push(pair);
        }
    }

    /// Which fields differ. A field that the capture lacks is equal.
    fn difference(&mut self, recorded: &Recorded, captured: &Transfer) -> [bool; FIELDS.len()] {
        let on = (recorded.place.clone(), captured.server, captured.handle);
        let file = *self.files.entry(on).or_insert(recorded.fileid);
        let is_other = captured.fileid.is_some_and(|id| id != recorded.fileid);
        let asked = captured.asked_bytes.map(u64::from);
        let bytes = captured.outcome.map(|(bytes, _)| u64::from(bytes));
        let errno = captured.outcome.map(|(_, errno)| i64::from(errno));
        [
            file != recorded.fileid || is_other,
            captured.offset != recorded.offset,
            asked.is_some_and(|asked| asked != recorded.asked_bytes)
                || bytes.is_some_and(|bytes| bytes != recorded.done_bytes),
            errno.is_some_and(|errno| errno != recorded.errno),
        ]
    }

    /// The handle of a request of the capture, as text.
    pub fn handle(&self, captured: &Transfer) -> Option<String> {
        let handle = self.captured.handles.get(captured.handle as usize)?;
        Some(format!("{handle:?}"))
    }
}
