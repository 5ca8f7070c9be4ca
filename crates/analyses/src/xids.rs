//! Operations that a capture misses, by gaps in the xids of a client (section 6.2 of the paper).
//!
//! This works only for clients that increment their xids by one. Linux does so for each transport. Like in the paper, the key is only the
//! client, so several mounts of one client interleave.

use std::collections::BTreeMap;

use ahash::AHashMap;

use crate::sheet::{Datum, Heading, Sheet};
use crate::source::messages::Message;
use crate::source::{Name, Names};
use trackiops_schemas::unit::{Unit, grouped};

/// Calls of a client that are examined together.
pub const BATCH: usize = 2000;
/// Gaps of this many ids or more do not count: the client began another sequence.
const SKIP_BELOW: u32 = 128;
/// Larger differences are retransmitted calls.
const BACKWARDS_ABOVE: u32 = u32::MAX - 1000;
/// Calls before a gap are dropped once they are older than this, ns.
const OLD_NS: i64 = 1_000_000_000;
/// If more calls than this are kept, and more than half of a batch, the byte order is determined again.
const MOST_KEPT: usize = 100;

/// Byte order of xids on the wire, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Unknown,
    AsTheyAre,
    Swapped,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    xid: u32,
    time_ns: i64,
    op: Name,
}

#[derive(Debug)]
struct Client {
    order: ByteOrder,
    calls: Vec<Call>,
}

/// Numbers of calls by the id that follows.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// All calls.
    pub request: u64,
    /// The next id follows.
    pub good: u64,
    /// Some ids are skipped, but not many.
    pub before_skip: u64,
    /// Skipped ids: calls that the capture misses.
    pub skip: u64,
    /// The id occurred before.
    pub backwards: u64,
    /// No id follows, and none will follow.
    pub old: u64,
    /// Calls that were dropped because their byte order was ambiguous.
    pub bad_guess: u64,
    /// The id that follows is unknown.
    pub unknown: u64,
}

/// The analysis.
pub struct Xids {
    batch: usize,
    clients: AHashMap<Name, Client>,
    counts: Counts,
    /// For each operation: how often ids were skipped after it, and how many.
    skipped_after: BTreeMap<Name, (u64, u64)>,
    now_ns: i64,
}

impl Xids {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["counts", "skipped"];

    /// Expects messages in order of time.
    pub fn new(batch: usize) -> Self {
        Self {
            batch: batch.max(2),
            clients: AHashMap::new(),
            counts: Counts::default(),
            skipped_after: BTreeMap::new(),
            now_ns: i64::MIN,
        }
    }

    /// Adds a message; ignores replies.
    pub fn add(&mut self, message: &Message) {
        if !message.is_call {
            return;
        }
        self.counts.request += 1;
        self.now_ns = message.time_ns;
        let client = self.clients.entry(message.from).or_insert(Client {
            order: ByteOrder::Unknown,
            calls: Vec::new(),
        });
        client.calls.push(Call {
            xid: message.xid,
            time_ns: message.time_ns,
            op: message.op,
        });
        if client.calls.len() < self.batch {
            return;
        }
        let calls = std::mem::take(&mut client.calls);
        let mut order = client.order;
        let kept = self.look_at(calls, &mut order, Some(message.time_ns));
        if let Some(client) = self.clients.get_mut(&message.from) {
            (client.order, client.calls) = (order, kept);
        }
    }

    /// Counts the calls of a batch. Returns the calls that begin the next batch.
    fn look_at(
        &mut self,
        mut calls: Vec<Call>,
        order: &mut ByteOrder,
        now_ns: Option<i64>,
    ) -> Vec<Call> {
        if *order == ByteOrder::Unknown {
            *order = order_of(&calls);
        }
        if *order == ByteOrder::Unknown {
            self.counts.bad_guess += calls.len() as u64;
            return Vec::new();
        }
        let id = |call: &Call| match *order {
            ByteOrder::Swapped => call.xid.swap_bytes(),
            _ => call.xid,
        };
        calls.sort_by_key(id);
        let mut kept = Vec::new();
        for (place, call) in calls.iter().enumerate() {
            let between = calls
                .get(place + 1)
                .map(|next| id(next).wrapping_sub(id(call)).wrapping_sub(1));
            match between {
                Some(0) => self.counts.good += 1,
                Some(between) if between > BACKWARDS_ABOVE => self.counts.backwards += 1,
                Some(between) if between < SKIP_BELOW => {
                    self.counts.before_skip += 1;
                    self.counts.skip += u64::from(between);
                    let (times, ids) = self.skipped_after.entry(call.op).or_default();
                    *times += 1;
                    *ids += u64::from(between);
                }
                _ if now_ns.is_some_and(|now| now.saturating_sub(call.time_ns) > OLD_NS) => {
                    self.counts.old += 1;
                }
                _ => kept.push(*call),
            }
        }
        if kept.len() > self.batch / 2 && kept.len() > MOST_KEPT {
            *order = ByteOrder::Unknown;
        }
        kept
    }

    /// Counts the remaining calls.
    pub fn finish(&mut self) {
        for (_, client) in std::mem::take(&mut self.clients) {
            let mut order = client.order;
            let left = match order {
                ByteOrder::Unknown => client.calls,
                _ => self.look_at(client.calls, &mut order, None),
            };
            self.counts.unknown += left.len() as u64;
        }
    }

    /// Tables: counts of calls, and the operations before skipped ids.
    pub fn sheets(&self, ops: &Names) -> [Sheet; 2] {
        let of = &self.counts;
        let counts = [
            ("request", of.request),
            ("good", of.good),
            ("before_skip", of.before_skip),
            ("skip", of.skip),
            ("backwards", of.backwards),
            ("old", of.old),
            ("bad_guess", of.bad_guess),
            ("unknown", of.unknown),
        ];
        let counts = counts.map(|(what, count)| (what, count as f64));
        let missing: u64 = self.skipped_after.values().map(|(_, ids)| *ids).sum();
        let verdict = format!(
            "about {} calls are missing beside {} that were captured",
            grouped(missing),
            grouped(of.request)
        );
        let [name, skipped_name] = Self::TABLES;
        let mut counts = Sheet::of_counts(name, "calls by what follows their xid", counts);
        counts.verdict = Some(verdict);
        let mut skipped = Sheet::new(
            skipped_name,
            "each row is an operation after which xids were skipped: as many calls are missing",
            vec![
                Heading::text("op"),
                Heading::count("times", Unit::Count),
                Heading::count("skipped", Unit::Count),
            ],
        );
        skipped.rows = self
            .skipped_after
            .iter()
            .map(|(op, (times, ids))| {
                vec![
                    Datum::Text(ops.get(*op)),
                    Datum::Count(*times),
                    Datum::Count(*ids),
                ]
            })
            .collect();
        [counts, skipped]
    }
}

/// The byte order in which most ids follow each other; unknown if neither order or both orders fit.
fn order_of(calls: &[Call]) -> ByteOrder {
    let share = |id: fn(u32) -> u32| {
        let mut ids: Vec<_> = calls.iter().map(|call| id(call.xid)).collect();
        ids.sort_unstable();
        let pairs = ids.windows(2);
        let follow = pairs
            .filter(|pair| pair[1].wrapping_sub(pair[0]) == 1)
            .count();
        follow as f64 / calls.len().max(1) as f64
    };
    let (as_they_are, swapped) = (share(|id| id), share(u32::swap_bytes));
    const MOST: f64 = 0.75;
    const FEW: f64 = 0.1;
    match (as_they_are, swapped) {
        (one, other) if one > MOST && other < FEW => ByteOrder::AsTheyAre,
        (other, one) if one > MOST && other < FEW => ByteOrder::Swapped,
        _ => ByteOrder::Unknown,
    }
}
