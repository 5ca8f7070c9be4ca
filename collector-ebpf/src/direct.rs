//! The direct engine: reads a request from the kernel's structures when it completes.

use core::{marker::PhantomData, mem::MaybeUninit};

use trackiops_schemas::ebpf::{
    ceiling::shed,
    left_out::table,
    ring::{DirectOffsets, NO_USER, Recovery, RequestRecord, filters, flags, parts as told_parts},
};

use crate::{
    application::File,
    ceiling::is_shed,
    cgroup,
    completion::Completion,
    file_operation,
    filter::{self, Who},
    globals::{DIRECT, FILTER, PARTS, PATHS},
    handle::{self, Handle},
    kernel_memory::{Address, Memory, Reader, Window, add, global, now_ns, zero},
    left_out, maps, marks, paths,
};

/// `NFS_UNSTABLE` of `enum nfs3_stable_how` (RFC 1813, section 3.3.7).
const UNSTABLE: u32 = 0;

/// `nfs_readpage_done(task, hdr)` and `nfs_writeback_done(task, hdr)`.
#[inline(always)]
pub fn alone<M: Memory>(task: u64, header: u64, direction: u32) {
    // Neither is ever 0, but the verifier requires the checks.
    if task != 0 && header != 0 {
        Completed::<M>::new(task, header).account(direction);
    }
}

/// [`alone`] on kernels that may skip the program, where the release looks at the request once more. See
/// [`crate::release`].
#[inline(always)]
pub fn marked<M: Memory>(task: u64, header: u64, direction: u32) {
    let marked = Address::<M::Trusted>::new(task);
    if marked.0 == 0 {
        return;
    }
    // The release does not look at a task without a transmission slot (`rpc_rqst`).
    let has_slot = marked.held::<u64>(&DIRECT.task_transmission) != Some(0);
    if !has_slot || marks::leave_request(marked) {
        alone::<M>(task, header, direction);
    } else {
        left::<M>();
    }
}

/// Records a request at its release, for which the program was skipped or had no room for a mark.
#[inline(always)]
pub fn recovered<M: Memory>(task: u64, header: u64, direction: u32) {
    Recovered::<M>::new(task, header).account(direction);
}

/// Counts a request that was left to the release. `#[inline(never)]`: cold path.
#[inline(never)]
fn left<M: Memory>() {
    if let Some(recovery) = maps::recovery::<M>() {
        // SAFETY: an element of an array, and the addition is atomic.
        unsafe { add!(Recovery, recovery.requests_left, 1) };
    }
}

/// A request as a tracepoint passes it.
type Completed<M> = Request<M, <M as Memory>::Trusted, true>;
/// A request as it is found at its release, where there is no time for its path: the file's next request hands that over.
type Recovered<M> = Request<M, M, false>;

/// A request; `R` reads the tracepoint's arguments.
#[derive(Clone, Copy)]
struct Request<M, R: Reader, const TELLS_PATHS: bool> {
    task: Address<R>,
    header: Address<R>,
    memory: PhantomData<M>,
}

impl<M: Memory, R: Reader, const TELLS_PATHS: bool> Request<M, R, TELLS_PATHS> {
    #[inline(always)]
    fn new(task: u64, header: u64) -> Self {
        Self {
            task: Address::new(task),
            header: Address::new(header),
            memory: PhantomData,
        }
    }

    #[inline(always)]
    fn account(self, direction: u32) {
        if global(&FILTER) != 0 && !self.is_wanted(direction) {
            let by = match TELLS_PATHS {
                true => table::COMPLETION,
                false => table::RELEASE,
            };
            left_out_by_filter::<M>(self.header.0, left_out::table(by, direction));
            return;
        }
        let Some(completion) = Completion::seen::<M>() else {
            return;
        };
        let end_ns = now_ns();
        if !M::SINCE_6_2 {
            completion.record(match self.subject(end_ns) {
                Some(subject) => self.record(&subject, end_ns, direction),
                None => None,
            });
            return;
        }
        let Some(subject) = self.subject(end_ns) else {
            completion.lost();
            return;
        };
        if let Some(slot) = completion.slot::<M>() {
            let is_made = self.describe(slot, &subject, end_ns, direction).is_some();
            completion.in_slot(slot, end_ns, is_made);
        } else {
            let hash_and_direction = u64::from(subject.crc) << 32 | u64::from(direction);
            self.fold(completion, end_ns, hash_and_direction);
        }
    }

    /// Whether the filter wants the request.
    #[inline(always)]
    fn is_wanted(self, direction: u32) -> bool {
        let kinds = global(&FILTER);
        let offsets = &DIRECT;
        let kind = match direction {
            flags::WRITE => filter::WRITE_REQUESTS,
            _ => filter::READ_REQUESTS,
        };
        let mut who = Who {
            pid: 0,
            uid: 0,
            cgroup: 0,
        };
        if kinds & filters::PIDS != 0 {
            who.pid = self.task.held_or_zero(&offsets.task_owner);
        }
        if kinds & filters::UIDS != 0 {
            let cred = self.header.follow(&offsets.header_cred);
            // The verifier requires that nothing is read through 0.
            who.uid = match cred.0 {
                0 => NO_USER,
                _ => cred.held_or_zero(&offsets.cred_uid),
            };
        }
        if kinds & filters::CGROUPS != 0 {
            let request = self.header.held_or_zero(&offsets.cgroup.header_request);
            let request = Address::<M>::new(request);
            who.cgroup = cgroup::of_request(request, &offsets.cgroup).unwrap_or(0);
        }
        let inode = self.header.follow(&offsets.header_inode);
        let file = File::below(inode, || {
            let context: u64 = self.header.held(&offsets.tree.header_context)?;
            // Some kernels' BTF lacks its type.
            let context = Address::<M>::new(context);
            context
                .field(&offsets.tree.context_entry)
                .map(Address::<M>::new)
        });
        // The elements belong to the program on the event, which the program at the release may interrupt.
        if TELLS_PATHS && filter::is_left_out(kind, file, who) {
            return false;
        }
        let is_wanted = filter::admits(self.task.0, self.header.0, direction);
        if TELLS_PATHS && !is_wanted {
            filter::leave_out(kind, file, who);
        }
        is_wanted
    }

    /// Folds the request. `#[inline(never)]`: cold path. The arguments are packed to fit into the five registers of a call.
    #[inline(never)]
    fn fold(self, completion: Completion, end_ns: u64, hash_and_direction: u64) {
        // Reads by `M`, not by `R`. For a load of a pointer by `R`, the verifier of 6.12 searches all types of the kernel four times
        // (`btf_nested_type_is_trusted`, kernel/bpf/btf.c). Many ways lead here, and each would repeat that.
        let request = Request::<M, M, false>::new(self.task.0, self.header.0);
        let subject = Subject {
            crc: (hash_and_direction >> 32) as u32,
            range: None,
        };
        match request.record(&subject, end_ns, hash_and_direction as u32) {
            Some(mut record) => completion.fold(&mut record),
            None => completion.lost(),
        }
    }

    #[inline(always)]
    fn record(self, subject: &Subject, end_ns: u64, direction: u32) -> Option<RequestRecord> {
        let mut record = MaybeUninit::uninit();
        self.describe(record.as_mut_ptr(), subject, end_ns, direction)?;
        // SAFETY: an aligned member of the local record.
        unsafe { (&raw mut (*record.as_mut_ptr()).end_ns).write(end_ns) };
        // SAFETY: `describe` has written every member but `end_ns`, which is written above.
        Some(unsafe { record.assume_init() })
    }

    /// The file and the range of the request. Read first, while the verifier has only one state in which to follow the loops.
    #[inline(always)]
    fn subject(self, end_ns: u64) -> Option<Subject> {
        let offsets = &DIRECT;
        let mut window = Window::<8>::EMPTY;
        let arguments = window.fill(self.header, Some(&offsets.arguments_window))?;
        let handle: u64 = arguments.held(&offsets.header_handle)?;
        // Kernels with casts have BTF for the distance.
        if !M::SINCE_6_2 {
            file_operation::learn_from(self.header, handle);
        }
        let Handle { crc, slot } = handle::known(Address::<M>::new(handle))?;
        if TELLS_PATHS
            && global(&PATHS) != 0
            && let context = arguments.held(&offsets.tree.header_context)?
            // Some kernels' BTF lacks its type.
            && let Some(entry) = Address::<M>::new(context).field(&offsets.tree.context_entry)
            && !handle::is_named(slot, paths::token(entry, end_ns))
        {
            paths::name(self.header.0, entry, slot, crc, end_ns);
        }
        Some(Subject {
            crc,
            range: match M::SINCE_6_2 {
                true => None,
                false => Some(Range {
                    offset: arguments.held(&offsets.header_offset)?,
                    asked_bytes: arguments.held(&offsets.header_asked)?,
                }),
            },
        })
    }

    /// Writes the whole record except its end time. Each member is written as soon as it is read, so that few of them are kept.
    #[inline(always)]
    fn describe(
        self,
        record: *mut RequestRecord,
        subject: &Subject,
        end_ns: u64,
        direction: u32,
    ) -> Option<()> {
        let offsets = &DIRECT;
        macro_rules! write {
            ($field:ident, $value:expr) => {
                // SAFETY: the caller passes room for a record, and the members are aligned.
                unsafe { (&raw mut (*record).$field).write($value) }
            };
        }
        write!(handle_hash, subject.crc);
        let Range {
            offset,
            asked_bytes,
        } = match subject.range {
            Some(range) => range,
            None => Range {
                offset: self.header.held(&offsets.header_offset)?,
                asked_bytes: self.header.held(&offsets.header_asked)?,
            },
        };
        write!(offset, offset);
        write!(asked_bytes, asked_bytes);
        let mut bits = direction;
        let Timing { start_ns, pid } = timing(self.task, offsets)?;
        write!(pid, pid);
        // Layouts that bypass the RPC client never start its clock.
        let latency_ns = if start_ns == 0 {
            bits |= flags::UNTIMED;
            0
        } else {
            // As a signed number: the clock of BPF may lag some ns behind that of RPC.
            (end_ns.wrapping_sub(start_ns).cast_signed())
                .max(0)
                .cast_unsigned()
        };
        write!(latency_ns, latency_ns);
        match parts(self.task, start_ns, latency_ns, offsets) {
            Some(parts) => {
                write!(queue_ns, parts.queue_ns);
                write!(rtt_ns, parts.rtt_ns);
                write!(retransmissions, parts.retransmissions);
                write!(xid, parts.xid);
            }
            None => bits |= unsplit(record),
        }
        let mut window = Window::<5>::EMPTY;
        let header = window.fill(self.header, None)?;
        // The most expensive read comes first, while few registers are in use. Some kernels' BTF has only a forward declaration of its
        // type.
        let request = Address::<M>::new(header.held(&offsets.cgroup.header_request)?);
        write!(
            cgroup,
            cgroup::of_request(request, &offsets.cgroup).unwrap_or(0)
        );
        // The opener's user, even if another thread writes the data back.
        let cred = Address::<R::Followed>::new(header.held(&offsets.header_cred)?);
        let uid = match cred.0 {
            0 => None,
            _ => cred.held(&offsets.cred_uid),
        };
        write!(uid, uid.unwrap_or(NO_USER));
        if header.held::<u64>(&offsets.header_direct)? != 0 {
            bits |= flags::DIRECT;
        }
        if direction == flags::WRITE && self.header.held::<u32>(&offsets.header_stable)? != UNSTABLE
        {
            bits |= flags::STABLE;
        }
        let status: i32 = header.held(&offsets.header_status)?;
        let inode = Address::<R::Followed>::new(header.held(&offsets.header_inode)?);
        let failed = status < 0;
        write!(error, if failed { status } else { 0 });
        let (done_bytes, eof) = result(self.header, offsets)?;
        // On error the count is not a transfer, and `eof` is a member of a union with other contents.
        if !failed && direction != flags::WRITE && eof {
            bits |= flags::EOF;
        }
        write!(done_bytes, if failed { 0 } else { done_bytes });
        write!(flags, bits);
        let (superblock, fileid) = superblock_and_number(inode, offsets)?;
        write!(fileid, fileid);
        write!(dev, superblock.field(&offsets.superblock_dev)?);
        Some(())
    }
}

/// Counts a request that the filter leaves out. `#[inline(never)]`: cold path.
#[inline(never)]
fn left_out_by_filter<M: Memory>(header: u64, table: u64) -> Option<()> {
    let (header, offsets) = (Address::<M>::new(header), &DIRECT);
    let status: i32 = header.held(&offsets.header_status)?;
    let (bytes, requests) = match status < 0 {
        true => (0, 0),
        false => (u64::from(result(header, offsets)?.0), 1),
    };
    let inode = Address::<M>::new(header.held(&offsets.header_inode)?);
    let superblock = Address::<M>::new(inode.field(&offsets.inode_superblock)?);
    left_out::count(
        table,
        superblock.field(&offsets.superblock_dev)?,
        requests,
        bytes,
    );
    Some(())
}

/// The file and range of a request.
struct Subject {
    /// The hash of the file's handle.
    crc: u32,
    /// The range, if it is read together with the handle. Otherwise it is read later, so that it is not kept on the stack.
    range: Option<Range>,
}

#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    asked_bytes: u32,
}

struct Timing {
    start_ns: u64,
    pid: u32,
}

#[inline(always)]
fn timing(task: Address<impl Reader>, offsets: &'static DirectOffsets) -> Option<Timing> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(task, Some(&offsets.task_window))?;
    Some(Timing {
        start_ns: view.held(&offsets.task_start)?,
        pid: view.held(&offsets.task_owner)?,
    })
}

/// The parts of a latency: waiting in the client, network and server. The rest is completion.
pub struct Parts {
    pub queue_ns: u64,
    pub rtt_ns: u64,
    retransmissions: u32,
    xid: u32,
}

/// Clears the parts of a record and returns the flag that marks them as unknown. `#[inline(never)]`: otherwise the compiler prepares
/// the zeros for each request.
#[inline(never)]
fn unsplit(record: *mut RequestRecord) -> u32 {
    // SAFETY: the caller passes room for a record, and the members are aligned.
    unsafe {
        (&raw mut (*record).queue_ns).write(zero());
        (&raw mut (*record).rtt_ns).write(zero());
        (&raw mut (*record).retransmissions).write(0);
        (&raw mut (*record).xid).write(0);
    }
    flags::UNSPLIT
}

/// The parts that the RPC client has noted; `None` if the request has no RPC or the parts are not wanted.
#[inline(always)]
pub fn parts<R: Reader>(
    task: Address<R>,
    start_ns: u64,
    latency_ns: u64,
    offsets: &'static DirectOffsets,
) -> Option<Parts> {
    let told = match is_shed::<R::Followed>(shed::LATENCY_PARTS) {
        true => 0,
        false => global(&PARTS),
    };
    let transmission = Address::<R::Followed>::new(match told {
        0 => 0,
        _ => task.held(&offsets.task_transmission)?,
    });
    if transmission.0 == 0 {
        return None;
    }
    let mut window = Window::<5>::EMPTY;
    let view = window.fill(transmission, Some(&offsets.transmission_window))?;
    let sent_ns: u64 = view.field(&offsets.transmission_sent)?;
    let rtt_ns: u64 = view.field(&offsets.transmission_rtt)?;
    let count: u32 = view.field(&offsets.transmission_count)?;
    // The parts never exceed the whole. A request that was not transmitted since its start has waited all the time: the
    // subtraction wraps to more than any latency.
    let queue_ns = sent_ns.wrapping_sub(start_ns).min(latency_ns);
    Some(Parts {
        queue_ns,
        rtt_ns: rtt_ns.min(latency_ns - queue_ns),
        // The field is 0 before the first transmission: `count - 1` wraps, so the minimum is 0.
        retransmissions: count.wrapping_sub(1).min(count),
        xid: if told & told_parts::XIDS == 0 {
            0
        } else {
            u32::from_be(view.field(&offsets.transmission_xid)?)
        },
    })
}

/// Bytes transferred, and whether the file ends after them.
#[inline(always)]
fn result(header: Address<impl Reader>, offsets: &'static DirectOffsets) -> Option<(u32, bool)> {
    let mut window = Window::<3>::EMPTY;
    let view = window.fill(header, Some(&offsets.result_window))?;
    Some((
        view.held(&offsets.header_done)?,
        view.held::<u8>(&offsets.header_eof)? != 0,
    ))
}

/// Superblock and fileid.
#[inline(always)]
fn superblock_and_number<M: Memory>(
    inode: Address<M>,
    offsets: &'static DirectOffsets,
) -> Option<(Address<M>, u64)> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(inode, Some(&offsets.inode_window))?;
    Some((
        Address::new(view.field(&offsets.inode_superblock)?),
        view.field(&offsets.inode_number)?,
    ))
}
