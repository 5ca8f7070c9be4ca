//! The hash of a file handle, as the kernel's own tracepoints compute it.

use core::ptr;

use aya_ebpf::{macros::map, maps::PerCpuArray};

use crate::kernel_memory::{Address, Memory, Probe, View, Window, exchange, opaque};

/// Words of `struct nfs_fh` that are remembered: its size, and handles of up to 46 bytes. That
/// covers the handles of most servers.
const SHORT: usize = 6;
/// Words of the longest handle: 128 bytes.
const LONG: u64 = 16;
/// Bytes of a handle's size, which stands before its bytes.
const SIZE_BYTES: u64 = 2;
const _: () = assert!(SHORT == 6, "`remembered` compares as many");
/// Handles remembered per CPU; a power of two.
const SLOTS: usize = 128;

/// No handle begins with this word: its size would be too large.
const NO_HANDLE: u64 = u64::MAX;

/// The handles of a CPU.
type Slots = [Slot; SLOTS];

/// File handles met last, per CPU: 8 KiB.
#[map]
static HANDLES: PerCpuArray<Slots> = PerCpuArray::with_max_entries(1, 0);

/// [`HANDLES`] for programs that do not exchange words: they take slots in another way, so the two kinds must not share slots.
#[map]
static HANDLES_BY_PROBE: PerCpuArray<Slots> = PerCpuArray::with_max_entries(1, 0);

/// A handle and its hash.
///
/// Bytes after a shorter handle are garbage. Those in its last word are compared as well, so some comparisons fail needlessly.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    /// [`NO_HANDLE`] in the first word means that a program writes the rest: another program on the same CPU may interrupt it.
    words: [u64; SHORT],
    /// Raised between the first word and the rest whenever they are written.
    version: u32,
    crc: u32,
    /// [`crate::paths::token`] of the path that was reported last for the file, or 0.
    token: u64,
}

/// The hash of a file's handle, and its slot.
pub struct Handle {
    /// The hash of the handle.
    pub crc: u32,
    /// The handle's slot. A handle that is too long to be remembered uses only the slot's token.
    pub slot: *mut Slot,
}

/// CRC-32 (IEEE) of the bytes of the `struct nfs_fh` at `handle`: `nfs_fhandle_hash` of the kernel.
///
/// A CRC costs more than the rest of a record, so recent results are remembered.
#[inline(always)]
pub fn hash<M: Memory>(handle: Address<M>) -> Option<u32> {
    Some(known(handle)?.crc)
}

/// The XOR of a handle's words. It distinguishes successive handles of one inode for a fraction of the hash's cost. Bytes after a short handle
/// count as well: they do not change while the inode has the handle.
#[inline(never)]
pub fn fold(handle: u64) -> u64 {
    let handle = Address::<Probe>::new(handle);
    let mut window = Window::<SHORT>::EMPTY;
    let Some(view) = window.fill(handle, None) else {
        return 0;
    };
    let mut all = view.word(0);
    let size = all & 0xffff;
    for at in 1..SHORT {
        all ^= view.word(at);
    }
    for at in SHORT as u64..=LONG {
        if at * 8 >= size + SIZE_BYTES {
            break;
        }
        all ^= word(handle, at * 8).unwrap_or(0);
    }
    all
}

/// The hash of a handle, and its slot on this CPU.
#[inline(always)]
pub fn known<M: Memory>(handle: Address<M>) -> Option<Handle> {
    // Before the handle is read, so that no words of it are kept across the lookup.
    let slots = if M::SINCE_6_2 {
        HANDLES.get_ptr_mut(0)?
    } else {
        HANDLES_BY_PROBE.get_ptr_mut(0)?
    };
    let mut window = Window::<SHORT>::EMPTY;
    let view = window.fill(handle, None)?;
    let first = view.word(0);
    let size = first as u16;
    // The address is good enough to choose a slot; structures lie 64 bytes apart.
    let index = handle.hash::<{ SLOTS.ilog2() }>() as usize & (SLOTS - 1);
    // SAFETY: an element of this CPU's slots, which exist for as long as the program runs.
    let slot = unsafe { &raw mut (*slots)[index] };
    let crc = match remembered(slot, first, &view) {
        Some(crc) => crc,
        None => u32::try_from(computed(slot, handle, size)).ok()?,
    };
    Some(Handle { crc, slot })
}

/// Whether the path of the file in the slot was reported with this token.
#[inline(always)]
pub fn is_named(slot: *mut Slot, token: u64) -> bool {
    // SAFETY: `slot` is an element of this CPU's slots, and the token is one aligned word. A file that shares the slot writes another token.
    unsafe { (&raw const (*slot).token).read_volatile() == token }
}

/// Notes that the path was reported.
#[inline(always)]
pub fn set_named(slot: *mut Slot, token: u64) {
    // SAFETY: `slot` is an element of this CPU's slots, and the token is one aligned word.
    unsafe { (&raw mut (*slot).token).write_volatile(token) };
}

/// The hash in the slot, if it belongs to this handle.
#[inline(always)]
fn remembered<M: Memory>(slot: *mut Slot, first: u64, view: &View<'_, M, SHORT>) -> Option<u32> {
    // SAFETY: `slot` is an element of this CPU's slots. `version` reveals a program that interrupts this one and writes the slot.
    unsafe {
        let version = (&raw const (*slot).version).read_volatile();
        if (&raw const (*slot).words[0]).read_volatile() != first {
            return None;
        }
        // Words after the end of the handle do not count.
        let differs = |i: usize| {
            usize::from(first as u16) + 2 > i * 8
                && (&raw const (*slot).words[i]).read_volatile() != view.word(i)
        };
        // Unrolled: a loop takes twice as long.
        if differs(1) || differs(2) || differs(3) || differs(4) || differs(5) {
            return None;
        }
        let crc = (&raw const (*slot).crc).read_volatile();
        ((&raw const (*slot).version).read_volatile() == version).then_some(crc)
    }
}

/// Computes the hash of this handle, and remembers it unless the slot is being written or the handle is too long. More than 32 bits if the
/// handle cannot be read: an `Option` would be returned through memory.
///
/// `#[inline(never)]`: cold path. Small, because Linux 7.2 visits each instruction of a program before verification starts
/// (`bpf_compute_subprog_arg_access`), which costs more than several steps of the verifier.
#[inline(never)]
fn computed<M: Memory>(slot: *mut Slot, handle: Address<M>, size: u16) -> u64 {
    compute(slot, handle, u64::from(size)).map_or(u64::MAX, u64::from)
}

#[inline(always)]
fn compute<M: Memory>(slot: *mut Slot, handle: Address<M>, size: u64) -> Option<u32> {
    let mut crc = u32::MAX;
    for at in 0..LONG {
        if at * 8 >= size {
            break;
        }
        crc = update(crc, word(handle, SIZE_BYTES + at * 8)?, size - at * 8);
    }
    let crc = !crc;
    if size <= SHORT as u64 * 8 - SIZE_BYTES {
        remember(slot, handle, crc)?;
    }
    Some(crc)
}

/// A word of the `struct nfs_fh`.
#[inline(always)]
fn word<M: Memory>(handle: Address<M>, at: u64) -> Option<u64> {
    let mut window = Window::<1>::EMPTY;
    let view = window.fill(Address::<M>::new(handle.0 + at), None)?;
    Some(view.word(0))
}

/// Reads the handle once more. It does not change meanwhile: the caller holds the inode that contains it.
#[inline(always)]
fn remember<M: Memory>(slot: *mut Slot, handle: Address<M>, crc: u32) -> Option<()> {
    let mut window = Window::<SHORT>::EMPTY;
    let view = window.fill(handle, None)?;
    // SAFETY: `slot` is an element of this CPU's slots. After `take`, no other program writes it until the first word is written, last.
    unsafe {
        if take::<M>(slot) {
            let version = (&raw const (*slot).version).read_volatile();
            (&raw mut (*slot).version).write_volatile(version.wrapping_add(1));
            for i in 1..SHORT {
                (&raw mut (*slot).words[i]).write_volatile(view.word(i));
            }
            (&raw mut (*slot).crc).write_volatile(crc);
            (&raw mut (*slot).token).write_volatile(0);
            (&raw mut (*slot).words[0]).write_volatile(view.word(0));
        }
    }
    Some(())
}

/// Takes the slot for writing, unless another program has. On kernels without an exchange, programs interrupt but never preempt each other:
/// the interrupting program ends before the interrupted one continues.
///
/// # Safety
///
/// The slot is one of this CPU's.
#[inline(always)]
unsafe fn take<M: Memory>(slot: *mut Slot) -> bool {
    // SAFETY: the caller guarantees that the slot belongs to this CPU; its first word is aligned.
    unsafe {
        let word = &raw mut (*slot).words[0];
        let first = word.read_volatile();
        if first == NO_HANDLE {
            return false;
        }
        if M::SINCE_6_2 {
            return exchange(word, first, NO_HANDLE) == first;
        }
        word.write_volatile(NO_HANDLE);
        true
    }
}

/// Bytes of input in one step of the CRC.
const STEP: usize = 8;

/// Indexed by the number of bytes that follow in the step, then by the byte.
static CRC32: [[u32; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 * STEP {
            crc = crc >> 1 ^ (crc & 1) * 0xedb8_8320;
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
};

/// Adds the lowest bytes of a word to the CRC: 8, or `left` if that is less. `left` is not 0.
///
/// Without branches or loops, because the verifier follows both ways of each branch. So every step takes 8 bytes, with zeros in front of a
/// shorter input: leading zeros change nothing, because the CRC so far is combined with the input bytes.
#[inline(always)]
fn update(crc: u32, word: u64, left: u64) -> u32 {
    let beyond = left.wrapping_sub(STEP as u64).cast_signed();
    // All bits if negative, without a comparison.
    let is_less = opaque((beyond >> 63).cast_unsigned());
    let bits = (is_less & beyond.cast_unsigned())
        .wrapping_mul(8)
        .wrapping_add(64);
    let mut bytes = 0;
    // SAFETY: a local word, written with one store.
    unsafe { (&raw mut bytes).write_volatile((word ^ u64::from(crc)) << (64 - bits)) };
    // Two shifts, because `bits` may be 64.
    let rest = u64::from(crc) >> (bits / 2) >> (bits / 2);
    let mut next = rest as u32;
    macro_rules! each_byte {
        ($($n:literal)*) => {
            $(
                // SAFETY: `byte_of` is below 256 and `$n` below `STEP`, so the element is inside the tables.
                next ^= unsafe { CRC32.as_ptr().cast::<u32>().add(byte_of(&bytes, $n)).add((STEP - 1 - $n) * 256).read() };
            )*
        };
    }
    each_byte!(0 1 2 3 4 5 6 7);
    next
}

/// A byte of a word on the stack. The verifier does not track the bytes of a spilled word, so it neither traces where an index comes from nor
/// follows the code for each value.
#[inline(always)]
fn byte_of(word: &u64, n: usize) -> usize {
    // SAFETY: every caller passes an `n` below 8, the size of the word.
    usize::from(unsafe { ptr::from_ref(word).cast::<u8>().add(n).read_volatile() })
}
