//! Converts rows to Arrow's columns and back. Only this module knows which field has which column.

mod decode;
mod decode_health;
mod encode;
mod requests;

pub use decode::{
    BatchError, StoredOps, StoredRow, StoredTenant, decode_ops, decode_rows, decode_times,
};
pub use decode_health::{StoredHealth, decode_health};
pub use encode::{HealthRow, OpsRow, RollupRow, health_batch, ops_batch, rollup_batch};
pub use requests::{RequestRow, request_batch};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::RecordBatch;
    use trackiops_schemas::captured::{Captured, Carrier, Stream, StreamBytes, StreamDirection};
    use trackiops_schemas::file_ops::{FileOp, OpName};
    use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
    use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
    use trackiops_schemas::pending::{Pending, PendingClient};
    use trackiops_schemas::row::{Health, Row};
    use trackiops_schemas::tcp::TcpSums;
    use trackiops_schemas::time::UtcMs;

    use super::*;
    use crate::column_values::of_stored;

    fn rows() -> Vec<RollupRow> {
        let file = |fileid, mount: Option<&str>| {
            let id = FileId {
                dev: Dev::new(0, 49).unwrap(),
                fileid,
                handle_hash: 3,
            };
            Arc::new(FileAttributes {
                key: FileKey::new(mount, id),
                id,
                mount: mount.map(str::to_owned),
                path: mount.map(|_| format!("/mnt/{fileid}")),
                path_inferred: mount.is_some(),
                tenant: Arc::new(Tenant {
                    uid: mount.map(|_| 1000),
                    user: mount.map(|_| "alice".into()),
                    cgroup: mount.map(|_| "/user.slice".into()),
                    container: mount.map(|_| "shop/web/nginx".into()),
                    name: mount.map(|_| "acme".into()),
                    labels: mount.map(|_| r#"{"tier":"gold"}"#.into()),
                }),
                level: Default::default(),
            })
        };
        let mut row = Row::default();
        row.read.requests = 3;
        row.read.folded = 1;
        row.read.bytes = 8192;
        row.read.latency_ns_sum = 5_000_000;
        row.read.latency_ns_max = 4_000_000;
        row.read.latency.record(1_000_000);
        row.read.latency.record(4_000_000);
        row.read.queue_ns_sum = 1_000_000;
        row.read.rtt_ns_sum = 3_000_000;
        row.write.errors = 1;
        row.write.errnos.add(5, 1);
        row.write.stable = 1;
        let row = |time, file| RollupRow {
            time: UtcMs(time),
            file,
            row: row.clone(),
        };
        vec![
            row(1000, file(u64::MAX, Some("s:/e"))),
            row(2000, file(7, None)),
        ]
    }

    #[test]
    fn rows_read_back_from_their_columns() {
        let rows = rows();
        let batch = rollup_batch("web-1", &rows).unwrap();
        let mut at = 0;
        decode_rows(&batch, |stored| {
            let RollupRow { time, file, row } = &rows[at];
            assert_eq!(stored.time, *time);
            assert_eq!(stored.host, "web-1");
            assert_eq!(stored.mount, file.mount.as_deref());
            assert_eq!(stored.path, file.path.as_deref());
            let inferred = file.path.as_ref().map(|_| file.path_inferred);
            assert_eq!(stored.path_inferred, inferred);
            assert_eq!(stored.tenant, *file.tenant);
            assert_eq!(Tenant::from(stored.tenant), *file.tenant);
            assert_eq!(stored.file_key, file.key);
            assert_eq!((stored.dev, stored.fileid), (file.id.dev, file.id.fileid));
            assert_eq!(stored.row, *row);
            at += 1;
        })
        .unwrap();
        assert_eq!(at, 2);
    }

    #[test]
    fn columns_left_out_of_a_projection_read_as_nothing() {
        let batch = rollup_batch("h", &rows()).unwrap();
        let time = batch.schema().index_of("time").unwrap();
        let bytes = batch.schema().index_of("read_bytes").unwrap();
        let projected = batch.project(&[time, bytes]).unwrap();
        let mut times = Vec::new();
        decode_rows(&projected, |stored| {
            assert_eq!((stored.host, stored.path), ("", None));
            assert_eq!(stored.row.read.bytes, 8192);
            assert_eq!(stored.row.read.requests, 0);
            assert_eq!(stored.row.read.latency.total(), 0);
            times.push(stored.time.0);
        })
        .unwrap();
        assert_eq!(times, [1000, 2000]);
    }

    fn captured() -> Captured {
        let stream = Stream {
            client: "10.0.0.1:700".parse().unwrap(),
            server: "[fd00::7]:2049".parse().unwrap(),
            carrier: Carrier::Tcp,
            direction: StreamDirection::Replies,
        };
        let bytes = StreamBytes::of_counters([1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut captured = Captured::default();
        captured.add(None, &bytes);
        captured.add(Some(stream), &bytes);
        captured
    }

    fn health_rows() -> [HealthRow; 3] {
        let client = |client, server: Option<&str>, mounts: &[&str]| PendingClient {
            client,
            server: server.map(str::to_owned),
            mounts: mounts.iter().map(|mount| (*mount).to_owned()).collect(),
            requests_max: 7,
            age_ms_max: 42_000,
        };
        let pending = [
            None,
            Some(Pending::default()),
            Some(Pending {
                requests_max: 9,
                age_ms_max: 42_000,
                clients: vec![
                    client(3, None, &[]),
                    client(11, Some("fd00::7"), &["nas:/a", "nas:/b"]),
                ],
            }),
        ];
        let mut time = UtcMs(-1000);
        pending.map(|pending| {
            time.0 += 1000;
            let filter = pending.as_ref().map(|_| "--uid 7".into());
            let source = pending.as_ref().map(|_| "pcap".into());
            let captured = match pending {
                Some(_) => captured(),
                None => Captured::default(),
            };
            let health = Health {
                covered_ms: 1000,
                seen: 11,
                recorded: 4,
                folded: 6,
                lost: 1,
                missed: 3,
                clock_steps: 2,
                tenant_changes: 1,
                ops_covered_ms: 900,
                app_covered_ms: 800,
                block_covered_ms: 700,
                app_missed: 6,
                ops_seen: 70,
                ops_missed: 5,
                tracing_ns: 20_000,
                shed_single_calls_ms: 21,
                shed_call_times_ms: 22,
                shed_calls_ms: 23,
                shed_cache_ms: 24,
                shed_parts_ms: 25,
                shed_file_ops_ms: 26,
                requests_dropped: 8,
                store_failures: 9,
                audit_comparisons: 10,
                audit_kernel_requests: 11,
                audit_kernel_bytes: 12,
                audit_row_requests: 13,
                audit_row_bytes: 14,
                audit_missed_requests: 15,
                audit_missed_bytes: 16,
                audit_missed_app_bytes: 18,
                audit_alarms: 17,
                pending,
                filter,
                source,
                captured,
            };
            HealthRow { time, health }
        })
    }

    #[test]
    fn operations_read_back_from_their_columns() {
        let row = |time, mount: Option<&str>, transport: Option<&str>| {
            let counters = [5, 1, 700, 90, 2000, 3000, 9000, 4000, 1000, 1500];
            let counters = of_stored(&OperationSums::COUNTERS, counters);
            let mut sums = OperationSums::of_counters(counters);
            sums.execute.record(4_000_000);
            sums.execute.record(2_000_000);
            let operation = Operation {
                mount: mount.map(str::to_owned),
                op: "COMMIT".to_owned(),
                transport: transport.map(str::to_owned),
            };
            OpsRow {
                time: UtcMs(time),
                row: OperationRow { operation, sums },
            }
        };
        let rows = vec![
            row(1000, None, None),
            row(2000, Some("s:/e"), Some("tcp-3")),
        ];
        let batch = ops_batch("h", &rows).unwrap();
        let mut read = Vec::new();
        decode_ops(&batch, |stored| {
            assert_eq!(stored.host, "h");
            read.push(row(stored.time.0, stored.mount, stored.transport));
            assert_eq!((stored.op, &stored.sums), ("COMMIT", &rows[0].row.sums));
        })
        .unwrap();
        assert_eq!(read, rows);
    }

    #[test]
    fn connections_read_back_from_their_columns_which_are_null_elsewhere() {
        let row = |operation, tcp| OpsRow {
            time: UtcMs(1000),
            row: OperationRow {
                operation,
                sums: OperationSums {
                    tcp,
                    ..OperationSums::default()
                },
            },
        };
        let mut counters = std::array::from_fn(|i| 1 + i as i64);
        let of_connection = |counters| {
            let counters = of_stored(&TcpSums::COUNTERS, counters);
            row(
                Operation::connection("tcp-3".to_owned()),
                TcpSums::of_counters(counters),
            )
        };
        let full = of_connection(counters);
        // The delivery rate is not known.
        let mut names = TcpSums::COUNTERS.iter();
        let rate = names.position(|counter| counter.name == "delivery_rate_max");
        counters[rate.unwrap()] = 0;
        let rows = vec![
            full,
            row(Operation::default(), TcpSums::default()),
            of_connection(counters),
        ];
        let batch = ops_batch("h", &rows).unwrap();
        let nulls = |name: &str| batch.column_by_name(name).unwrap().null_count();
        assert_eq!(nulls("tcp_readings"), 1);
        assert_eq!(nulls("tcp_delivery_rate_max"), 2);
        let mut read = Vec::new();
        decode_ops(&batch, |stored| {
            let operation = Operation {
                mount: stored.mount.map(str::to_owned),
                op: stored.op.to_owned(),
                transport: stored.transport.map(str::to_owned),
            };
            read.push(row(operation, stored.sums.tcp));
        })
        .unwrap();
        assert_eq!(read, rows);
    }

    fn decoded(batch: &RecordBatch) -> Vec<HealthRow> {
        let mut rows = Vec::new();
        decode_health(batch, |StoredHealth { time, host, health }| {
            assert_eq!(host, "h");
            rows.push(HealthRow { time, health });
        })
        .unwrap();
        rows
    }

    #[test]
    fn health_reads_back_from_its_columns() {
        let rows = health_rows();
        assert_eq!(decoded(&health_batch("h", &rows).unwrap()), rows);
    }

    #[test]
    fn what_was_pending_is_unknown_where_it_was_not_written() {
        let mut rows = health_rows();
        let batch = health_batch("h", &rows).unwrap();
        let columns_before = 2 + Health::COUNT;
        let before = batch
            .project(&(0..columns_before).collect::<Vec<_>>())
            .unwrap();
        for row in &mut rows {
            row.health.pending = None;
            row.health.filter = None;
            row.health.source = None;
            row.health.captured = Captured::default();
        }
        assert_eq!(decoded(&before), rows);
    }

    /// The batch with the elements of all lists of a column in another order.
    fn reordered(batch: &RecordBatch, name: &str, order: &[u32]) -> RecordBatch {
        use arrow::array::{ListArray, UInt32Array};
        let place = batch.schema().index_of(name).unwrap();
        let list = batch.column(place).as_any().downcast_ref::<ListArray>();
        let (field, offsets, values, nulls) = list.unwrap().clone().into_parts();
        let order = UInt32Array::from(order.to_vec());
        let values = arrow::compute::take(&values, &order, None).unwrap();
        let mut columns = batch.columns().to_vec();
        columns[place] = Arc::new(ListArray::new(field, offsets, values, nulls));
        RecordBatch::try_new(batch.schema(), columns).unwrap()
    }

    /// Each descending element would move all elements before it: for a page's four million, that
    /// takes hours.
    #[test]
    fn lists_that_do_not_ascend_are_refused() {
        let mut row = rows().remove(0);
        row.row.write.errnos.add(116, 1);
        for name in ["ACCESS", "COMMIT"] {
            row.row.ops.add(&FileOp {
                op: OpName::new(name),
                requests: 1,
                ..FileOp::default()
            });
        }
        let batch = rollup_batch("h", &[row]).unwrap();
        for name in ["read_latency_hist", "write_errors_by_errno", "ops"] {
            assert!(decode_rows(&reordered(&batch, name, &[0, 1]), |_| {}).is_ok());
            for order in [[1, 0], [0, 0]] {
                let error = decode_rows(&reordered(&batch, name, &order), |_| {}).unwrap_err();
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }

    #[test]
    fn buckets_that_no_latency_has_are_refused() {
        let mut row = rows().remove(0);
        row.row.read.latency.add(1 << 20, 1);
        let batch = rollup_batch("h", &[row]).unwrap();
        let error = decode_rows(&batch, |_| {}).unwrap_err().to_string();
        assert!(error.contains("read_latency_hist"), "{error}");
    }

    #[test]
    fn a_column_of_another_type_is_named() {
        use arrow::array::{ArrayRef, Int32Array};
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("read_bytes", column)]).unwrap();
        let error = decode_rows(&batch, |_| {}).unwrap_err().to_string();
        assert!(error.contains("read_bytes"), "{error}");
    }
}
