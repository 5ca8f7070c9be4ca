//! Series: what each subject did in each interval of a range.
//!
//! An interval of a series is in one of three states. *Active*: the engine has a row. *Idle*: it has none, but a recorder ran on a host of
//! the subject, so the value is zero. *Absent*: no recorder ran there, so the value is unknown. An absent interval never counts as zero.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::times::show_length;
use trackiops_query::{Answer, AnswerRow, Outcome, Projection, Question, Step, ask};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::by::ReportBy;
use crate::report::{Made, ReportError};
use crate::subject::{self, Subject, SubjectKey};

/// Most intervals of a range: a year of minutes.
const MOST_INTERVALS: usize = 600_000;

/// A value that adds up.
pub trait Sums: Clone + Default {
    /// Adds another one.
    fn add(&mut self, other: &Self);
}

/// Adjacent intervals of one length that cover a range. They are aligned like windows: to UTC midnight, or to the epoch if longer than a
/// day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Start of the first.
    pub start: UtcMs,
    /// Their length.
    pub length: Granularity,
    /// Their number.
    pub count: usize,
}

impl Intervals {
    /// The intervals that cover a range; an error if there are too many.
    pub fn covering(range: Interval, length: Granularity) -> Result<Self, ReportError> {
        let start = range.start.align(length);
        let whole = Interval::new(start, range.end);
        let count = whole.ms().div_ceil(length.ms().unsigned_abs());
        match usize::try_from(count) {
            Ok(count) if count <= MOST_INTERVALS => Ok(Self {
                start,
                length,
                count,
            }),
            _ => Err(ReportError::Unsuitable(format!(
                "the range has {count} intervals of {length}, and a report at most {MOST_INTERVALS}; take a longer --interval or a \
                 shorter range"
            ))),
        }
    }

    /// From the start of the first to the end of the last.
    pub fn range(self) -> Interval {
        Interval::new(self.start, self.at(self.count).start)
    }

    /// The index of the interval that holds a time; `None` if none does.
    pub fn place(self, time: UtcMs) -> Option<usize> {
        let since_start = time.0.checked_sub(self.start.0)?;
        let place = usize::try_from(since_start.div_euclid(self.length.ms())).ok()?;
        (place < self.count).then_some(place)
    }

    /// The interval at an index.
    pub fn at(self, place: usize) -> Interval {
        let offset = i64::try_from(place).unwrap_or(i64::MAX);
        let start = UtcMs(
            self.start
                .0
                .saturating_add(offset.saturating_mul(self.length.ms())),
        );
        Interval::new(start, start.plus(self.length))
    }

    /// The indices of the intervals that begin in a range.
    pub fn within(self, range: Interval) -> Range<usize> {
        let first = |time: UtcMs| {
            let since_start = time.0.saturating_sub(self.start.0).max(0).unsigned_abs();
            let place = since_start.div_ceil(self.length.ms().unsigned_abs());
            usize::try_from(place).unwrap_or(self.count).min(self.count)
        };
        first(range.start)..first(range.end)
    }
}

/// A host and its recorded time.
#[derive(Clone, Debug)]
pub struct RecordedHost {
    /// Its name.
    pub name: Arc<str>,
    /// Recorded time of each interval, ms.
    pub ms: Vec<u64>,
}

/// The series of one subject.
#[derive(Clone, Debug)]
pub struct Series<V> {
    /// The subject.
    pub subject: Subject,
    /// Its key.
    pub key: SubjectKey,
    /// For each host on which it did something: the host's index, and the values by index of the interval, in order.
    hosts: Vec<(usize, Vec<(usize, V)>)>,
}

/// The series of all subjects of a question.
#[derive(Clone, Debug)]
pub struct SeriesSet<V> {
    /// The intervals.
    pub intervals: Intervals,
    /// The range of the question, which may begin and end within an interval.
    pub range: Interval,
    /// The level of the rows.
    pub level: IoLevel,
    /// All hosts that recorded or have rows, by name.
    pub hosts: Vec<RecordedHost>,
    /// The series, in the order of the subjects' names.
    pub series: Vec<Series<V>>,
    /// Notes of the engine.
    pub notes: Vec<Note>,
}

/// Asks for the series of all subjects of a question. `needs` are the stored columns that `value` reads.
pub fn ask_series<V: Sums>(
    question: &Question,
    by: ReportBy,
    length: Granularity,
    needs: Projection,
    value: impl Fn(&AnswerRow) -> V,
) -> Made<SeriesSet<V>> {
    let question = Question {
        step: Some(Step::Windows(length)),
        by: by.by,
        projection: needs.with(subject::needs()),
        ..question.clone()
    };
    match ask(&question)? {
        Outcome::Nothing { why, notes } => Ok(Err((why, notes))),
        Outcome::Found(answer) => SeriesSet::new(answer, by, length, value).map(Ok),
    }
}

impl<V: Sums> SeriesSet<V> {
    /// The series of an answer with windows of this length.
    pub(crate) fn new(
        answer: Answer,
        by: ReportBy,
        length: Granularity,
        value: impl Fn(&AnswerRow) -> V,
    ) -> Result<Self, ReportError> {
        let intervals = Intervals::covering(answer.range, length)?;
        let hosts = recorded_hosts(&answer, intervals);
        let place_of: HashMap<_, _> = hosts
            .iter()
            .map(|host| Arc::clone(&host.name))
            .zip(0..)
            .collect();
        let mut found: HashMap<SubjectKey, (UtcMs, Series<V>)> = HashMap::new();
        for row in &answer.rows {
            let places = intervals
                .place(row.time)
                .zip(place_of.get(&row.host).copied());
            let Some((at, host)) = places else {
                continue;
            };
            let (key, subject) = Subject::of(row, by);
            match found.entry(key) {
                Entry::Vacant(entry) => {
                    let key = entry.key().clone();
                    let hosts = vec![(host, vec![(at, value(row))])];
                    let series = Series {
                        subject,
                        key,
                        hosts,
                    };
                    entry.insert((row.time, series));
                }
                Entry::Occupied(mut entry) => {
                    let (named, series) = entry.get_mut();
                    // Rows are in order of time, and the latest name counts.
                    if row.time >= *named {
                        (*named, series.subject) = (row.time, subject);
                    }
                    series.add(host, at, value(row));
                }
            }
        }
        let mut series: Vec<_> = found.into_iter().collect();
        series.sort_by(|(a_key, (_, a)), (b_key, (_, b))| {
            (&a.subject.name, a_key).cmp(&(&b.subject.name, b_key))
        });
        let mut series: Vec<_> = series.into_iter().map(|(_, (_, series))| series).collect();
        series.iter_mut().for_each(Series::sort);
        Ok(Self {
            intervals,
            range: answer.range,
            level: answer
                .rows
                .first()
                .map_or(IoLevel::default(), |row| row.level),
            hosts,
            series,
            notes: answer.notes,
        })
    }

    /// Pins a question to the level of these series. Without a level, an answer is about the first level in its range, so another range may
    /// have another one.
    pub fn at_their_level(&self, question: &Question) -> Question {
        let mut question = question.clone();
        if question.levels.is_empty() {
            question.levels.push(self.level);
        }
        question
    }

    /// The indices of the intervals of a period. The first one may begin before the range does.
    pub fn places_of(&self, period: Interval) -> Range<usize> {
        let start = match period.start == self.range.start {
            true => self.intervals.start,
            false => period.start,
        };
        self.intervals.within(Interval::new(start, period.end))
    }

    /// Whether anything was recorded on any host of a series in an interval.
    pub fn is_recorded(&self, series: &Series<V>, at: usize) -> bool {
        series
            .hosts
            .iter()
            .any(|(host, _)| self.hosts[*host].ms[at] > 0)
    }

    /// Recorded time of a series in some intervals, ms. Hosts record in parallel, so each interval counts the host with the longest time.
    pub fn recorded_ms(&self, series: &Series<V>, places: Range<usize>) -> u64 {
        let of_hosts = |at: usize| {
            series
                .hosts
                .iter()
                .map(move |(host, _)| self.hosts[*host].ms[at])
        };
        places.filter_map(|at| of_hosts(at).max()).sum()
    }

    /// Values per second of each interval; `None` where it is absent. Each host's value is divided by its own recorded time; the rates of
    /// hosts add up.
    pub fn rates(&self, series: &Series<V>, of: impl Fn(&V) -> u64) -> Vec<Option<f64>> {
        let recorded = |at| self.is_recorded(series, at).then_some(0.0);
        let mut rates: Vec<_> = (0..self.intervals.count).map(recorded).collect();
        for (host, values) in &series.hosts {
            let ms = &self.hosts[*host].ms;
            for (at, value) in values.iter().filter(|(at, _)| ms[*at] > 0) {
                let rate = of(value) as f64 * 1000.0 / ms[*at] as f64;
                *rates[*at].get_or_insert(0.0) += rate;
            }
        }
        rates
    }

    /// How much of the range each host recorded, in words.
    pub fn recorded_in_words(&self) -> String {
        let of = |host: &RecordedHost| {
            let ms = host.ms.iter().sum();
            format!("{} on {}", show_length(ms), host.name)
        };
        let hosts: Vec<_> = self.hosts.iter().map(of).collect();
        format!(
            "recorded of {}: {}",
            show_length(self.range.ms()),
            hosts.join(", ")
        )
    }
}

impl<V: Sums> Series<V> {
    /// The sum over some intervals and all hosts.
    pub fn sum(&self, places: Range<usize>) -> V {
        let mut sum = V::default();
        for (_, values) in &self.hosts {
            let first = values.partition_point(|(at, _)| *at < places.start);
            let end = values.partition_point(|(at, _)| *at < places.end);
            for (_, value) in values.get(first..end).unwrap_or_default() {
                sum.add(value);
            }
        }
        sum
    }

    /// Indices of the hosts on which the subject did something.
    pub fn host_places(&self) -> impl Iterator<Item = usize> {
        self.hosts.iter().map(|(host, _)| *host)
    }

    fn add(&mut self, host: usize, at: usize, value: V) {
        let known = self.hosts.iter_mut().find(|(known, _)| *known == host);
        match known {
            None => self.hosts.push((host, vec![(at, value)])),
            Some((_, values)) => match values.last_mut() {
                // Two stores may have the same window of a host.
                Some((last, sum)) if *last == at => sum.add(&value),
                _ => values.push((at, value)),
            },
        }
    }

    fn sort(&mut self) {
        self.hosts.sort_by_key(|(host, _)| *host);
        for (_, values) in &mut self.hosts {
            values.sort_by_key(|(at, _)| *at);
        }
    }
}

/// The recorded time of each host in each interval.
pub(crate) fn recorded_hosts(answer: &Answer, intervals: Intervals) -> Vec<RecordedHost> {
    let mut hosts: HashMap<&str, Vec<u64>> = HashMap::new();
    for (host, piece, ms) in answer.recorded.pieces(intervals.length) {
        let of_host = hosts
            .entry(host)
            .or_insert_with(|| vec![0; intervals.count]);
        // A piece is either one interval, or was recorded completely.
        if let Some(at) = intervals.place(piece.start)
            && intervals.at(at) == piece
        {
            of_host[at] += ms;
            continue;
        }
        let first = intervals.place(piece.start).unwrap_or(0);
        for (at, sum) in of_host.iter_mut().enumerate().skip(first) {
            let part = intervals.at(at).intersect(piece);
            if intervals.at(at).start >= piece.end {
                break;
            }
            *sum += part.ms();
        }
    }
    for row in &answer.rows {
        hosts
            .entry(&row.host)
            .or_insert_with(|| vec![0; intervals.count]);
    }
    let mut hosts: Vec<_> = hosts
        .into_iter()
        .map(|(name, ms)| RecordedHost {
            name: name.into(),
            ms,
        })
        .collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    hosts
}

#[cfg(test)]
mod tests;
