//! Billing: what each tenant used in each period, at which level, and what that costs.

mod prices;

use arrow::datatypes::DataType;
use trackiops_query::Question;
use trackiops_query::columns::{Column, Unit, Value};
use trackiops_query::coverage::Interval;
use trackiops_schemas::time::Granularity;

pub use prices::{LINES, Levels, MONTH_MS, Prices};

use crate::by::ReportBy;
use crate::columns::{count, figure};
use crate::percentile::Percentile;
use crate::period::{self, Period};
use crate::report::{About, Made, ReportError, Table};
use crate::series::SeriesSet;
use crate::subject::{self, Subject};
use crate::usage::{self, Usage};

const METHOD: &[&str] = &[
    "Requests and bytes are those of READs and WRITEs as the wire carried them, failed ones included; metadata operations are all other \
     operations about files. They are summed over the period and over hosts.",
    "A percentile is by nearest rank over the means of the period's intervals: requests or bytes of an interval, divided by the time that \
     was recorded in it, summed over hosts. An interval without requests in which a recorder ran counts as 0. An interval in which no \
     recorder ran on a host of the tenant does not count.",
    "Each amount is units times price. Units that are free in a period are subtracted first. Prices per month are for 30 days; a level costs \
     its part of the month by the recorded time. Amounts are computed exactly and rounded half up to the currency's decimals, each once; \
     the total is the sum of the rounded amounts.",
];

/// Parameters of a bill.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What each row is about.
    pub by: ReportBy,
    /// The period that each row sums up.
    pub period: Period,
    /// Percentiles are over the means of such intervals.
    pub interval: Granularity,
    /// At least one. Prices apply to the first.
    pub percentiles: Vec<Percentile>,
    /// Prices, if costs are asked for.
    pub prices: Option<Prices>,
}

/// Usage of one subject in one period.
#[derive(Clone, Debug)]
pub struct Charge {
    /// The subject.
    pub subject: Subject,
    /// The period.
    pub period: Interval,
    /// Recorded time of the period, ms.
    pub recorded_ms: u64,
    /// The usage.
    pub usage: Usage,
    /// IOPS and bytes per second at each percentile; `None` if nothing was recorded.
    pub levels: Vec<[Option<f64>; 2]>,
    /// Amounts, in the order of [`LINES`], in the last decimal of the currency.
    pub amounts: Option<[i128; LINES.len()]>,
}

/// A bill: range, notes and remarks, and its rows.
pub struct Billing {
    /// Range, notes and remarks.
    pub about: About,
    /// Its rows.
    pub charges: Table<Charge>,
}

/// The names of its tables.
pub const TABLES: &[&str] = &["charges"];

impl Billing {
    /// Makes a bill of the rows that a question selects.
    pub fn make(question: &Question, terms: &Terms) -> Made<Self> {
        let set = match Usage::ask(question, terms.by, terms.interval)? {
            Ok(set) => set,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let rows = charges(&set, terms)?;
        let about = About {
            verdict: None,
            name: "billing",
            title: "Billing",
            method: METHOD,
            range: set.range,
            remarks: vec![set.recorded_in_words()],
            notes: set.notes,
        };
        let shown = shown(terms);
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        let caption = "what each used in each period, and what that costs";
        let charges = Table::new(TABLES[0], caption, columns(terms), &shown, rows, &about);
        Ok(Ok(Self { about, charges }))
    }
}

/// A row for each subject and period, if any host of the subject recorded in that period.
fn charges(set: &SeriesSet<Usage>, terms: &Terms) -> Result<Vec<Charge>, ReportError> {
    let periods = terms.period.of(set.range, terms.interval)?;
    let places: Vec<_> = periods
        .iter()
        .map(|period| set.places_of(*period))
        .collect();
    let mut rows = Vec::new();
    for series in &set.series {
        let rates = [Usage::requests, Usage::bytes].map(|of| set.rates(series, of));
        for (period, places) in periods.iter().zip(&places) {
            let recorded_ms = set.recorded_ms(series, places.clone());
            let usage = series.sum(places.clone());
            if recorded_ms == 0 && usage == Usage::default() {
                continue;
            }
            let level = |percentile: &Percentile| {
                [0, 1].map(|which: usize| {
                    let rates = &rates[which][places.clone()];
                    let mut rates: Vec<_> = rates.iter().flatten().copied().collect();
                    percentile.of(&mut rates)
                })
            };
            let levels: Vec<_> = terms.percentiles.iter().map(level).collect();
            let amounts = match &terms.prices {
                None => None,
                Some(prices) => {
                    let [iops, throughput] = levels.first().copied().unwrap_or_default();
                    let levels = Levels {
                        iops,
                        throughput,
                        recorded_ms,
                    };
                    let amounts = prices.charge(&usage, levels).ok_or_else(|| {
                        let name = &series.subject.name;
                        ReportError::Unsuitable(format!(
                            "the amount of {name} is too large to compute; check the prices"
                        ))
                    })?;
                    Some(amounts)
                }
            };
            rows.push(Charge {
                subject: series.subject.clone(),
                period: *period,
                recorded_ms,
                usage,
                levels,
                amounts,
            });
        }
    }
    // By period. Within a period: largest amounts first, or most bytes first if there are no prices.
    rows.sort_by_cached_key(|row: &Charge| {
        let total = row.amounts.map_or(0, |amounts| amounts.iter().sum());
        (row.period, -total, u64::MAX - row.usage.bytes())
    });
    Ok(rows)
}

fn level_names(percentile: Percentile) -> [String; 2] {
    ["iops", "throughput"].map(|of| format!("{of}_{}", percentile.name()))
}

fn columns(terms: &Terms) -> Vec<Column<Charge>> {
    let mut columns = period::columns(|row: &Charge| &row.period);
    columns.extend(subject::columns(|row: &Charge| &row.subject));
    columns.push(count("recorded_ms", Unit::Milliseconds, |row: &Charge| {
        Some(row.recorded_ms)
    }));
    columns.extend(usage::columns(|row: &Charge| &row.usage));
    for (place, percentile) in terms.percentiles.iter().enumerate() {
        let units = [Unit::PerSecond, Unit::BytesPerSecond];
        for (which, name) in level_names(*percentile).iter().enumerate() {
            columns.push(figure(name, units[which], move |row: &Charge| {
                row.levels.get(place)?[which]
            }));
        }
    }
    let Some(prices) = &terms.prices else {
        return columns;
    };
    let decimals = prices.decimals;
    let amount = |name: &str, get: fn(&[i128; LINES.len()], usize) -> i128, which: usize| {
        let data_type = DataType::Decimal128(38, decimals.cast_signed());
        Column::new(name, data_type, Unit::None, move |row: &Charge| {
            let amounts = row.amounts.as_ref();
            amounts.map_or(Value::Null, |amounts| {
                Value::Decimal(get(amounts, which), decimals)
            })
        })
    };
    for (which, line) in LINES.iter().enumerate() {
        let name = format!("{line}_amount");
        columns.push(amount(&name, |amounts, which| amounts[which], which));
    }
    columns.push(amount("total_amount", |amounts, _| amounts.iter().sum(), 0));
    let currency = prices.currency.clone();
    columns.push(Column::text("currency", move |_: &Charge| {
        Value::text(currency.clone())
    }));
    columns
}

/// Columns for people.
fn shown(terms: &Terms) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    if terms.period != Period::All {
        shown.push("since".into());
    }
    shown.push("name".into());
    if terms.prices.is_some() {
        shown.extend(["total_amount".into(), "currency".into()]);
    }
    let usage = [
        "read_requests",
        "write_requests",
        "metadata_operations",
        "read_bytes",
        "write_bytes",
    ];
    shown.extend(usage.map(str::to_owned));
    shown.extend(
        terms
            .percentiles
            .iter()
            .flat_map(|percentile| level_names(*percentile)),
    );
    if terms.prices.is_some() {
        shown.extend(LINES.iter().map(|line| format!("{line}_amount")));
    }
    shown
}
