//! Finds the times in which something was slow, failed or stood still, in the tracks of all places.

use std::ops::Range;

use trackiops_query::coverage::Interval;
use trackiops_schemas::histogram::{middle_us, upper_bound_us};
use trackiops_schemas::row::Direction;
use trackiops_schemas::time::UtcMs;

use super::burst::bursts;
use super::quiet::{self, quiet_part};
use super::still::stood_still;
use super::track::{Kind, Place, Tracks};
use crate::median::median;
use crate::slow::{self, Found, Latency, Slow};

/// A request is far slower than usual if it takes this many times the usual largest latency of an interval.
const FAR_SLOWER: f64 = 3.0;
/// The time before the range may be the baseline if it has this many intervals with requests.
const LEAST_BEFORE: usize = 60;
/// It is the baseline if its latency was lower by this factor.
const LOWER_BEFORE: f64 = 1.5;
/// A short track without rare events, such as errors, is the baseline of the events after it: at least this many intervals with requests,
/// and this part of all.
const LEAST_LEAD: usize = 20;
const LEAD: f64 = 0.4;
/// A track had its work before a slow time if it was busy there in this part of the intervals, relative to the slow time.
const HAD: f64 = 0.5;
/// Least and most intervals before or after a slow time that show whether the track had its work there.
const LEAST_AROUND: usize = 10;
const MOST_AROUND: usize = 60;
/// A slow time begins and ends where the logarithm of the ratio is at least this part of its mean.
const EDGE: f64 = 0.5;

/// Sign of a time that was not as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// Nothing completed, until a request did that had waited as long.
    StoodStill,
    /// The mean or the 99th percentile rose.
    Slower,
    /// A few requests were far slower than any before.
    FewFarSlower,
    /// There were errors.
    Errors,
}

/// A time that was not as usual.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The place.
    pub place: Place,
    /// The kind of work.
    pub kind: Kind,
    /// The sign.
    pub sign: Sign,
    /// The time.
    pub time: Interval,
    /// Additional waiting time of requests, s; approximate.
    pub lost_s: f64,
    /// Whether the place had such work before. If not, its begin is that of the work, not of a slow time.
    pub had_before: bool,
}

/// Result of the search.
#[derive(Default)]
pub struct Candidates {
    /// The times that were not as usual.
    pub found: Vec<Candidate>,
    /// Places without a verdict: they had too few intervals with requests.
    pub unknown: Vec<Place>,
}

/// Searches all tracks. Times that end before `since` belong only to the baseline.
pub fn candidates(tracks: &Tracks, since: UtcMs) -> Candidates {
    let mut all = Candidates::default();
    for place in tracks.places.keys() {
        let mut is_known = false;
        for kind in Kind::ALL {
            let track = tracks.track(place, kind);
            if track.iter().flatten().all(|of| of.requests == 0) {
                continue;
            }
            let of = OfTrack::new(tracks, place, kind, &track, since);
            is_known |= of.find(&mut all.found);
        }
        all.found.extend(stood_still(tracks, place));
        if !is_known {
            all.unknown.push(place.clone());
        }
    }
    all.found.retain(|of| of.time.end > since);
    all
}

/// One track, with its baseline.
struct OfTrack<'t> {
    tracks: &'t Tracks,
    place: &'t Place,
    kind: Kind,
    track: &'t [Option<Direction>],
    /// Means by interval, us.
    means: Vec<Option<f64>>,
    /// The first interval of the range.
    first: usize,
    baseline: Range<usize>,
    /// The usual mean, us.
    usual: f64,
}

impl<'t> OfTrack<'t> {
    fn new(
        tracks: &'t Tracks,
        place: &'t Place,
        kind: Kind,
        track: &'t [Option<Direction>],
        since: UtcMs,
    ) -> Self {
        let mean = |of: &Option<Direction>| Some(of.as_ref()?.latency_ns_mean()? / 1000.0);
        let means: Vec<_> = track.iter().map(mean).collect();
        let first = tracks.intervals.place(since).unwrap_or(0);
        let ((count, before), (_, whole)) = (usual(&means[..first]), usual(&means));
        let is_lower = count >= LEAST_BEFORE && whole > LOWER_BEFORE * before;
        let (baseline, usual) = match is_lower {
            true => (0..first, before),
            false => (0..means.len(), whole),
        };
        Self {
            tracks,
            place,
            kind,
            track,
            means,
            first,
            baseline,
            usual,
        }
    }

    /// Returns whether there is a baseline.
    fn find(mut self, found: &mut Vec<Candidate>) -> bool {
        let slow = self.slow();
        let errors = self.bursts(&self.counts(|of| of.errors));
        let errors = errors
            .into_iter()
            .map(|at| self.candidate(Sign::Errors, &at, 0.0));
        found.extend(errors);
        let Some(slow) = slow else {
            return false;
        };
        let far_slower = self.far_slower(self.is_in_range(&slow));
        for time in slow {
            let at = match time.latency {
                Latency::Mean => self.sharpened(time.intervals),
                Latency::P99 => time.intervals,
            };
            let [before, after] = self.had_around(&at);
            // A burst of work without any around it is not slower than anything.
            if before || after {
                let mut slower = self.candidate(Sign::Slower, &at, self.lost_s(&at));
                slower.had_before = before;
                found.push(slower);
            }
        }
        found.extend(far_slower);
        true
    }

    /// The slow times; `None` without a baseline. If the range has none, the baseline may have the slow time in it: the quiet part of a
    /// short track is a better one.
    fn slow(&mut self) -> Option<Vec<Slow>> {
        let slow = self.compared_with(&self.baseline)?;
        let quiet = quiet_part(&self.means).filter(|_| !self.is_in_range(&slow));
        let Some(quiet) = quiet else {
            return Some(slow);
        };
        (_, self.usual) = usual(&self.means[quiet.clone()]);
        self.baseline = quiet;
        self.compared_with(&self.baseline)
    }

    /// The times that were slower than a baseline; `None` if it is too short.
    fn compared_with(&self, baseline: &Range<usize>) -> Option<Vec<Slow>> {
        match slow::find(self.track, baseline.clone(), 0..self.track.len()) {
            Found::Compared(slow) => Some(slow),
            Found::NoBaseline => None,
        }
    }

    fn is_in_range(&self, slow: &[Slow]) -> bool {
        slow.iter().any(|of| of.intervals.end > self.first)
    }

    /// The bursts of rare events. If there are none, the usual rate may be mostly that of a burst: in a short track, it is that of the lead.
    fn bursts(&self, counts: &[Option<u64>]) -> Vec<Range<usize>> {
        let found = bursts(counts, self.baseline.clone());
        match self.lead(counts).filter(|_| found.is_empty()) {
            Some(lead) => bursts(counts, lead),
            None => found,
        }
    }

    /// The time until the first event, with its interval: without that, the rate would seem to be 0.
    fn lead(&self, counts: &[Option<u64>]) -> Option<Range<usize>> {
        let first = counts.iter().position(|count| *count > Some(0))?;
        let (before, all) = (self.busy(0..first), self.busy(0..self.track.len()));
        let is_long = before >= LEAST_LEAD && before as f64 >= LEAD * all as f64;
        (all <= quiet::SHORT && is_long).then_some(0..first + 1)
    }

    /// Number of intervals with requests.
    fn busy(&self, of: Range<usize>) -> usize {
        let known = self.track[of].iter().flatten();
        known.filter(|of| of.requests > 0).count()
    }

    fn candidate(&self, sign: Sign, at: &Range<usize>, lost_s: f64) -> Candidate {
        Candidate {
            place: self.place.clone(),
            kind: self.kind,
            sign,
            time: self.tracks.time(at),
            lost_s,
            had_before: true,
        }
    }

    /// Whether the track had as much work before and after some intervals, by the part of intervals with requests.
    fn had_around(&self, at: &Range<usize>) -> [bool; 2] {
        let busy = |of: Range<usize>| {
            let known = self.track[of.clone()].iter().flatten().count();
            self.busy(of) as f64 / known.max(1) as f64
        };
        let number = at.len().clamp(LEAST_AROUND, MOST_AROUND);
        let before = at.start.saturating_sub(number)..at.start;
        let after = at.end..(at.end + number).min(self.track.len());
        let least = HAD * busy(at.clone());
        [before, after].map(|around| busy(around) >= least)
    }

    fn counts(&self, of: impl Fn(&Direction) -> u64) -> Vec<Option<u64>> {
        self.track.iter().map(|at| at.as_ref().map(&of)).collect()
    }

    /// The part of a slow time that was clearly slow at both ends.
    fn sharpened(&self, at: Range<usize>) -> Range<usize> {
        let above = |at: usize| Some((self.means[at]? / self.usual.max(1e-9)).ln());
        let known: Vec<f64> = at.clone().filter_map(above).collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let is_slow = |at: &usize| above(*at).is_some_and(|above| above >= EDGE * mean);
        match (at.clone().find(is_slow), at.clone().rev().find(is_slow)) {
            (Some(first), Some(last)) => first..last + 1,
            _ => at,
        }
    }

    fn lost_s(&self, at: &Range<usize>) -> f64 {
        let lost = |of: &Direction| {
            let all_s = of.latency_ns_sum as f64 / 1e9;
            all_s - self.usual * of.timed() as f64 / 1e6
        };
        self.track[at.clone()].iter().flatten().map(lost).sum()
    }

    /// Times with requests that are far slower than any usual one. The lead matters only if nothing else shows that the track was slow.
    fn far_slower(&self, is_slow: bool) -> Vec<Candidate> {
        let largest = |of: &Direction| (of.requests > 0).then_some(of.latency_ns_max as f64);
        let known = self.track.iter().flatten().filter_map(largest);
        let far_us = FAR_SLOWER * median(&mut known.collect::<Vec<_>>()) / 1000.0;
        let slow = |of: &Direction| slower_than(of, far_us);
        let counts = self.counts(|of| slow(of).0);
        let found = match is_slow {
            true => bursts(&counts, self.baseline.clone()),
            false => self.bursts(&counts),
        };
        let candidate = |at: Range<usize>| {
            let lost_s = self.track[at.clone()].iter().flatten().map(|of| slow(of).1);
            Candidate {
                had_before: self.busy(0..at.start) >= quiet::LEAST_BEFORE,
                ..self.candidate(Sign::FewFarSlower, &at, lost_s.sum())
            }
        };
        found.into_iter().map(candidate).collect()
    }
}

/// Number of known means, and their median.
fn usual(means: &[Option<f64>]) -> (usize, f64) {
    let mut known: Vec<f64> = means.iter().flatten().copied().collect();
    (known.len(), median(&mut known))
}

/// Number of requests that took longer than this, and their time, s.
pub fn slower_than(of: &Direction, us: f64) -> (u64, f64) {
    let buckets = of.latency.buckets().iter();
    let slow = buckets.filter(|(bucket, _)| upper_bound_us(*bucket) > us * 1.03);
    slow.fold((0, 0.0), |(all, sum_s), (bucket, count)| {
        (
            all + count,
            sum_s + *count as f64 * middle_us(*bucket) / 1e6,
        )
    })
}
