//! The boundary between the kernel side and userspace.
//!
//! Every type here is `repr(C)` with its size and field offsets asserted at compile time, because
//! the two sides are built by different compilers for different machines.

use core::mem::{offset_of, size_of};

use crate::file_op_sums::FileOpOffsets;
use crate::offsets::offsets;
use crate::op_sums::OpOffsets;

/// Stands for a user who is not known: no user has this id (`INVALID_UID` of the kernel).
pub const NO_USER: u32 = u32::MAX;

/// Size of a [`RequestRecord`].
pub const RECORD_BYTES: usize = 96;

/// One completed READ or WRITE request, as it travels through a ring buffer.
///
/// All integers are in native byte order: writer and reader share the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// `CLOCK_MONOTONIC` at completion, ns.
    pub end_ns: u64,
    /// Completion minus start of this attempt, ns; 0 when [`flags::UNTIMED`] is set.
    pub latency_ns: u64,
    /// NFS fileid (inode number).
    pub fileid: u64,
    /// Offset of the first byte asked for.
    pub offset: u64,
    /// Bytes asked for.
    pub asked_bytes: u32,
    /// Bytes transferred; 0 on error.
    pub done_bytes: u32,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`).
    pub handle_hash: u32,
    /// 0, or the negative errno with which the request ended.
    pub error: i32,
    /// Process (tgid) that initiated the request; the flusher for writeback, 0 when not known.
    pub pid: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// The user on whose behalf it was made: who opened the file (`fsuid`), or to the tracepoint engine
    /// who initiated the request. [`NO_USER`] when not known.
    pub uid: u32,
    /// Id of the cgroup whose memory the data is in, or to the tracepoint engine of that which initiated
    /// the request. 0 when not known.
    pub cgroup: u64,
    /// Part of the latency until it was transmitted, the last time if it was more than once, ns; 0 when
    /// [`flags::UNSPLIT`] is set.
    pub queue_ns: u64,
    /// Part of the latency from then until the reply, ns: network and server. The rest is the client's completion.
    pub rtt_ns: u64,
    /// The RPC's transaction id; 0 when [`flags::UNSPLIT`] is set or nobody asked for it.
    pub xid: u32,
    /// How often it was transmitted again.
    pub retransmissions: u32,
}

/// What is told of an RPC's course.
pub mod parts {
    /// Of what its latency consists.
    pub const SPLIT: u32 = 1 << 0;
    /// Its transaction id as well.
    pub const XIDS: u32 = 1 << 1;
}

/// Bits of [`RequestRecord::flags`].
pub mod flags {
    /// WRITE; READ when clear.
    pub const WRITE: u32 = 1 << 0;
    /// The server said end of file: fewer bytes than asked are not a short transfer.
    pub const EOF: u32 = 1 << 1;
    /// No usable start time: counted, but without a latency.
    pub const UNTIMED: u32 = 1 << 2;
    /// Nothing is known of the parts of its latency: it had no RPC, or nobody asked for them.
    pub const UNSPLIT: u32 = 1 << 3;
    /// Made by O_DIRECT.
    pub const DIRECT: u32 = 1 << 4;
    /// A WRITE that asks for stable storage, so that no COMMIT follows.
    pub const STABLE: u32 = 1 << 5;
    /// All bits that have a meaning.
    pub const ALL: u32 = WRITE | EOF | UNTIMED | UNSPLIT | DIRECT | STABLE;
}

const _: () = {
    assert!(size_of::<RequestRecord>() == RECORD_BYTES);
    assert!(offset_of!(RequestRecord, end_ns) == 0);
    assert!(offset_of!(RequestRecord, latency_ns) == 8);
    assert!(offset_of!(RequestRecord, fileid) == 16);
    assert!(offset_of!(RequestRecord, offset) == 24);
    assert!(offset_of!(RequestRecord, asked_bytes) == 32);
    assert!(offset_of!(RequestRecord, done_bytes) == 36);
    assert!(offset_of!(RequestRecord, dev) == 40);
    assert!(offset_of!(RequestRecord, handle_hash) == 44);
    assert!(offset_of!(RequestRecord, error) == 48);
    assert!(offset_of!(RequestRecord, pid) == 52);
    assert!(offset_of!(RequestRecord, flags) == 56);
    assert!(offset_of!(RequestRecord, uid) == 60);
    assert!(offset_of!(RequestRecord, cgroup) == 64);
    assert!(offset_of!(RequestRecord, queue_ns) == 72);
    assert!(offset_of!(RequestRecord, rtt_ns) == 80);
    assert!(offset_of!(RequestRecord, xid) == 88);
    assert!(offset_of!(RequestRecord, retransmissions) == 92);
};

/// Why bytes from a ring are not a [`RequestRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The record has another length than [`RECORD_BYTES`].
    Length(usize),
    /// Flag bits without a meaning are set.
    Flags(u32),
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length(n) => write!(f, "ring record of {n} bytes instead of {RECORD_BYTES}"),
            Self::Flags(bits) => write!(f, "ring record with unknown flags {bits:#x}"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl RequestRecord {
    /// Decodes a record. Any bytes are safe to pass.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; RECORD_BYTES] = bytes
            .try_into()
            .map_err(|_| DecodeError::Length(bytes.len()))?;
        let record = Self {
            end_ns: u64_at(bytes, 0),
            latency_ns: u64_at(bytes, 8),
            fileid: u64_at(bytes, 16),
            offset: u64_at(bytes, 24),
            asked_bytes: u32_at(bytes, 32),
            done_bytes: u32_at(bytes, 36),
            dev: u32_at(bytes, 40),
            handle_hash: u32_at(bytes, 44),
            error: u32_at(bytes, 48).cast_signed(),
            pid: u32_at(bytes, 52),
            flags: u32_at(bytes, 56),
            uid: u32_at(bytes, 60),
            cgroup: u64_at(bytes, 64),
            queue_ns: u64_at(bytes, 72),
            rtt_ns: u64_at(bytes, 80),
            xid: u32_at(bytes, 88),
            retransmissions: u32_at(bytes, 92),
        };
        if record.flags & !flags::ALL != 0 {
            return Err(DecodeError::Flags(record.flags));
        }
        Ok(record)
    }

    /// The record as it stands in the ring.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let Self {
            end_ns,
            latency_ns,
            fileid,
            offset,
            asked_bytes,
            done_bytes,
            dev,
            handle_hash,
            error,
            pid,
            flags,
            uid,
            cgroup,
            queue_ns,
            rtt_ns,
            xid,
            retransmissions,
        } = *self;
        let mut out = [0; RECORD_BYTES];
        for (i, v) in [end_ns, latency_ns, fileid, offset].into_iter().enumerate() {
            out[i * 8..i * 8 + 8].copy_from_slice(&v.to_ne_bytes());
        }
        let words = [
            asked_bytes,
            done_bytes,
            dev,
            handle_hash,
            error.cast_unsigned(),
            pid,
            flags,
            uid,
        ];
        for (i, v) in words.into_iter().enumerate() {
            out[32 + i * 4..36 + i * 4].copy_from_slice(&v.to_ne_bytes());
        }
        for (i, v) in [cgroup, queue_ns, rtt_ns].into_iter().enumerate() {
            out[64 + i * 8..72 + i * 8].copy_from_slice(&v.to_ne_bytes());
        }
        out[88..92].copy_from_slice(&xid.to_ne_bytes());
        out[92..].copy_from_slice(&retransmissions.to_ne_bytes());
        out
    }
}

fn u64_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn u32_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

/// What requests have in common that are added up in the kernel when the rings are full.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldKey {
    /// As in [`RequestRecord`].
    pub fileid: u64,
    /// As in [`RequestRecord`].
    pub cgroup: u64,
    /// In which window they completed: UTC in ns, divided by the global [`WINDOW_NS_GLOBAL`].
    pub window: u64,
    /// As in [`RequestRecord`].
    pub dev: u32,
    /// As in [`RequestRecord`].
    pub handle_hash: u32,
    /// As in [`RequestRecord`].
    pub uid: u32,
    /// [`flags::WRITE`], or 0 for READ.
    pub direction: u32,
}

/// What they add up to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldValue {
    /// Completed requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of the latencies of the timed requests, ns.
    pub latency_ns_sum: u64,
    /// Largest latency, ns.
    pub latency_ns_max: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Requests that moved fewer bytes than asked, end of file and errors apart.
    pub short: u64,
    /// Requests without a usable start time.
    pub untimed: u64,
    /// Sum of the parts of latencies until transmission, ns.
    pub queue_ns_sum: u64,
    /// Sum of the parts from transmission to reply, ns.
    pub rtt_ns_sum: u64,
    /// Timed requests of whose parts nothing is known.
    pub unsplit: u64,
    /// Transmissions beyond the first of each request.
    pub retransmissions: u64,
    /// Requests made by O_DIRECT.
    pub direct: u64,
    /// WRITE requests that ask for stable storage.
    pub stable: u64,
}

/// [`FoldKey`] in words, as maps hold it.
pub const FOLD_KEY_WORDS: usize = 5;
/// [`FoldValue`] in words, as maps hold it.
pub const FOLD_VALUE_WORDS: usize = 13;

const _: () = {
    assert!(size_of::<FoldKey>() == 8 * FOLD_KEY_WORDS);
    assert!(offset_of!(FoldKey, dev) == 24);
    assert!(offset_of!(FoldKey, uid) == 32);
    assert!(size_of::<FoldValue>() == 8 * FOLD_VALUE_WORDS);
};

impl FoldKey {
    /// From the words of a map.
    pub fn from_words([fileid, cgroup, window, file, user]: [u64; FOLD_KEY_WORDS]) -> Self {
        let [dev, handle_hash] = halves(file);
        let [uid, direction] = halves(user);
        Self {
            fileid,
            cgroup,
            window,
            dev,
            handle_hash,
            uid,
            direction,
        }
    }
}

impl FoldValue {
    /// Nothing yet.
    pub const ZERO: Self = Self {
        requests: 0,
        bytes: 0,
        latency_ns_sum: 0,
        latency_ns_max: 0,
        errors: 0,
        short: 0,
        untimed: 0,
        queue_ns_sum: 0,
        rtt_ns_sum: 0,
        unsplit: 0,
        retransmissions: 0,
        direct: 0,
        stable: 0,
    };

    /// From the words of a map.
    pub fn from_words(
        [
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            errors,
            short,
            untimed,
            queue_ns_sum,
            rtt_ns_sum,
            unsplit,
            retransmissions,
            direct,
            stable,
        ]: [u64; FOLD_VALUE_WORDS],
    ) -> Self {
        Self {
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            errors,
            short,
            untimed,
            queue_ns_sum,
            rtt_ns_sum,
            unsplit,
            retransmissions,
            direct,
            stable,
        }
    }
}

/// The two integers that stand in a word, in the order in which they stand in memory.
pub(crate) fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let half = |at: usize| {
        let mut half = [0; 4];
        half.copy_from_slice(&bytes[at..at + 4]);
        u32::from_ne_bytes(half)
    };
    [half(0), half(4)]
}

offsets! {
    /// Byte offsets of the fields of the `nfs_readpage_done` / `nfs_writeback_done` tracepoints.
    pub struct DoneOffsets {
        /// `dev_t dev`, 4 bytes.
        pub dev: u32,
        /// `u32 fhandle`.
        pub fhandle: u32,
        /// `u64 fileid`.
        pub fileid: u32,
        /// `loff_t offset`.
        pub offset: u32,
        /// `u32 arg_count`.
        pub arg_count: u32,
        /// `u32 res_count`.
        pub res_count: u32,
        /// `int error` (`status` on 5.10).
        pub error: u32,
        /// `bool eof`, one byte; READ only.
        pub eof: u32,
    }
}

offsets! {
    /// Byte offsets of the fields of `nfs_initiate_read` / `nfs_initiate_write`.
    pub struct InitiateOffsets {
        /// `dev_t dev`, 4 bytes.
        pub dev: u32,
        /// `u64 fileid`.
        pub fileid: u32,
    }
}

offsets! {
    /// Byte offsets of the fields of `rpc_task_begin` / `rpc_task_end`.
    pub struct TaskOffsets {
        /// `unsigned int task_id`.
        pub task_id: u32,
        /// `unsigned int client_id`.
        pub client_id: u32,
    }
}

offsets! {
    /// Everything the tracepoint engine has to know about this kernel, read from tracefs at start.
    ///
    /// Userspace overrides the global [`OFFSETS_GLOBAL`] with it before the programs are loaded.
    pub struct TracepointOffsets {
        /// `nfs_initiate_read`.
        pub initiate_read: InitiateOffsets,
        /// `nfs_initiate_write`.
        pub initiate_write: InitiateOffsets,
        /// `rpc_task_begin`.
        pub task_begin: TaskOffsets,
        /// `rpc_task_end`.
        pub task_end: TaskOffsets,
        /// `nfs_readpage_done`.
        pub read_done: DoneOffsets,
        /// `nfs_writeback_done`; its `eof` is not used.
        pub write_done: DoneOffsets,
    }
}

/// Words of which [`TracepointOffsets`] consists.
pub const TRACEPOINT_WORDS: usize = size_of::<TracepointOffsets>() / 4;

offsets! {
    /// Everything the direct engine has to know about this kernel, read from BTF at start.
    ///
    /// Offsets in bytes from the begin of the structure that a name begins with; `header` is
    /// `struct nfs_pgio_header`, `task` `struct rpc_task`. A `window` is where the part of the structure
    /// begins that is copied in one piece.
    ///
    /// Userspace overrides the global [`DIRECT_GLOBAL`] with it before the programs are loaded.
    pub struct DirectOffsets {
        /// Begin of the window for `tk_start` and `tk_owner`.
        pub task_window: u32,
        /// `ktime_t tk_start`.
        pub task_start: u32,
        /// `pid_t tk_owner`.
        pub task_owner: u32,
        /// `struct inode *inode`.
        pub header_inode: u32,
        /// `int task.tk_status`.
        pub header_status: u32,
        /// Begin of the window for `args`.
        pub arguments_window: u32,
        /// Begin of the window for `res`.
        pub result_window: u32,
        /// `struct nfs_fh *args.fh`.
        pub header_handle: u32,
        /// `__u64 args.offset`.
        pub header_offset: u32,
        /// `__u32 args.count`.
        pub header_asked: u32,
        /// `__u32 res.count`.
        pub header_done: u32,
        /// The lowest byte of `res.eof`.
        pub header_eof: u32,
        /// Begin of the window for `i_sb` and `i_ino`.
        pub inode_window: u32,
        /// `struct super_block *i_sb`.
        pub inode_superblock: u32,
        /// `unsigned long i_ino`.
        pub inode_number: u32,
        /// `dev_t s_dev` of `struct super_block`.
        pub superblock_dev: u32,
        /// `const struct cred *cred`.
        pub header_cred: u32,
        /// `kuid_t fsuid` of `struct cred`.
        pub cred_uid: u32,
        /// `struct nfs_direct_req *dreq`.
        pub header_direct: u32,
        /// `enum nfs3_stable_how args.stable`.
        pub header_stable: u32,
        /// `struct rpc_rqst *tk_rqstp`.
        pub task_transmission: u32,
        /// Begin of the window for the members of `struct rpc_rqst`.
        pub transmission_window: u32,
        /// `ktime_t rq_rtt`.
        pub transmission_rtt: u32,
        /// `ktime_t rq_xtime`.
        pub transmission_sent: u32,
        /// `int rq_ntrans`.
        pub transmission_count: u32,
        /// `__be32 rq_xid`.
        pub transmission_xid: u32,
        /// The way to the directories.
        pub tree: TreeOffsets,
        /// The way to the cgroup.
        pub cgroup: CgroupOffsets,
        /// What an RPC of any procedure consists of.
        pub operation: OpOffsets,
        /// The way from an RPC to the file that it is about.
        pub file_operation: FileOpOffsets,
        /// What a name consists of.
        pub name: NameOffsets,
    }
}

offsets! {
    /// What is read of each directory on a file's path (`struct dentry`), beside what [`TreeOffsets`] has.
    pub struct NameOffsets {
        /// `u64 d_name.hash_len`; 0 if paths cannot be read.
        pub entry_hash: u32,
        /// `const unsigned char *d_name.name`.
        pub entry_name: u32,
        /// `void *d_fsdata`: of the top of what is mounted, `server:/export`.
        pub entry_data: u32,
    }
}

offsets! {
    /// The way from a request to the directories that its file is in, as it was opened.
    pub struct TreeOffsets {
        /// `struct nfs_open_context *args.context` of `struct nfs_pgio_header`; 0 if the way is not known.
        pub header_context: u32,
        /// `struct dentry *dentry` of `struct nfs_open_context`.
        pub context_entry: u32,
        /// `struct dentry *d_parent` of `struct dentry`.
        pub entry_parent: u32,
        /// `struct inode *d_inode` of `struct dentry`.
        pub entry_inode: u32,
    }
}

offsets! {
    /// The way from a request to the cgroup that its data is charged to: one pointer after the other.
    pub struct CgroupOffsets {
        /// Bits of [`cgroups`]; 0 if the way is not known.
        pub way: u32,
        /// `struct nfs_page *req` of `struct nfs_pgio_header`.
        pub header_request: u32,
        /// `struct page *wb_page` of `struct nfs_page`.
        pub request_page: u32,
        /// `unsigned long compound_head` (`compound_info` from Linux 7.0 on) of `struct page`.
        pub page_head: u32,
        /// `unsigned long memcg_data` of `struct page`.
        pub page_owner: u32,
        /// `struct mem_cgroup *memcg` of `struct obj_cgroup`.
        pub object_owner: u32,
        /// `struct cgroup *css.cgroup` of `struct mem_cgroup`.
        pub owner_cgroup: u32,
        /// `struct kernfs_node *kn` of `struct cgroup`.
        pub cgroup_node: u32,
        /// `u64 id` of `struct kernfs_node`.
        pub node_id: u32,
    }
}

/// Bits of [`CgroupOffsets::way`].
pub mod cgroups {
    /// The way is known.
    pub const KNOWN: u32 = 1 << 0;
    /// Every page is charged to a `struct obj_cgroup`, not only those of the kernel's own objects.
    pub const BY_OBJECT: u32 = 1 << 1;
}

/// Words of which [`DirectOffsets`] consists.
pub const DIRECT_WORDS: usize = size_of::<DirectOffsets>() / 4;

/// One of the things of which a wanted request has one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterKey {
    /// Which: a bit of [`filters`].
    pub kind: u32,
    /// Device, for a mount, a directory or a file.
    pub dev: u32,
    /// Its fileid, the process, the user or the cgroup.
    pub id: u64,
}

const _: () = assert!(size_of::<FilterKey>() == 8 * FILTER_KEY_WORDS);

/// [`FilterKey`] in words, as maps hold it.
pub const FILTER_KEY_WORDS: usize = 2;

impl FilterKey {
    /// As the words of a map.
    pub fn words(self) -> [u64; FILTER_KEY_WORDS] {
        let Self { kind, dev, id } = self;
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_ne_bytes());
        head[4..].copy_from_slice(&dev.to_ne_bytes());
        [u64::from_ne_bytes(head), id]
    }
}

/// Bits of the global [`FILTER_GLOBAL`]: what a request must have to be wanted, and kinds of [`FilterKey`]. It must have one of each kind
/// that is asked for; mounts, directories and files are one kind.
pub mod filters {
    /// Processes.
    pub const PIDS: u32 = 1 << 0;
    /// Users.
    pub const UIDS: u32 = 1 << 1;
    /// Cgroups.
    pub const CGROUPS: u32 = 1 << 2;
    /// Mounts, by device.
    pub const MOUNTS: u32 = 1 << 3;
    /// Directories with all that is below them.
    pub const DIRECTORIES: u32 = 1 << 4;
    /// Files.
    pub const FILES: u32 = 1 << 5;
    /// Any of those three.
    pub const PLACES: u32 = MOUNTS | DIRECTORIES | FILES;
    /// READ is not wanted.
    pub const NO_READS: u32 = 1 << 6;
    /// WRITE is not wanted.
    pub const NO_WRITES: u32 = 1 << 7;
}

/// Stands in programs that load from the kernel's memory for its function `bpf_rdonly_cast`, in a call of a helper of
/// this number, which there is not. Each kernel numbers the function otherwise, so userspace puts the call there.
pub const CAST_CALL: u32 = 0x6361_7374;
/// Stands there for the number of the type that the function is to make of an address.
pub const CAST_TYPE: u32 = 0x7479_7065;
/// A load in such a program from `CAST_OFFSETS + 8 * n` stands for one from the offset that is word `n` of
/// [`DirectOffsets`].
pub const CAST_OFFSETS: i16 = 0x7c00;

const _: () = assert!(CAST_OFFSETS as usize + 8 * DIRECT_WORDS <= i16::MAX as usize);

/// Counters of the CPUs that share a slot. `seen` is counted before, the others after the record has
/// met its fate, so that `recorded + folded + lost <= seen` whenever they are read in that order.
///
/// A cache line of its own, because every CPU writes its slot all the time.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Completed requests the programs saw.
    pub seen: u64,
    /// Requests put into a ring.
    pub recorded: u64,
    /// Requests for which the rings had no room, and which were added up instead.
    pub folded: u64,
    /// Requests for which there was no room at all, or of which the kernel refused to show the memory.
    pub lost: u64,
}

const _: () = assert!(size_of::<Books>() == 64);

/// Number of [`Books`] that there are: 16 KiB. CPU `n` counts in number `n % BOOKS_SLOTS`.
pub const BOOKS_SLOTS: u32 = 256;

/// Name of the global that holds [`TracepointOffsets`].
pub const OFFSETS_GLOBAL: &str = "OFFSETS";
/// Name of the global that holds [`DirectOffsets`].
pub const DIRECT_GLOBAL: &str = "DIRECT";
/// Name of the global (`u32`) that holds bits of [`parts`], 0 where latencies are told as a whole.
pub const PARTS_GLOBAL: &str = "PARTS";
/// Name of the global (`u32`): whether paths are read: 1, or 0 for no.
pub const PATHS_GLOBAL: &str = "PATHS";
/// Name of the ring buffer of paths (`crate::paths`).
pub const PATH_RING_MAP: &str = "PATH_RING";
/// Bytes of that ring: some 8,000 paths of usual length between two looks.
pub const PATH_RING_BYTES: u32 = 1 << 20;
/// Name of the map that remembers which paths were told.
pub const NAMED_MAP: &str = "NAMED";
/// Entries of that map: 56 bytes each and 48 around them, 3.3 MiB.
pub const NAMED_ENTRIES: u32 = 32_768;
/// Name of the array, of one element (`u64`), that holds the epoch of paths; userspace may `mmap` it. A path that was told in another
/// epoch is told again.
pub const EPOCH_MAP: &str = "EPOCH";
/// Name of the global (`u32`) that holds bits of [`filters`].
pub const FILTER_GLOBAL: &str = "FILTER";
/// Name of the hash map whose keys are those [`FilterKey`]s of which a request must have one.
pub const FILTER_MAP: &str = "FILTER_SET";
/// Entries of that map where there is a filter: 32 bytes each and 16 for its bucket, 3 MiB.
pub const FILTER_ENTRIES: u32 = 65_536;
/// Name of the map that remembers which files are in wanted directories.
pub const INSIDE_MAP: &str = "INSIDE";
/// Entries of that map where directories are asked for: 3 MiB.
pub const INSIDE_ENTRIES: u32 = 32_768;
/// Name of the global (`u64`): bytes of unread data in a ring from which on the reader is woken.
pub const WAKEUP_BYTES_GLOBAL: &str = "WAKEUP_BYTES";
/// Name of the global (`u32`): how many of the rings there are, a power of two, less 1.
pub const RING_MASK_GLOBAL: &str = "RING_MASK";
/// Name of the global (`u64`): length in ns of the windows in which requests are folded.
pub const WINDOW_NS_GLOBAL: &str = "WINDOW_NS";
/// Name of the array of ring buffers. CPU `n` writes into the element `n & RING_MASK`.
pub const RINGS_MAP: &str = "RINGS";
/// Most rings that there may be.
pub const MAX_RINGS: u32 = 32;
/// Name of the array of the hash maps, from [`FoldKey`] to [`FoldValue`], that requests are folded into.
pub const FOLDS_MAP: &str = "FOLDS";
/// Element of that array: sums by file.
pub const FOLDS_BY_FILE: u32 = 0;
/// Element of that array: sums of the files for which there was no room, with 0 for their fileid and handle hash.
pub const FOLDS_BY_MOUNT: u32 = 1;
/// Entries of the map by file: 144 bytes each and 16 for its bucket, 2.5 MiB.
pub const FOLD_ENTRIES: u32 = 16_384;
/// Entries of the map by mount.
pub const FOLD_MOUNT_ENTRIES: u32 = 4096;
/// Name of the array, of one element, that holds UTC minus `CLOCK_MONOTONIC` in ns; userspace may `mmap` it.
pub const CLOCK_MAP: &str = "CLOCK";
/// Name of the array, of one element, that holds [`BOOKS_SLOTS`] [`Books`]; userspace may `mmap` it.
pub const BOOKS_MAP: &str = "BOOKS";
