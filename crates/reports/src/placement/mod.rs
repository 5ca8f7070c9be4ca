//! Placement: the demand of each file, tree or mount, how demands correlate, and how they fit on targets.

mod correlation;
mod packing;
mod rows;
mod working_set;

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_query::Question;
use trackiops_query::group::{Entity, Level};
use trackiops_query::times::show_length;
use trackiops_schemas::time::Granularity;

pub use packing::{Capacity, Demand, Packing, Targets, pack};
pub use rows::{Levels, Pair, Placed, Resource, Target};
pub use working_set::WorkingSet;

use crate::by::ReportBy;
use crate::percentile::Percentile;
use crate::report::{About, Made, ReportError, Table};
use crate::series::SeriesSet;
use crate::usage::Usage;

const METHOD: &[&str] = &[
    "Demand is READ and WRITE requests, and their bytes, per second of recorded time in each interval, summed over hosts. Idle intervals are \
     0. Only intervals that every host with requests recorded are used, so that demands can be added up and compared.",
    "A working set is the distinct bytes that single requests of the range read or wrote (record --requests); it is unknown without any, and \
     too small where only a share of the requests was kept. A correlation is Pearson's, of demand over all used intervals.",
    "The packing is first fit decreasing: subjects in the order of the larger of their percentiles over the capacity, each on the first target \
     on which the percentile of the summed demand stays within the capacity of both resources. It is made from the first part of the intervals \
     and checked on the rest. Percentiles are by nearest rank. For a number of targets the capacity is the smallest share of the percentile of \
     all demand at which that many suffice. Over-commitment is the sum of the subjects' peaks over the capacity.",
];

/// Most subjects of a report. Each is compared with each other one.
const MOST_SUBJECTS: usize = 1000;
/// Most values of all series.
const MOST_VALUES: usize = 20_000_000;
/// For each subject, the table of correlations has this many subjects at each end.
const ENDS: usize = 3;

/// Parameters of the report.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What each row is about.
    pub by: ReportBy,
    /// Demand is the mean over such an interval.
    pub interval: Granularity,
    /// The percentile by which subjects are packed.
    pub percentile: Percentile,
    /// The targets, if subjects are to be packed.
    pub targets: Option<Targets>,
    /// The last share of the intervals, which checks the packing.
    pub check_share: f64,
}

/// The report.
pub struct Placement {
    /// Range, notes and remarks.
    pub about: About,
    /// A row for each file, directory or mount.
    pub subjects: Table<Placed>,
    /// A row for each target.
    pub targets: Table<Target>,
    /// For each subject, the subjects whose demands correlate most and least with its demand.
    pub correlations: Table<Pair>,
}

/// The names of its tables.
pub const TABLES: &[&str] = &["subjects", "targets", "correlations"];

impl Placement {
    /// Makes the report of the rows that a question selects.
    pub fn make(question: &Question, terms: &Terms) -> Made<Self> {
        let is_placed = matches!(
            terms.by.by.level,
            Level::File | Level::Dir { .. } | Level::Mount
        );
        if !is_placed || terms.by.by.tenants || terms.by.hosts {
            let why = "a placement is by file, dir or mount: tenants and hosts are not placed";
            return Err(ReportError::Unsuitable(why.into()));
        }
        let mut set = match Usage::ask(question, terms.by, terms.interval)? {
            Ok(set) => set,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let places = 0..set.intervals.count;
        set.series
            .retain(|series| series.sum(places.clone()).requests() > 0);
        let frame = Frame::new(&set)?;
        let question = Question {
            by: terms.by.by,
            ..set.at_their_level(question)
        };
        let (working_sets, more_notes) = working_set::working_sets(&question, set.range)?;
        let mut notes = std::mem::take(&mut set.notes);
        for note in more_notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let packed = terms
            .targets
            .map(|targets| frame.pack(terms, targets))
            .transpose()?;
        let correlations = frame.correlations();
        let about = About {
            verdict: None,
            name: "placement",
            title: "Placement",
            method: METHOD,
            range: set.range,
            remarks: frame.remarks(&set, &working_sets),
            notes,
        };
        let subjects = frame.placed(&set, terms, packed.as_ref(), &correlations, &working_sets);
        let targets = packed.map_or_else(Vec::new, |packed| frame.targets(&packed, terms));
        let shown = rows::placed_shown(terms.percentile);
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        let columns = rows::placed_columns(terms.percentile);
        Ok(Ok(Self {
            subjects: Table::new(
                TABLES[0],
                "demand of each, and the target that is proposed for it",
                columns,
                &shown,
                subjects,
                &about,
            ),
            targets: Table::new(
                TABLES[1],
                "each target, and how the packing held in the intervals that it was not made from",
                rows::target_columns(),
                rows::TARGET_SHOWN,
                targets,
                &about,
            ),
            correlations: Table::new(
                TABLES[2],
                format!(
                    "for each the {ENDS} others whose demand is most and least correlated with its own"
                ),
                rows::pair_columns(),
                rows::PAIR_SHOWN,
                frame.pairs(&correlations),
                &about,
            ),
            about,
        }))
    }
}

/// Demand of all subjects in the intervals that all their hosts recorded.
struct Frame {
    names: Vec<Arc<str>>,
    demands: Vec<Demand>,
    /// Number of these intervals, and number of intervals that any host recorded.
    intervals: usize,
    recorded: usize,
}

/// For each subject its standardised demand: requests, then bytes.
type Standardised = Vec<[Option<Vec<f64>>; 2]>;

struct Packed {
    packing: Packing,
    /// Number of intervals that the packing was made from.
    fitted: usize,
}

impl Frame {
    fn new(set: &SeriesSet<Usage>) -> Result<Self, ReportError> {
        let unsuitable = |why: String| Err(ReportError::Unsuitable(why));
        let count = set.series.len();
        if count > MOST_SUBJECTS || count * set.intervals.count > MOST_VALUES {
            return unsuitable(format!(
                "{count} subjects in {} intervals are too many to compare each with each (at most {MOST_SUBJECTS}, and {MOST_VALUES} values); \
                 choose by --file, --dir or --mount, take --by dir, or a longer --interval",
                set.intervals.count
            ));
        }
        let is_used = |host: &usize| {
            let mut series = set.series.iter();
            series.any(|series| series.host_places().any(|place| place == *host))
        };
        let hosts: Vec<_> = (0..set.hosts.len()).filter(is_used).collect();
        let is_recorded = |at: usize| move |host: &usize| set.hosts[*host].ms[at] > 0;
        let all = 0..set.intervals.count;
        let recorded = all
            .clone()
            .filter(|at| hosts.iter().any(is_recorded(*at)))
            .count();
        let used: Vec<_> = all
            .filter(|at| hosts.iter().all(is_recorded(*at)))
            .collect();
        if used.len() < 2 {
            return unsuitable(format!(
                "only {} of the intervals were recorded by all hosts with requests; choose a range in which all recorded, or a shorter --interval",
                used.len()
            ));
        }
        let demand = |series| {
            [Usage::requests, Usage::bytes].map(|of| {
                let rates = set.rates(series, of);
                used.iter().map(|at| rates[*at].unwrap_or(0.0)).collect()
            })
        };
        Ok(Self {
            names: set
                .series
                .iter()
                .map(|series| Arc::clone(&series.subject.name))
                .collect(),
            demands: set.series.iter().map(demand).collect(),
            intervals: used.len(),
            recorded,
        })
    }

    fn pack(&self, terms: &Terms, targets: Targets) -> Result<Packed, ReportError> {
        let checked = (self.intervals as f64 * terms.check_share).round() as usize;
        let fitted = self.intervals - checked.min(self.intervals);
        if fitted == 0 {
            let why = "no interval is left to make a packing from; take a smaller --check-share or a longer range";
            return Err(ReportError::Unsuitable(why.into()));
        }
        let packing = pack(&self.demands, fitted, terms.percentile, targets);
        Ok(Packed { packing, fitted })
    }

    fn remarks(
        &self,
        set: &SeriesSet<Usage>,
        working_sets: &HashMap<Entity, WorkingSet>,
    ) -> Vec<String> {
        let mut remarks = vec![set.recorded_in_words()];
        if self.intervals < self.recorded {
            remarks.push(format!(
                "{} of {} recorded intervals are left out, because not all hosts recorded them",
                self.recorded - self.intervals,
                self.recorded
            ));
        }
        let known = set
            .series
            .iter()
            .filter(|series| working_set(series, working_sets).is_some());
        let unknown = set.series.len() - known.count();
        if unknown > 0 {
            remarks.push(format!(
                "working sets of {unknown} of {} are unknown: no single request of theirs was kept (`trackiops record --requests`)",
                set.series.len()
            ));
        }
        remarks.push(format!(
            "intervals are {}",
            show_length(set.intervals.length.ms().unsigned_abs())
        ));
        remarks
    }

    fn correlations(&self) -> Standardised {
        let standardised =
            |demand: &Demand| [0, 1].map(|which: usize| correlation::standardised(&demand[which]));
        self.demands.iter().map(standardised).collect()
    }

    /// The indices of other subjects, by correlation of requests per second, largest first.
    fn by_correlation(&self, of: &Standardised, place: usize) -> Vec<(usize, f64)> {
        let Some(own) = &of[place][0] else {
            return Vec::new();
        };
        let others = of.iter().enumerate().filter(|(other, _)| *other != place);
        let others = others.filter_map(|(other, series)| {
            Some((other, correlation::correlation(own, series[0].as_ref()?)))
        });
        let mut others: Vec<_> = others.collect();
        others.sort_by(|(a, a_by), (b, b_by)| b_by.total_cmp(a_by).then(a.cmp(b)));
        others
    }

    fn placed(
        &self,
        set: &SeriesSet<Usage>,
        terms: &Terms,
        packed: Option<&Packed>,
        correlations: &Standardised,
        working_sets: &HashMap<Entity, WorkingSet>,
    ) -> Vec<Placed> {
        let mut target_of = vec![None; self.demands.len()];
        let targets = packed.iter().flat_map(|packed| &packed.packing.targets);
        for (subjects, target) in targets.zip(1..) {
            for place in subjects {
                target_of[*place] = Some(target);
            }
        }
        let row = |(place, series): (usize, &crate::series::Series<Usage>)| {
            let others = self.by_correlation(correlations, place);
            let named = |other: Option<&(usize, f64)>| {
                other.map(|(other, by)| (Arc::clone(&self.names[*other]), *by))
            };
            Placed {
                subject: series.subject.clone(),
                target: target_of[place],
                levels: [0, 1].map(|which| levels(&self.demands[place][which], terms.percentile)),
                working_set: working_set(series, working_sets),
                requests: series.sum(0..set.intervals.count).requests(),
                most: named(others.first()),
                least: named(others.last()),
            }
        };
        let mut placed: Vec<_> = set.series.iter().enumerate().map(row).collect();
        placed.sort_by(|a, b| {
            let demand = |row: &Placed| row.levels[0].percentile;
            a.target
                .cmp(&b.target)
                .then(demand(b).total_cmp(&demand(a)))
        });
        placed
    }

    fn pairs(&self, correlations: &Standardised) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for place in 0..self.demands.len() {
            let others = self.by_correlation(correlations, place);
            let count = others.len();
            let ends = others
                .into_iter()
                .enumerate()
                .filter(|(rank, _)| *rank < ENDS || rank + ENDS >= count);
            for (_, (other, by)) in ends {
                let [_, own] = &correlations[place];
                let [_, its] = &correlations[other];
                let bytes = own.as_ref().zip(its.as_ref());
                pairs.push(Pair {
                    name: Arc::clone(&self.names[place]),
                    other: Arc::clone(&self.names[other]),
                    correlations: [Some(by), bytes.map(|(a, b)| correlation::correlation(a, b))],
                });
            }
        }
        pairs
    }

    fn targets(&self, packed: &Packed, terms: &Terms) -> Vec<Target> {
        let Packed { packing, fitted } = packed;
        let target = |(subjects, number): (&Vec<usize>, u64)| {
            let sums = [0, 1].map(|which: usize| {
                let sum = |at| {
                    subjects
                        .iter()
                        .map(|place| self.demands[*place][which][at])
                        .sum::<f64>()
                };
                (0..self.intervals).map(sum).collect::<Vec<_>>()
            });
            let exceeds = |at: &usize| {
                let mut both = sums.iter().zip(packing.capacity);
                both.any(|(sum, capacity)| {
                    capacity.is_some_and(|capacity| sum[*at] > capacity * (1.0 + 1e-12))
                })
            };
            let resource = |which: usize| {
                let capacity = packing.capacity[which];
                let checked = &sums[which][*fitted..];
                let peaks = subjects
                    .iter()
                    .map(|place| levels(&self.demands[*place][which], terms.percentile).peak);
                let peaks: f64 = peaks.sum();
                Resource {
                    capacity,
                    fitted: terms
                        .percentile
                        .of(&mut sums[which][..*fitted].to_vec())
                        .unwrap_or(0.0),
                    checked: terms.percentile.of(&mut checked.to_vec()),
                    checked_peak: checked.iter().copied().max_by(f64::total_cmp),
                    over_commitment: capacity
                        .filter(|capacity| *capacity > 0.0)
                        .map(|capacity| peaks / capacity),
                }
            };
            Target {
                number,
                subjects: subjects.len() as u64,
                resources: [resource(0), resource(1)],
                fitted_intervals: *fitted as u64,
                checked_intervals: (self.intervals - fitted) as u64,
                fitted_exceeded: (0..*fitted).filter(exceeds).count() as u64,
                checked_exceeded: (*fitted..self.intervals).filter(exceeds).count() as u64,
            }
        };
        packing.targets.iter().zip(1..).map(target).collect()
    }
}

fn working_set(
    series: &crate::series::Series<Usage>,
    sets: &HashMap<Entity, WorkingSet>,
) -> Option<WorkingSet> {
    let set = sets.get(series.key.of.as_ref()?)?;
    (set.requests > 0).then_some(*set)
}

fn levels(series: &[f64], percentile: Percentile) -> Levels {
    let mut sorted = series.to_vec();
    Levels {
        mean: series.iter().sum::<f64>() / series.len().max(1) as f64,
        percentile: percentile.of(&mut sorted).unwrap_or(0.0),
        peak: sorted.last().copied().unwrap_or(0.0),
    }
}
