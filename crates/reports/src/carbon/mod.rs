//! Carbon: energy and emission by coefficients per request, byte and stored byte, over the grid's intensity at the time.

mod coefficients;
mod intensity;

use std::collections::BTreeSet;

use trackiops_query::Question;
use trackiops_query::columns::{Column, Unit};
use trackiops_query::coverage::Interval;
use trackiops_schemas::time::Granularity;

pub use coefficients::Coefficients;
pub use intensity::Intensity;

use crate::by::ReportBy;
use crate::columns::{count, figure};
use crate::period::{self, Period};
use crate::report::{About, Made, ReportError, Table};
use crate::series::{Series, SeriesSet};
use crate::subject::{self, Subject};
use crate::usage::{self, Usage};

const METHOD: &[&str] = &[
    "Energy of requests is their number times the joules per READ, WRITE and metadata operation; energy of bytes is bytes moved times the \
     joules per byte read and written; energy of storage is stored bytes times watts per TiB times the period. Their sum times PUE is the \
     energy. Every coefficient is the user's; none has a built-in value, and those that the file lacks count as nothing.",
    "Operational emission is the energy of each interval times the grid's intensity, averaged over the part of the interval in the range. \
     Stored bytes use energy all the time; requests and bytes moved are those that were recorded, so unrecorded time has none of theirs.",
    "Embodied emission is requests, and stored bytes times years of 365 days, by their own coefficients. The emission is the sum of both. \
     1 kWh is 3,600,000 J.",
];

const J_PER_KWH: f64 = 3.6e6;

/// Parameters of the report.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What each row is about.
    pub by: ReportBy,
    /// The period that each row sums up.
    pub period: Period,
    /// Energy is computed per such interval and multiplied by the grid's intensity at that time.
    pub interval: Granularity,
    /// The coefficients.
    pub coefficients: Coefficients,
    /// The grid.
    pub intensity: Intensity,
}

/// Energy and emission of a subject in a period.
#[derive(Clone, Debug)]
pub struct Footprint {
    /// The subject.
    pub subject: Subject,
    /// The period.
    pub period: Interval,
    /// Recorded time of the period, ms.
    pub recorded_ms: u64,
    /// The usage.
    pub usage: Usage,
    /// Stored bytes, from the file of coefficients.
    pub stored_bytes: Option<u64>,
    /// Energy of requests, of bytes moved, and of stored bytes, J, without the overhead.
    pub parts_j: [f64; 3],
    /// All energy, J.
    pub energy_j: f64,
    /// Emission of the energy, g.
    pub operational_g: f64,
    /// Emission of making the equipment, g.
    pub embodied_g: f64,
}

/// The report.
pub struct Carbon {
    /// Range, notes and remarks.
    pub about: About,
    /// Its rows.
    pub footprints: Table<Footprint>,
}

/// The names of its tables.
pub const TABLES: &[&str] = &["footprints"];

impl Carbon {
    /// Makes the report of the rows that a question selects.
    pub fn make(question: &Question, terms: &Terms) -> Made<Self> {
        let set = match Usage::ask(question, terms.by, terms.interval)? {
            Ok(set) => set,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let (rows, without_requests) = footprints(&set, terms)?;
        let mut remarks = vec![set.recorded_in_words()];
        if !without_requests.is_empty() {
            remarks.push(format!(
                "[stored] names {}, which did nothing in the range: only storage counts",
                without_requests.join(", ")
            ));
        }
        if !terms.coefficients.absent.is_empty() {
            let absent = terms.coefficients.absent.join(", ");
            remarks.push(format!(
                "coefficients that are not given, and count as nothing: {absent}"
            ));
        }
        let about = About {
            verdict: None,
            name: "carbon",
            title: "Energy and emission",
            method: METHOD,
            range: set.range,
            remarks,
            notes: set.notes,
        };
        let mut shown = vec![
            "name",
            "emission_g",
            "energy_kwh",
            "intensity_g_per_kwh",
            "requests_j",
            "bytes_j",
            "storage_j",
            "embodied_g",
            "stored_bytes",
        ];
        if terms.period != Period::All {
            shown.insert(0, "since");
        }
        let caption = "energy and emission of each in each period";
        let footprints = Table::new(TABLES[0], caption, columns(), &shown, rows, &about);
        Ok(Ok(Self { about, footprints }))
    }
}

/// A subject with its series, if it did anything, and its stored bytes.
struct Counted<'s> {
    subject: Subject,
    series: Option<&'s Series<Usage>>,
    stored_bytes: Option<u64>,
}

/// The subjects of a report, and the names with stored bytes that did nothing.
fn counted<'s>(set: &'s SeriesSet<Usage>, terms: &Terms) -> (Vec<Counted<'s>>, Vec<String>) {
    let stored = &terms.coefficients.stored;
    let mut unused: BTreeSet<_> = stored.keys().cloned().collect();
    let of_series = set.series.iter().map(|series| {
        let name = series
            .subject
            .names()
            .into_iter()
            .find(|name| stored.contains_key(name));
        if let Some(name) = &name {
            unused.remove(name);
        }
        Counted {
            subject: series.subject.clone(),
            series: Some(series),
            stored_bytes: name.map(|name| stored[&name]),
        }
    });
    let mut all: Vec<_> = of_series.collect();
    all.extend(unused.iter().map(|name| Counted {
        subject: Subject {
            name: name.as_str().into(),
            ..Subject::default()
        },
        series: None,
        stored_bytes: Some(stored[name]),
    }));
    (all, unused.into_iter().collect())
}

/// A row for each subject and period in which a host of the subject recorded, or in which the subject stored something.
fn footprints(
    set: &SeriesSet<Usage>,
    terms: &Terms,
) -> Result<(Vec<Footprint>, Vec<String>), ReportError> {
    let coefficients = &terms.coefficients;
    let parts = (0..set.intervals.count).map(|at| set.intervals.at(at).intersect(set.range));
    let parts: Vec<_> = parts.collect();
    let intensity = parts.iter().map(|part| terms.intensity.mean(*part));
    let intensity = intensity.collect::<Result<Vec<_>, _>>()?;
    let (subjects, without_requests) = counted(set, terms);
    let mut rows = Vec::new();
    for period in terms.period.of(set.range, terms.interval)? {
        let places = set.places_of(period);
        for counted in &subjects {
            let recorded_ms = counted
                .series
                .map_or(0, |series| set.recorded_ms(series, places.clone()));
            let stored_bytes = counted.stored_bytes.unwrap_or(0);
            let usage = counted
                .series
                .map_or_else(Usage::default, |series| series.sum(places.clone()));
            if recorded_ms == 0 && stored_bytes == 0 && usage == Usage::default() {
                continue;
            }
            let (mut parts_j, mut operational_g) = ([0.0; 3], 0.0);
            for at in places.clone() {
                let usage = counted
                    .series
                    .map_or_else(Usage::default, |series| series.sum(at..at + 1));
                let [requests_j, bytes_j] = coefficients.usage_j(&usage);
                let storage_j = coefficients.storage_j(stored_bytes, parts[at].ms());
                let of_interval = [requests_j, bytes_j, storage_j];
                let energy_j = of_interval.iter().sum::<f64>() * coefficients.pue();
                operational_g += energy_j / J_PER_KWH * intensity[at];
                for (sum, part) in parts_j.iter_mut().zip(of_interval) {
                    *sum += part;
                }
            }
            rows.push(Footprint {
                subject: counted.subject.clone(),
                period,
                recorded_ms,
                usage,
                stored_bytes: counted.stored_bytes,
                parts_j,
                energy_j: parts_j.iter().sum::<f64>() * coefficients.pue(),
                operational_g,
                embodied_g: coefficients.embodied_g(&usage, stored_bytes, period.ms()),
            });
        }
    }
    rows.sort_by(|a, b| {
        let emission = |row: &Footprint| -(row.operational_g + row.embodied_g);
        a.period
            .cmp(&b.period)
            .then(emission(a).total_cmp(&emission(b)))
    });
    Ok((rows, without_requests))
}

fn columns() -> Vec<Column<Footprint>> {
    let mut columns = period::columns(|row: &Footprint| &row.period);
    columns.extend(subject::columns(|row: &Footprint| &row.subject));
    columns.push(count(
        "recorded_ms",
        Unit::Milliseconds,
        |row: &Footprint| Some(row.recorded_ms),
    ));
    columns.extend(usage::columns(|row: &Footprint| &row.usage));
    columns.push(count("stored_bytes", Unit::Bytes, |row: &Footprint| {
        row.stored_bytes
    }));
    for (which, name) in ["requests_j", "bytes_j", "storage_j"]
        .into_iter()
        .enumerate()
    {
        columns.push(figure(name, Unit::Joules, move |row: &Footprint| {
            Some(row.parts_j[which])
        }));
    }
    let kwh = |row: &Footprint| row.energy_j / J_PER_KWH;
    columns.extend([
        figure("energy_j", Unit::Joules, |row: &Footprint| {
            Some(row.energy_j)
        }),
        figure("energy_kwh", Unit::KilowattHours, move |row: &Footprint| {
            Some(kwh(row))
        }),
        figure(
            "intensity_g_per_kwh",
            Unit::GramsPerKilowattHour,
            move |row: &Footprint| (row.energy_j > 0.0).then(|| row.operational_g / kwh(row)),
        ),
        figure("operational_g", Unit::Grams, |row: &Footprint| {
            Some(row.operational_g)
        }),
        figure("embodied_g", Unit::Grams, |row: &Footprint| {
            Some(row.embodied_g)
        }),
        figure("emission_g", Unit::Grams, |row: &Footprint| {
            Some(row.operational_g + row.embodied_g)
        }),
    ]);
    columns
}
