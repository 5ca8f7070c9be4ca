//! Reading what the kernel has, at offsets that only the running kernel knows.

use core::{arch::asm, mem::MaybeUninit, ptr};

use aya_ebpf::helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel, generated};

/// Integers a field may be read as: any bytes are a value.
pub trait Field: Copy {}
impl Field for u8 {}
impl Field for u16 {}
impl Field for u32 {}
impl Field for i32 {}
impl Field for u64 {}

/// An address in the kernel. Reading at any of them fails instead of faulting.
#[derive(Clone, Copy)]
pub struct Address(pub u64);

impl Address {
    fn plus(self, offset: usize) -> *const u8 {
        ptr::with_exposed_provenance(self.0 as usize + offset)
    }

    /// The field at the offset that the global `offset` holds.
    #[inline(always)]
    pub fn field<T: Field>(self, offset: &u32) -> Option<T> {
        // SAFETY: the helper reads at any address without faulting.
        unsafe { bpf_probe_read_kernel(self.plus(global(offset) as usize).cast::<T>()) }.ok()
    }
}

/// Room for `WORDS * 8` bytes of a kernel object.
pub struct Window<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> Window<WORDS> {
    pub const EMPTY: Self = Self(MaybeUninit::uninit());

    /// Copies that part of the object at `base` that begins at the offset in the global `start`, in
    /// one piece, which costs less than a probe read per field.
    ///
    /// Fails only where the kernel is locked down against reading its memory, or the object is not
    /// there. Behind a short object lies other memory of the kernel's.
    #[inline(always)]
    pub fn fill<'a>(&'a mut self, base: Address, start: u32) -> Option<View<'a, WORDS>> {
        // SAFETY: writes no more than `self`; reads at any address without faulting.
        let failed = unsafe {
            generated::bpf_probe_read_kernel(
                self.0.as_mut_ptr().cast(),
                size_of_val(&self.0) as u32,
                base.plus(start as usize).cast(),
            )
        };
        (failed == 0).then_some(View {
            base,
            start,
            words: &self.0,
        })
    }
}

/// A kernel object of which a part has been copied.
pub struct View<'a, const WORDS: usize> {
    base: Address,
    start: u32,
    words: &'a MaybeUninit<[u64; WORDS]>,
}

impl<const WORDS: usize> View<'_, WORDS> {
    /// The field at the offset, from the object's begin, that the global `offset` holds.
    ///
    /// Once `.rodata` is frozen the verifier knows the offset and removes the branch not taken.
    #[inline(always)]
    pub fn field<T: Field>(&self, offset: &u32) -> Option<T> {
        let inside = (global(offset) as usize).wrapping_sub(self.start as usize);
        if inside <= WORDS * 8 - size_of::<T>() && inside % align_of::<T>() == 0 {
            // SAFETY: inside `words`, which the helper filled; aligned; any bytes are a `Field`.
            return Some(unsafe { self.words.as_ptr().byte_add(inside).cast::<T>().read() });
        }
        self.base.field(offset)
    }

    /// What was copied.
    #[inline(always)]
    pub fn words(&self) -> &[u64; WORDS] {
        // SAFETY: the helper filled all of it.
        unsafe { self.words.assume_init_ref() }
    }
}

/// A global as userspace has set it; the compiler only knows the value in the object.
#[inline(always)]
pub fn global<T: Copy>(global: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { ptr::read_volatile(global) }
}

/// Adds to a counter that other CPUs add to, too.
///
/// Even where CPUs do not share it: the exactness of the books must not rest on how a kernel keeps programs
/// of one CPU from interrupting each other. Written out, because `AtomicU64` has no such operation on this
/// target, and because only the form without a result exists before Linux 5.12.
///
/// # Safety
///
/// `counter` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn add(counter: *mut u64, what: u64) {
    // SAFETY: by the caller.
    unsafe {
        asm!(
            "lock *(u64 *)({counter} + 0) += {what}",
            counter = in(reg) counter,
            what = in(reg) what,
            options(nostack),
        );
    }
}

/// `CLOCK_MONOTONIC`, ns: the clock of `tk_start`.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: takes nothing, and every program may call it.
    unsafe { bpf_ktime_get_ns() }
}
