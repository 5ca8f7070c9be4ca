//! Compares single requests of a store with a capture of the same traffic.

mod captured;
mod comparison;
mod error;
mod matching;
mod recorded;
mod sheets;

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::requests::KeptRequests;
use trackiops_query::{KeptRequest, Question};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;

pub use self::captured::Captured;
pub use self::comparison::{Comparison, RowsWanted};
pub use self::error::CompareError;
pub use self::sheets::{TABLES, sheets};

use self::comparison::Pair;
use self::matching::{APART_MS, Matching};
use self::recorded::Recorded;

/// A store and a capture, compared.
pub struct Compared<'c> {
    /// Counts, differences and distributions.
    pub comparison: Comparison<'c>,
    /// The time that both cover.
    pub range: Interval,
    /// Notes on the store's requests.
    pub notes: Vec<Note>,
    /// Requests of the store without an xid, which are not compared.
    pub without_xid: u64,
}

/// Compares all requests in the time that store and capture share. Requests of the store are those that the question selects.
pub fn compare<'c>(
    question: &Question,
    captured: &'c Captured,
    wanted: RowsWanted,
) -> Result<Compared<'c>, CompareError> {
    let shared = shared(question, captured)?;
    let mut matching = Matching::new(&captured.transfers);
    let mut comparison = Comparison::new(captured, wanted);
    let (notes, without_xid) = read(question, &shared, &mut matching, &mut comparison)?;
    for transfer in matching.rest() {
        if shared.has(transfer.end_ns, transfer.end_ns) {
            comparison.only_captured(transfer);
        }
    }
    comparison.rows.sort_by_key(Pair::end_ns);
    Ok(Compared {
        comparison,
        range: shared.interval(),
        notes,
        without_xid,
    })
}

/// The time that recording and capture share, ns since the epoch, both ends inclusive.
struct Shared {
    start_ns: i64,
    end_ns: i64,
}

impl Shared {
    fn has(&self, begin_ns: i64, end_ns: i64) -> bool {
        self.start_ns <= begin_ns && end_ns <= self.end_ns
    }

    fn interval(&self) -> Interval {
        let ms = |ns: i64| UtcMs(ns.div_euclid(1_000_000));
        Interval::new(ms(self.start_ns), UtcMs(ms(self.end_ns).0 + 1))
    }
}

fn shared(question: &Question, captured: &Captured) -> Result<Shared, CompareError> {
    let snapshot = Snapshot::open_all(question.stores.iter().map(|store| &**store))?;
    let Some((start, end)) = snapshot.span() else {
        return Err(CompareError::NothingRecorded);
    };
    let start = question.range.since.map_or(start, |since| since.max(start));
    let end = question.range.until.map_or(end, |until| until.min(end));
    let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
    let (first_ns, last_ns) = captured.range_ns;
    let shared = Shared {
        start_ns: ns(start).max(first_ns),
        end_ns: ns(end).saturating_sub(1).min(last_ns),
    };
    if shared.start_ns > shared.end_ns {
        return Err(CompareError::OtherTime);
    }
    Ok(shared)
}

/// Compares all requests of the store in the shared time. Returns notes, and the number of requests without an xid.
fn read<'c>(
    question: &Question,
    shared: &Shared,
    matching: &mut Matching<'c>,
    comparison: &mut Comparison<'c>,
) -> Result<(Vec<Note>, u64), CompareError> {
    let Ok(mut kept) = KeptRequests::open(question)? else {
        return Err(CompareError::NoRequests);
    };
    let (mut all, mut without_xid) = (0_u64, 0_u64);
    let Interval { start, end } = shared.interval();
    let around = Interval::new(UtcMs(start.0 - APART_MS), UtcMs(end.0 + APART_MS));
    kept.read(around, &mut |batch| {
        for row in KeptRequest::all_of(&batch) {
            let recorded = Recorded::new(&row);
            let captured = matching.take(&recorded);
            // The client completes the request after its last packet, perhaps after the last packet of the capture.
            let is_shared = match captured {
                Some(captured) => shared.has(captured.end_ns, captured.end_ns),
                None => shared.has(recorded.begin_ns(), recorded.end_ns),
            };
            if !is_shared {
                continue;
            }
            all += 1;
            match recorded.xid {
                None => without_xid += 1,
                Some(_) => comparison.recorded(recorded, captured),
            }
        }
        Ok(true)
    })
    .map_err(CompareError::Requests)?;
    if all == 0 {
        return Err(CompareError::NoRequests);
    }
    if all == without_xid {
        return Err(CompareError::NoXids);
    }
    let (_, _, notes) = kept.finish(question);
    Ok((notes, without_xid))
}
