//! The report: asks for the series of each server and mount, and makes rows of the findings.

use std::collections::BTreeMap;
use std::sync::Arc;

use trackiops_query::columns::{Column, Unit, Value};
use trackiops_query::group::TenantKey;
use trackiops_query::{Level, Projection, Question};
use trackiops_schemas::columns::{DIRECTIONS, UNSPLIT};
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::row::Direction;
use trackiops_schemas::time::Granularity;

use super::correlation::{MAX_LAG, MIN_INTERVALS};
use super::latency::MIN_REQUESTS;
use super::{Activity, Evidence, Flow, Measure, Part, Place, Reason, Verdict, examine};
use crate::by::ReportBy;
use crate::columns::{count, rounded};
use crate::report::{About, Made, Table};
use crate::series::{Series, SeriesSet, Sums, ask_series};
use crate::subject::{self, Subject};
use crate::usual_interval::Proposals;

/// How the numbers are computed.
const METHOD: &[&str] = &[
    "The others' latency of an interval is the median, over all others with at least 5 requests in it, of their mean latency relative to the median of \
     their own means. It is the part at network and server; the whole latency where that part is not known of most requests.",
    "Load is requests/s and bytes/s. The correlation is the largest of both and of lags of 0 to 2 intervals: a partial correlation of ranks, without the \
     mean of the hour around each interval, and without what the loads of the others explain. Loads that lower latency are no controls. The chance is how often circular \
     shifts of the series, over all candidates of a place, have a correlation as clear.",
    "A load is high above the middle between its median and its 99.5th percentile. The ratio is the median, over intervals with a high load, of the others' latency \
     relative to the median of intervals of the hour before and after in which it is not high and the others have as much load of their own.",
    "A candidate is named if chance is at most 1 %, the ratio at least 1.2, and the others waited longer in 70 % of at least 5 episodes. The queueing share is its share of the \
     sum of all latencies: by Little's law, of the requests in the system.",
];

/// Columns for people, in order.
const SHOWN: &[&str] = &[
    "place",
    "name",
    "verdict",
    "ratio",
    "correlation",
    "chance",
    "queue_share_high",
    "others_us_high",
    "others_us_otherwise",
    "episodes",
    "reason",
];

/// A candidate on a server or a mount.
#[derive(Clone, Debug)]
pub struct Row {
    /// The server.
    pub server: Arc<str>,
    /// `server:/export`; `None` for all mounts of a server together.
    pub mount: Option<Arc<str>>,
    /// The candidate.
    pub subject: Subject,
    /// Length of an interval, ms.
    pub interval_ms: u64,
    /// Which part of the time counts as the others' latency.
    pub part: Part,
    /// The evidence.
    pub evidence: Evidence,
}

/// The report.
#[derive(Clone, Debug)]
pub struct Noisy {
    /// Range, notes and remarks.
    pub about: About,
    /// All candidates, by place.
    pub candidates: Table<Row>,
}

/// Names of the report's tables.
pub const TABLES: &[&str] = &["candidates"];

/// The sums of a series: reads and writes.
#[derive(Clone, Debug, Default)]
struct Flows([Flow; 2]);

impl Sums for Flows {
    fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.requests += other.requests;
            own.bytes += other.bytes;
            own.timed += other.timed;
            own.latency_ns += other.latency_ns;
            own.split += other.split;
            own.server_ns += other.server_ns;
        }
    }
}

fn flow(of: &Direction) -> Flow {
    let timed = of.timed();
    Flow {
        requests: of.requests,
        bytes: of.bytes,
        timed,
        latency_ns: of.latency_ns_sum,
        split: timed.saturating_sub(of.unsplit),
        server_ns: of.rtt_ns_sum,
    }
}

/// Makes the report: `by` chooses the candidates, `length` is that of the intervals. `question.top` limits the candidates to the first
/// ones.
pub fn make(question: &Question, by: ReportBy, length: Granularity) -> Made<Noisy> {
    let by = ReportBy {
        by: trackiops_query::GroupBy {
            // Each candidate is at least as fine as a mount.
            level: by.by.level.min(Level::Mount),
            ..by.by
        },
        ..by
    };
    let needed = [
        "requests",
        "bytes",
        "untimed",
        "latency_us_sum",
        "rtt_us_sum",
        UNSPLIT,
    ];
    let needed = DIRECTIONS
        .iter()
        .flat_map(|of| needed.map(|name| format!("{of}_{name}")));
    let needed: Vec<_> = needed.collect();
    let needs = Projection::new(needed.iter().map(String::as_str)).only_transfers(true);
    let value =
        |row: &trackiops_query::AnswerRow| Flows([flow(&row.sum.read()), flow(&row.sum.write())]);
    let set = match ask_series(question, by, length, needs, value)? {
        Ok(set) => set,
        Err(nothing) => return Ok(Err(nothing)),
    };
    let proposals = Proposals::new(&[question], set.intervals)?;
    let mut rows = Vec::new();
    let mut remarks = vec![set.recorded_in_words()];
    for (server, mount, candidates) in places(&set, by) {
        let (subjects, place) = place(&set, &candidates);
        let mut findings = examine(&place);
        let is_of_tenants = by.by.tenants && by.by.level == Level::Mount;
        if is_of_tenants && !subjects.iter().any(|of| of.tenant.is_known()) {
            for of in &mut findings.evidence {
                if of.verdict == Verdict::Unknown(Reason::Alone) {
                    of.verdict = Verdict::Unknown(Reason::NoTenants);
                }
            }
        }
        let label = mount.as_deref().unwrap_or(&server);
        remarks.push(format!(
            "{label}: {}",
            in_words(&findings.evidence, &subjects, &place, length, &proposals)
        ));
        rows.extend(findings.evidence.into_iter().map(|evidence| Row {
            server: Arc::clone(&server),
            mount: mount.clone(),
            subject: subjects[evidence.entity].clone(),
            interval_ms: place.interval_ms,
            part: findings.part,
            evidence,
        }));
    }
    let about = About {
        verdict: None,
        name: "noisy",
        title: "Noisy neighbours",
        method: METHOD,
        range: set.range,
        notes: set.notes.clone(),
        remarks,
    };
    let caption = "A row is a candidate on a server or mount: named ones first, then by correlation and by queueing share.";
    let candidates = Table::new("candidates", caption, columns(), SHOWN, rows, &about);
    Ok(Ok(Noisy { about, candidates }))
}

/// Identifies a candidate across the mounts of a server.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CandidateKey<'s> {
    host: Option<&'s Arc<str>>,
    file: Option<FileKey>,
    path: Option<&'s Arc<str>>,
    tenant: TenantKey,
    /// `None` unless the candidates are mounts, which are not added up.
    mount: Option<&'s Arc<str>>,
}

/// Series of one candidate.
type Candidates<'s> = Vec<Vec<&'s Series<Flows>>>;

/// Servers and mounts with their candidates. A server is a separate place only if it has several mounts.
fn places(
    set: &SeriesSet<Flows>,
    by: ReportBy,
) -> Vec<(Arc<str>, Option<Arc<str>>, Candidates<'_>)> {
    type Mounts<'s> = BTreeMap<Arc<str>, Vec<&'s Series<Flows>>>;
    let mut servers: BTreeMap<Arc<str>, Mounts<'_>> = BTreeMap::new();
    for series in &set.series {
        let mount = series
            .subject
            .mount
            .clone()
            .unwrap_or_else(|| "(unknown)".into());
        let server = mount.split_once(":/").map_or(&*mount, |(server, _)| server);
        let mounts = servers.entry(server.into()).or_default();
        mounts.entry(mount).or_default().push(series);
    }
    let by_mount = by.by.level == Level::Mount && !by.by.tenants && !by.hosts;
    let mut places = Vec::new();
    for (server, mounts) in servers {
        if mounts.len() > 1 {
            let mut candidates: BTreeMap<CandidateKey<'_>, Vec<_>> = BTreeMap::new();
            for series in mounts.values().flatten() {
                let of = &series.subject;
                let key = CandidateKey {
                    host: of.host.as_ref(),
                    file: of.file,
                    path: of.path.as_ref(),
                    tenant: TenantKey::of(&of.tenant),
                    mount: of.mount.as_ref().filter(|_| by_mount),
                };
                candidates.entry(key).or_default().push(*series);
            }
            places.push((
                Arc::clone(&server),
                None,
                candidates.into_values().collect(),
            ));
        }
        for (mount, series) in mounts {
            let candidates = series.into_iter().map(|of| vec![of]).collect();
            places.push((Arc::clone(&server), Some(mount), candidates));
        }
    }
    places
}

/// The activity of candidates. An interval is recorded if all hosts of the place recorded all of it.
fn place(set: &SeriesSet<Flows>, candidates: &Candidates<'_>) -> (Vec<Subject>, Place) {
    let interval_ms = set.intervals.length.ms().unsigned_abs();
    let hosts: std::collections::BTreeSet<_> = candidates
        .iter()
        .flatten()
        .flat_map(|of| of.host_places())
        .collect();
    let is_recorded = |at: usize| {
        hosts
            .iter()
            .all(|host| set.hosts[*host].ms[at] >= interval_ms)
    };
    let activity = |of: &Vec<&Series<Flows>>| {
        let at = |at: usize| {
            let mut sum = Flows::default();
            of.iter()
                .for_each(|series| sum.add(&series.sum(at..at + 1)));
            sum.0
        };
        (0..set.intervals.count).map(at).collect()
    };
    let subject = |of: &Vec<&Series<Flows>>| match &of[..] {
        [one] => one.subject.clone().without_mount(),
        several => Subject {
            mount: None,
            ..several[0].subject.clone().without_mount()
        },
    };
    let place = Place {
        interval_ms,
        recorded: (0..set.intervals.count).map(is_recorded).collect(),
        entities: candidates.iter().map(activity).collect(),
    };
    (candidates.iter().map(subject).collect(), place)
}

/// How many intervals there are, how many are needed, and what has as many.
fn few_intervals(
    evidence: &[&Evidence],
    place: &Place,
    length: Granularity,
    proposals: &Proposals,
) -> String {
    let most = evidence.iter().map(|of| of.intervals).max().unwrap_or(0);
    let recorded = place.recorded.iter().filter(|is| **is).count();
    let enough = MIN_INTERVALS + MAX_LAG + 2;
    let recorded_ms = (recorded as u64).saturating_mul(place.interval_ms);
    let advice = match proposals.interval_with(enough, recorded_ms) {
        Some(shorter) if shorter < length && others_suffice(place, recorded_ms, shorter) => {
            format!("--interval {shorter} has enough")
        }
        Some(_) => "the others make too few requests: take a longer range".to_owned(),
        None => format!("record for at least {}", proposals.time_of(enough)),
    };
    format!(
        "too few intervals of {length}: {most} have a latency of others, and {MIN_INTERVALS} are needed; {advice}"
    )
}

/// Whether an entity beside the busiest one has enough requests in intervals of this length, on average.
fn others_suffice(place: &Place, recorded_ms: u64, length: Granularity) -> bool {
    let requests =
        |activity: &Activity| -> u64 { activity.iter().flatten().map(|of| of.timed).sum() };
    let mut requests: Vec<u64> = place.entities.iter().map(requests).collect();
    requests.sort_unstable();
    let of_others = requests.iter().rev().nth(1).copied().unwrap_or(0);
    let in_all = of_others.saturating_mul(length.ms().unsigned_abs());
    in_all >= MIN_REQUESTS.saturating_mul(recorded_ms)
}

/// The findings about a place, in one sentence.
fn in_words(
    evidence: &[Evidence],
    subjects: &[Subject],
    place: &Place,
    length: Granularity,
    proposals: &Proposals,
) -> String {
    let named = evidence.iter().filter(|of| of.verdict == Verdict::Named);
    let named: Vec<_> = named.map(|of| &*subjects[of.entity].name).collect();
    let unknown: Vec<_> = evidence
        .iter()
        .filter(|of| matches!(of.verdict, Verdict::Unknown(_)))
        .collect();
    if !named.is_empty() {
        return format!(
            "the others wait longer when the load of {} is high",
            named.join(" and of ")
        );
    }
    match unknown.first() {
        None => "nobody is named: the others do not wait longer when a load is high".to_owned(),
        Some(first) => {
            let reasons = unknown.iter().map(|of| of.verdict.reason());
            let is_one = reasons
                .clone()
                .all(|reason| reason == first.verdict.reason());
            let few = Verdict::Unknown(Reason::FewIntervals);
            let reason = match first.verdict.reason().filter(|_| is_one) {
                Some(_) if first.verdict == few => {
                    few_intervals(&unknown, place, length, proposals)
                }
                reason => reason.unwrap_or("see the column reason").to_owned(),
            };
            format!(
                "nobody is named; the data does not tell of {} of {}: {reason}",
                unknown.len(),
                evidence.len(),
            )
        }
    }
}

fn columns() -> Vec<Column<Row>> {
    let text = |name, get: fn(&Row) -> Option<&str>| {
        Column::text(name, move |row: &Row| Value::some_text(get(row)))
    };
    let mut columns = vec![
        text("server", |row| Some(&row.server)),
        text("place", |row| {
            Some(row.mount.as_deref().unwrap_or(&row.server))
        }),
    ];
    columns.extend(subject::columns(|row: &Row| &row.subject));
    columns.extend([
        text("verdict", |row| Some(row.evidence.verdict.name())),
        text("reason", |row| row.evidence.verdict.reason()),
        count("intervals", Unit::Count, |row: &Row| {
            Some(row.evidence.intervals as u64)
        }),
        text("measure", |row| {
            Some(match row.evidence.tested?.measure {
                Measure::Requests => "requests",
                Measure::Bytes => "bytes",
            })
        }),
        count("lag_ms", Unit::Milliseconds, |row: &Row| {
            Some(row.evidence.tested?.lag as u64 * row.interval_ms)
        }),
        rounded("correlation", Unit::None, |row: &Row| {
            Some(row.evidence.tested?.correlation)
        }),
        rounded("chance", Unit::Share, |row: &Row| {
            Some(row.evidence.tested?.chance)
        }),
        rounded("shared", Unit::Share, |row: &Row| {
            Some(row.evidence.tested?.shared)
        }),
        count("high_above", Unit::Count, |row: &Row| {
            Some(row.evidence.effect?.high_above)
        }),
        count("high_intervals", Unit::Count, |row: &Row| {
            Some(row.evidence.effect?.high as u64)
        }),
        count("episodes", Unit::Count, |row: &Row| {
            Some(row.evidence.effect?.episodes as u64)
        }),
        count("episodes_longer", Unit::Count, |row: &Row| {
            Some(row.evidence.effect?.episodes_longer as u64)
        }),
        rounded("compared", Unit::Share, |row: &Row| {
            Some(row.evidence.effect?.compared)
        }),
        rounded("ratio", Unit::None, |row: &Row| {
            Some(row.evidence.effect?.ratio)
        }),
        text("others_latency", |row| {
            Some(match row.part {
                // The name of a device: only exports have a server.
                Part::Server if row.server.starts_with('/') => "device",
                Part::Server => "network and server",
                Part::Whole => "whole",
            })
        }),
        rounded("others_us_high", Unit::Microseconds, |row: &Row| {
            Some(row.evidence.effect?.others_us_high)
        }),
        rounded("others_us_otherwise", Unit::Microseconds, |row: &Row| {
            Some(row.evidence.effect?.others_us_otherwise)
        }),
        rounded("queue_share_high", Unit::Share, |row: &Row| {
            row.evidence.effect?.queue_share_high
        }),
        rounded("queue_share", Unit::Share, |row: &Row| {
            row.evidence.queue_share
        }),
    ]);
    columns
}
