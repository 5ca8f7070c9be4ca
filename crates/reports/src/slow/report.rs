//! The report: asks for the latencies of each mount, finds slow times, and asks who suffered.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::group::TenantKey;
use trackiops_query::times::{Zone, show};
use trackiops_query::{
    AnswerRow, GroupBy, Outcome, Projection, QueryError, Question, Range as TimeRange, Step, ask,
    ask_stalls,
};
use trackiops_schemas::columns::{DIRECTIONS, LATENCY_HIST, UNSPLIT};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{Direction, Row as Counters};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::change_point::MIN_BASELINE;
use super::comparison::{
    Change, Figures, NOTABLE_RATIO, Part, added_rtt_us, both, changes, grown_part, mix_us,
};
use super::suffering::{Suffering, raised_load, ranked};
use super::{Found, Slow, columns, find};
use crate::by::ReportBy;
use crate::connections::Clients;
use crate::network_or_server::{Evidence, judge};
use crate::report::{About, Made, ReportError, Table};
use crate::series::{Series, SeriesSet, Sums, ask_series};
use crate::subject::{self, Subject, SubjectKey, is_only_missed};
use crate::usual_interval::Proposals;

/// How the numbers are computed.
const METHOD: &[&str] = &[
    "The mean and the 99th percentile of each interval of a mount, reads and writes together, are compared with the median of the baseline's intervals. Page's cumulative \
     sum of the logarithms of the ratios, less half of that of 1.5, finds when they rose: a slow time begins after the sum was last 0, and ends where it is largest. It is \
     reported if the sum exceeds 3 times the logarithm of 1.5, and 8 standard deviations of the baseline, and the geometric mean of the ratios is at least 1.5.",
    "Queue, network and server, and completion are the parts of the mean latency; they add up to it. The mix is the part of its change that comes from another share of reads and writes. \
     If most of the added time is that of network and server, what TCP knew of the connections may tell which: docs/guide/why.md has the rule.",
    "Added time is requests x (mean now - mean before), reads and writes apart, for each tenant, directory and file. That of a slow time is the sum of the tenants that lost \
     time. A slow time in which that is less than a tenth of the time of all requests is not reported, unless these tenants took 1.5 times as long: it only has more \
     requests of those that always take long.",
];

/// A slow time counts if its added time is at least this part of the time of all requests, or if tenants whose usual latency is known took
/// [`NOTABLE_RATIO`] times as long. Otherwise no tenant waits longer than before: tenants that are always slow only have a larger share of the
/// requests. A new tenant with nearly all of the time says nothing about the others.
const MIN_ADDED: f64 = 0.1;
/// The report examines who suffered only for this many slow times, those with the most added time.
const MOST_ASKED: usize = 10;
/// Most tenants, most directories and most files of a slow time.
const MOST_SUFFERERS: usize = 5;
/// Most new tenants, and most new files, that are named.
const MOST_NEW: usize = 3;
/// A time with this many intervals has enough whole ones for a baseline, wherever it begins.
const ENOUGH_INTERVALS: usize = MIN_BASELINE + 2;

/// A slow time of a mount.
#[derive(Clone, Debug)]
pub struct SlowTime {
    /// Its number, from 1.
    pub number: u64,
    /// The mount.
    pub mount: Arc<str>,
    /// The time.
    pub time: Interval,
    /// Whether it was still slow at the end of the range.
    pub lasts: bool,
    /// The latency that rose.
    pub slow: Slow,
    /// The baseline.
    pub before: Figures,
    /// The slow time.
    pub now: Figures,
    /// The part of the mean's change that comes from a different mix, us.
    pub mix_us: Option<f64>,
    /// The part of the latency that has most of the added time, if that is known.
    pub part: Option<Part>,
    /// Whether that was the network or the server, if it was one of the two and the report examines this slow time.
    pub network_or_server: Option<Evidence>,
    /// Requests of the slow time.
    pub requests: u64,
    /// Recorded time of the baseline and of the slow time, ms.
    pub recorded_ms: [u64; 2],
    /// Added time of the tenants that lost time, s.
    pub added_s: f64,
}

/// A tenant, directory or file that suffered.
#[derive(Clone, Debug)]
pub struct Sufferer {
    /// Number of the slow time.
    pub number: u64,
    /// `tenant`, `dir` or `file`.
    pub kind: &'static str,
    /// Its name.
    pub subject: Subject,
    /// How much it suffered.
    pub suffering: Suffering,
    /// Its requests in the slow time.
    pub figures: Figures,
    /// Whether the load of the mount rose, mostly because of it.
    pub raised_load: bool,
}

/// Something that changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Number of the slow time.
    pub number: u64,
    /// The change.
    pub change: Change,
    /// Names of the new ones, those with the most requests first.
    pub which: Option<String>,
}

/// The report.
#[derive(Clone, Debug)]
pub struct SlowReport {
    /// Range, notes and remarks.
    pub about: About,
    /// Slow times.
    pub times: Table<SlowTime>,
    /// Who suffered.
    pub sufferers: Table<Sufferer>,
    /// What changed.
    pub changes: Table<Changed>,
}

/// Names of the report's tables.
pub const TABLES: &[&str] = &["times", "sufferers", "changes"];

/// The sums of a series.
#[derive(Clone, Debug, Default)]
struct Sum(Counters);

impl Sums for Sum {
    fn add(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}

fn needs() -> Projection {
    let counters = [
        "requests",
        "bytes",
        "untimed",
        "folded",
        "latency_us_sum",
        "queue_us_sum",
        "rtt_us_sum",
        "errors",
        "retrans",
        UNSPLIT,
        LATENCY_HIST,
    ];
    let names = DIRECTIONS
        .iter()
        .flat_map(|of| counters.map(|name| format!("{of}_{name}")));
    let names: Vec<_> = names.collect();
    Projection::new(names.iter().map(String::as_str)).only_transfers(true)
}

fn sum(row: &AnswerRow) -> Sum {
    Sum(row.sum.row().into_owned())
}

/// A question about a range.
fn within(question: &Question, range: Interval) -> Question {
    Question {
        range: TimeRange {
            since: Some(range.start),
            until: Some(range.end),
        },
        ..question.clone()
    }
}

/// Makes the report. The default `baseline` is the time before the range, and as long.
pub fn make(
    question: &Question,
    baseline: Option<Interval>,
    length: Granularity,
) -> Made<SlowReport> {
    let by = ReportBy {
        by: TENANTS,
        hosts: false,
    };
    let now = match ask_series(question, by, length, needs(), sum)? {
        Ok(now) => now,
        Err(nothing) => return Ok(Err(nothing)),
    };
    let question = &now.at_their_level(question);
    let is_named = baseline.is_some();
    let baseline = baseline.unwrap_or_else(|| {
        let ms = i64::try_from(now.range.ms()).unwrap_or(i64::MAX);
        Interval::new(UtcMs(now.range.start.0.saturating_sub(ms)), now.range.start)
    });
    if !baseline.intersect(now.range).is_empty() {
        return Err(ReportError::Unsuitable(
            "the baseline overlaps the range; name a time outside of it with --baseline".to_owned(),
        ));
    }
    let before = ask_series(&within(question, baseline), by, length, needs(), sum)?.ok();
    let mut remarks = vec![now.recorded_in_words()];
    let mut times = Vec::new();
    let mut with_few = BTreeSet::new();
    let mounts_before = before.as_ref().map(mounts).unwrap_or_default();
    for (mount, series) in mounts(&now) {
        let earlier = mounts_before.get(mount);
        let earlier = before.as_ref().zip(earlier);
        let found = earlier.map_or(Err(0), |(before, earlier)| {
            let earlier = Tenants {
                set: before,
                series: earlier,
            };
            of_mount(
                mount,
                &earlier,
                &Tenants {
                    set: &now,
                    series: &series,
                },
            )
        });
        match found {
            Err(count) => {
                with_few.insert(mount);
                remarks.push(format!(
                    "{mount}: the baseline has {count} of the {MIN_BASELINE} intervals of {length} with requests that it needs"
                ));
            }
            Ok(found) if found.is_empty() => remarks.push(format!("{mount}: nothing was slow")),
            Ok(found) => times.extend(found),
        }
    }
    if !with_few.is_empty() {
        let earlier = within(question, baseline);
        let hosts = before.iter().flat_map(|before| &before.hosts);
        let recorded_ms = hosts.map(|host| host.ms.iter().sum::<u64>());
        let recorded_ms = recorded_ms.max().unwrap_or(0);
        let proposals = Proposals::new(&[question, &earlier], now.intervals)?;
        let fitting = proposals.interval_with(ENOUGH_INTERVALS, recorded_ms);
        let shorter = fitting.filter(|shorter| *shorter < length);
        remarks.push(match shorter {
            Some(shorter) if has_enough(&earlier, shorter, &with_few)? => {
                format!("with --interval {shorter} the baseline has enough intervals")
            }
            _ if is_named => format!(
                "name a longer time with requests with --baseline: at least {}",
                proposals.time_of(ENOUGH_INTERVALS)
            ),
            None if fitting.is_none() => without_baseline(now.range, &proposals, question.zone),
            _ => "name a time with more requests with --baseline".to_owned(),
        });
    }
    times.sort_by(|a, b| b.added_s.total_cmp(&a.added_s).then(a.time.cmp(&b.time)));
    times
        .iter_mut()
        .zip(1..)
        .for_each(|(time, number)| time.number = number);
    if times.len() > MOST_ASKED {
        remarks.push(format!(
            "sufferers, changes, and network or server are those of the {MOST_ASKED} slow times that added most time"
        ));
    }
    let (mut sufferers, mut changed) = (Vec::new(), Vec::new());
    for time in times.iter_mut().take(MOST_ASKED) {
        time.network_or_server = network_or_server(question, baseline, time)?;
        let (who, what) = in_detail(question, baseline, time)?;
        sufferers.extend(who);
        changed.extend(what);
    }
    let about = About {
        verdict: None,
        name: "slow",
        title: "What was slow",
        method: METHOD,
        range: now.range,
        notes: now.notes.clone(),
        remarks,
    };
    let times = Table::new(
        "times",
        "A row is a time in which a mount was slow: the one that added most time first.",
        columns::of_times(),
        columns::SHOWN_TIMES,
        times,
        &about,
    );
    let sufferers = Table::new(
        "sufferers",
        "A row is a tenant, directory or file in a slow time: those that lost most time first. Where raised_load is true, it waited for its own load as well.",
        columns::of_sufferers(),
        columns::SHOWN_SUFFERERS,
        sufferers,
        &about,
    );
    let changes = Table::new(
        "changes",
        "A row is something that may have changed with a slow time: notable things first.",
        columns::of_changes(),
        columns::SHOWN_CHANGES,
        changed,
        &about,
    );
    Ok(Ok(SlowReport {
        about,
        times,
        sufferers,
        changes,
    }))
}

/// Whether the range has enough intervals of this length with requests on one of the mounts.
fn has_enough(
    question: &Question,
    length: Granularity,
    of: &BTreeSet<&str>,
) -> Result<bool, ReportError> {
    let by = ReportBy {
        by: TENANTS,
        hosts: false,
    };
    let Ok(set) = ask_series(question, by, length, needs(), sum)? else {
        return Ok(false);
    };
    let enough = |series: &[&Series<Sum>]| {
        let tenants = Tenants { set: &set, series };
        with_latency(&tenants.directions()) >= MIN_BASELINE
    };
    let mounts = mounts(&set);
    Ok(mounts
        .iter()
        .any(|(mount, series)| of.contains(mount) && enough(series)))
}

/// The number of intervals with a latency.
fn with_latency(intervals: &[Option<Direction>]) -> usize {
    let known = intervals.iter().flatten();
    let known = known.filter(|of| of.latency_ns_mean().is_some_and(|ns| ns > 0.0));
    known.count()
}

/// What to do if too little was recorded before the range.
fn without_baseline(range: Interval, proposals: &Proposals, zone: Zone) -> String {
    let half_ms = range.ms() / 2;
    match proposals.interval_with(ENOUGH_INTERVALS, half_ms) {
        Some(interval) => {
            let middle = range.end.0 - i64::try_from(half_ms).unwrap_or(0);
            let middle = UtcMs(middle - middle.rem_euclid(1000));
            format!(
                "too little was recorded before the range: to compare its second half with the first, add --since '{}' --interval {interval}",
                show(middle, zone)
            )
        }
        None => format!(
            "too little was recorded for a baseline and a range: record for at least {}",
            proposals.time_of(2 * ENOUGH_INTERVALS)
        ),
    }
}

/// Each tenant of each mount.
const TENANTS: GroupBy = GroupBy {
    tenants: true,
    ..GroupBy::MOUNT
};

/// A mount's name, or a placeholder for an unknown one.
fn named(mount: Option<&str>) -> &str {
    mount.unwrap_or("(unknown)")
}

/// The series of the tenants of each mount.
fn mounts(set: &SeriesSet<Sum>) -> BTreeMap<&str, Vec<&Series<Sum>>> {
    let mut mounts: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for series in &set.series {
        let mount = series.subject.mount.as_deref();
        if is_only_missed(mount, &series.sum(0..set.intervals.count).0) {
            continue;
        }
        let mount = named(mount);
        mounts.entry(mount).or_default().push(series);
    }
    mounts
}

/// The tenants of a mount in a range.
struct Tenants<'s> {
    set: &'s SeriesSet<Sum>,
    series: &'s [&'s Series<Sum>],
}

impl Tenants<'_> {
    /// The sum of all tenants over some intervals.
    fn sum(&self, places: Range<usize>) -> Counters {
        let mut sum = Sum::default();
        let sums = self.series.iter().map(|of| of.sum(places.clone()));
        sums.for_each(|of| sum.add(&of));
        sum.0
    }

    /// The longest recorded time of a host in an interval, ms.
    fn recorded_ms(&self, places: Range<usize>) -> u64 {
        let hosts = self.series.iter().flat_map(|of| of.host_places());
        let hosts: BTreeSet<_> = hosts.collect();
        let longest = |at: usize| hosts.iter().map(|host| self.set.hosts[*host].ms[at]).max();
        places.filter_map(longest).sum()
    }

    /// Reads and writes of each interval; `None` where it was not recorded.
    fn directions(&self) -> Vec<Option<Direction>> {
        let at = |at: usize| {
            let is_recorded = self.recorded_ms(at..at + 1) > 0;
            is_recorded.then(|| both(&self.sum(at..at + 1)))
        };
        (0..self.set.intervals.count).map(at).collect()
    }

    /// Sums by tenant.
    fn by_tenant(&self, places: Range<usize>) -> BTreeMap<TenantKey, Counters> {
        let of = |of: &&Series<Sum>| {
            let tenant = TenantKey::of(&of.subject.tenant);
            (tenant, of.sum(places.clone()).0)
        };
        self.series.iter().map(of).collect()
    }
}

/// The slow times of a mount. An error is the number of the baseline's intervals with requests, if they are too few.
fn of_mount(mount: &str, before: &Tenants<'_>, now: &Tenants<'_>) -> Result<Vec<SlowTime>, usize> {
    let mut requests = before.directions();
    let first = requests.len();
    requests.extend(now.directions());
    let count = requests.len();
    let Found::Compared(found) = find(&requests, 0..first, first..count) else {
        return Err(with_latency(&requests[..first]));
    };
    let all_before = before.sum(0..first);
    let before_ms = before.recorded_ms(0..first);
    let before_figures = Figures::new(&all_before, before_ms);
    let tenants_before = before.by_tenant(0..first);
    let time = |slow: Slow| {
        let places = slow.intervals.start - first..slow.intervals.end - first;
        let intervals = now.set.intervals;
        let (start, end) = (
            intervals.at(places.start).start,
            intervals.at(places.end - 1).end,
        );
        let sum = now.sum(places.clone());
        let now_ms = now.recorded_ms(places.clone());
        let tenants = now.by_tenant(places);
        let none = Counters::default();
        let pairs = tenants.iter();
        let pairs: Vec<_> = pairs
            .map(|(tenant, now)| (tenants_before.get(tenant).unwrap_or(&none), now))
            .collect();
        let (mut added_s, mut known_s) = (0.0, 0.0);
        for of in ranked(pairs.iter().copied()) {
            if let Some(s) = of.added_s {
                added_s += s.max(0.0);
                known_s += seconds(pairs[of.place].1);
            }
        }
        let time = SlowTime {
            number: 0,
            mount: mount.into(),
            time: Interval::new(start, end).intersect(now.set.range),
            lasts: slow.intervals.end == count,
            slow,
            before: before_figures,
            now: Figures::new(&sum, now_ms),
            mix_us: mix_us(&all_before, &sum),
            part: grown_part(&both(&all_before), &both(&sum)),
            network_or_server: None,
            requests: sum.read.requests + sum.write.requests,
            recorded_ms: [before_ms, now_ms],
            added_s,
        };
        let is_slower = added_s >= (1.0 - 1.0 / NOTABLE_RATIO) * known_s && added_s > 0.0;
        (is_slower || added_s >= MIN_ADDED * seconds(&sum)).then_some(time)
    };
    Ok(found.into_iter().filter_map(time).collect())
}

/// The time of the reads and writes of a row, s.
fn seconds(of: &Counters) -> f64 {
    both(of).latency_ns_sum as f64 / 1e9
}

/// Sums by subject of a mount in a range.
fn sums(
    question: &Question,
    range: Interval,
    by: ReportBy,
    mount: &str,
) -> Result<BTreeMap<SubjectKey, (Subject, Counters)>, QueryError> {
    let question = Question {
        by: by.by,
        step: Some(Step::All),
        projection: needs().with(subject::needs()),
        ..within(question, range)
    };
    let mut sums: BTreeMap<SubjectKey, (Subject, Counters)> = BTreeMap::new();
    if let Outcome::Found(answer) = ask(&question)? {
        for row in answer.rows.iter().filter(|row| named(row.mount()) == mount) {
            let (key, subject) = Subject::of(row, by);
            let entry = sums
                .entry(key)
                .or_insert_with(|| (subject, Counters::default()));
            entry.1.merge(&row.sum.row());
        }
    }
    Ok(sums)
}

/// Network or server, where most of the added time was spent in one of the two.
fn network_or_server(
    question: &Question,
    baseline: Interval,
    time: &SlowTime,
) -> Result<Option<Evidence>, QueryError> {
    let is_asked = time.part == Some(Part::Service) && question.levels == [IoLevel::Wire];
    let added_us = added_rtt_us(&time.before, &time.now).filter(|_| is_asked);
    let Some(added_us) = added_us else {
        return Ok(None);
    };
    let clients = Clients {
        mounts: &[Arc::clone(&time.mount)],
        hosts: &[],
    };
    let used = clients.ask(question, [baseline, time.time])?;
    Ok(Some(judge(&used, added_us)))
}

/// Who suffered in a slow time, and what changed with it.
fn in_detail(
    question: &Question,
    baseline: Interval,
    time: &SlowTime,
) -> Result<(Vec<Sufferer>, Vec<Changed>), ReportError> {
    let (mut sufferers, mut new) = (Vec::new(), Vec::new());
    for (kind, by) in [
        ("tenant", TENANTS),
        ("dir", GroupBy::dir(1)),
        ("file", GroupBy::FILE),
    ] {
        let by = ReportBy { by, hosts: false };
        let before = sums(question, baseline, by, &time.mount)?;
        let now = sums(question, time.time, by, &time.mount)?;
        let none = Counters::default();
        let pairs = now
            .iter()
            .map(|(key, (_, now))| (before.get(key).map_or(&none, |(_, before)| before), now));
        let pairs: Vec<_> = pairs.collect();
        let all = ranked(pairs.iter().copied());
        let raised = raised_load(&pairs, [&time.before, &time.now], time.recorded_ms);
        let subjects: Vec<_> = now.values().map(|(subject, _)| subject).collect();
        let mut new_ones: Vec<_> = all.iter().filter(|of| of.is_new).collect();
        new_ones.sort_by_key(|of| Reverse(of.requests));
        let names = new_ones
            .iter()
            .map(|of| subjects[of.place].clone().without_mount().name);
        new.push((
            kind,
            new_ones.len(),
            new_ones.iter().map(|of| of.requests).sum::<u64>(),
            first_names(names),
        ));
        sufferers.extend(all.iter().take(MOST_SUFFERERS).map(|of| Sufferer {
            number: time.number,
            kind,
            subject: subjects[of.place].clone().without_mount(),
            suffering: *of,
            figures: Figures::new(pairs[of.place].1, time.recorded_ms[1]),
            raised_load: raised[of.place],
        }));
    }
    let changes = changes(&time.before, &time.now).into_iter();
    let mut what: Vec<_> = changes.map(|change| (change, None)).collect();
    for (kind, count, requests, names) in new {
        let name = match kind {
            "tenant" => ["new tenants", "share of requests of new tenants"],
            "file" => ["new files", "share of requests of new files"],
            _ => continue,
        };
        let share = requests as f64 / time.requests.max(1) as f64;
        for (what_new, now, which) in [(name[0], count as f64, Some(names)), (name[1], share, None)]
        {
            let change = Change {
                what: what_new,
                before: None,
                now: Some(now),
                is_notable: share >= 0.1,
            };
            what.push((change, which));
        }
    }
    let stalls = match ask_stalls(&within(question, time.time))? {
        Outcome::Found(answer) => answer.rows.len(),
        Outcome::Nothing { .. } => 0,
    };
    let stalls = Change {
        what: "stalls",
        before: None,
        now: Some(stalls as f64),
        is_notable: stalls > 0,
    };
    what.push((stalls, None));
    // Omit changes from nothing to nothing.
    what.retain(|(change, _)| {
        [change.before, change.now]
            .iter()
            .flatten()
            .any(|number| *number > 0.0)
    });
    what.sort_by_key(|(change, _)| !change.is_notable);
    let number = time.number;
    let changed = what.into_iter().map(|(change, which)| Changed {
        number,
        change,
        which,
    });
    Ok((sufferers, changed.collect()))
}

/// The first names, and the number of the others.
fn first_names(names: impl ExactSizeIterator<Item = Arc<str>>) -> String {
    let more = names.len().saturating_sub(MOST_NEW);
    let mut text = names.take(MOST_NEW).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}
