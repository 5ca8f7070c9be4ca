//! Calls of traced functions of programs.

/// The key that a begin shares with its end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpanKey {
    /// The thread as `bpf_get_current_pid_tgid` returns it.
    pub thread: u64,
    /// Stack pointer of the thread at the begin, which differs between recursive calls. 0 if the begin and the end are
    /// marks of the program.
    pub place: u64,
    /// Cookie of the probe.
    pub cookie: u64,
}

/// The begin of a call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SpanBegin {
    /// `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
}

/// Bit of a probe's cookie: begin and end are marks of the program. The other bits are the function's number.
pub const BY_MARKS: u64 = 1 << 63;

/// Name of the hash map from [`SpanKey`] to [`SpanBegin`].
pub const SPANS_MAP: &str = "SPANS";
/// Entries of that map if functions are traced. New entries evict old ones whose end was never seen.
pub const SPAN_ENTRIES: u32 = 16_384;
