//! A COMMIT completes: it is added up with those of the same file, user, cgroup and window.
//!
//! Always, not only when there is no room for more: there are few beside the WRITEs that they are for. Memory is read by the
//! helper, on every kernel.

use trackiops_schemas::ring::{NO_USER, RequestRecord, commits, flags};

use crate::{
    cgroup, direct, fold, handle,
    kernel::{Address, Probe, global, now_ns},
    maps::DIRECT,
    marks, operation,
};

/// `nfs_commit_done(task, data)`.
#[inline(always)]
pub fn alone(task: u64, data: u64) {
    account(task, data);
}

/// The first of two programs on the tracepoint. See [`crate::direct`].
#[inline(always)]
pub fn first(task: u64, data: u64) {
    if marks::leave(Address::<Probe>::new(data)) {
        account(task, data);
    }
}

/// The second of two programs on the tracepoint.
#[inline(always)]
pub fn second(task: u64, data: u64) {
    if !marks::take(Address::<Probe>::new(data)) {
        account(task, data);
    }
}

#[inline(always)]
fn account(task: u64, data: u64) {
    let record = record(Address::new(task), Address::new(data));
    if !record.is_some_and(|record| fold::commit(&record)) {
        operation::lost();
    }
}

#[inline(always)]
fn record(task: Address<Probe>, data: Address<Probe>) -> Option<RequestRecord> {
    let (end_ns, offsets) = (now_ns(), &DIRECT);
    let own = &offsets.commit;
    // First, as in a request's record.
    let handle_hash = handle::hash(Address::<Probe>::new(data.field(&own.handle)?))?;
    let start_ns: u64 = task.field(&offsets.task_start)?;
    let latency_ns = end_ns
        .wrapping_sub(start_ns)
        .cast_signed()
        .max(0)
        .cast_unsigned();
    let parts = direct::parts::<Probe>(task, start_ns, latency_ns, offsets);
    let status: i32 = task.field(&offsets.operation.task_status)?;
    let cred = Address::<Probe>::new(data.field(&own.cred)?);
    let inode = Address::<Probe>::new(data.field(&own.inode)?);
    let superblock = Address::<Probe>::new(inode.field(&offsets.inode_superblock)?);
    Some(RequestRecord {
        end_ns,
        latency_ns,
        fileid: inode.field(&offsets.inode_number)?,
        offset: 0,
        asked_bytes: 0,
        done_bytes: 0,
        dev: superblock.field(&offsets.superblock_dev)?,
        handle_hash,
        error: if status < 0 { status } else { 0 },
        pid: 0,
        flags: flags::COMMIT,
        uid: cred.field(&offsets.cred_uid).unwrap_or(NO_USER),
        cgroup: cgroup(data).unwrap_or(0),
        queue_ns: parts.as_ref().map_or(0, |parts| parts.queue_ns),
        rtt_ns: parts.as_ref().map_or(0, |parts| parts.rtt_ns),
        xid: 0,
        retransmissions: 0,
    })
}

/// That of the first of the requests whose data is to be stored.
#[inline(always)]
fn cgroup(data: Address<Probe>) -> Option<u64> {
    let own = &DIRECT.commit;
    if global(&own.flags) & commits::REQUESTS == 0 {
        return None;
    }
    let list = data.0 + u64::from(global(&own.requests));
    let first: u64 = data.field(&own.requests)?;
    if first == list {
        return None;
    }
    let request = first - u64::from(global(&own.request_link));
    cgroup::of_request(Address::<Probe>::new(request), &DIRECT.cgroup)
}
