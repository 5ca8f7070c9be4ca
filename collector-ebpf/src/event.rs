//! Reading fields of trace events at offsets that only the running kernel knows.

use core::{mem::MaybeUninit, ptr};

use aya_ebpf::{
    EbpfContext as _,
    helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel, generated},
    programs::TracePointContext,
};

/// Integers a field may be read as: any bytes are a value.
pub trait Field: Copy {}
impl Field for u8 {}
impl Field for u32 {}
impl Field for i32 {}
impl Field for u64 {}

/// Room for the first `WORDS * 8` bytes of a trace event.
pub struct Head<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> Head<WORDS> {
    pub const EMPTY: Self = Self(MaybeUninit::uninit());

    /// Copies the head of the event in one piece, which costs less than a probe read per field.
    ///
    /// The verifier refuses direct access to the context at an offset that is not written in the
    /// instruction. Fails only where the kernel is locked down against reading its memory.
    #[inline(always)]
    pub fn fill<'a>(&'a mut self, ctx: &'a TracePointContext) -> Option<Event<'a, WORDS>> {
        // SAFETY: writes no more than `self`. A probe read of any address fails instead of
        // faulting; behind a short event lies more of the same per-CPU trace buffer.
        let failed = unsafe {
            generated::bpf_probe_read_kernel(
                self.0.as_mut_ptr().cast(),
                size_of_val(&self.0) as u32,
                ctx.as_ptr(),
            )
        };
        (failed == 0).then_some(Event { ctx, head: &self.0 })
    }
}

/// A trace event whose head has been copied.
pub struct Event<'a, const WORDS: usize> {
    ctx: &'a TracePointContext,
    head: &'a MaybeUninit<[u64; WORDS]>,
}

impl<const WORDS: usize> Event<'_, WORDS> {
    /// The field at the offset that the global `offset` holds.
    ///
    /// Once `.rodata` is frozen the verifier knows the offset and removes the branch not taken.
    #[inline(always)]
    pub fn field<T: Field>(&self, offset: &u32) -> Option<T> {
        let offset = global(offset) as usize;
        if offset <= WORDS * 8 - size_of::<T>() && offset % align_of::<T>() == 0 {
            // SAFETY: inside `head`, which the helper filled; aligned; any bytes are a `Field`.
            return Some(unsafe { self.head.as_ptr().byte_add(offset).cast::<T>().read() });
        }
        // SAFETY: as in `read`.
        unsafe { bpf_probe_read_kernel(self.ctx.as_ptr().byte_add(offset).cast::<T>()) }.ok()
    }
}

/// A global as userspace has set it; the compiler only knows the value in the object.
#[inline(always)]
pub fn global<T: Copy>(global: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { ptr::read_volatile(global) }
}

/// `CLOCK_MONOTONIC`, ns: the clock of `tk_start`.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: takes nothing, and every program may call it.
    unsafe { bpf_ktime_get_ns() }
}
