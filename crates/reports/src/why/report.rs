//! The verdict: asks for the tracks of all places, finds slow moments, and examines each.

use std::collections::BTreeSet;
use std::sync::Arc;

use trackiops_query::Question;
use trackiops_query::ask::{ask_span, asked, check, within as overlaps};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::coverage::stalls::Stall;
use trackiops_query::lost::begin_before;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::pending::STALLED_MS;
use trackiops_schemas::row::{Direction, Row};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::cause::{Cause, Confidence, Facts, judge};
use super::draft::{Draft, SHORT_USUAL_MS, drafts, refine, usual_time};
use super::facts::Compared;
use super::find::{Candidate, Sign, candidates, slower_than};
use super::moment::Moment;
use super::process;
use super::track::{Kind, Place, Site, Tracks, ask_tracks, within};
use super::victims::{Losses, Victim};
use crate::connections::{Clients, Used, compared as compared_connections};
use crate::network_or_server::{self, Evidence};
use crate::report::{Made, ReportError};
use crate::slow::comparison::{Part, added_rtt_us};

/// A question without a begin is about this much of the latest recorded time, ms.
const LAST_MS: i64 = 6 * 3_600_000;
/// Lengths of intervals, and the most intervals of a track.
const LENGTHS_MS: [i64; 9] = [
    1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000, 86_400_000,
];
const MOST_INTERVALS: u64 = 4500;
/// Most moments to examine in detail: those that lost most.
const MOST_MOMENTS: usize = 12;
/// Most victims of a moment: those that lost most.
const MOST_VICTIMS: usize = 10;
/// A moment with less lost time is ignored, s.
const LEAST_LOST_S: f64 = 1.0;
/// A moment that lost a smaller part of the time of all requests is ignored.
const LEAST_PART: f64 = 0.1;
/// A moment with fewer requests beyond the earlier p99 is ignored, unless they lost more.
const LEAST_SLOW: u64 = 5;
const LEAST_SLOW_PART: f64 = 0.015;
const LOST_BY_FEW_S: f64 = 5.0;

/// Slow moments in a range.
#[derive(Clone, Debug)]
pub struct Why {
    /// The range.
    pub range: Interval,
    /// The moments, those that lost most first.
    pub moments: Vec<Moment>,
    /// Notes of the engine.
    pub notes: Vec<Note>,
    /// Mounts and devices with too little data for a verdict.
    pub unknown: Vec<Arc<str>>,
}

/// Finds slow moments in the range of a question, or in the last hours.
pub fn make(question: &Question) -> Made<Why> {
    check(question)?;
    let span = match ask_span(question)? {
        Ok(span) => span,
        Err(why) => return Ok(Err((why, Vec::new()))),
    };
    if let Err(why) = overlaps(span, question) {
        return Ok(Err((why, Vec::new())));
    }
    let range = range(question, span);
    let whole = Interval::new(begin_before(range), range.end).intersect(span);
    let lengths = lengths(whole)?;
    let tracks = match ask_tracks(&within(question, whole), &lengths)? {
        Ok(tracks) => tracks,
        Err(nothing) => return Ok(Err(nothing)),
    };
    let engine = Engine {
        question,
        tracks: &tracks,
        whole,
        range,
    };
    engine.verdict().map(Ok)
}

/// The range of a question.
fn range(question: &Question, span: Interval) -> Interval {
    let range = asked(span, question).intersect(span);
    match question.range.since {
        Some(_) => range,
        None => Interval::new(range.start.max(UtcMs(range.end.0 - LAST_MS)), range.end),
    }
}

/// Lengths that divide a range into few enough intervals, the shortest first.
fn lengths(whole: Interval) -> Result<Vec<Granularity>, ReportError> {
    let all = LENGTHS_MS.into_iter().map(Granularity::from_ms);
    let all: Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| ReportError::Unsuitable(error.to_string()))?;
    let is_long = |of: &Granularity| whole.ms() / of.ms().unsigned_abs() <= MOST_INTERVALS;
    Ok(all.into_iter().filter(is_long).collect())
}

/// A stall must cover this many intervals before they show whether its server answered.
const LEAST_INTERVALS: usize = 3;

struct Engine<'e> {
    question: &'e Question,
    tracks: &'e Tracks,
    whole: Interval,
    range: Interval,
}

impl Engine<'_> {
    fn verdict(&self) -> Result<Why, ReportError> {
        let mut all = candidates(self.tracks, self.range.start);
        all.found.extend(self.stalls());
        all.found.retain(is_worth_a_look);
        let mut drafts = drafts(all.found);
        drafts.truncate(MOST_MOMENTS);
        let length = self.tracks.intervals.length;
        let shorter = lengths(Interval::new(UtcMs(0), UtcMs(0)))?;
        for draft in &mut drafts {
            refine(self.question, draft, self.whole, length, &shorter)?;
        }
        drafts.retain(|draft| draft.time.end > self.range.start);
        let mut moments = Vec::new();
        for draft in &drafts {
            moments.extend(self.moment(draft, &drafts)?);
        }
        moments.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s).then(a.time.cmp(&b.time)));
        let unknown: BTreeSet<_> = all.unknown.into_iter().map(|of| of.mount).collect();
        Ok(Why {
            range: self.range,
            moments,
            notes: self.tracks.notes.clone(),
            unknown: unknown.into_iter().collect(),
        })
    }

    /// The stalls that the recorder saw.
    fn stalls(&self) -> Vec<Candidate> {
        let notes = self.tracks.notes.iter();
        let stalls = notes.filter_map(|note| match note {
            Note::Stalled { host, stall } => Some(self.stalled(host.as_deref(), stall)),
            _ => None,
        });
        stalls
            .filter(|of| of.time.end > self.range.start && !self.is_answered(of))
            .collect()
    }

    /// Whether requests completed in most intervals of a stall. If so, the server answered, and some requests waited behind others.
    fn is_answered(&self, stall: &Candidate) -> bool {
        let rows = self.tracks.places.get(&stall.place).into_iter().flatten();
        let inside = rows.enumerate().filter(|(i, _)| {
            let time = self.tracks.time(&(*i..i + 1));
            stall.time.start <= time.start && time.end <= stall.time.end
        });
        let completed = |row: &Option<Row>| {
            let row = row.as_ref();
            row.is_some_and(|row| row.read.requests + row.write.requests > 0)
        };
        let (answered, all) = inside.fold((0, 0), |(answered, all), (_, row)| {
            (answered + usize::from(completed(row)), all + 1)
        });
        all >= LEAST_INTERVALS && answered * 2 > all
    }

    fn stalled(&self, host: Option<&str>, stall: &Stall) -> Candidate {
        let only = self.tracks.hosts.first().map(|host| &*host.name);
        let host = host.or(only).unwrap_or("(unknown)");
        let server = &stall.server;
        let mount = server.mounts.first().or(server.address.as_ref());
        let mount = mount.map_or("(unknown)", String::as_str);
        // The recorder reports a stall once a request has waited for this long.
        let begun = UtcMs(stall.range.start.0 - STALLED_MS.cast_signed());
        Candidate {
            place: Place {
                site: Site::of(IoLevel::Wire, host, Some(mount)),
                host: host.into(),
                mount: mount.into(),
            },
            kind: Kind::Read,
            sign: Sign::StoodStill,
            time: Interval::new(begun, stall.range.end),
            lost_s: server.age_ms_max as f64 / 1000.0,
            had_before: true,
        }
    }

    /// Examines a draft; `None` if it is not significant.
    fn moment(&self, draft: &Draft, all: &[Draft]) -> Result<Option<Moment>, ReportError> {
        let usual = usual_time(draft, all, self.tracks, self.whole);
        // A stall needs no usual time to compare with.
        let is_still = draft.signs.iter().any(|of| of.sign == Sign::StoodStill);
        if usual.is_none() && !is_still {
            return Ok(None);
        }
        let compared = Compared::ask(self.question, draft, usual)?;
        let (losses, lost) = compared.losses(draft.site.level);
        let mut facts = compared.facts(draft, &losses, &lost);
        facts.other_servers = other_servers(draft, all);
        facts.is_usual_short = usual.is_some_and(|time| time.ms() < SHORT_USUAL_MS);
        if !is_something(draft, &losses, &compared.slow(), &facts) {
            return Ok(None);
        }
        let used = self.connections(draft, &compared, usual)?;
        facts.network_or_server = used.as_ref().and_then(|used| evidence(used, &facts));
        if let Some(load) = facts.loads.first() {
            facts.load_is_elsewhere =
                Compared::is_elsewhere(self.question, draft, load, self.whole)?;
        }
        let judged = judge(&facts);
        let process = match facts.loads.first().filter(|_| judged.0.is_load()) {
            Some(load) => process::behind(load, self.question, draft.time)?,
            None => None,
        };
        let connections = used.as_ref().map(compared_connections);
        Ok(Some(Moment {
            process,
            connections: connections.unwrap_or_default(),
            ..self.described(draft, &compared, losses, facts, judged)
        }))
    }

    /// The connections of a draft's mounts, in its usual time and in its own.
    fn connections(
        &self,
        draft: &Draft,
        compared: &Compared,
        usual: Option<Interval>,
    ) -> Result<Option<[Used; 2]>, ReportError> {
        let Some(usual) = usual.filter(|_| draft.site.level == IoLevel::Wire) else {
            return Ok(None);
        };
        let mounts = mounts(draft);
        let clients = Clients {
            mounts: &mounts,
            hosts: &compared.hosts,
        };
        Ok(Some(clients.ask(self.question, [usual, draft.time])?))
    }

    fn described(
        &self,
        draft: &Draft,
        compared: &Compared,
        losses: Losses,
        facts: Facts,
        (cause, confidence): (Cause, Confidence),
    ) -> Moment {
        let [before, now] = compared.slow();
        let means = now.latency_ns_mean().zip(before.latency_ns_mean());
        let stalled_s = facts.stall.as_ref().map_or(0.0, |_| draft.lost_s());
        let culprit = facts.loads.first().cloned();
        let mut victims = losses.victims;
        if let Some(load) = culprit.as_ref().filter(|_| blames_others(cause, &facts)) {
            // Its requests wait too, but because of itself.
            let is_own = |of: &Victim| load.owner.is_of(&of.host, &of.name, of.tenant.as_deref());
            victims.retain(|of| !is_own(of));
        }
        let all_victims = victims.len();
        victims.truncate(MOST_VICTIMS);
        compared.add_figures(&mut victims);
        Moment {
            time: draft.time,
            lasts: draft.time.end.0 >= self.range.end.0 - self.tracks.intervals.length.ms(),
            level: draft.site.level,
            mounts: mounts(draft),
            hosts: compared.hosts.clone(),
            has_other_hosts: self.tracks.hosts.len() > compared.hosts.len(),
            kinds: compared.kinds.clone(),
            sign: draft.signs.first().map_or(Sign::Slower, |of| of.sign),
            ratio: means.map(|(now, before)| now / before.max(1.0)),
            lost_s: losses.net_s.max(stalled_s).max(0.0),
            victims,
            all_victims,
            culprit,
            process: None,
            cause,
            confidence,
            facts,
            connections: Vec::new(),
        }
    }
}

/// Network or server, where most of the added time was spent in one of the two.
fn evidence(used: &[Used; 2], facts: &Facts) -> Option<Evidence> {
    let added_us = added_rtt_us(&facts.before, &facts.now)?;
    let is_asked = facts.part == Some(Part::Service);
    is_asked.then(|| network_or_server::judge(used, added_us))
}

/// The mounts or devices of a draft.
fn mounts(draft: &Draft) -> Vec<Arc<str>> {
    let mounts = draft.signs.iter().map(|of| Arc::clone(&of.place.mount));
    let mounts: BTreeSet<_> = mounts.collect();
    mounts.into_iter().collect()
}

/// Whether a cause blames the first load for the time that others lost.
fn blames_others(cause: Cause, facts: &Facts) -> bool {
    let is_of_load = matches!(
        cause,
        Cause::Neighbour | Cause::MetadataStorm | Cause::SyncStorm
    );
    is_of_load && !facts.is_own_load()
}

fn is_worth_a_look(of: &Candidate) -> bool {
    of.sign == Sign::Errors || of.lost_s >= 0.5 * LEAST_LOST_S
}

/// Number of servers other than the draft's that its hosts waited for at the same time.
fn other_servers(draft: &Draft, all: &[Draft]) -> usize {
    let is_other = |other: &&Draft| {
        other.site != draft.site
            && other.site.level == draft.site.level
            && other.time.intersect(draft.time).ms() * 2 > draft.time.ms()
            && other.signs.iter().any(|sign| {
                let mut own = draft.signs.iter();
                own.any(|of| of.place.host == sign.place.host)
            })
    };
    let others: BTreeSet<_> = all.iter().filter(is_other).map(|of| &of.site).collect();
    others.len()
}

/// Whether enough time was lost to report the draft.
fn is_something(
    draft: &Draft,
    losses: &Losses,
    [before, now]: &[Direction; 2],
    facts: &Facts,
) -> bool {
    if facts.stall.is_some() {
        return true;
    }
    if facts.only_errors {
        let share = now.errors as f64 / now.requests.max(1) as f64;
        return now.errors >= LEAST_SLOW && share >= 0.01;
    }
    let few_lost_s = losses.victims.first().map_or(0.0, |of| of.lost_s);
    let is_of_few = draft.signs.iter().any(|of| of.sign == Sign::FewFarSlower);
    let lost_s = match is_of_few {
        true => losses.net_s.max(few_lost_s),
        false => losses.net_s,
    };
    let least = if is_of_few {
        0.0
    } else {
        LEAST_PART * losses.all_s
    };
    lost_s >= LEAST_LOST_S.max(least) && are_slow(before, now, is_of_few, lost_s)
}

/// Whether many requests were slower than the earlier p99, or a few were much slower.
fn are_slow(before: &Direction, now: &Direction, is_of_few: bool, lost_s: f64) -> bool {
    let Some(p99_us) = before.latency.quantile_us(0.99) else {
        // Operations at the wire have no distribution.
        return true;
    };
    let (slow, _) = slower_than(now, p99_us);
    let least = match is_of_few {
        true => LEAST_SLOW,
        false => LEAST_SLOW.max((LEAST_SLOW_PART * now.latency.total() as f64) as u64),
    };
    slow >= least || lost_s >= LOST_BY_FEW_S
}
