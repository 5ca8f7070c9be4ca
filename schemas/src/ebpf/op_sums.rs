//! Sums that the kernel side keeps of every completed RPC, and how userspace reads them: the part of the kernel
//! boundary for operations. As in [`crate::ebpf::ring`], integers are in native byte order.

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::{Held, offsets};

/// The key of a sum of RPCs.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpKey {
    /// Address of the kernel's description of the procedure (`struct rpc_procinfo`); 0 in sums by window alone.
    pub procedure: u64,
    /// Address of the connection (`struct rpc_xprt`).
    pub transport: u64,
    /// Address of the RPC client (`struct rpc_clnt`).
    pub client: u64,
    /// The window in which they completed: UTC in ns, divided by the length of a window.
    pub window: u64,
}

/// A sum of RPCs, and a description of them, which is written once.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug)]
pub struct OpValue {
    /// RPCs that ended with an error.
    pub errors: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Sum of the times until transmission, ns.
    pub queue_ns_sum: u64,
    /// Sum of the times from transmission to the reply, ns.
    pub rtt_ns_sum: u64,
    /// Sum of the times from start to completion, ns.
    pub execute_ns_sum: u64,
    /// The longest time from start to completion, ns.
    pub execute_ns_max: u64,
    /// RPC program of the client.
    pub program: u32,
    /// Version of that program.
    pub version: u32,
    /// Number of the procedure in the kernel's statistics.
    pub index: u32,
    /// Number of the connection, or [`NO_NUMBER`].
    pub transport: u32,
    /// Number of the client; the kernel reuses the number of a freed client.
    pub client: u32,
    /// Bits of [`crate::ebpf::file_op_sums::handles`].
    pub handle: u32,
    /// Name of the procedure, zero-terminated.
    pub name: [u8; OP_NAME_BYTES],
    /// Name of the transport protocol (`tcp`).
    pub protocol: [u8; OP_PROTOCOL_BYTES],
    /// Address of the server.
    pub address: [u8; OP_ADDRESS_BYTES],
    /// Number of times from start to completion in each bucket: see [`OP_FIRST_OCTAVE`]. Their total is the number of
    /// completed RPCs. Each attempt of a repeated RPC counts.
    pub execute: [u32; OP_BUCKETS],
}

/// Room for a procedure's name. The longest has 20 characters.
pub const OP_NAME_BYTES: usize = 24;
/// Room for the name of a protocol.
pub const OP_PROTOCOL_BYTES: usize = 8;
/// Room for an IPv6 address with its scope.
pub const OP_ADDRESS_BYTES: usize = 64;

/// The connection has no number: the kernel numbers connections since Linux 5.14.
pub const NO_NUMBER: u32 = u32::MAX;

/// Buckets of times from start to completion begin at `1 << OP_FIRST_OCTAVE` ns, 4 us. The first bucket also counts
/// shorter times.
pub const OP_FIRST_OCTAVE: u32 = 12;
/// Buckets end before `1 << OP_END_OCTAVE` ns, 18 minutes. The last bucket also counts longer times.
pub const OP_END_OCTAVE: u32 = 40;
/// Number of bits below the leading one that select the cell of a time.
pub const OP_CELL_BITS: u32 = 6;
/// Cells through which buckets are found. Indexes include the leading bit, so they begin at `1 << OP_CELL_BITS`; lower
/// ones are unused.
pub const OP_CELLS: usize = ((OP_END_OCTAVE - OP_FIRST_OCTAVE + 1) << OP_CELL_BITS) as usize;
/// Number of buckets.
pub const OP_BUCKETS: usize = 898;
/// `(cell + time) >> OP_BUCKET_SHIFT` is the bucket of a time in ns.
pub const OP_BUCKET_SHIFT: u32 = OP_END_OCTAVE;

/// [`OpKey`] in words, as maps hold it.
pub const OP_KEY_WORDS: usize = 4;
/// [`OpValue`] in words, as maps hold it.
pub const OP_VALUE_WORDS: usize = size_of::<OpValue>() / 8;

const _: () = {
    assert!(size_of::<OpKey>() == 8 * OP_KEY_WORDS);
    assert!(size_of::<OpValue>() == 8 * OP_VALUE_WORDS);
    assert!(offset_of!(OpValue, program) == 56);
    assert!(offset_of!(OpValue, name) == 80);
    // Texts fill whole words, and so do pairs of counts.
    assert!(OP_NAME_BYTES % 8 + OP_PROTOCOL_BYTES % 8 + OP_ADDRESS_BYTES % 8 + OP_BUCKETS % 2 == 0);
    assert!(OP_BUCKETS < 1 << (u64::BITS - OP_BUCKET_SHIFT));
};

impl OpValue {
    /// An empty sum.
    pub const ZERO: Self = Self {
        transport: NO_NUMBER,
        // SAFETY: all fields are integers, for which zero bytes are valid.
        ..unsafe { zeroed() }
    };
}

offsets! {
    /// Byte offsets to the members of an RPC, each from the begin of the structure that its name begins with: `task` is
    /// `struct rpc_task`, `client` `struct rpc_clnt`, `procedure` `struct rpc_procinfo`, `transport` `struct rpc_xprt`.
    /// Part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct OpOffsets {
        /// Bits of [`op_flags`]; 0 where operations are not recorded.
        pub flags: u32,
        /// Begin of the window for all members of the task except its status.
        pub task_window: u32,
        /// `struct rpc_procinfo *tk_msg.rpc_proc`.
        pub task_procedure: Held,
        /// `struct rpc_clnt *tk_client`.
        pub task_client: Held,
        /// `struct rpc_xprt *tk_xprt`.
        pub task_transport: Held,
        /// `int tk_status`.
        pub task_status: Held,
        /// Begin of the window for the bytes of a transmission.
        pub bytes_window: u32,
        /// `size_t rq_xmit_bytes_sent`.
        pub sent_bytes: u32,
        /// `size_t rq_reply_bytes_recvd`.
        pub received_bytes: u32,
        /// `unsigned int cl_clid`.
        pub client_number: u32,
        /// `u32 cl_prog`.
        pub client_program: u32,
        /// `u32 cl_vers`.
        pub client_version: u32,
        /// `u32 p_statidx`.
        pub procedure_index: u32,
        /// `const char *p_name`.
        pub procedure_name: u32,
        /// `unsigned int id`.
        pub transport_number: u32,
        /// `const char *address_strings[RPC_DISPLAY_ADDR]`.
        pub transport_address: u32,
        /// `const char *address_strings[RPC_DISPLAY_PROTO]`.
        pub transport_protocol: u32,
    }
}

/// Bits of [`OpOffsets::flags`].
pub mod op_flags {
    /// The offsets are known.
    pub const KNOWN: u32 = 1 << 0;
    /// Connections have a number.
    pub const NUMBERED: u32 = 1 << 1;
}

/// Sums of RPCs that are found without a search, in two halves. Programs add to one half, while the other one is empty
/// or being read. RPCs whose place is taken go into the hash maps.
#[repr(C)]
pub struct OpTable {
    /// The half that the programs add to: 0 or 1.
    pub half: u64,
    /// The halves.
    pub halves: [OpHalf; 2],
}

/// A half of an [`OpTable`].
#[repr(C)]
pub struct OpHalf {
    /// When the current window began, `CLOCK_MONOTONIC`, ns. RPCs that complete in this window or the next one find
    /// theirs without a division.
    pub begin_ns: u64,
    /// That window, as in [`OpKey::window`].
    pub window: u64,
    /// The key of each place; a procedure of 0 marks a free place. Written last.
    pub owners: [OpKey; OP_PLACES],
    /// The sum of each place.
    pub sums: [OpValue; OP_PLACES],
}

/// Replaces the address of a procedure while a program writes the key of the place.
pub const OP_TAKEN: u64 = 1;
/// Places of a half, a power of two. 0.9 MiB, twice.
pub const OP_PLACES: usize = 256;
/// [`OpTable`] in words.
pub const OP_TABLE_WORDS: usize = size_of::<OpTable>() / 8;
/// [`OpHalf`] in words.
pub const OP_HALF_WORDS: usize = size_of::<OpHalf>() / 8;
/// Name of the array, of one element, that is the [`OpTable`]; userspace may `mmap` it.
pub const OP_TABLE_MAP: &str = "OP_TABLE";

const _: () = {
    assert!(offset_of!(OpKey, procedure) == 0);
    assert!(size_of::<OpTable>() == 8 * OP_TABLE_WORDS);
    assert!(offset_of!(OpTable, halves) == 8 * (OP_TABLE_WORDS - 2 * OP_HALF_WORDS));
};

/// Name of the array of the hash maps, from [`OpKey`] to [`OpValue`], that RPCs are added up in.
pub const OPS_MAP: &str = "OPS";
/// Element of that array: sums by procedure, client, connection and window.
pub const OPS_BY_PROCEDURE: u32 = 0;
/// Element of that array: sums by window alone, for RPCs without room in the first element.
pub const OPS_BY_WINDOW: u32 = 1;
/// Number of elements of that array.
pub const OPS_MAPS: usize = 2;
/// Name of the array that counts, for each element, how many sums were begun in it; userspace may `mmap` it.
pub const OPS_BEGUN_MAP: &str = "OPS_BEGUN";
/// Entries of the first element, 3.8 KiB each: 1.9 MiB, twice.
pub const OP_ENTRIES: u32 = 512;
/// Entries of the second element, one for each window: 0.2 MiB, twice.
pub const OP_WINDOW_ENTRIES: u32 = 64;
/// Name of the array, of one element, that counts the RPCs without room in either map.
pub const OPS_LOST_MAP: &str = "OPS_LOST";
/// Name of the global that holds the [`OP_CELLS`] cells.
pub const OP_CELLS_GLOBAL: &str = "OP_CELL_TABLE";
