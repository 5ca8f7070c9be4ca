//! What the kernel side adds up of every RPC that completes, and how userspace finds its way in it: the part of the
//! boundary that is about operations. As in [`crate::ebpf::ring`], integers are in native byte order.

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::{Held, offsets};

/// What RPCs have in common that are added up.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpKey {
    /// Address of the kernel's description of the procedure (`struct rpc_procinfo`). 0 in sums of what had no room.
    pub procedure: u64,
    /// Address of the connection (`struct rpc_xprt`).
    pub transport: u64,
    /// Address of the RPC client (`struct rpc_clnt`).
    pub client: u64,
    /// In which window they completed: UTC in ns, divided by the length of a window.
    pub window: u64,
}

/// What they add up to, and what they were. The latter is written once.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug)]
pub struct OpValue {
    /// Those that ended with an error.
    pub errors: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Sum of the times until they were sent, ns.
    pub queue_ns_sum: u64,
    /// Sum of the times until the answer, ns.
    pub rtt_ns_sum: u64,
    /// Sum of the times from start to completion, ns.
    pub execute_ns_sum: u64,
    /// The longest of these, ns.
    pub execute_ns_max: u64,
    /// RPC program of the client.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Number of the procedure in the kernel's statistics.
    pub index: u32,
    /// Number of the connection, or [`NO_NUMBER`].
    pub transport: u32,
    /// Number of the client; the kernel gives it away again when it is free.
    pub client: u32,
    /// Bits of [`crate::ebpf::file_op_sums::handles`].
    pub handle: u32,
    /// Name of the procedure, ended by a zero.
    pub name: [u8; OP_NAME_BYTES],
    /// Name of the transport protocol (`tcp`).
    pub protocol: [u8; OP_PROTOCOL_BYTES],
    /// Address of the server.
    pub address: [u8; OP_ADDRESS_BYTES],
    /// How many of the times from start to completion were in each bucket: see [`OP_FIRST_OCTAVE`]. Together they are the RPCs
    /// that completed, each attempt of one that was repeated.
    pub execute: [u32; OP_BUCKETS],
}

/// Room for a procedure's name, the longest of which has 20 characters.
pub const OP_NAME_BYTES: usize = 24;
/// Room for the name of a protocol.
pub const OP_PROTOCOL_BYTES: usize = 8;
/// Room for an IPv6 address with its scope.
pub const OP_ADDRESS_BYTES: usize = 64;

/// The kernel numbers connections from Linux 5.14 on.
pub const NO_NUMBER: u32 = u32::MAX;

/// The times from start to completion that are told apart begin at `1 << OP_FIRST_OCTAVE` ns, 4 us. What took less is
/// in the bucket of that.
pub const OP_FIRST_OCTAVE: u32 = 12;
/// They end before `1 << OP_END_OCTAVE` ns, 18 minutes. What took longer is in the last bucket.
pub const OP_END_OCTAVE: u32 = 40;
/// Highest bits of a time, below the leading one, by which its bucket is found.
pub const OP_CELL_BITS: u32 = 6;
/// Cells by which buckets are found. The first of them, as many as an octave has, are none: places are counted with the leading bit, from
/// `1 << OP_CELL_BITS` on.
pub const OP_CELLS: usize = ((OP_END_OCTAVE - OP_FIRST_OCTAVE + 1) << OP_CELL_BITS) as usize;
/// Buckets from the first to the last of these times.
pub const OP_BUCKETS: usize = 898;
/// The sum of a cell and of a time in it, ns, is its bucket in the bits from this one on.
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
    // Texts are of whole words, and so are pairs of counts.
    assert!(OP_NAME_BYTES % 8 + OP_PROTOCOL_BYTES % 8 + OP_ADDRESS_BYTES % 8 + OP_BUCKETS % 2 == 0);
    assert!(OP_BUCKETS < 1 << (u64::BITS - OP_BUCKET_SHIFT));
};

impl OpValue {
    /// Nothing yet.
    pub const ZERO: Self = Self {
        transport: NO_NUMBER,
        // SAFETY: it is all integers.
        ..unsafe { zeroed() }
    };
}

offsets! {
    /// Where the kernel keeps what an RPC consists of: offsets in bytes from the begin of the structure that a name begins
    /// with; `task` is `struct rpc_task`, `client` `struct rpc_clnt`, `procedure` `struct
    /// rpc_procinfo`, `transport` `struct rpc_xprt`. A part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct OpOffsets {
        /// Bits of [`op_flags`]; 0 where operations are not recorded.
        pub flags: u32,
        /// Begin of the window for all members of the task but its status.
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

/// Where RPCs are added up that are found without a search, in two halves: the programs add to one of them, and the other one is empty or being
/// read. What finds its place taken goes into the hash maps.
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
    /// When the window of now began, by `CLOCK_MONOTONIC`, ns. The window of what completes in it or in the next one is found without a division.
    pub begin_ns: u64,
    /// That window, as in [`OpKey::window`].
    pub window: u64,
    /// Who has the places: nobody where the procedure is 0. It is written last.
    pub owners: [OpKey; OP_PLACES],
    /// What they add up to.
    pub sums: [OpValue; OP_PLACES],
}

/// In place of the address of a procedure: somebody is writing who has the place.
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
/// Element of that array: by procedure, client, connection and window.
pub const OPS_BY_PROCEDURE: u32 = 0;
/// Element of that array: by window alone, for what has no room there.
pub const OPS_BY_WINDOW: u32 = 1;
/// Elements of that array.
pub const OPS_MAPS: usize = 2;
/// Name of the array that counts, for each of them, how often a sum was begun there; userspace may `mmap` it.
pub const OPS_BEGUN_MAP: &str = "OPS_BEGUN";
/// Entries of the first of them, 3.8 KiB each: 1.9 MiB, twice.
pub const OP_ENTRIES: u32 = 512;
/// Entries of the other one, as many windows: 0.2 MiB, twice.
pub const OP_WINDOW_ENTRIES: u32 = 64;
/// Name of the array, of one element, that counts the RPCs for which there was no room there, either.
pub const OPS_LOST_MAP: &str = "OPS_LOST";
/// Name of the global that holds the [`OP_CELLS`] cells.
pub const OP_CELLS_GLOBAL: &str = "OP_CELL_TABLE";
