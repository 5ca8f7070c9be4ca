//! Drafts: candidates of one site and one time, joined, and the usual time to compare them with.

use trackiops_query::Question;
use trackiops_query::coverage::Interval;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::find::{Candidate, Sign, candidates};
use super::track::{Kind, Site, Tracks, ask_tracks, within};
use crate::median::median;
use crate::report::ReportError;

/// Candidates belong to one moment if they share this part of the longer one's time.
const SHARED: f64 = 0.3;
/// Requests that waited for a stall complete within this time after it, ms.
const RETURN_MS: i64 = 2000;
/// A moment within another one is part of it if the other one lost this many times as much.
const DWARFED: f64 = 3.0;
/// A moment lasts as long as any slower kind of work that lost this part of the time of the one that lost most.
const ALSO_SLOW: f64 = 0.25;
/// Longest moment whose begin and end are refined with shorter intervals, ms.
const LONGEST_REFINED_MS: i64 = 3_600_000;
/// Least time before a moment that the refinement also reads, ms.
const LEAD_MS: i64 = 300_000;
/// Least and most time to compare a moment with, ms.
const LEAST_USUAL_MS: u64 = 60_000;
const MOST_USUAL_MS: u64 = 1_800_000;
/// A shorter time is not enough to compare with, ms.
const TOO_SHORT_MS: u64 = 10_000;
/// A shorter time may differ from what is usual by chance, ms.
pub const SHORT_USUAL_MS: u64 = 20_000;
/// A time is usual if its mean latency is at most this many times the usual one.
const STILL_USUAL: f64 = 1.25;

/// A moment before it is examined in detail.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The site.
    pub site: Site,
    /// The time.
    pub time: Interval,
    /// The candidates that showed it, the clearest first.
    pub signs: Vec<Candidate>,
}

impl Draft {
    /// The lost time, s; approximate. Work that was not there before counts only if there is no other sign.
    pub fn lost_s(&self) -> f64 {
        let most = |had_before: bool| {
            let signs = self.signs.iter().filter(|of| of.had_before == had_before);
            signs.map(|of| of.lost_s).reduce(f64::max)
        };
        most(true).or(most(false)).unwrap_or(0.0)
    }

    fn takes(&self, of: &Candidate) -> bool {
        let shared = self.time.intersect(of.time).ms() as f64;
        let longer = self.time.ms().max(of.time.ms()) as f64;
        // Stalled requests complete only after the stall.
        let reach = Interval::new(self.time.start, UtcMs(self.time.end.0 + RETURN_MS));
        let is_still = |of: &Candidate| of.sign == Sign::StoodStill;
        let is_stall = is_still(of) || self.signs.iter().any(is_still);
        let is_in =
            is_stall && of.time.ms() <= self.time.ms() && !of.time.intersect(reach).is_empty();
        self.site == of.place.site && (is_in || shared >= SHARED * longer)
    }

    /// From the first to the last of the kinds of work that were slower. By chance, one of them may show it some intervals later.
    fn whole_time(&self) -> Interval {
        let Some(first) = self.signs.first() else {
            return self.time;
        };
        let is_slow = |of: &&Candidate| {
            of.sign == Sign::Slower
                && of.had_before == first.had_before
                && of.lost_s >= ALSO_SLOW * first.lost_s
        };
        let slow = self.signs.iter().filter(is_slow);
        match first.sign {
            Sign::Slower | Sign::FewFarSlower => slow.fold(self.time, |all, of| {
                Interval::new(all.start.min(of.time.start), all.end.max(of.time.end))
            }),
            _ => self.time,
        }
    }

    /// Whether it is only a small part of another one.
    fn is_dwarfed_by(&self, other: &Self) -> bool {
        let shared = self.time.intersect(other.time).ms() as f64;
        self.site == other.site
            && shared >= 0.5 * self.time.ms() as f64
            && other.lost_s() >= DWARFED * self.lost_s()
            && self.time != other.time
    }
}

/// Joins candidates that belong together. Drafts that lost most come first.
pub fn drafts(mut found: Vec<Candidate>) -> Vec<Draft> {
    found.sort_by(|a, b| {
        let is_first = |of: &Candidate| of.sign != Sign::StoodStill;
        is_first(a)
            .cmp(&is_first(b))
            .then(b.had_before.cmp(&a.had_before))
            .then(b.lost_s.total_cmp(&a.lost_s))
            .then(a.time.cmp(&b.time))
    });
    let mut drafts: Vec<Draft> = Vec::new();
    for candidate in found {
        match drafts.iter_mut().find(|draft| draft.takes(&candidate)) {
            Some(draft) => draft.signs.push(candidate),
            None => drafts.push(Draft {
                site: candidate.place.site.clone(),
                time: candidate.time,
                signs: vec![candidate],
            }),
        }
    }
    for draft in &mut drafts {
        draft.time = draft.whole_time();
    }
    let all = drafts.clone();
    drafts.retain(|draft| !all.iter().any(|other| draft.is_dwarfed_by(other)));
    drafts.sort_by(|a, b| b.lost_s().total_cmp(&a.lost_s()).then(a.time.cmp(&b.time)));
    drafts
}

/// Refines begin and end of a draft with shorter intervals than its tracks have, if they were recorded.
pub fn refine(
    question: &Question,
    draft: &mut Draft,
    whole: Interval,
    length: Granularity,
    shorter: &[Granularity],
) -> Result<(), ReportError> {
    let shorter: Vec<_> = shorter.iter().copied().filter(|of| *of < length).collect();
    let ms = draft.time.ms().cast_signed();
    if shorter.is_empty() || ms > LONGEST_REFINED_MS {
        return Ok(());
    }
    let lead = LEAD_MS.max(ms + ms / 2);
    let around = Interval::new(
        UtcMs(draft.time.start.0 - lead),
        UtcMs(draft.time.end.0 + LEAD_MS / 5),
    );
    let around = around.intersect(whole);
    let Ok(Ok(tracks)) = ask_tracks(&within(question, around), &shorter) else {
        // Shorter intervals have expired: keep the longer ones.
        return Ok(());
    };
    let found = candidates(&tracks, UtcMs(draft.time.start.0 - length.ms())).found;
    let is_same =
        |of: &Candidate| of.place.site == draft.site && !of.time.intersect(draft.time).is_empty();
    let mut found: Vec<_> = found.into_iter().filter(is_same).collect();
    found.extend(
        draft
            .signs
            .iter()
            .filter(|of| of.sign == Sign::StoodStill)
            .cloned(),
    );
    let finer = drafts(found);
    let kind = |of: &Draft| of.signs.first().map(|sign| sign.kind);
    let own = kind(draft);
    let best = finer.iter().find(|of| kind(of) == own).or(finer.first());
    if let Some(best) = best {
        draft.time = best.time;
        draft.signs.extend(best.signs.iter().cloned());
        draft.signs.sort_by(|a, b| {
            (a.sign.cmp(&b.sign))
                .then(b.had_before.cmp(&a.had_before))
                .then(b.lost_s.total_cmp(&a.lost_s))
        });
    }
    Ok(())
}

/// The time to compare a draft with: before it, else after it, else at the begin of the tracks. Its latency must be usual.
pub fn usual_time(
    draft: &Draft,
    all: &[Draft],
    tracks: &Tracks,
    whole: Interval,
) -> Option<Interval> {
    let length = (3 * draft.time.ms())
        .clamp(LEAST_USUAL_MS, MOST_USUAL_MS)
        .cast_signed();
    let guard = (2 * tracks.intervals.length.ms()).min(20_000);
    let (begin, end) = (draft.time.start.0 - guard, draft.time.end.0 + guard);
    let times = [
        (begin - length, begin),
        (end, end + length),
        (whole.start.0, begin.min(whole.start.0 + length)),
    ];
    let times = times.map(|(from, to)| Interval::new(UtcMs(from), UtcMs(to)).intersect(whole));
    let times = times.map(|time| clear_of(time, draft, all));
    let long: Vec<_> = times
        .into_iter()
        .filter(|of| of.ms() >= TOO_SHORT_MS)
        .collect();
    let usual = long.iter().find(|time| is_usual(draft, tracks, **time));
    usual.or(long.first()).copied()
}

/// The longest part of a time that starts or ends with it and has no other draft of the site.
fn clear_of(time: Interval, draft: &Draft, all: &[Draft]) -> Interval {
    let others = all
        .iter()
        .filter(|of| of.site == draft.site && of.time != draft.time);
    others.fold(time, |time, other| {
        if time.intersect(other.time).is_empty() {
            return time;
        }
        let [first, last] = [
            Interval::new(time.start, other.time.start),
            Interval::new(other.time.end, time.end),
        ];
        match first.ms() > last.ms() {
            true => first,
            false => last,
        }
    })
}

fn is_usual(draft: &Draft, tracks: &Tracks, time: Interval) -> bool {
    let Some(sign) = draft.signs.first() else {
        return true;
    };
    let means = means(tracks, sign);
    let usual = median(&mut means.iter().flatten().copied().collect::<Vec<_>>());
    let within = tracks.intervals.within(time);
    let mut there: Vec<_> = means[within].iter().flatten().copied().collect();
    !there.is_empty() && median(&mut there) <= STILL_USUAL * usual
}

fn means(tracks: &Tracks, sign: &Candidate) -> Vec<Option<f64>> {
    let kind: Kind = sign.kind;
    let track = tracks.track(&sign.place, kind);
    let mean = |of: &Option<_>| -> Option<f64> {
        let of: &trackiops_schemas::row::Direction = of.as_ref()?;
        of.latency_ns_mean()
    };
    track.iter().map(mean).collect()
}
