//! The hash of a file handle, as the kernel's own tracepoints compute it.

use core::{array, ptr};

use aya_ebpf::{macros::map, maps::PerCpuArray};

use crate::kernel_memory::{self, Address, Memory, View, Window};

/// Words of `struct nfs_fh` that are remembered: its size, and handles of up to 46 bytes. That is
/// most servers' all.
const SHORT: usize = 6;
/// Words of the whole `struct nfs_fh`: a size of 2 bytes and up to 128 bytes of handle.
const LONG: usize = 17;
/// Bits of a handle's size, which stands before its bytes.
const SIZE_BITS: u32 = 16;
const _: () = assert!(SHORT == 6, "`remembered` compares as many");
/// Handles remembered per CPU; a power of two.
const SLOTS: usize = 128;
/// CPUs whose handles are found without a lookup, where the kernel follows that.
const NEAR_CPUS: usize = 64;

/// Those of a CPU.
type Slots = [Slot; SLOTS];

/// File handles met last, per CPU: 8 KiB.
#[map]
static HANDLES: PerCpuArray<Slots> = PerCpuArray::with_max_entries(1, 0);

/// The same for the first CPUs. A global, as `MARKS`.
#[unsafe(no_mangle)]
static mut NEAR_HANDLES: [Slots; NEAR_CPUS] = [[Slot::EMPTY; _]; _];

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

impl Slot {
    pub const EMPTY: Self = Self {
        words: [0; SHORT],
        version: 0,
        crc: 0,
        token: 0,
    };
}

/// What is known of a file by its handle.
pub struct Handle {
    /// The hash of the handle.
    pub crc: u32,
    /// Null for a handle that is too long to be remembered.
    pub slot: *mut Slot,
}

/// CRC-32 (IEEE) of the bytes of the `struct nfs_fh` at `handle`: `nfs_fhandle_hash` of the kernel.
///
/// A CRC costs more than all the rest of a record, so the last ones are remembered.
#[inline(always)]
pub fn hash<M: Memory>(handle: Address<M>) -> Option<u32> {
    Some(known(handle, kernel_memory::cpu())?.crc)
}

/// The same, with where it is remembered, on this CPU.
#[inline(always)]
pub fn known<M: Memory>(handle: Address<M>, cpu: u32) -> Option<Handle> {
    // Before the handle is read, so that what is read need not be kept meanwhile.
    let slots = if M::SINCE_6_2 && cpu < NEAR_CPUS as u32 {
        // SAFETY: an element of the array.
        unsafe { (&raw mut NEAR_HANDLES).cast::<Slots>().add(cpu as usize) }
    } else {
        HANDLES.get_ptr_mut(0)?
    };
    let mut window = Window::<SHORT>::EMPTY;
    let view = window.fill(handle, None)?;
    let first = view.word(0);
    let size = first as u16;
    if usize::from(size) > SHORT * 8 - 2 {
        let crc = long(handle, size)?;
        return Some(Handle {
            crc,
            slot: ptr::null_mut(),
        });
    }
    // The address tells files apart well enough to choose a slot; structures lie 64 bytes apart.
    let index = handle.hash::<{ SLOTS.ilog2() }>() as usize & (SLOTS - 1);
    // SAFETY: an element of this CPU's slots, which exist for as long as the program runs.
    let slot = unsafe { &raw mut (*slots)[index] };
    let crc = match remembered(slot, first, &view) {
        Some(crc) => crc,
        None => remember(slot, handle)?,
    };
    Some(Handle { crc, slot })
}

/// Whether the path of the file in the slot was told, by this token.
#[inline(always)]
pub fn is_named(slot: *mut Slot, token: u64) -> bool {
    // SAFETY: of `known`. What another file's program wrote in between is another token.
    !slot.is_null() && unsafe { (&raw const (*slot).token).read_volatile() == token }
}

/// Notes that it was.
#[inline(always)]
pub fn set_named(slot: *mut Slot, token: u64) {
    if !slot.is_null() {
        // SAFETY: as above.
        unsafe { (&raw mut (*slot).token).write_volatile(token) };
    }
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
    let mut left = u32::from(size);
    for at in 0..LONG as u32 {
        let mut window = Window::<1>::EMPTY;
        let word = window
            .fill(Address::<M>::new(handle.0 + u64::from(at) * 8), None)?
            .word(0);
        crc = if at == 0 {
            update(crc, word >> SIZE_BITS, 6, &mut left)
        } else {
            update(crc, word, 8, &mut left)
        };
    }
    Some(!crc)
}

/// Half a byte at a time: 16 entries instead of 256.
static CRC32: [u32; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 4 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[inline(always)]
fn crc32(words: &[u64; SHORT]) -> u32 {
    let mut left = u32::from(words[0] as u16);
    let mut crc = update(u32::MAX, words[0] >> SIZE_BITS, 6, &mut left);
    for word in &words[1..] {
        crc = update(crc, *word, 8, &mut left);
    }
    !crc
}

/// Takes in up to `bytes` of a word, from the lowest on, as long as any are `left`.
#[inline(always)]
fn update(mut crc: u32, mut word: u64, bytes: u32, left: &mut u32) -> u32 {
    for _ in 0..bytes {
        if *left == 0 {
            break;
        }
        *left -= 1;
        crc ^= word as u32 & 0xff;
        crc = crc >> 4 ^ CRC32[(crc & 15) as usize];
        crc = crc >> 4 ^ CRC32[(crc & 15) as usize];
        word >>= 8;
    }
    crc
}
