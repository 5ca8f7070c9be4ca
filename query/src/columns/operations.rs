//! Columns of operations: stored ones, then derived ones.

use arrow::datatypes::DataType;
use trackiops_schemas::columns;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::tcp::TcpSums;

use super::files::histogram;
use super::tenants::tenants;
use crate::column::{Column, Estimate, QUANTILES, Record, Unit, Value, per_second, share};
use crate::operations::{FileNumbers, OperationAnswer};

type Derived = (&'static str, Unit, fn(&OperationAnswer) -> Option<f64>);

/// In column order; the percentiles follow.
const RATES_AND_MEANS: [Derived; 10] = [
    ("iops", Unit::PerSecond, |row| {
        per_second(row.sums.requests, row.covered_ms)
    }),
    ("throughput", Unit::BytesPerSecond, |row| {
        per_second(row.all_bytes()?, row.covered_ms)
    }),
    ("sent_bytes_mean", Unit::Bytes, |row| {
        row.sums.per_request(row.sent_bytes()?)
    }),
    ("received_bytes_mean", Unit::Bytes, |row| {
        row.sums.per_request(row.received_bytes()?)
    }),
    ("queue_us_mean", Unit::Microseconds, |row| {
        let mean = row.part_per_timed(row.sums.queue_ns_sum);
        mean.map(|ns| ns / 1000.0)
    }),
    ("rtt_us_mean", Unit::Microseconds, |row| {
        let mean = row.part_per_timed(row.sums.rtt_ns_sum);
        mean.map(|ns| ns / 1000.0)
    }),
    ("network_us_mean", Unit::Microseconds, |row| {
        let mean = row.side_per_timed(row.sums.network_ns_sum);
        mean.map(|ns| ns / 1000.0)
    }),
    ("server_us_mean", Unit::Microseconds, |row| {
        let mean = row.side_per_timed(row.sums.server_ns_sum);
        mean.map(|ns| ns / 1000.0)
    }),
    ("rtt_unknown_us_mean", Unit::Microseconds, |row| {
        let mean = row.side_per_timed(row.sums.either_ns_sum());
        mean.map(|ns| ns / 1000.0)
    }),
    ("execute_us_mean", Unit::Microseconds, |row| {
        row.per_timed(row.sums.execute_ns_sum).map(|ns| ns / 1000.0)
    }),
];

/// Shares of an operation's time, and of all operations of its mount.
const SHARES: [Derived; 6] = [
    ("queue_share", Unit::Share, |row| {
        part(row, row.sums.queue_ns_sum)
    }),
    ("rtt_share", Unit::Share, |row| {
        part(row, row.sums.rtt_ns_sum)
    }),
    ("network_share", Unit::Share, |row| {
        row.side_per_timed(row.sums.network_ns_sum)?;
        part(row, row.sums.network_ns_sum)
    }),
    ("server_share", Unit::Share, |row| {
        row.side_per_timed(row.sums.server_ns_sum)?;
        part(row, row.sums.server_ns_sum)
    }),
    ("completion_share", Unit::Share, |row| {
        let sums = &row.sums;
        let known = sums.queue_ns_sum.saturating_add(sums.rtt_ns_sum);
        part(row, sums.execute_ns_sum.saturating_sub(known))
    }),
    ("requests_share", Unit::Share, |row| {
        share(row.sums.requests, row.mount_requests)
    }),
];

/// What TCP knows of the connection, at the mean of its readings.
const OF_TCP: [Derived; 7] = [
    ("tcp_rtt_us_mean", Unit::Microseconds, |row| {
        let tcp = &row.sums.tcp;
        tcp.per_reading(tcp.rtt_ns_sum).map(|ns| ns / 1000.0)
    }),
    ("tcp_rtt_var_us_mean", Unit::Microseconds, |row| {
        let tcp = &row.sums.tcp;
        tcp.per_reading(tcp.rtt_var_ns_sum).map(|ns| ns / 1000.0)
    }),
    ("tcp_retrans_share", Unit::Share, |row| {
        row.sums.tcp.retrans_share()
    }),
    ("tcp_in_flight_mean", Unit::Count, |row| {
        let tcp = &row.sums.tcp;
        tcp.per_reading(tcp.in_flight_sum)
    }),
    ("tcp_cwnd_mean", Unit::Count, |row| {
        let tcp = &row.sums.tcp;
        tcp.per_reading(tcp.cwnd_sum)
    }),
    ("tcp_send_window_mean", Unit::Bytes, |row| {
        let tcp = &row.sums.tcp;
        tcp.per_reading(tcp.send_window_sum)
    }),
    ("tcp_receive_window_mean", Unit::Bytes, |row| {
        row.sums.tcp.receive_window_mean()
    }),
];

/// A part's share of the time, if the parts are known.
fn part(row: &OperationAnswer, ns: u64) -> Option<f64> {
    row.part_per_timed(ns)?;
    share(ns, row.sums.execute_ns_sum)
}

impl Record for OperationAnswer {
    fn columns() -> Vec<Column<Self>> {
        let mut all = vec![
            Column::time(columns::TIME, |row: &Self| Value::Time(row.time)),
            Column::text(columns::HOST, |row: &Self| Value::text(&*row.host)),
            Column::text(columns::MOUNT, |row: &Self| {
                Value::some_text(row.mount.as_deref())
            }),
            Column::text(columns::OP, |row: &Self| Value::text(&*row.op)),
            Column::text(columns::TRANSPORT, |row: &Self| {
                Value::some_text(row.transport.as_deref())
            }),
        ];
        all.extend(OperationSums::COUNTERS.iter().map(|counter| {
            Column::stored(&counter.field(""), move |row: &Self| {
                let is_known = match counter.name {
                    "sent_bytes" => row.sent_bytes().is_some(),
                    "received_bytes" => row.received_bytes().is_some(),
                    "queue_us_sum" | "rtt_us_sum" | "network_us_sum" | "server_us_sum" => {
                        row.has_parts()
                    }
                    "execute_us_sum" | "execute_us_max" => row.timed() > 0,
                    _ => true,
                };
                let count = is_known.then(|| counter.stored((counter.get)(&row.sums)));
                Value::some_count(count)
            })
        }));
        let execute = columns::histogram_field(columns::EXECUTE_HIST);
        all.push(Column::stored(&execute, |row: &Self| {
            row.histogram().map_or(Value::Null, histogram)
        }));
        let tcp = columns::tcp_fields().zip(&TcpSums::COUNTERS);
        all.extend(tcp.map(|(field, counter)| {
            Column::stored(&field, move |row: &Self| {
                Value::some_count(row.sums.tcp.known(counter))
            })
        }));
        all.extend(RATES_AND_MEANS.map(figure));
        all.extend(QUANTILES.map(|(name, q)| Column {
            // Opens, syncs, reads and writes of local files are calls.
            estimate: Some(Estimate::OfBoth),
            ..Column::new(
                format!("execute_us_{name}"),
                DataType::Float64,
                Unit::Microseconds,
                move |row: &Self| Value::some_figure(row.sums.quantile_us(q), Unit::Microseconds),
            )
        }));
        all.extend(SHARES.map(figure));
        all.extend(OF_TCP.map(figure));
        all.push(Column::text(columns::PATH, |row: &Self| {
            Value::some_text(row.about.as_ref().and_then(|about| about.path.as_deref()))
        }));
        let level = Column::text(columns::LEVEL, |row: &Self| Value::text(row.level.as_str()));
        all.push(level.only_if_asked());
        let id = |name, get: fn(FileNumbers) -> Value<'static>| {
            Column::new(name, DataType::Int64, Unit::None, move |row: &Self| {
                row.file().map_or(Value::Null, get)
            })
        };
        all.push(id(columns::FILE_KEY, |file| Value::Key(file.key.0)));
        all.push(Column::text(columns::DEV, |row: &Self| {
            let dev = row.file().map(|file| file.dev.to_string());
            dev.map_or(Value::Null, Value::text)
        }));
        all.push(id(columns::FILEID, |file| Value::Fileid(file.fileid)));
        let (stored, derived_of_tenant) = tenants(|row: &Self| &row.tenant);
        all.extend(stored);
        all.extend(derived_of_tenant);
        let bytes = Column::count("bytes", Unit::Bytes, |row: &Self| {
            Value::some_count(row.all_bytes())
        });
        all.push(Column {
            is_usual: false,
            ..bytes
        });
        all
    }
}

fn figure((name, unit, get): Derived) -> Column<OperationAnswer> {
    Column::new(
        name,
        DataType::Float64,
        unit,
        move |row: &OperationAnswer| Value::some_figure(get(row), unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_column_is_there_with_its_type_and_in_its_order() {
        let columns = OperationAnswer::columns();
        for (field, column) in columns::ops_schema().fields().iter().zip(&columns) {
            assert_eq!(*field.name(), column.name);
            assert_eq!(*field.data_type(), column.data_type, "{}", column.name);
        }
    }
}
