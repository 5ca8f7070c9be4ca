//! Rows of the report and their columns.

use std::sync::Arc;

use trackiops_query::columns::{Column, Unit, Value};

use super::working_set::WorkingSet;
use crate::columns::{count, figure};
use crate::percentile::Percentile;
use crate::subject::{self, Subject};

/// Demand of a subject, and its target.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The subject.
    pub subject: Subject,
    /// Its target, from 1; `None` if no packing was asked for.
    pub target: Option<u64>,
    /// Levels of requests per second, then of bytes per second.
    pub levels: [Levels; 2],
    /// Bytes that single requests touched; `None` if no single request was kept.
    pub working_set: Option<WorkingSet>,
    /// All requests in the range, whether single ones were kept or only sums.
    pub requests: u64,
    /// The subject whose requests per second correlate most with its own, and the correlation.
    pub most: Option<(Arc<str>, f64)>,
    /// The subject that correlates least.
    pub least: Option<(Arc<str>, f64)>,
}

/// Mean, percentile and peak over intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// The mean.
    pub mean: f64,
    /// The percentile that the packing uses.
    pub percentile: f64,
    /// The largest.
    pub peak: f64,
}

/// Two subjects.
#[derive(Clone, Debug)]
pub struct Pair {
    /// One.
    pub name: Arc<str>,
    /// The other.
    pub other: Arc<str>,
    /// Correlation of requests per second, then of bytes per second; `None` if one of them is constant.
    pub correlations: [Option<f64>; 2],
}

/// A target, and how well its packing holds.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its number, from 1.
    pub number: u64,
    /// Number of subjects on it.
    pub subjects: u64,
    /// Requests per second, then bytes per second.
    pub resources: [Resource; 2],
    /// Intervals that the packing was made from.
    pub fitted_intervals: u64,
    /// Intervals that it was checked against.
    pub checked_intervals: u64,
    /// Fitted intervals in which demand exceeded the capacity of any resource.
    pub fitted_exceeded: u64,
    /// The same for checked intervals.
    pub checked_exceeded: u64,
}

/// One resource of a target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource {
    /// The capacity.
    pub capacity: Option<f64>,
    /// Joint percentile of its subjects in the fitted intervals.
    pub fitted: f64,
    /// Joint percentile in the checked intervals; `None` without any.
    pub checked: Option<f64>,
    /// Largest joint demand in the checked intervals.
    pub checked_peak: Option<f64>,
    /// Sum of its subjects' peaks over all intervals, divided by the capacity.
    pub over_commitment: Option<f64>,
}

/// Names of the resources in columns.
const RESOURCES: [(&str, Unit); 2] = [
    ("iops", Unit::PerSecond),
    ("throughput", Unit::BytesPerSecond),
];

pub(super) fn placed_columns(percentile: Percentile) -> Vec<Column<Placed>> {
    let mut columns = subject::columns(|row: &Placed| &row.subject);
    columns.push(count("target", Unit::Count, |row: &Placed| row.target));
    columns.push(count("requests", Unit::Count, |row: &Placed| {
        Some(row.requests)
    }));
    for (which, (name, unit)) in RESOURCES.into_iter().enumerate() {
        let level = |of: &str, get: fn(&Levels) -> f64| {
            figure(&format!("{name}_{of}"), unit, move |row: &Placed| {
                Some(get(&row.levels[which]))
            })
        };
        columns.push(level("mean", |levels| levels.mean));
        columns.push(level(&percentile.name(), |levels| levels.percentile));
        columns.push(level("peak", |levels| levels.peak));
    }
    columns.push(count("working_set_bytes", Unit::Bytes, |row: &Placed| {
        row.working_set.map(|set| set.bytes)
    }));
    columns.push(figure(
        "single_requests_share",
        Unit::Share,
        |row: &Placed| {
            let single = row.working_set.map_or(0, |set| set.requests);
            (row.requests > 0).then(|| single as f64 / row.requests as f64)
        },
    ));
    type Other = fn(&Placed) -> &Option<(Arc<str>, f64)>;
    for (name, get) in [
        ("most_correlated", (|row| &row.most) as Other),
        ("least_correlated", |row| &row.least),
    ] {
        columns.push(Column::text(name, move |row: &Placed| {
            Value::some_text(get(row).as_ref().map(|(other, _)| &**other))
        }));
        let name = format!("{name}_by");
        columns.push(figure(&name, Unit::Ratio, move |row: &Placed| {
            get(row).as_ref().map(|(_, correlation)| *correlation)
        }));
    }
    columns
}

pub(super) fn placed_shown(percentile: Percentile) -> Vec<String> {
    let mut shown = vec!["name".to_owned(), "target".to_owned()];
    for (name, _) in RESOURCES {
        let of = ["mean".to_owned(), percentile.name(), "peak".to_owned()];
        shown.extend(of.map(|of| format!("{name}_{of}")));
    }
    shown.extend(["working_set_bytes", "most_correlated", "least_correlated"].map(str::to_owned));
    shown
}

pub(super) fn pair_columns() -> Vec<Column<Pair>> {
    let mut columns = vec![
        Column::text("name", |row: &Pair| Value::text(&*row.name)),
        Column::text("other", |row: &Pair| Value::text(&*row.other)),
    ];
    for (which, (name, _)) in RESOURCES.into_iter().enumerate() {
        columns.push(figure(
            &format!("{name}_correlation"),
            Unit::Ratio,
            move |row: &Pair| row.correlations[which],
        ));
    }
    columns
}

pub(super) const PAIR_SHOWN: &[&str] = &[
    "name",
    "other",
    "iops_correlation",
    "throughput_correlation",
];

pub(super) fn target_columns() -> Vec<Column<Target>> {
    let whole = |name, get: fn(&Target) -> u64| count(name, Unit::Count, move |row| Some(get(row)));
    let mut columns = vec![
        whole("target", |row| row.number),
        whole("subjects", |row| row.subjects),
    ];
    type Get = fn(&Resource) -> Option<f64>;
    for (which, (name, unit)) in RESOURCES.into_iter().enumerate() {
        for (of, unit, get) in [
            ("capacity", unit, (|of| of.capacity) as Get),
            ("fitted", unit, |of| Some(of.fitted)),
            ("checked", unit, |of| of.checked),
            ("checked_peak", unit, |of| of.checked_peak),
            ("over_commitment", Unit::Ratio, |of| of.over_commitment),
        ] {
            columns.push(figure(
                &format!("{name}_{of}"),
                unit,
                move |row: &Target| get(&row.resources[which]),
            ));
        }
    }
    columns.extend([
        whole("fitted_intervals", |row| row.fitted_intervals),
        whole("fitted_exceeded", |row| row.fitted_exceeded),
        whole("checked_intervals", |row| row.checked_intervals),
        whole("checked_exceeded", |row| row.checked_exceeded),
    ]);
    columns
}

pub(super) const TARGET_SHOWN: &[&str] = &[
    "target",
    "subjects",
    "iops_capacity",
    "iops_fitted",
    "iops_checked",
    "iops_over_commitment",
    "throughput_capacity",
    "throughput_fitted",
    "throughput_checked",
    "throughput_over_commitment",
    "checked_intervals",
    "checked_exceeded",
];
