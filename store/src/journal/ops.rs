//! The payload of a frame of operations.

use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::tcp::TcpSums;

use super::payload::{histogram, put_histogram, put_row_counters, row_counters};
use crate::varint::{DecodeError, Input, put_optional_str, put_str, put_u64};

/// Replaces the length of a mount's name: the mount is unknown.
const NO_MOUNT: u64 = 0;
/// Replaces the length of a mount's name: the mount is the same as in the row before.
const SAME_MOUNT: u64 = 1;

/// Limit on rows. The kernel side keeps 768 sums per window. A row of five bytes takes hundreds of bytes in memory.
const MOST_ROWS: u64 = 1 << 16;
/// Limit on the lengths of all mounts. A mount is written once, but takes memory for each row.
const MOST_MOUNT_BYTES: usize = 32 << 20;
const TOO_MANY: DecodeError =
    DecodeError::Malformed("a window has more operations than there can be");

/// Whether readers accept these operations. Otherwise, the error is the total length of the mounts.
pub(super) fn fits(ops: &[OperationRow]) -> Result<(), usize> {
    let mounts = ops.iter().filter_map(|row| row.operation.mount.as_ref());
    let bytes = mounts.map(String::len).sum();
    match ops.len() as u64 <= MOST_ROWS && bytes <= MOST_MOUNT_BYTES {
        true => Ok(()),
        false => Err(bytes),
    }
}

/// Encodes the rows, ordered by operation, so that the rows of a mount follow each other.
pub(super) fn put_ops(out: &mut Vec<u8>, ops: &[OperationRow]) {
    put_u64(out, ops.len() as u64);
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

pub(super) fn ops(input: &mut Input<'_>) -> Result<Vec<OperationRow>, DecodeError> {
    let count = input.u64()?;
    if count > MOST_ROWS {
        return Err(TOO_MANY);
    }
    let mut rows: Vec<OperationRow> = Vec::new();
    let mut mount_bytes = 0;
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
        mount_bytes += mount.as_ref().map_or(0, String::len);
        if mount_bytes > MOST_MOUNT_BYTES {
            return Err(TOO_MANY);
        }
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
    put_row_counters(out, &OperationSums::COUNTERS, sums.counters());
    put_histogram(out, &sums.execute);
    put_row_counters(out, &TcpSums::COUNTERS, sums.tcp.counters());
}

fn sums(input: &mut Input<'_>) -> Result<OperationSums, DecodeError> {
    let counters = row_counters(input, &OperationSums::COUNTERS)?;
    Ok(OperationSums {
        execute: histogram(input)?,
        tcp: TcpSums::of_counters(row_counters(input, &TcpSums::COUNTERS)?),
        ..OperationSums::of_counters(counters)
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
                    tcp: TcpSums {
                        readings: errors,
                        rtt_ns_sum: bytes,
                        ..TcpSums::default()
                    },
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
            let read = ops(&mut Input::new(&out)).unwrap();
            rows.sort_by(|a, b| a.operation.cmp(&b.operation));
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = ops(&mut Input::new(&bytes));
        }
    }
}
