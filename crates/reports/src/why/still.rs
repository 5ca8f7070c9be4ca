//! Finds the times in which a place stood still.

use trackiops_query::coverage::Interval;
use trackiops_schemas::time::UtcMs;

use super::find::{Candidate, Sign};
use super::track::{Kind, Place, Tracks};

/// A request that took longer than this may show a standstill, ns.
const STOOD_STILL_NS: u64 = 2_000_000_000;
/// Least part of such a request's time in which nothing else completed.
const STILL_PART: f64 = 0.5;
/// A pause means something only if the place completes requests in this part of the intervals.
const BUSY: f64 = 0.7;

/// Times in which a place completed nothing, until a request completed that had waited as long.
pub fn stood_still(tracks: &Tracks, place: &Place) -> Vec<Candidate> {
    let [reads, writes] = [Kind::Read, Kind::Write].map(|kind| tracks.track(place, kind));
    let pairs: Vec<_> = reads.into_iter().zip(writes).collect();
    let completed: Vec<Option<u64>> = pairs
        .iter()
        .map(|(read, write)| Some(read.as_ref()?.requests + write.as_ref()?.requests))
        .collect();
    let busy = completed
        .iter()
        .flatten()
        .filter(|count| **count > 0)
        .count();
    if (busy as f64) < BUSY * completed.iter().flatten().count() as f64 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, (read, write)) in pairs.iter().enumerate() {
        let both = [(Kind::Read, read), (Kind::Write, write)];
        let both = both
            .into_iter()
            .filter_map(|(kind, of)| Some((kind, of.as_ref()?)));
        let Some((kind, of)) = both.max_by_key(|(_, of)| of.latency_ns_max) else {
            continue;
        };
        let waited_ms = of.latency_ns_max / 1_000_000;
        let still = completed[..at]
            .iter()
            .rev()
            .take_while(|count| **count == Some(0));
        let still_ms = still.count() as u64 * tracks.intervals.length.ms().unsigned_abs();
        if of.latency_ns_max < STOOD_STILL_NS || (still_ms as f64) < STILL_PART * waited_ms as f64 {
            continue;
        }
        let end = tracks.intervals.at(at).end;
        let begun_ms = still_ms.min(waited_ms).cast_signed();
        let begun = UtcMs(tracks.intervals.at(at).start.0 - begun_ms);
        found.push(Candidate {
            place: place.clone(),
            kind,
            sign: Sign::StoodStill,
            time: Interval::new(begun, end).intersect(tracks.range),
            lost_s: of.latency_ns_sum as f64 / 1e9,
            had_before: true,
        });
    }
    found
}
