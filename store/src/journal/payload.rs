//! Payloads of journal frames.

use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::errnos::Errnos;
use trackiops_schemas::file_ops::{FileOp, FileOps, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::{AppCalls, CachedBytes, ClosedWindow, Direction, Health, Row};
use trackiops_schemas::time::UtcMs;

use super::definitions::MOST_DEFINED;
use crate::varint::{DecodeError, Input, put_i64, put_optional_str, put_str, put_u64};

/// Limit on counters of a row, 4 PiB as bytes. Sums over a journal's windows cannot overflow, even with forged frames.
const MAX_COUNTER: u64 = 1 << 52;
/// Wide enough for every latency that fits 64 bits of nanoseconds.
pub(crate) const BUCKETS: std::ops::RangeInclusive<i32> = -512..=2047;

/// Numbers of a direction: its first counters, the length of its list of errors, and the counters that were added since.
const COUNTERS: usize = Direction::COUNT + 1;
/// Place of that length.
const ERRNOS: usize = 15;

const READ: u64 = 1;
const WRITE: u64 = 2;
const OPS: u64 = 4;
const APP_READ: u64 = 8;
const APP_WRITE: u64 = 16;
const CACHE: u64 = 32;

/// The fields of a window's frame before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowHead {
    pub(crate) start: UtcMs,
    pub(crate) health: Health,
    pub(crate) rows: u64,
    /// Number of files that the journal had defined by then. It reveals that definitions were in a damaged frame, which
    /// later windows need.
    pub(crate) files: u64,
}

/// Longest encoding of a [`WindowHead`]: start, bitmap, counters, and the numbers of rows and of
/// files, 10 bytes each.
pub(crate) const MAX_HEAD_BYTES: usize = (4 + Health::COUNT) * 10;

/// Limit on the clients of a [`Pending`]: a hundred, or some fifty with their mounts. The clients
/// that waited for the shortest time are dropped first.
const MAX_CLIENTS_BYTES: usize = 8 << 10;
/// Longest encoding of a [`Pending`]: three numbers, then its clients.
pub(crate) const MAX_PENDING_BYTES: usize = 3 * 10 + MAX_CLIENTS_BYTES;

pub(crate) fn put_definition(out: &mut Vec<u8>, file: &FileAttributes) {
    let FileAttributes {
        key,
        id: FileId {
            dev,
            fileid,
            handle_hash,
        },
        mount,
        path,
        path_inferred,
        tenant,
        level,
    } = file;
    out.extend_from_slice(&key.0.to_le_bytes());
    put_u64(out, u64::from(dev.0));
    put_u64(out, *fileid);
    put_u64(out, u64::from(*handle_hash));
    put_optional_str(out, mount.as_deref());
    put_optional_str(out, path.as_deref());
    put_tenant(out, tenant);
    out.push(u8::from(*path_inferred));
    out.push(level_number(*level));
}

fn put_tenant(out: &mut Vec<u8>, tenant: &Tenant) {
    let Tenant {
        uid,
        user,
        cgroup,
        container,
        name,
        labels,
    } = tenant;
    // Plus one, because 0 means unknown.
    put_u64(out, uid.map_or(0, |uid| u64::from(uid) + 1));
    put_optional_str(out, user.as_deref());
    put_optional_str(out, cgroup.as_deref());
    put_optional_str(out, container.as_deref());
    put_optional_str(out, name.as_deref());
    put_optional_str(out, labels.as_deref());
}

fn tenant(input: &mut Input<'_>) -> Result<Tenant, DecodeError> {
    let uid = match input.u64()? {
        0 => None,
        more => Some(
            u32::try_from(more - 1).map_err(|_| DecodeError::Malformed("a uid is too large"))?,
        ),
    };
    Ok(Tenant {
        uid,
        user: input.optional_str()?.map(Into::into),
        cgroup: input.optional_str()?.map(Into::into),
        container: input.optional_str()?.map(Into::into),
        name: input.optional_str()?.map(Into::into),
        labels: input.optional_str()?.map(Into::into),
    })
}

pub(crate) fn definition(input: &mut Input<'_>) -> Result<FileAttributes, DecodeError> {
    let mut key = [0; 8];
    for byte in &mut key {
        *byte = input.byte()?;
    }
    Ok(FileAttributes {
        key: FileKey(i64::from_le_bytes(key)),
        id: FileId {
            dev: Dev(input.u32()?),
            fileid: input.u64()?,
            handle_hash: input.u32()?,
        },
        mount: input.optional_str()?.map(str::to_owned),
        path: input.optional_str()?.map(str::to_owned),
        tenant: tenant(input)?.into(),
        path_inferred: input.byte()? != 0,
        level: level(input)?,
    })
}

/// Numbers of levels in journals, which do not depend on the order of [`IoLevel::ALL`].
fn level_number(level: IoLevel) -> u8 {
    match level {
        IoLevel::Wire => 0,
        _ => 1,
    }
}

fn level(input: &mut Input<'_>) -> Result<IoLevel, DecodeError> {
    let number = input.byte()?;
    let mut all = IoLevel::OF_ROWS.into_iter();
    all.find(|level| level_number(*level) == number)
        .ok_or(DecodeError::Malformed("there is no such level"))
}

/// Pending requests come before the head, in a frame of another kind. The filter is in the
/// journal's header.
pub(crate) fn put_window_head(out: &mut Vec<u8>, window: &ClosedWindow, files: usize) {
    put_i64(out, window.start.0);
    put_row_counters(out, &Health::COUNTERS, window.health.counters());
    put_u64(out, window.rows.len() as u64);
    put_u64(out, files as u64);
}

pub(crate) fn window_head(input: &mut Input<'_>) -> Result<WindowHead, DecodeError> {
    let head = WindowHead {
        start: UtcMs(input.i64()?),
        health: Health::of_counters(row_counters(input, &Health::COUNTERS)?),
        rows: input.u64()?,
        files: input.u64()?,
    };
    if !head.start.is_in_calendar() {
        return Err(DecodeError::Malformed("a window's time is out of range"));
    }
    // A row of two bytes takes hundreds of bytes in memory.
    match head.rows <= MOST_DEFINED as u64 {
        true => Ok(head),
        false => Err(DecodeError::Malformed(
            "a window has more rows than a journal has files",
        )),
    }
}

pub(crate) fn put_pending(out: &mut Vec<u8>, pending: &Pending) {
    let Pending {
        requests_max,
        age_ms_max,
        clients,
    } = pending;
    let mut oldest_first: Vec<_> = clients.iter().collect();
    oldest_first.sort_by_key(|client| std::cmp::Reverse(client.age_ms_max));
    let (mut encoded, mut count) = (Vec::new(), 0);
    for client in oldest_first {
        let before = encoded.len();
        put_pending_client(&mut encoded, client);
        if encoded.len() > MAX_CLIENTS_BYTES {
            encoded.truncate(before);
            break;
        }
        count += 1;
    }
    put_u64(out, (*requests_max).min(MAX_COUNTER));
    put_u64(out, (*age_ms_max).min(MAX_COUNTER));
    put_u64(out, count);
    out.extend_from_slice(&encoded);
}

fn put_pending_client(out: &mut Vec<u8>, client: &PendingClient) {
    let PendingClient {
        client,
        server,
        mounts,
        requests_max,
        age_ms_max,
    } = client;
    put_u64(out, u64::from(*client));
    put_optional_str(out, server.as_deref());
    put_u64(out, (*requests_max).min(MAX_COUNTER));
    put_u64(out, (*age_ms_max).min(MAX_COUNTER));
    put_u64(out, mounts.len() as u64);
    mounts.iter().for_each(|mount| put_str(out, mount));
}

pub(crate) fn pending(input: &mut Input<'_>) -> Result<Pending, DecodeError> {
    let (requests_max, age_ms_max) = (counter(input)?, counter(input)?);
    let mut pending = Pending::default();
    for _ in 0..input.u64()? {
        let client = pending_client(input)?;
        // Keeps the clients in order.
        pending.merge(&Pending {
            clients: vec![client],
            ..Pending::default()
        });
    }
    Ok(Pending {
        requests_max,
        age_ms_max,
        ..pending
    })
}

fn pending_client(input: &mut Input<'_>) -> Result<PendingClient, DecodeError> {
    let mut client = PendingClient {
        client: input.u32()?,
        server: input.optional_str()?.map(str::to_owned),
        mounts: Vec::new(),
        requests_max: counter(input)?,
        age_ms_max: counter(input)?,
    };
    for _ in 0..input.u64()? {
        client.mounts.push(input.str()?.to_owned());
    }
    Ok(client)
}

pub(crate) fn put_row(out: &mut Vec<u8>, file: u32, row: &Row) {
    let idle = Direction::default();
    let present = |direction: &Direction, bit| if *direction == idle { 0 } else { bit };
    let ops = if row.ops.is_empty() { 0 } else { OPS };
    let calls = [(&row.app_read, APP_READ), (&row.app_write, APP_WRITE)];
    let calls = calls.map(|(calls, bit)| match *calls == AppCalls::default() {
        true => (calls, 0),
        false => (calls, bit),
    });
    let cache = match row.cache == CachedBytes::default() {
        true => 0,
        false => CACHE,
    };
    let directions = present(&row.read, READ)
        | present(&row.write, WRITE)
        | ops
        | cache
        | calls.iter().fold(0, |all, (_, bit)| all | bit);
    put_u64(out, u64::from(file));
    put_u64(out, directions);
    for (direction, bit) in [(&row.read, READ), (&row.write, WRITE)] {
        if directions & bit != 0 {
            put_direction(out, direction);
        }
    }
    if ops != 0 {
        put_file_ops(out, &row.ops);
    }
    for (calls, _) in calls.iter().filter(|(_, bit)| *bit != 0) {
        put_row_counters(out, &AppCalls::COUNTERS, calls.counters());
        put_histogram(out, &calls.latency);
    }
    if cache != 0 {
        put_row_counters(out, &CachedBytes::COUNTERS, row.cache.counters());
    }
}

/// A row, with the local id of its file.
pub(crate) fn row(input: &mut Input<'_>) -> Result<(u32, Row), DecodeError> {
    let file = input.u32()?;
    let directions = input.u64()?;
    if directions & !(READ | WRITE | OPS | APP_READ | APP_WRITE | CACHE) != 0 {
        return Err(DecodeError::Malformed("a row has an unknown direction"));
    }
    let mut one = |bit| match directions & bit {
        0 => Ok(Direction::default()),
        _ => direction(input),
    };
    let row = Row {
        read: one(READ)?,
        write: one(WRITE)?,
        ops: match directions & OPS {
            0 => FileOps::default(),
            _ => file_ops(input)?,
        },
        app_read: app_calls(input, directions & APP_READ)?,
        app_write: app_calls(input, directions & APP_WRITE)?,
        cache: match directions & CACHE {
            0 => CachedBytes::default(),
            _ => CachedBytes::of_counters(row_counters(input, &CachedBytes::COUNTERS)?),
        },
    };
    Ok((file, row))
}

fn app_calls(input: &mut Input<'_>, is_there: u64) -> Result<AppCalls, DecodeError> {
    Ok(match is_there {
        0 => AppCalls::default(),
        _ => {
            let counters = row_counters(input, &AppCalls::COUNTERS)?;
            AppCalls {
                latency: histogram(input)?,
                ..AppCalls::of_counters(counters)
            }
        }
    })
}

/// A bitmap of the counters that are not zero, these counters, then the lists. The bitmap is a
/// varint of two bytes, unless a rare counter is set.
fn put_direction(out: &mut Vec<u8>, direction: &Direction) {
    let Direction {
        errnos, latency, ..
    } = direction;
    let mut counters = [0; COUNTERS];
    let own = capped_counts(&Direction::COUNTERS, direction.counters());
    counters[..ERRNOS].copy_from_slice(&own[..ERRNOS]);
    counters[ERRNOS] = errnos.counts().len() as u64;
    counters[ERRNOS + 1..].copy_from_slice(&own[ERRNOS..]);
    put_counters(out, &counters);
    for (errno, count) in errnos.counts() {
        put_i64(out, i64::from(*errno));
        put_u64(out, capped(*count));
    }
    put_histogram(out, latency);
}

/// Writes the counters of a table.
pub(super) fn put_row_counters<R, const COUNT: usize>(
    out: &mut Vec<u8>,
    table: &[Counter<R>; COUNT],
    counters: [u64; COUNT],
) {
    put_counters(out, &capped_counts(table, counters));
}

/// Reads the output of [`put_row_counters`].
pub(super) fn row_counters<R, const COUNT: usize>(
    input: &mut Input<'_>,
    table: &[Counter<R>; COUNT],
) -> Result<[u64; COUNT], DecodeError> {
    let counters = counters(input)?;
    counts_in_bounds(table, &counters)?;
    Ok(counters)
}

/// Caps counts at the limit that readers enforce. Times have no limit: their sums saturate.
fn capped_counts<R, const COUNT: usize>(
    table: &[Counter<R>; COUNT],
    mut counters: [u64; COUNT],
) -> [u64; COUNT] {
    for (value, counter) in counters.iter_mut().zip(table) {
        if !counter.is_time() {
            *value = capped(*value);
        }
    }
    counters
}

fn counts_in_bounds<R>(table: &[Counter<R>], counters: &[u64]) -> Result<(), DecodeError> {
    let counts = counters.iter().zip(table);
    let mut counts = counts.filter(|(_, counter)| !counter.is_time());
    counts.try_for_each(|(value, _)| in_bounds(*value).map(|_| ()))
}

/// Writes a bitmap of the counters that are not zero, then these counters.
fn put_counters(out: &mut Vec<u8>, counters: &[u64]) {
    let mut present = 0;
    for (i, counter) in counters.iter().enumerate() {
        present |= u64::from(*counter != 0) << i;
    }
    put_u64(out, present);
    for counter in counters.iter().filter(|c| **c != 0) {
        put_u64(out, *counter);
    }
}

pub(super) fn put_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    put_u64(out, histogram.buckets().len() as u64);
    let mut before = 0;
    for (bucket, count) in histogram.buckets() {
        let bucket = i64::from(*bucket);
        put_i64(out, bucket - before);
        put_u64(out, capped(*count));
        before = bucket;
    }
}

fn direction(input: &mut Input<'_>) -> Result<Direction, DecodeError> {
    let numbers = counters::<COUNTERS>(input)?;
    let errnos = numbers[ERRNOS];
    let mut own = [0; Direction::COUNT];
    own[..ERRNOS].copy_from_slice(&numbers[..ERRNOS]);
    own[ERRNOS..].copy_from_slice(&numbers[ERRNOS + 1..]);
    counts_in_bounds(&Direction::COUNTERS, &own)?;
    Ok(Direction {
        errnos: errno_counts(input, errnos)?,
        latency: histogram(input)?,
        ..Direction::of_counters(own)
    })
}

fn errno_counts(input: &mut Input<'_>, length: u64) -> Result<Errnos, DecodeError> {
    let mut errnos = Errnos::default();
    for _ in 0..length {
        let errno = i32::try_from(input.i64()?);
        let errno = errno.map_err(|_| DecodeError::Malformed("an errno is too large"))?;
        // Errors must ascend: otherwise, each insertion could move all others.
        if errnos
            .counts()
            .last()
            .is_some_and(|(last, _)| *last >= errno)
        {
            return Err(DecodeError::Malformed("an error is out of place"));
        }
        errnos.add(errno, counter(input)?);
    }
    Ok(errnos)
}

fn counters<const COUNT: usize>(input: &mut Input<'_>) -> Result<[u64; COUNT], DecodeError> {
    let present = input.u64()?;
    let mut counters = [0; COUNT];
    if present >> COUNT != 0 {
        return Err(DecodeError::Malformed("a row has an unknown counter"));
    }
    for (i, counter) in counters.iter_mut().enumerate() {
        if present & 1 << i != 0 {
            *counter = input.u64()?;
        }
    }
    Ok(counters)
}

pub(super) fn histogram(input: &mut Input<'_>) -> Result<Histogram, DecodeError> {
    let count = input.u64()?;
    // Each bucket takes at least two bytes.
    let room = count.min(input.remaining() as u64 / 2) as usize;
    let mut buckets = Vec::with_capacity(room);
    let mut before = 0_i64;
    for i in 0..count {
        let bucket = before.saturating_add(input.i64()?);
        let ascends = i == 0 || bucket > before;
        match i32::try_from(bucket) {
            Ok(number) if ascends && BUCKETS.contains(&number) => {
                buckets.push((number, counter(input)?));
            }
            _ => return Err(DecodeError::Malformed("a histogram bucket is out of place")),
        }
        before = bucket;
    }
    Ok(Histogram::of_ascending(buckets))
}

/// Caps a count at the limit that readers enforce.
pub(super) fn capped(counter: u64) -> u64 {
    counter.min(MAX_COUNTER)
}

fn put_file_ops(out: &mut Vec<u8>, ops: &FileOps) {
    put_u64(out, ops.as_slice().len() as u64);
    for op in ops.as_slice() {
        put_str(out, op.op.as_str());
        put_row_counters(out, &FileOp::COUNTERS, op.counters());
        put_histogram(out, &op.execute);
    }
}

fn file_ops(input: &mut Input<'_>) -> Result<FileOps, DecodeError> {
    let mut ops = FileOps::default();
    for _ in 0..input.u64()? {
        let op = OpName::new(input.str()?);
        let counters = row_counters(input, &FileOp::COUNTERS)?;
        let op = FileOp {
            op,
            execute: histogram(input)?,
            ..FileOp::of_counters(counters)
        };
        // Each operation only once.
        if ops.as_slice().last().is_some_and(|last| last.op >= op.op) {
            return Err(DecodeError::Malformed("an operation is out of place"));
        }
        ops.add(&op);
    }
    Ok(ops)
}

pub(super) fn counter(input: &mut Input<'_>) -> Result<u64, DecodeError> {
    in_bounds(input.u64()?)
}

pub(super) fn in_bounds(counter: u64) -> Result<u64, DecodeError> {
    if counter <= MAX_COUNTER {
        Ok(counter)
    } else {
        Err(DecodeError::Malformed("a counter is implausibly large"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;

    /// Any attributes.
    fn attributes() -> impl Strategy<Value = FileAttributes> {
        let ids = (any::<i64>(), any::<u32>(), any::<u64>(), any::<u32>());
        let names = any::<(Option<String>, Option<String>, bool)>();
        let tenant = any::<(Option<u32>, [Option<String>; 5])>();
        (ids, names, tenant).prop_map(|(ids, names, tenant)| {
            let (key, dev, fileid, handle_hash) = ids;
            let (mount, path, path_inferred) = names;
            let (uid, [user, cgroup, container, name, labels]) = tenant;
            FileAttributes {
                key: FileKey(key),
                id: FileId {
                    dev: Dev(dev),
                    fileid,
                    handle_hash,
                },
                mount,
                path,
                path_inferred,
                tenant: Arc::new(Tenant {
                    uid,
                    user: user.map(Into::into),
                    cgroup: cgroup.map(Into::into),
                    container: container.map(Into::into),
                    name: name.map(Into::into),
                    labels: labels.map(Into::into),
                }),
                level: Default::default(),
            }
        })
    }

    proptest! {
        #[test]
        fn a_definition_reads_back(expected in attributes()) {
            let mut out = Vec::new();
            put_definition(&mut out, &expected);
            let mut input = Input::new(&out);
            prop_assert_eq!(definition(&mut input), Ok(expected));
            prop_assert_eq!(input.remaining(), 0);
        }

        #[test]
        fn arbitrary_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = definition(&mut Input::new(&bytes));
            let _ = window_head(&mut Input::new(&bytes));
            let _ = pending(&mut Input::new(&bytes));
            if let (Ok((_, mut a)), Ok((_, b))) = (row(&mut Input::new(&bytes)), row(&mut Input::new(&bytes))) {
                a.merge(&b);
            }
        }

        #[test]
        fn a_row_reads_back(
            file: u32,
            latencies in prop::collection::vec(any::<u64>(), 0..40),
            bytes in 0..MAX_COUNTER,
            seldom in prop::array::uniform5(prop_oneof![Just(0), 0..=MAX_COUNTER]),
        ) {
            let mut expected = Row::default();
            let [errors, short, sequential, folded, untimed] = seldom;
            expected.read = Direction { errors, short, sequential, folded, untimed, ..Direction::default() };
            for ns in latencies {
                expected.read.requests += 1;
                expected.read.latency_ns_sum = expected.read.latency_ns_sum.saturating_add(ns);
                expected.read.latency.record(ns);
            }
            expected.write.bytes = bytes;
            for (name, requests) in [("COMMIT", errors), ("GETATTR", 1)] {
                let op = FileOp { op: OpName::new(name), requests, rtt_ns_sum: u64::MAX, ..FileOp::default() };
                expected.ops.add(&op);
            }
            let mut out = Vec::new();
            put_row(&mut out, file, &expected);
            let mut input = Input::new(&out);
            prop_assert_eq!(row(&mut input), Ok((file, expected)));
            prop_assert_eq!(input.remaining(), 0);
        }
    }

    #[test]
    fn the_largest_window_head_is_read_in_whole() {
        let largest = MAX_COUNTER;
        let window = ClosedWindow {
            start: UtcMs(-253_402_300_800_000),
            rows: Vec::new(),
            ops: Vec::new(),
            health: Health::of_counters([largest; Health::COUNT]),
        };
        let mut out = Vec::new();
        put_window_head(&mut out, &window, usize::MAX);
        // The number of rows takes a byte here, but may take up to ten.
        assert!(out.len() - 1 + 10 <= MAX_HEAD_BYTES);
        let head = window_head(&mut Input::new(&out)).unwrap();
        assert_eq!((head.start, head.health), (window.start, window.health));
    }

    #[test]
    fn of_too_many_clients_those_that_waited_longest_are_kept() {
        let client = |client: u32| PendingClient {
            client,
            server: Some("fd00::1234:5678:9abc:def0".to_owned()),
            mounts: vec!["nas.example:/exports/home".to_owned()],
            requests_max: 1,
            age_ms_max: u64::from(client),
        };
        let mut expected = Pending {
            requests_max: 1000,
            age_ms_max: 999,
            clients: (0..1000).map(client).collect(),
        };
        let mut out = Vec::new();
        put_pending(&mut out, &expected);
        assert!(out.len() <= MAX_PENDING_BYTES, "{} bytes", out.len());
        let mut input = Input::new(&out);
        let read = pending(&mut input).unwrap();
        assert_eq!(input.remaining(), 0);
        assert!(read.clients.len() > 50, "{} clients", read.clients.len());
        expected.clients.drain(..1000 - read.clients.len());
        assert_eq!(read, expected);
    }

    #[test]
    fn a_counter_that_does_not_exist_is_malformed() {
        let mut out = Vec::new();
        put_u64(&mut out, 0);
        put_u64(&mut out, READ);
        put_u64(&mut out, 1 << COUNTERS);
        let error = row(&mut Input::new(&out)).unwrap_err();
        assert!(error.why().contains("counter"), "{}", error.why());
    }
}
