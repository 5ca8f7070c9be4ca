//! Columns of rows about files and groups of files: stored ones, derived ones, and both for reads and writes together.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use trackiops_schemas::columns::{self, APP_DIRECTIONS, CACHE, DIRECTIONS, UNSPLIT};
use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::errnos::Errnos;
use trackiops_schemas::file_ops::FileOp;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::row::{AppCalls, CachedBytes, Direction};

use super::tenants::tenants;
use crate::answer::AnswerRow;
use crate::column::{
    Column, Columns, Estimate, LOST, QUANTILES, Record, Unit, Value, per_second, share,
};
use crate::origin::File;
use crate::projection::Projection;
use crate::volume_names::VolumeName;

/// The requests that a column describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
    /// Both directions together. Its columns have no prefix.
    Both,
}

impl Side {
    fn of(self, row: &AnswerRow) -> Cow<'_, Direction> {
        match self {
            Self::Read => row.sum.read(),
            Self::Write => row.sum.write(),
            Self::Both => {
                let mut both = row.sum.read().into_owned();
                both.merge(&row.sum.write());
                Cow::Owned(both)
            }
        }
    }

    fn directions(self) -> &'static [&'static str] {
        const BOTH: &[&str] = &DIRECTIONS;
        match self {
            Self::Read => &BOTH[..1],
            Self::Write => &BOTH[1..],
            Self::Both => BOTH,
        }
    }

    fn lost_ns(self, row: &AnswerRow) -> Option<f64> {
        match self {
            Self::Read => row.lost.read_ns,
            Self::Write => row.lost.write_ns,
            Self::Both => row.lost.both_ns(),
        }
    }

    fn name(self, of: &str) -> String {
        match self {
            Self::Both => of.to_owned(),
            one => format!("{}_{of}", one.directions()[0]),
        }
    }

    fn calls(self, row: &AnswerRow) -> Cow<'_, AppCalls> {
        match self {
            Self::Read => row.sum.app_read(),
            Self::Write => row.sum.app_write(),
            Self::Both => {
                let mut both = row.sum.app_read().into_owned();
                both.merge(&row.sum.app_write());
                Cow::Owned(both)
            }
        }
    }

    /// The name of a column of application calls.
    fn name_of_calls(self, of: &str) -> String {
        match self {
            Self::Read => format!("{}{of}", APP_DIRECTIONS[0]),
            Self::Write => format!("{}{of}", APP_DIRECTIONS[1]),
            Self::Both => format!("app_{of}"),
        }
    }

    /// Stored columns of application calls with this data.
    fn needs_of_calls(self, stored: &[&str]) -> Vec<String> {
        let prefixes = match self {
            Self::Read => &APP_DIRECTIONS[..1],
            Self::Write => &APP_DIRECTIONS[1..],
            Self::Both => &APP_DIRECTIONS[..],
        };
        let of = |prefix: &&str| {
            stored
                .iter()
                .map(|name| format!("{prefix}{name}"))
                .collect::<Vec<_>>()
        };
        prefixes.iter().flat_map(of).collect()
    }

    /// Stored columns with this data.
    fn needs(self, stored: &[&str]) -> Vec<String> {
        let of = |direction: &'static str| {
            let there = stored
                .iter()
                .filter(move |name| columns::has_counter(direction, name));
            there.map(move |name| format!("{direction}_{name}"))
        };
        self.directions().iter().copied().flat_map(of).collect()
    }
}

/// A figure derived from the counters of a direction and the recorded time, ms.
struct Derived {
    name: &'static str,
    unit: Unit,
    needs: &'static [&'static str],
    get: fn(&Direction, u64) -> Option<f64>,
}

const MEAN: &[&str] = &["requests", "untimed", "latency_us_sum"];
const PARTS: &[&str] = &[
    "requests",
    "untimed",
    UNSPLIT,
    "latency_us_sum",
    "queue_us_sum",
    "rtt_us_sum",
];
const SIDES: &[&str] = &[
    "requests",
    "untimed",
    UNSPLIT,
    "latency_us_sum",
    "queue_us_sum",
    "rtt_us_sum",
    "network_us_sum",
    "server_us_sum",
];

/// In column order; the percentiles follow the means.
const RATES_AND_MEANS: [Derived; 9] = [
    Derived {
        name: "iops",
        unit: Unit::PerSecond,
        needs: &["requests"],
        get: |d, ms| per_second(d.requests, ms),
    },
    Derived {
        name: "throughput",
        unit: Unit::BytesPerSecond,
        needs: &["bytes"],
        get: |d, ms| per_second(d.bytes, ms),
    },
    Derived {
        name: "latency_us_mean",
        unit: Unit::Microseconds,
        needs: MEAN,
        get: |d, _| d.latency_ns_mean().map(|ns| ns / 1000.0),
    },
    Derived {
        name: "queue_us_mean",
        unit: Unit::Microseconds,
        needs: PARTS,
        get: |d, _| d.parts_ns_mean().map(|[queue, ..]| queue / 1000.0),
    },
    Derived {
        name: "rtt_us_mean",
        unit: Unit::Microseconds,
        needs: PARTS,
        get: |d, _| d.parts_ns_mean().map(|[_, rtt, _]| rtt / 1000.0),
    },
    Derived {
        name: "network_us_mean",
        unit: Unit::Microseconds,
        needs: SIDES,
        get: |d, _| d.rtt_parts_ns_mean().map(|[network, ..]| network / 1000.0),
    },
    Derived {
        name: "server_us_mean",
        unit: Unit::Microseconds,
        needs: SIDES,
        get: |d, _| d.rtt_parts_ns_mean().map(|[_, server, _]| server / 1000.0),
    },
    Derived {
        name: "rtt_unknown_us_mean",
        unit: Unit::Microseconds,
        needs: SIDES,
        get: |d, _| d.rtt_parts_ns_mean().map(|[.., unknown]| unknown / 1000.0),
    },
    Derived {
        name: "completion_us_mean",
        unit: Unit::Microseconds,
        needs: PARTS,
        get: |d, _| {
            d.parts_ns_mean()
                .map(|[.., completion]| completion / 1000.0)
        },
    },
];

/// Shares of the latency and of the requests.
const SHARES: [Derived; 7] = [
    Derived {
        name: "queue_share",
        unit: Unit::Share,
        needs: PARTS,
        get: |d, _| part(d, 0),
    },
    Derived {
        name: "rtt_share",
        unit: Unit::Share,
        needs: PARTS,
        get: |d, _| part(d, 1),
    },
    Derived {
        name: "network_share",
        unit: Unit::Share,
        needs: SIDES,
        get: |d, _| side(d, 0),
    },
    Derived {
        name: "server_share",
        unit: Unit::Share,
        needs: SIDES,
        get: |d, _| side(d, 1),
    },
    Derived {
        name: "completion_share",
        unit: Unit::Share,
        needs: PARTS,
        get: |d, _| part(d, 2),
    },
    Derived {
        name: "folded_share",
        unit: Unit::Share,
        needs: &["requests", "folded"],
        get: |d, _| share(d.folded, d.requests),
    },
    Derived {
        name: "untimed_share",
        unit: Unit::Share,
        needs: &["requests", "untimed"],
        get: |d, _| share(d.untimed, d.requests),
    },
];

/// A figure derived from application calls, the requests of their files, and the recorded time, ms.
struct DerivedOfCalls {
    name: &'static str,
    unit: Unit,
    needs: &'static [&'static str],
    /// Columns of the requests that it needs.
    of_wire: &'static [&'static str],
    only_reads: bool,
    get: fn(&AppCalls, &Direction, u64) -> Option<f64>,
}

/// In column order.
const OF_CALLS: [DerivedOfCalls; 5] = [
    DerivedOfCalls {
        name: "iops",
        unit: Unit::PerSecond,
        needs: &["calls"],
        of_wire: &[],
        only_reads: false,
        get: |calls, _, ms| per_second(calls.calls, ms),
    },
    DerivedOfCalls {
        name: "throughput",
        unit: Unit::BytesPerSecond,
        needs: &["bytes", "direct_bytes"],
        of_wire: &[],
        only_reads: false,
        get: |calls, _, ms| per_second(calls.all_bytes(), ms),
    },
    DerivedOfCalls {
        name: "hit_share",
        unit: Unit::Share,
        needs: &["bytes", "direct_bytes"],
        of_wire: &["bytes"],
        only_reads: true,
        get: |calls, wire, _| {
            let missed = wire.bytes.saturating_sub(calls.direct_bytes);
            // If requests exceed the calls, the share is unknown: nothing counts the cache hits of read-ahead and mmap.
            share(calls.bytes.checked_sub(missed)?, calls.bytes)
        },
    },
    DerivedOfCalls {
        name: "amplification",
        unit: Unit::Ratio,
        needs: &["bytes", "direct_bytes"],
        of_wire: &["bytes"],
        only_reads: false,
        get: |calls, wire, _| share(wire.bytes, calls.all_bytes()),
    },
    DerivedOfCalls {
        name: "latency_us_mean",
        unit: Unit::Microseconds,
        needs: &["timed", "latency_us_sum"],
        of_wire: &[],
        only_reads: false,
        get: |calls, _, _| calls.latency_ns_mean().map(|ns| ns / 1000.0),
    },
];

/// A part's share of the mean latency.
fn part(direction: &Direction, which: usize) -> Option<f64> {
    let mean = direction.latency_ns_mean().filter(|mean| *mean > 0.0)?;
    Some(direction.parts_ns_mean()?[which] / mean)
}

/// The share of the network, or of the server, in the mean latency.
fn side(direction: &Direction, which: usize) -> Option<f64> {
    let mean = direction.latency_ns_mean().filter(|mean| *mean > 0.0)?;
    Some(direction.rtt_parts_ns_mean()?[which] / mean)
}

impl Record for AnswerRow {
    fn columns() -> Vec<Column<Self>> {
        let (stored, derived_of_tenant) = tenants(|row: &Self| &row.tenant);
        let mut all = identity();
        all.extend(stored);
        all.push(Column::text(columns::LEVEL, |row: &Self| {
            Value::text(row.level.as_str())
        }));
        for side in [Side::Read, Side::Write] {
            all.extend(counters(side));
            all.extend(lists(side));
        }
        let ops = DataType::List(Arc::new(columns::file_op_item()));
        all.push(Column::new(
            columns::FILE_OPS,
            ops,
            Unit::None,
            |row: &Self| operations(row.sum.ops()),
        ));
        for side in [Side::Read, Side::Write] {
            all.extend(calls(side));
        }
        all.extend(cache());
        all.extend(volumes());
        all.extend(derived(Side::Read));
        all.extend(derived(Side::Write));
        for side in [Side::Read, Side::Write] {
            all.extend(derived_of_calls(side));
        }
        let of_calls = calls(Side::Both)
            .into_iter()
            .chain(derived_of_calls(Side::Both));
        let both = counters(Side::Both).into_iter().chain(derived(Side::Both));
        all.extend(both.chain(of_calls).map(|column| Column {
            is_usual: false,
            ..column
        }));
        all.extend([Side::Read, Side::Write, Side::Both].map(lost));
        all.extend(derived_of_tenant);
        all
    }
}

impl Columns<AnswerRow> {
    /// The stored columns that these columns need.
    pub fn needs(&self) -> Projection {
        let needs = self.iter().map(Column::needs);
        needs.fold(Projection::default(), Projection::with)
    }
}

impl Column<AnswerRow> {
    /// The stored columns that it needs.
    pub fn needs(&self) -> Projection {
        let needs = Projection::new(self.needs.iter().map(String::as_str));
        match self.name.ends_with(LOST) {
            true => needs.and_lost(),
            false => needs,
        }
    }
}

fn identity() -> Vec<Column<AnswerRow>> {
    let id = |name, get: fn(&File) -> Value<'static>| {
        Column::new(name, DataType::Int64, Unit::None, move |row: &AnswerRow| {
            row.file.as_deref().map_or(Value::Null, get)
        })
    };
    let mut inferred = Column::new(
        columns::PATH_INFERRED,
        DataType::Boolean,
        Unit::None,
        |row: &AnswerRow| {
            let inferred = row.file.as_ref().and_then(|file| file.path_inferred);
            inferred.map_or(Value::Null, Value::Flag)
        },
    );
    inferred.needs.push(columns::PATH.to_owned());
    vec![
        Column::time(columns::TIME, |row: &AnswerRow| Value::Time(row.time)),
        Column::text(columns::HOST, |row: &AnswerRow| Value::text(&*row.host)),
        Column::text(columns::MOUNT, |row: &AnswerRow| {
            Value::some_text(row.mount())
        }),
        Column::text(columns::PATH, |row: &AnswerRow| {
            Value::some_text(row.path())
        }),
        inferred,
        id(columns::FILE_KEY, |file| Value::Key(file.key.0)),
        Column::text(columns::DEV, |row: &AnswerRow| {
            let dev = row.file.as_ref().map(|file| file.dev.to_string());
            dev.map_or(Value::Null, Value::text)
        }),
        id(columns::FILEID, |file| Value::Fileid(file.fileid)),
    ]
}

/// The names of a mount's volume. They are in the catalog, not in rows.
fn volumes() -> [Column<AnswerRow>; 2] {
    let volume = |name, get: fn(&VolumeName) -> Option<&str>| Column {
        needs: vec![columns::MOUNT.to_owned()],
        ..Column::text(name, move |row: &AnswerRow| {
            Value::some_text(row.volume.as_deref().and_then(get))
        })
    };
    [
        volume(columns::VOLUME, |name| Some(&name.volume)),
        volume(columns::CLAIM, |name| name.claim.as_deref()),
    ]
}

fn counters(side: Side) -> Vec<Column<AnswerRow>> {
    let counters = Direction::COUNTERS.iter();
    let there = counters.filter(|counter| !side.needs(&[counter.name]).is_empty());
    there
        .map(|counter| Column {
            needs: side.needs(&[counter.name]),
            ..Column::stored(&counter.field(&side.name("")), move |row: &AnswerRow| {
                Value::Count(counter.stored((counter.get)(&side.of(row))))
            })
        })
        .collect()
}

fn calls(side: Side) -> Vec<Column<AnswerRow>> {
    let counters = AppCalls::COUNTERS.iter();
    let column = |counter: &'static Counter<AppCalls>| Column {
        needs: side.needs_of_calls(&[counter.name]),
        ..Column::stored(
            &counter.field(&side.name_of_calls("")),
            move |row: &AnswerRow| Value::Count(counter.stored((counter.get)(&side.calls(row)))),
        )
    };
    let buckets = columns::histogram_field(&side.name_of_calls(columns::LATENCY_HIST));
    let buckets = Column {
        needs: side.needs_of_calls(&[columns::LATENCY_HIST]),
        ..Column::stored(&buckets, move |row: &AnswerRow| {
            histogram(&side.calls(row).latency)
        })
    };
    counters.map(column).chain([buckets]).collect()
}

fn cache() -> Vec<Column<AnswerRow>> {
    let counters = CachedBytes::COUNTERS.iter();
    let column = |counter: &'static Counter<CachedBytes>| {
        let field = counter.field(CACHE);
        Column {
            needs: vec![field.name().clone()],
            ..Column::stored(&field, move |row: &AnswerRow| {
                Value::Count(counter.stored((counter.get)(&row.sum.cache())))
            })
        }
    };
    counters.map(column).collect()
}

fn derived_of_calls(side: Side) -> Vec<Column<AnswerRow>> {
    let called = Column {
        needs: side.needs_of_calls(&["bytes", "direct_bytes"]),
        ..Column::count(
            &side.name_of_calls("called_bytes"),
            Unit::Bytes,
            move |row: &AnswerRow| Value::Count(side.calls(row).all_bytes()),
        )
    };
    // Other formats have both parts of the sum.
    let called = called.only_if_asked();
    let figure = |of: &'static DerivedOfCalls| {
        let mut needs = side.needs_of_calls(of.needs);
        needs.extend(side.needs(of.of_wire));
        Column {
            needs,
            ..Column::new(
                side.name_of_calls(of.name),
                DataType::Float64,
                of.unit,
                move |row: &AnswerRow| {
                    // A comparison of both sides is unknown if one side is.
                    if !of.of_wire.is_empty() && !row.has_both_sides {
                        return Value::Null;
                    }
                    let (calls, wire) = (side.calls(row), side.of(row));
                    Value::some_figure((of.get)(&calls, &wire, row.covered_ms), of.unit)
                },
            )
        }
    };
    let there = OF_CALLS
        .iter()
        .filter(|of| !of.only_reads || side == Side::Read);
    let quantiles = percentiles(
        Estimate::OfCalls,
        |name| side.name_of_calls(name),
        side.needs_of_calls(&[columns::LATENCY_HIST]),
        move |row, q| side.calls(row).quantile_us(q),
    );
    [called]
        .into_iter()
        .chain(there.map(figure))
        .chain(quantiles)
        .collect()
}

/// Quantiles of the latencies in a stored histogram.
fn percentiles(
    estimate: Estimate,
    name_of: impl Fn(&str) -> String,
    needs: Vec<String>,
    quantile_us: impl Fn(&AnswerRow, f64) -> Option<f64> + Copy + Send + Sync + 'static,
) -> Vec<Column<AnswerRow>> {
    let percentile = |(name, q): (&str, f64)| Column {
        needs: needs.clone(),
        estimate: Some(estimate),
        ..Column::new(
            name_of(&format!("latency_us_{name}")),
            DataType::Float64,
            Unit::Microseconds,
            move |row: &AnswerRow| Value::some_figure(quantile_us(row, q), Unit::Microseconds),
        )
    };
    QUANTILES.into_iter().map(percentile).collect()
}

fn lists(side: Side) -> [Column<AnswerRow>; 2] {
    let errnos = DataType::List(Arc::new(columns::errno_item()));
    let buckets = columns::histogram_field(&side.name(columns::LATENCY_HIST));
    [
        Column::new(
            side.name(columns::ERRNOS),
            errnos,
            Unit::None,
            move |row: &AnswerRow| self::errnos(&side.of(row).errnos),
        ),
        Column::stored(&buckets, move |row: &AnswerRow| {
            histogram(&side.of(row).latency)
        }),
    ]
}

fn derived(side: Side) -> Vec<Column<AnswerRow>> {
    let figure = |of: Derived| {
        let Derived {
            name,
            unit,
            needs,
            get,
        } = of;
        Column {
            needs: side.needs(needs),
            ..Column::new(
                side.name(name),
                DataType::Float64,
                unit,
                move |row: &AnswerRow| Value::some_figure(get(&side.of(row), row.covered_ms), unit),
            )
        }
    };
    let rates = RATES_AND_MEANS.into_iter().map(figure);
    let percentiles = percentiles(
        Estimate::OfRequests,
        |name| side.name(name),
        side.needs(&[columns::LATENCY_HIST]),
        move |row, q| side.of(row).quantile_us(q),
    );
    let shares = SHARES.into_iter().map(figure);
    rates.chain(percentiles).chain(shares).collect()
}

/// Lost time. If requests were faster than before, it is 0.
fn lost(side: Side) -> Column<AnswerRow> {
    let column = Column::count(
        &side.name(LOST),
        Unit::Microseconds,
        move |row: &AnswerRow| {
            let us = side.lost_ns(row).map(|ns| (ns / 1000.0).max(0.0));
            Value::some_count(us.map(|us| us.round() as u64))
        },
    );
    // The time before the range must be read for it.
    let column = column.only_if_asked();
    Column {
        // `AnswerRow::lost` has both directions.
        needs: Side::Both.needs(MEAN),
        ..column
    }
}

/// Elements are `bucket` and `count`.
pub(super) fn histogram<'r>(histogram: &Histogram) -> Value<'r> {
    let element =
        |(bucket, count): &(i32, u64)| vec![Value::Int((*bucket).into()), Value::Count(*count)];
    Value::List(histogram.buckets().iter().map(element).collect())
}

/// Elements are `errno` and `count`.
fn errnos<'r>(errnos: &Errnos) -> Value<'r> {
    let counts = errnos.counts().iter();
    let element =
        |(errno, count): &(i32, u64)| vec![Value::Int((*errno).into()), Value::Count(*count)];
    Value::List(counts.map(element).collect())
}

/// Elements have the fields of [`columns::file_op_fields`].
fn operations(ops: &[FileOp]) -> Value<'_> {
    let element = |op: &FileOp| {
        let counters = FileOp::COUNTERS.iter();
        let counters = counters.map(|counter| counter.stored((counter.get)(op)));
        let name = Value::text(op.op.as_str().to_owned());
        [name]
            .into_iter()
            .chain(counters.map(Value::Count))
            .chain([histogram(&op.execute)])
            .collect()
    };
    Value::List(ops.iter().map(element).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_column_is_there_with_its_type_and_in_its_order() {
        let columns = AnswerRow::columns();
        let schema = columns::rollup_schema();
        for (field, column) in schema.fields().iter().zip(&columns) {
            assert_eq!(*field.name(), column.name);
            assert_eq!(*field.data_type(), column.data_type, "{}", column.name);
            assert!(column.needs.contains(&column.name));
        }
        for column in &columns {
            for needed in &column.needs {
                assert!(schema.index_of(needed).is_ok(), "{column:?}: {needed}");
            }
        }
    }
}
