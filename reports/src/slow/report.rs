//! The report: asks for the latencies of each mount, finds slow times, and asks who suffered in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::{
    AnswerRow, GroupBy, Outcome, Projection, QueryError, Question, Range, Step, ask, ask_stalls,
};
use trackiops_schemas::columns::{DIRECTIONS, LATENCY_HIST, UNSPLIT};
use trackiops_schemas::row::{Direction, Row as Counters};
use trackiops_schemas::time::Granularity;

use super::comparison::{Change, Figures, both, changes, mix_us};
use super::suffering::{Suffering, ranked};
use super::{Found, Slow, columns, find};
use crate::by::ReportBy;
use crate::report::{About, Made, ReportError, Table};
use crate::series::{Series, SeriesSet, Sums, ask_series};
use crate::subject::{Subject, SubjectKey};

/// How the numbers are computed.
const METHOD: &[&str] = &[
    "The mean and the 99th percentile of each interval of a mount, reads and writes together, are compared with the median of the baseline's intervals. Page's cumulative \
     sum of the logarithms of the ratios, less half of that of 1.5, finds when they rose: a slow time begins after the sum was last 0, and ends where it is largest. It is \
     reported if the sum exceeds 3 times the logarithm of 1.5, and 8 standard deviations of the baseline, and the geometric mean of the ratios is at least 1.5.",
    "Queue, network and server, and completion are the parts of the mean latency; they add up to it. The mix is the part of its change that comes from another share of reads and writes.",
    "Added time is requests x (mean now - mean before), reads and writes apart, for each tenant, directory and file.",
];

/// Slow times of which it is asked who suffered: those that added most time.
const MOST_ASKED: usize = 10;
/// Tenants, directories and files of a slow time, each.
const MOST_SUFFERERS: usize = 10;

/// A slow time of a mount.
#[derive(Clone, Debug)]
pub struct SlowTime {
    /// Its number, from 1.
    pub number: u64,
    /// The mount.
    pub mount: Arc<str>,
    /// When.
    pub time: Interval,
    /// Whether it was still slow at the end of the range.
    pub lasts: bool,
    /// What was slow.
    pub slow: Slow,
    /// The baseline.
    pub before: Figures,
    /// The slow time.
    pub now: Figures,
    /// The part of the mean's change that comes from another mix, us.
    pub mix_us: Option<f64>,
    /// Requests of the slow time.
    pub requests: u64,
    /// The time that they took more than before, s.
    pub added_s: f64,
}

/// One who suffered.
#[derive(Clone, Debug)]
pub struct Sufferer {
    /// Of which slow time.
    pub number: u64,
    /// tenant, dir or file.
    pub kind: &'static str,
    /// Who.
    pub subject: Subject,
    /// How.
    pub suffering: Suffering,
}

/// Something that changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// With which slow time.
    pub number: u64,
    /// What.
    pub change: Change,
}

/// The report.
#[derive(Clone, Debug)]
pub struct SlowReport {
    /// What is said of it.
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

/// What series add up.
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
        range: Range {
            since: Some(range.start),
            until: Some(range.end),
        },
        ..question.clone()
    }
}

/// Makes the report. Without a `baseline` it is as long a time before the range.
pub fn make(
    question: &Question,
    baseline: Option<Interval>,
    length: Granularity,
) -> Made<SlowReport> {
    let by = ReportBy {
        by: GroupBy::MOUNT,
        hosts: false,
    };
    let now = match ask_series(question, by, length, needs(), sum)? {
        Ok(now) => now,
        Err(nothing) => return Ok(Err(nothing)),
    };
    let baseline = baseline.unwrap_or_else(|| {
        let ms = i64::try_from(now.range.ms()).unwrap_or(i64::MAX);
        Interval::new(
            trackiops_schemas::time::UtcMs(now.range.start.0.saturating_sub(ms)),
            now.range.start,
        )
    });
    if !baseline.intersect(now.range).is_empty() {
        return Err(ReportError::Unsuitable(
            "the baseline overlaps the range; name a time outside of it with --baseline".to_owned(),
        ));
    }
    let before = ask_series(&within(question, baseline), by, length, needs(), sum)?.ok();
    let mut remarks = vec![now.recorded_in_words()];
    let mut times = Vec::new();
    for series in &now.series {
        let found = of_mount(&now, before.as_ref(), series);
        let mount = &series.subject.name;
        match found {
            None => remarks.push(format!("{mount}: the baseline has too few intervals with requests; name another time with --baseline")),
            Some(found) if found.is_empty() => remarks.push(format!("{mount}: nothing was slow")),
            Some(found) => times.extend(found),
        }
    }
    times.sort_by(|a, b| b.added_s.total_cmp(&a.added_s).then(a.time.cmp(&b.time)));
    times
        .iter_mut()
        .zip(1..)
        .for_each(|(time, number)| time.number = number);
    if times.len() > MOST_ASKED {
        remarks.push(format!(
            "sufferers and changes are those of the {MOST_ASKED} slow times that added most time"
        ));
    }
    let (mut sufferers, mut changed) = (Vec::new(), Vec::new());
    for time in times.iter().take(MOST_ASKED) {
        let (who, what) = in_detail(question, baseline, time)?;
        sufferers.extend(who);
        changed.extend(what);
    }
    let about = About {
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
        "A row is a tenant, directory or file in a slow time: those that lost most time first.",
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

/// Reads and writes of each interval; `None` where it was not recorded.
fn directions(set: &SeriesSet<Sum>, series: &Series<Sum>) -> Vec<Option<Direction>> {
    let at = |at: usize| {
        set.is_recorded(series, at)
            .then(|| both(&series.sum(at..at + 1).0))
    };
    (0..set.intervals.count).map(at).collect()
}

/// The slow times of a mount; `None` without a baseline.
fn of_mount(
    now: &SeriesSet<Sum>,
    before: Option<&SeriesSet<Sum>>,
    series: &Series<Sum>,
) -> Option<Vec<SlowTime>> {
    let before = before?;
    let earlier = before
        .series
        .iter()
        .find(|of| of.subject.mount == series.subject.mount)?;
    let mut requests = directions(before, earlier);
    let first = requests.len();
    requests.extend(directions(now, series));
    let all_before = earlier.sum(0..first).0;
    let before_figures = Figures::new(&all_before, before.recorded_ms(earlier, 0..first));
    let count = requests.len();
    let Found::Compared(found) = find(&requests, 0..first, first..count) else {
        return None;
    };
    let time = |slow: Slow| {
        let places = slow.intervals.start - first..slow.intervals.end - first;
        let (start, end) = (
            now.intervals.at(places.start).start,
            now.intervals.at(places.end - 1).end,
        );
        let sum = series.sum(places.clone()).0;
        let added = ranked([(&all_before, &sum)]);
        SlowTime {
            number: 0,
            mount: Arc::clone(
                series
                    .subject
                    .mount
                    .as_ref()
                    .unwrap_or(&series.subject.name),
            ),
            time: Interval::new(start, end).intersect(now.range),
            lasts: slow.intervals.end == count,
            slow,
            before: before_figures,
            now: Figures::new(&sum, now.recorded_ms(series, places)),
            mix_us: mix_us(&all_before, &sum),
            requests: sum.read.requests + sum.write.requests,
            added_s: added.first().map_or(0.0, |of| of.added_s),
        }
    };
    Some(found.into_iter().map(time).collect())
}

/// What each subject of a mount did in a range.
fn sums(
    question: &Question,
    range: Interval,
    by: ReportBy,
    mount: &str,
) -> Result<BTreeMap<SubjectKey, (Subject, Counters)>, QueryError> {
    let names = Projection::new(["mount", "path", "uid", "user", "cgroup", "container"]);
    let question = Question {
        by: by.by,
        step: Some(Step::All),
        projection: needs().with(names),
        ..within(question, range)
    };
    let mut sums: BTreeMap<SubjectKey, (Subject, Counters)> = BTreeMap::new();
    if let Outcome::Found(answer) = ask(&question)? {
        for row in answer
            .rows
            .iter()
            .filter(|row| row.mount().unwrap_or_default() == mount)
        {
            let (key, subject) = Subject::of(row, by);
            let entry = sums
                .entry(key)
                .or_insert_with(|| (subject, Counters::default()));
            entry.1.merge(&row.sum.row());
        }
    }
    Ok(sums)
}

/// Who suffered in a slow time, and what changed with it.
fn in_detail(
    question: &Question,
    baseline: Interval,
    time: &SlowTime,
) -> Result<(Vec<Sufferer>, Vec<Changed>), ReportError> {
    let (mut sufferers, mut new) = (Vec::new(), Vec::new());
    let tenants = GroupBy {
        tenants: true,
        ..GroupBy::MOUNT
    };
    for (kind, by) in [
        ("tenant", tenants),
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
        let all = ranked(pairs);
        let subjects: Vec<_> = now.values().map(|(subject, _)| subject).collect();
        let new_ones = all.iter().filter(|of| of.is_new);
        new.push((
            kind,
            new_ones.clone().count(),
            new_ones.map(|of| of.requests).sum::<u64>(),
        ));
        sufferers.extend(all.iter().take(MOST_SUFFERERS).map(|of| Sufferer {
            number: time.number,
            kind,
            subject: subjects[of.place].clone(),
            suffering: *of,
        }));
    }
    let mut what = changes(&time.before, &time.now);
    for (kind, count, requests) in new {
        let name = match kind {
            "tenant" => ["new tenants", "share of requests of new tenants"],
            "file" => ["new files", "share of requests of new files"],
            _ => continue,
        };
        let share = requests as f64 / time.requests.max(1) as f64;
        for (what_new, now, is_notable) in [
            (name[0], count as f64, share >= 0.1),
            (name[1], share, share >= 0.1),
        ] {
            what.push(Change {
                what: what_new,
                before: None,
                now: Some(now),
                is_notable,
            });
        }
    }
    let stalls = match ask_stalls(&within(question, time.time))? {
        Outcome::Found(answer) => answer.rows.len(),
        Outcome::Nothing { .. } => 0,
    };
    what.push(Change {
        what: "stalls",
        before: None,
        now: Some(stalls as f64),
        is_notable: stalls > 0,
    });
    what.sort_by_key(|change| !change.is_notable);
    let number = time.number;
    let changed = what.into_iter().map(|change| Changed { number, change });
    Ok((sufferers, changed.collect()))
}
