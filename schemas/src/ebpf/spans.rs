//! What the kernel side shares about functions of programs that are followed.

/// What a begin and the end that belongs to it have in common.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpanKey {
    /// As `bpf_get_current_pid_tgid` names it.
    pub thread: u64,
    /// Where the thread's stack was at the begin: a function that calls itself is at another place there. 0 where the begin and the end are marks
    /// of the program.
    pub place: u64,
    /// What the probe was attached with.
    pub cookie: u64,
}

/// A begin.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpanBegin {
    /// By `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
}

/// Bit of a probe's cookie: its begin and its end are marks of the program. The other bits are the number of the function.
pub const BY_MARKS: u64 = 1 << 63;

/// Name of the hash map from [`SpanKey`] to [`SpanBegin`].
pub const SPANS_MAP: &str = "SPANS";
/// Entries of that map where functions are followed: those of ends that were never seen make room for others.
pub const SPAN_ENTRIES: u32 = 16_384;
