//! Reads kernel memory, at offsets that depend on the running kernel.

use core::{arch::asm, marker::PhantomData, mem, mem::MaybeUninit, ptr};

use aya_ebpf::helpers::{
    bpf_get_current_task, bpf_get_smp_processor_id, bpf_ktime_get_ns, generated,
};
use trackiops_schemas::ebpf::{
    offsets::Held,
    ring::{CAST_CALL, CAST_FILE, CAST_OFFSETS, CAST_TYPE},
};

use crate::globals::DIRECT;

/// Integer types of members: any bytes are a valid value.
pub trait Field: Copy {}
impl Field for u8 {}
impl Field for u16 {}
impl Field for u32 {}
impl Field for i32 {}
impl Field for u64 {}

/// A way to load members that are [`Held`]; every way can do that.
///
/// No load may fault, whatever the address. There are three kinds of loads:
///
/// * a call of a helper, which copies ([`Probe`]);
/// * a plain load from a pointer that the verifier does not trust, to which the JIT adds a check of the address and a fault handler ([`Cast`],
///   [`Typed`]);
/// * a plain load from a pointer that the verifier trusts, which gets neither ([`Trusted`]). It faults where there is no memory, so it is only for
///   members that are always allocated. Those have the type [`Held`], and [`Trusted`] loads no others.
///
/// `trackiops doctor --loads` compares this with the verifier's log of each load.
pub trait Reader: Copy {
    /// How to read the target of a pointer in an object.
    type Followed: Memory;

    /// Whether the kernel is at least Linux 6.2. There programs may keep a pointer into a ring on their stack, exchange words
    /// ([`exchange`]), and find the only element of an array without a lookup.
    const SINCE_6_2: bool;

    /// Makes `WORDS * 8` bytes of an object readable, from the offset in the global `start` on, if any.
    ///
    /// Fails only if the kernel is locked down against reading its memory, or the object is not
    /// mapped. Behind a short object lies other kernel memory.
    fn view<'a, const WORDS: usize>(
        object: Address<Self>,
        start: Option<&u32>,
        room: &'a mut Window<WORDS>,
    ) -> Option<View<'a, Self, WORDS>>;

    /// Loads the member whose offset from the begin of the object is the word `offset` of [`DIRECT`].
    fn load_in<T: Field, const WORDS: usize>(
        view: &View<'_, Self, WORDS>,
        offset: &u32,
    ) -> Option<T>;

    /// Loads the only member that is read of an object.
    fn load<T: Field>(object: Address<Self>, offset: &u32) -> Option<T>;

    /// [`Self::load`], or 0 if there is no memory. The verifier has one branch less to follow.
    fn load_or_zero<T: Field>(object: Address<Self>, offset: &u32) -> T;
}

/// A way to load any member, by loads whose address may be invalid.
pub trait Memory: Reader {
    /// The way to read the arguments of a tracepoint, if it differs.
    type Trusted: Reader<Followed = Self::Typed>;

    /// The way to read the targets of pointers in those.
    type Typed: Memory;

    /// The object as a typed pointer, for several loads from it.
    fn typed(object: Address<Self>) -> Address<Self::Typed>;

    /// The `struct file` at an address.
    fn file(address: u64) -> Address<Self::Typed>;

    /// The current thread (`struct task_struct`).
    fn thread() -> Address<Self::Trusted>;
}

/// By a helper that copies: on every kernel, at about 90 instructions each.
#[derive(Clone, Copy)]
pub struct Probe;

impl Probe {
    #[inline(always)]
    fn copy<T>(object: Address<Self>, offset: u32, to: &mut MaybeUninit<T>) -> Option<*const T> {
        let from = object.0.wrapping_add(u64::from(offset)) as usize;
        // SAFETY: writes no more than `to` has; reads at any address without faulting.
        let failed = unsafe {
            generated::bpf_probe_read_kernel(
                to.as_mut_ptr().cast(),
                size_of::<T>() as u32,
                ptr::with_exposed_provenance(from),
            )
        };
        (failed == 0).then_some(to.as_ptr())
    }
}

impl Reader for Probe {
    type Followed = Self;
    const SINCE_6_2: bool = false;

    #[inline(always)]
    fn view<'a, const WORDS: usize>(
        object: Address<Self>,
        start: Option<&u32>,
        room: &'a mut Window<WORDS>,
    ) -> Option<View<'a, Self, WORDS>> {
        let start = start.map_or(0, global);
        Some(View {
            words: Self::copy(object, start, &mut room.0)?,
            object,
            start,
            room: PhantomData,
        })
    }

    /// A member outside of the copied words is read separately. Once `.rodata` is frozen the verifier knows the offset
    /// and removes the branch not taken.
    #[inline(always)]
    fn load_in<T: Field, const WORDS: usize>(
        view: &View<'_, Self, WORDS>,
        offset: &u32,
    ) -> Option<T> {
        let inside = (global(offset) as usize).wrapping_sub(view.start as usize);
        if inside <= WORDS * 8 - size_of::<T>() && inside % align_of::<T>() == 0 {
            // SAFETY: inside `words`, which the helper filled; aligned; any bytes are a valid `Field`.
            return Some(unsafe { view.words.byte_add(inside).cast::<T>().read() });
        }
        Self::load(view.object, offset)
    }

    #[inline(always)]
    fn load<T: Field>(object: Address<Self>, offset: &u32) -> Option<T> {
        let mut room = MaybeUninit::uninit();
        let field: *const T = Self::copy(object, global(offset), &mut room)?;
        // SAFETY: the helper filled it; any bytes are a valid `Field`.
        Some(unsafe { field.read() })
    }

    #[inline(always)]
    fn load_or_zero<T: Field>(object: Address<Self>, offset: &u32) -> T {
        let mut room = MaybeUninit::uninit();
        let _ = Self::copy::<T>(object, global(offset), &mut room);
        // SAFETY: the helper fills it with zeros if it cannot read (`bpf_probe_read_kernel_common`, kernel/trace/bpf_trace.c); any bytes
        // are a valid `Field`.
        unsafe { room.assume_init() }
    }
}

impl Memory for Probe {
    type Trusted = Self;
    type Typed = Self;

    #[inline(always)]
    fn typed(object: Address<Self>) -> Address<Self> {
        object
    }

    #[inline(always)]
    fn file(address: u64) -> Address<Self> {
        Address::new(address)
    }

    #[inline(always)]
    fn thread() -> Address<Self> {
        // SAFETY: the helper takes no arguments.
        Address::new(unsafe { bpf_get_current_task() })
    }
}

/// A way to read by plain loads from a pointer.
pub trait Plain: Copy {
    /// Like [`Reader::Followed`].
    type Followed: Memory;

    /// The pointer. If the verifier trusts it, only [`Held`] members are loaded from it.
    fn pointer<T>(object: Address<Self>) -> *const T;
}

/// Loads from a constant offset: the number of a word of [`DIRECT`], which userspace replaces by that word's value.
#[inline(always)]
fn load_plainly<T: Field>(object: *const T, offset: &u32) -> T {
    let bytes = ptr::from_ref(offset).addr() - ptr::from_ref(&DIRECT).addr();
    let number = bytes / size_of::<u32>();
    // SAFETY: a load by `Plain::pointer` does not fault, because it has a fault handler or the member is always allocated. Any bytes are a valid
    // `Field`. Volatile, so that the compiler keeps the instruction as it is.
    unsafe {
        object
            .wrapping_byte_add(CAST_OFFSETS as usize + number * 8)
            .read_volatile()
    }
}

impl<P: Plain> Reader for P {
    type Followed = P::Followed;
    const SINCE_6_2: bool = true;

    #[inline(always)]
    fn view<'a, const WORDS: usize>(
        object: Address<Self>,
        _: Option<&u32>,
        _: &'a mut Window<WORDS>,
    ) -> Option<View<'a, Self, WORDS>> {
        Some(View {
            words: P::pointer(object),
            object,
            start: 0,
            room: PhantomData,
        })
    }

    #[inline(always)]
    fn load_in<T: Field, const WORDS: usize>(
        view: &View<'_, Self, WORDS>,
        offset: &u32,
    ) -> Option<T> {
        Some(load_plainly(view.words.cast(), offset))
    }

    #[inline(always)]
    fn load<T: Field>(object: Address<Self>, offset: &u32) -> Option<T> {
        Some(Self::load_or_zero(object, offset))
    }

    #[inline(always)]
    fn load_or_zero<T: Field>(object: Address<Self>, offset: &u32) -> T {
        load_plainly(P::pointer(object), offset)
    }
}

/// By plain loads from a pointer that the kernel's `bpf_rdonly_cast` (Linux 6.2) makes of the address. They give 0 where
/// there is no memory. Userspace completes these programs: see [`CAST_CALL`].
#[derive(Clone, Copy)]
pub struct Cast;

impl Cast {
    /// Casts to the type by which userspace replaces `stand_in`, such as [`CAST_TYPE`].
    #[inline(always)]
    fn as_type<T>(address: u64, stand_in: u32) -> *const T {
        // SAFETY: userspace replaces this call by a call of `bpf_rdonly_cast`, which has this signature.
        let cast: unsafe extern "C" fn(u64, u32) -> *const T =
            unsafe { mem::transmute(CAST_CALL as usize) };
        // SAFETY: the cast takes any address; the kernel replaces the call by a move.
        unsafe { cast(address, stand_in) }
    }
}

impl Plain for Cast {
    type Followed = Self;

    /// A pointer to an array of words, from which the verifier allows any load.
    #[inline(always)]
    fn pointer<T>(object: Address<Self>) -> *const T {
        Self::as_type(object.0, CAST_TYPE)
    }
}

impl Memory for Cast {
    type Trusted = Trusted;
    type Typed = Typed;

    #[inline(always)]
    fn typed(object: Address<Self>) -> Address<Typed> {
        Address::new(Self::pointer::<u64>(object).expose_provenance() as u64)
    }

    #[inline(always)]
    fn file(address: u64) -> Address<Typed> {
        Address::new(Self::as_type::<u64>(address, CAST_FILE).expose_provenance() as u64)
    }

    #[inline(always)]
    fn thread() -> Address<Trusted> {
        // SAFETY: the helper takes no arguments.
        let thread = unsafe { generated::bpf_get_current_task_btf() };
        Address::new(thread.expose_provenance() as u64)
    }
}

/// By plain loads from a pointer whose type the verifier knows but does not trust: one loaded through a trusted pointer, or a function's
/// argument. Like loads by [`Cast`], without the cast.
///
/// The verifier trusts a few of these pointers: those that RCU protects (`BTF_TYPE_SAFE_RCU`, kernel/bpf/verifier.c), such as a thread's credentials.
/// Members that are read through them are [`Held`].
#[derive(Clone, Copy)]
pub struct Typed;

impl Plain for Typed {
    type Followed = Self;

    #[inline(always)]
    fn pointer<T>(object: Address<Self>) -> *const T {
        ptr::with_exposed_provenance(object.0 as usize)
    }
}

impl Memory for Typed {
    type Trusted = Trusted;
    type Typed = Self;

    #[inline(always)]
    fn typed(object: Address<Self>) -> Address<Self> {
        object
    }

    #[inline(always)]
    fn file(address: u64) -> Address<Self> {
        Cast::file(address)
    }

    #[inline(always)]
    fn thread() -> Address<Trusted> {
        Cast::thread()
    }
}

/// By plain loads from the arguments of a tracepoint, which the verifier knows by type and trusts. They take an eighth of the instructions of a load
/// by [`Cast`] and have no fault handler, so they are for [`Held`] members only. The verifier requires a check that the pointer is not 0.
#[derive(Clone, Copy)]
pub struct Trusted;

impl Plain for Trusted {
    type Followed = Typed;

    #[inline(always)]
    fn pointer<T>(object: Address<Self>) -> *const T {
        ptr::with_exposed_provenance(object.0 as usize)
    }
}

/// A prime near the golden ratio of 2^32: products of similar numbers differ in their highest bits.
pub const HASH_FACTOR: u32 = 0x9e37_79b1;

/// An address in the kernel.
#[derive(Clone, Copy)]
pub struct Address<M>(pub u64, PhantomData<M>);

impl<R: Reader> Address<R> {
    pub const fn new(address: u64) -> Self {
        Self(address, PhantomData)
    }

    /// A [`Held`] member: the kernel guarantees that it is allocated.
    #[inline(always)]
    pub fn held<T: Field>(self, member: &Held) -> Option<T> {
        R::load(self, member.word())
    }

    /// [`Self::held`], or 0 if there is no memory.
    #[inline(always)]
    pub fn held_or_zero<T: Field>(self, member: &Held) -> T {
        R::load_or_zero(self, member.word())
    }

    /// The target of a [`Held`] pointer, or 0 if there is no memory.
    #[inline(always)]
    pub fn follow(self, member: &Held) -> Address<R::Followed> {
        Address::new(self.held_or_zero(member))
    }

    /// A hash of `BITS` bits.
    #[inline(always)]
    pub fn hash<const BITS: u32>(self) -> u32 {
        self.low_half().wrapping_mul(HASH_FACTOR) >> (32 - BITS)
    }

    /// The lower half as a number. The verifier lets no program multiply a pointer.
    #[inline(always)]
    pub fn low_half(self) -> u32 {
        let half: u32;
        // SAFETY: copies one register to another.
        unsafe {
            asm!(
                "{half} = {address}",
                half = lateout(wreg) half,
                address = in(wreg) self.0 as u32,
                options(pure, nomem, nostack),
            );
        }
        half
    }
}

impl<M: Memory> Address<M> {
    /// Any member, at the offset that the global `offset` holds.
    #[inline(always)]
    pub fn field<T: Field>(self, offset: &u32) -> Option<T> {
        M::load(self, offset)
    }

    /// [`Self::field`], or 0 if there is no memory.
    #[inline(always)]
    pub fn field_or_zero<T: Field>(self, offset: &u32) -> T {
        M::load_or_zero(self, offset)
    }

    /// Like [`Memory::typed`].
    #[inline(always)]
    pub fn typed(self) -> Address<M::Typed> {
        M::typed(self)
    }
}

/// Room for a copy of `WORDS * 8` bytes of a kernel object: one copy costs less than a copy of each member. Unused by
/// plain loads.
pub struct Window<const WORDS: usize>(MaybeUninit<[u64; WORDS]>);

impl<const WORDS: usize> Window<WORDS> {
    pub const EMPTY: Self = Self(MaybeUninit::uninit());

    /// Like [`Reader::view`].
    #[inline(always)]
    pub fn fill<R: Reader>(
        &mut self,
        object: Address<R>,
        start: Option<&u32>,
    ) -> Option<View<'_, R, WORDS>> {
        R::view(object, start, self)
    }
}

/// A readable part of a kernel object.
pub struct View<'a, M, const WORDS: usize> {
    object: Address<M>,
    start: u32,
    words: *const [u64; WORDS],
    room: PhantomData<&'a ()>,
}

impl<R: Reader, const WORDS: usize> View<'_, R, WORDS> {
    /// Like [`Address::held`].
    #[inline(always)]
    pub fn held<T: Field>(&self, member: &Held) -> Option<T> {
        R::load_in(self, member.word())
    }
}

impl<M: Memory, const WORDS: usize> View<'_, M, WORDS> {
    /// Like [`Address::field`].
    #[inline(always)]
    pub fn field<T: Field>(&self, offset: &u32) -> Option<T> {
        M::load_in(self, offset)
    }

    /// One of the readable words.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        // SAFETY: the index is checked against `WORDS`, and that many words are readable. Volatile, so that the compiler keeps the load.
        unsafe { (&raw const (*self.words)[index]).read_volatile() }
    }
}

/// The word at an address.
#[inline(always)]
pub fn word<M: Memory>(address: u64) -> Option<u64> {
    let mut window = Window::<1>::EMPTY;
    let view = window.fill(Address::<M>::new(address), None)?;
    Some(view.word(0))
}

/// A global as userspace has set it; the compiler only knows its initial value.
#[inline(always)]
pub fn global<T: Copy>(global: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { ptr::read_volatile(global) }
}

/// The same value, whose origin the compiler no longer knows.
#[inline(always)]
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: the assembly is only a comment.
    unsafe {
        asm!("/* {value} */", value = inout(reg) value, options(pure, nomem, nostack, preserves_flags));
    }
    value
}

/// 0, which the compiler does not know to be constant. It would clear adjacent members by `memset`, a loop of six
/// instructions for each byte.
#[inline(always)]
pub fn zero() -> u64 {
    opaque(0)
}

/// All bits if the value is 0, else none.
#[inline(always)]
pub fn if_zero(value: u64) -> u64 {
    // `opaque` hides each step from the compiler, which would turn them into a branch.
    let negative = opaque(value.wrapping_neg());
    opaque(opaque(value | negative) >> 63).wrapping_sub(1)
}

/// The same number, with a range and origin unknown to the verifier: it is half of a word on the stack.
///
/// Otherwise the verifier traces each index into a table back to its load. And a number without a known range need not be followed for each
/// value.
#[inline(always)]
pub fn untraced(value: u32) -> u32 {
    let mut word = 0_u64;
    // SAFETY: the whole word is written before its upper half is read.
    unsafe {
        (&raw mut word).write_volatile(u64::from(value) << 32);
        (&raw const word).cast::<u32>().add(1).read_volatile()
    }
}

/// Adds atomically to the counter at `OFFSET` in a map value. See [`add`].
///
/// Atomic even for counters of one CPU: the books must not depend on how a kernel keeps programs
/// of one CPU from interrupting each other. Inline assembly, because `AtomicU64` has no such operation on this
/// target, and because only the form without a result exists before Linux 5.12.
///
/// # Safety
///
/// `value` is a map value, and the member an aligned word of it.
#[inline(always)]
pub unsafe fn add_at<const OFFSET: usize, T>(value: *mut T, what: u64) {
    // SAFETY: the caller guarantees an aligned word of a map value.
    unsafe {
        asm!(
            "lock *(u64 *)({value} + {offset}) += {what}",
            value = in(reg) value,
            offset = const OFFSET,
            what = in(reg) what,
            options(nostack),
        );
    }
}

/// Adds to a member of a map value: `add!(Books, books.seen, 1)`.
macro_rules! add {
    ($type:ty, $value:ident.$member:ident, $what:expr) => {
        $crate::kernel_memory::add_at::<{ core::mem::offset_of!($type, $member) }, $type>(
            $value, $what,
        )
    };
}
pub(crate) use add;

/// Adds 1 atomically to a 32-bit counter.
///
/// # Safety
///
/// `counter` is aligned and in a map value.
#[inline(always)]
pub unsafe fn count_half(counter: *mut u32) {
    // SAFETY: the caller guarantees an aligned counter in a map value.
    unsafe {
        asm!(
            "lock *(u32 *)({counter} + 0) += {what}",
            counter = in(reg) counter,
            what = in(wreg) 1_u32,
            options(nostack),
        );
    }
}

/// Makes `max` at least `value`.
///
/// Linux before 5.12 has no atomic operation for it. So this writes and checks again: a smaller value that
/// another CPU writes in between is overwritten, unless it comes after the last check.
///
/// # Safety
///
/// `max` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn raise(max: *mut u64, value: u64) {
    for _ in 0..4 {
        // SAFETY: the caller guarantees an aligned word of a map value.
        if unsafe { ptr::read_volatile(max) } >= value {
            break;
        }
        // SAFETY: the caller guarantees an aligned word of a map value.
        unsafe { ptr::write_volatile(max, value) };
    }
}

/// Stores `new` if the word is `expected`, and returns the word from before, atomically. Since Linux 5.12.
///
/// # Safety
///
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn exchange(word: *mut u64, expected: u64, new: u64) -> u64 {
    let before;
    // SAFETY: the caller guarantees an aligned word of a map value.
    unsafe {
        asm!(
            "r0 = cmpxchg_64({word} + 0, r0, {new})",
            word = in(reg) word,
            new = in(reg) new,
            inout("r0") expected => before,
            options(nostack),
        );
    }
    before
}

/// Copies the words of a value from index `first` on. The compiler would turn a plain copy into a loop over bytes.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes. `from` is not on a caller's stack: Linux 7.2 has refused programs that read it there.
#[inline(always)]
pub unsafe fn copy_words<T>(from: *const T, to: *mut T, first: usize) {
    let (from, to) = (from.cast::<u64>(), to.cast::<u64>());
    for word in first..size_of::<T>() / 8 {
        // SAFETY: the caller guarantees that both are valid for all words of `T`.
        unsafe { to.add(word).write_volatile(from.add(word).read()) };
    }
}

/// `CLOCK_MONOTONIC`, ns: the clock of `tk_start`.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper takes no arguments, and every program may call it.
    unsafe { bpf_ktime_get_ns() }
}

/// Stores `new` into the word. A reader that sees it also sees everything written before. Since Linux 5.12.
///
/// # Safety
///
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn publish(word: *mut u64, new: u64) {
    // SAFETY: the caller guarantees an aligned word of a map value.
    unsafe {
        asm!(
            "{new} = xchg_64({word} + 0, {new})",
            word = in(reg) word,
            new = inout(reg) new => _,
            options(nostack),
        );
    }
}

/// The CPU that the program runs on; programs do not migrate.
#[inline(always)]
pub fn cpu() -> u32 {
    // SAFETY: the helper takes no arguments, and every program may call it.
    unsafe { bpf_get_smp_processor_id() }
}

/// Calls `$function`, which reads by `$memory` and has numbers as arguments and result, as a global function: the verifier follows it once,
/// whatever its arguments, instead of at each call on each way there. It knows such functions by their symbols, so each way to read has a
/// separate one.
macro_rules! verified_once {
    ($memory:ident, $by_cast:ident, $by_probe:ident: $function:ident($($argument:ident: $type:ty),+)) => {{
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $by_cast($($argument: $type),+) -> u64 {
            $function::<$crate::kernel_memory::Cast>($($argument),+)
        }
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $by_probe($($argument: $type),+) -> u64 {
            $function::<$crate::kernel_memory::Probe>($($argument),+)
        }
        if $memory::SINCE_6_2 {
            $by_cast($($argument),+)
        } else {
            $by_probe($($argument),+)
        }
    }};
}
pub(crate) use verified_once;
