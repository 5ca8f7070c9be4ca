//! The payload of a frame of operations: what health rows say of them, then the rows.

use trackiops_schemas::columns::OP_COUNTERS;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::rollup::{ClosedWindow, Health};

use super::codec::{capped, counter, counters, histogram, in_bounds, put_counters, put_histogram};
use crate::varint::{DecodeError, Input, put_optional_str, put_str, put_u64};

/// In place of the length of a mount's name: it is not known.
const NO_MOUNT: u64 = 0;
/// In its place: it is that of the row before.
const SAME_MOUNT: u64 = 1;

/// What is known about a window's operations before their rows are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpsHead {
    covered_ms: u64,
    seen: u64,
    missed: u64,
    pub(crate) rows: u64,
}

/// Longest encoding of an [`OpsHead`]: 4 numbers of at most 10 bytes.
pub(super) const MAX_OPS_HEAD_BYTES: usize = 4 * 10;

impl OpsHead {
    /// `None` where operations were left out.
    pub(super) fn of(window: &ClosedWindow) -> Option<Self> {
        let health = &window.health;
        let head = Self {
            covered_ms: capped(health.ops_covered_ms),
            seen: capped(health.ops_seen),
            missed: capped(health.ops_missed),
            rows: window.ops.len() as u64,
        };
        (head != Self::default()).then_some(head)
    }

    /// Tells the window's health row.
    pub(super) fn tell(&self, health: &mut Health) {
        health.ops_covered_ms = self.covered_ms;
        health.ops_seen = self.seen;
        health.ops_missed = self.missed;
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.covered_ms, self.seen, self.missed, self.rows] {
            put_u64(out, number);
        }
    }

    pub(super) fn read(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            covered_ms: counter(input)?,
            seen: counter(input)?,
            missed: counter(input)?,
            rows: input.u64()?,
        })
    }
}

/// The rows, those of a mount together.
pub(super) fn put_ops(out: &mut Vec<u8>, ops: &[OperationRow]) {
    let mut rows: Vec<&OperationRow> = ops.iter().collect();
    rows.sort_by_key(|row| &row.operation);
    let mut before: Option<&str> = None;
    for row in rows {
        let Operation {
            mount,
            op,
            transport,
        } = &row.operation;
        match mount.as_deref() {
            None => put_u64(out, NO_MOUNT),
            same if same == before => put_u64(out, SAME_MOUNT),
            Some(mount) => {
                put_u64(out, SAME_MOUNT + 1);
                put_str(out, mount);
            }
        }
        before = mount.as_deref();
        put_str(out, op);
        put_optional_str(out, transport.as_deref());
        put_sums(out, &row.sums);
    }
}

pub(super) fn ops(input: &mut Input<'_>, count: u64) -> Result<Vec<OperationRow>, DecodeError> {
    let mut rows: Vec<OperationRow> = Vec::new();
    for _ in 0..count {
        let before = rows.last().and_then(|row| row.operation.mount.as_ref());
        let mount = match input.u64()? {
            NO_MOUNT => None,
            SAME_MOUNT => Some(
                before
                    .ok_or(DecodeError::Malformed("an operation has no mount"))?
                    .clone(),
            ),
            _ => Some(input.str()?.to_owned()),
        };
        let operation = Operation {
            mount,
            op: input.str()?.to_owned(),
            transport: input.optional_str()?.map(str::to_owned),
        };
        let sums = sums(input)?;
        rows.push(OperationRow { operation, sums });
    }
    match input.remaining() {
        0 => Ok(rows),
        _ => Err(DecodeError::Malformed(
            "bytes follow the last operation of a window",
        )),
    }
}

fn put_sums(out: &mut Vec<u8>, sums: &OperationSums) {
    let OperationSums {
        requests,
        errors,
        sent_bytes,
        received_bytes,
        queue_ns_sum,
        rtt_ns_sum,
        execute_ns_sum,
        execute_ns_max,
        execute,
    } = sums;
    let counters: [u64; OP_COUNTERS.len()] = [
        capped(*requests),
        capped(*errors),
        capped(*sent_bytes),
        capped(*received_bytes),
        *queue_ns_sum,
        *rtt_ns_sum,
        *execute_ns_sum,
        *execute_ns_max,
    ];
    put_counters(out, &counters);
    put_histogram(out, execute);
}

fn sums(input: &mut Input<'_>) -> Result<OperationSums, DecodeError> {
    let [
        requests,
        errors,
        sent_bytes,
        received_bytes,
        queue_ns_sum,
        rtt_ns_sum,
        execute_ns_sum,
        execute_ns_max,
    ] = counters::<{ OP_COUNTERS.len() }>(input)?;
    for counter in [requests, errors, sent_bytes, received_bytes] {
        in_bounds(counter)?;
    }
    Ok(OperationSums {
        requests,
        errors,
        sent_bytes,
        received_bytes,
        queue_ns_sum,
        rtt_ns_sum,
        execute_ns_sum,
        execute_ns_max,
        execute: histogram(input)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = OperationRow> {
        let operation = (
            prop::option::of("[a-c]{0,2}"),
            "[A-B]{1,2}",
            prop::option::of("tcp-[0-2]"),
        );
        let times = prop::collection::vec(0..u64::MAX >> 8, 0..9);
        (operation, times, 0_u64..1 << 52, 0_u64..9).prop_map(
            |((mount, op, transport), times, bytes, errors)| {
                let mut sums = OperationSums {
                    errors,
                    received_bytes: bytes,
                    ..OperationSums::default()
                };
                for ns in times {
                    sums.requests += 1;
                    sums.execute_ns_sum = sums.execute_ns_sum.saturating_add(ns);
                    sums.execute_ns_max = sums.execute_ns_max.max(ns);
                    sums.execute.record(ns);
                }
                OperationRow {
                    operation: Operation {
                        mount,
                        op,
                        transport,
                    },
                    sums,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn operations_read_back_by_mount(mut rows in prop::collection::vec(row(), 0..12)) {
            let mut out = Vec::new();
            put_ops(&mut out, &rows);
            let read = ops(&mut Input::new(&out), rows.len() as u64).unwrap();
            rows.sort_by(|a, b| a.operation.cmp(&b.operation));
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            count: u64,
        ) {
            let _ = OpsHead::read(&mut Input::new(&bytes));
            let _ = ops(&mut Input::new(&bytes), count);
        }
    }
}
