//! The hash of a file handle, as the kernel's own tracepoints compute it.

use core::{arch::asm, array};

use aya_ebpf::{macros::map, maps::PerCpuArray};

use crate::kernel_memory::{Address, Memory, View, Window, untraced};

/// Words of `struct nfs_fh` that are remembered: its size, and handles of up to 46 bytes. That is
/// most servers' all.
const SHORT: usize = 6;
/// Words of the whole `struct nfs_fh`: a size of 2 bytes and up to 128 bytes of handle.
const LONG: usize = 17;
/// Bytes of a handle's size, which stands before its bytes.
const SIZE_BYTES: u32 = 2;
const _: () = assert!(SHORT == 6, "`remembered` compares as many");
/// Handles remembered per CPU; a power of two.
const SLOTS: usize = 128;

/// Those of a CPU.
type Slots = [Slot; SLOTS];

/// File handles met last, per CPU: 8 KiB.
#[map]
static HANDLES: PerCpuArray<Slots> = PerCpuArray::with_max_entries(1, 0);

/// A handle and its hash.
///
/// Bytes behind a shorter handle are garbage; those in its last word make the comparison fail more often than need be.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    words: [u64; SHORT],
    /// Odd while it is written. A program may be interrupted by another one of the same CPU.
    version: u32,
    crc: u32,
    /// [`crate::paths::token`] of the path that was told last of the file, or 0.
    token: u64,
}

/// What is known of a file by its handle.
pub struct Handle {
    /// The hash of the handle.
    pub crc: u32,
    /// Where it is remembered. What is too long for that has a slot for its token alone.
    pub slot: *mut Slot,
}

/// CRC-32 (IEEE) of the bytes of the `struct nfs_fh` at `handle`: `nfs_fhandle_hash` of the kernel.
///
/// A CRC costs more than all the rest of a record, so the last ones are remembered.
#[inline(always)]
pub fn hash<M: Memory>(handle: Address<M>) -> Option<u32> {
    Some(known(handle)?.crc)
}

/// The same, with where it is remembered, on this CPU.
#[inline(always)]
pub fn known<M: Memory>(handle: Address<M>) -> Option<Handle> {
    // Before the handle is read, so that what is read need not be kept meanwhile.
    let slots = HANDLES.get_ptr_mut(0)?;
    let mut window = Window::<SHORT>::EMPTY;
    let view = window.fill(handle, None)?;
    let first = view.word(0);
    let size = first as u16;
    // The address tells files apart well enough to choose a slot; structures lie 64 bytes apart.
    let index = handle.hash::<{ SLOTS.ilog2() }>() as usize & (SLOTS - 1);
    // SAFETY: an element of this CPU's slots, which exist for as long as the program runs.
    let slot = unsafe { &raw mut (*slots)[index] };
    let crc = if usize::from(size) > SHORT * 8 - 2 {
        long(handle, size)?
    } else {
        match remembered(slot, first, &view) {
            Some(crc) => crc,
            None => remember(slot, handle)?,
        }
    };
    Some(Handle { crc, slot })
}

/// Whether the path of the file in the slot was told, by this token.
#[inline(always)]
pub fn is_named(slot: *mut Slot, token: u64) -> bool {
    // SAFETY: of `known`. Another file that has the slot, too, writes another token.
    unsafe { (&raw const (*slot).token).read_volatile() == token }
}

/// Notes that it was.
#[inline(always)]
pub fn set_named(slot: *mut Slot, token: u64) {
    // SAFETY: as above.
    unsafe { (&raw mut (*slot).token).write_volatile(token) };
}

/// The hash in the slot, if it is this handle's.
#[inline(always)]
fn remembered<M: Memory>(slot: *mut Slot, first: u64, view: &View<'_, M, SHORT>) -> Option<u32> {
    // SAFETY: by `hash`. Another program of this CPU may run in between and write: see `version`.
    unsafe {
        let version = (&raw const (*slot).version).read_volatile();
        if version & 1 != 0 || (&raw const (*slot).words[0]).read_volatile() != first {
            return None;
        }
        // Where the handle does not end before this word.
        let differs = |i: usize| {
            usize::from(first as u16) + 2 > i * 8
                && (&raw const (*slot).words[i]).read_volatile() != view.word(i)
        };
        // One by one: a loop takes twice as long.
        if differs(1) || differs(2) || differs(3) || differs(4) || differs(5) {
            return None;
        }
        let crc = (&raw const (*slot).crc).read_volatile();
        ((&raw const (*slot).version).read_volatile() == version).then_some(crc)
    }
}

/// The hash of this handle, which goes into the slot unless that is being written.
///
/// In a function of its own, like the others that are seldom called.
#[inline(never)]
fn remember<M: Memory>(slot: *mut Slot, handle: Address<M>) -> Option<u32> {
    let mut window = Window::<SHORT>::EMPTY;
    let view = window.fill(handle, None)?;
    let words: [u64; SHORT] = array::from_fn(|i| view.word(i));
    let crc = crc32(&words);
    // SAFETY: by `hash`, and as above.
    unsafe {
        let version = (&raw const (*slot).version).read_volatile();
        if version & 1 == 0 {
            (&raw mut (*slot).version).write_volatile(version.wrapping_add(1));
            for (i, word) in words.iter().enumerate() {
                (&raw mut (*slot).words[i]).write_volatile(*word);
            }
            (&raw mut (*slot).crc).write_volatile(crc);
            (&raw mut (*slot).token).write_volatile(0);
            (&raw mut (*slot).version).write_volatile(version.wrapping_add(2));
        }
    }
    Some(crc)
}

/// Of a handle that is longer than what is remembered: word by word, in a function of its own, for its stack.
#[inline(never)]
fn long<M: Memory>(handle: Address<M>, size: u16) -> Option<u32> {
    let mut crc = u32::MAX;
    for at in 0..LONG as u64 {
        if at * 8 >= u64::from(size) + 2 {
            break;
        }
        let mut window = Window::<1>::EMPTY;
        let word = window
            .fill(Address::<M>::new(handle.0 + at * 8), None)?
            .word(0);
        crc = if at == 0 {
            first_word(crc, word, size)
        } else {
            next_word(crc, word, at, size)
        };
    }
    Some(!crc)
}

/// By a byte.
static CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ (crc & 1) * 0xedb8_8320;
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[inline(always)]
fn crc32(words: &[u64; SHORT]) -> u32 {
    let size = words[0] as u16;
    let mut crc = first_word(u32::MAX, words[0], size);
    for (at, word) in words.iter().enumerate().skip(1) {
        crc = next_word(crc, *word, at as u64, size);
    }
    !crc
}

/// Takes in what is in the first word of a `struct nfs_fh`, behind the handle's size.
#[inline(always)]
fn first_word(crc: u32, word: u64, size: u16) -> u32 {
    update::<{ 8 - SIZE_BYTES }>(crc, word >> (SIZE_BYTES * 8), 0, size)
}

/// Takes in a word behind that.
#[inline(always)]
fn next_word(crc: u32, word: u64, at: u64, size: u16) -> u32 {
    update::<8>(crc, word, at * 8 - u64::from(SIZE_BYTES), size)
}

/// Takes in `BYTES` of a word, from the lowest on, as far as they are of a handle of `size` bytes: they begin at byte `at` of it.
///
/// Without a branch or a loop: the verifier would follow both ways from each branch.
#[inline(always)]
fn update<const BYTES: u32>(mut crc: u32, word: u64, at: u64, size: u16) -> u32 {
    macro_rules! each_byte {
        ($($n:literal)*) => {
            $(
                if $n < BYTES {
                    let index = untraced(crc ^ (word >> ($n * 8)) as u32) & 0xff;
                    let next = crc >> 8 ^ CRC32[index as usize];
                    crc = if_negative((at + $n).wrapping_sub(u64::from(size)), next, crc);
                }
            )*
        };
    }
    each_byte!(0 1 2 3 4 5 6 7);
    crc
}

/// One of two values by the highest bit of `sign`, without a branch, which the compiler would make of a comparison.
#[inline(always)]
fn if_negative(sign: u64, yes: u32, no: u32) -> u32 {
    let mut chosen = u64::from(yes ^ no);
    // SAFETY: changes the two registers alone.
    unsafe {
        asm!(
            "{sign} s>>= 63",
            "{chosen} &= {sign}",
            sign = inout(reg) sign => _,
            chosen = inout(reg) chosen,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    chosen as u32 ^ no
}
