//! Structures of 32-bit words, in which userspace passes offsets to the kernel side.

/// A structure of words in `repr(C)` order.
pub trait Offsets: Copy {
    /// All words are 0: nothing is known.
    const NONE: Self;

    /// Passes each word in order.
    fn each(&self, word: &mut impl FnMut(u32));

    /// All words. `WORDS` must be their number.
    fn words<const WORDS: usize>(&self) -> [u32; WORDS] {
        const { assert!(size_of::<Self>() == WORDS * size_of::<u32>()) };
        let (mut words, mut next) = ([0; WORDS], 0);
        self.each(&mut |word| {
            if let Some(to) = words.get_mut(next) {
                *to = word;
            }
            next += 1;
        });
        words
    }
}

impl Offsets for u32 {
    const NONE: Self = 0;

    fn each(&self, word: &mut impl FnMut(u32)) {
        word(*self);
    }
}

/// The offset of a member that programs may load without a fault handler. The kernel holds its object while the program
/// runs, and the member is within the part that is always allocated.
///
/// Programs load such a member through a pointer that the verifier trusts, and every other member with a load that may
/// fault. So only structures that `HELD` in `collector/src/plan/members.rs` lists with a reason have such members.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held(u32);

impl Held {
    /// A member at this offset in bytes from the begin of its structure. Only `collector/src/plan/members.rs` calls it,
    /// after a check.
    pub const fn at(offset: u32) -> Self {
        Self(offset)
    }

    /// The offset in bytes.
    pub const fn offset(self) -> u32 {
        self.0
    }

    /// The word that userspace sets.
    pub const fn word(&self) -> &u32 {
        &self.0
    }
}

impl Offsets for Held {
    const NONE: Self = Self(0);

    fn each(&self, word: &mut impl FnMut(u32)) {
        word(self.0);
    }
}

/// Defines a structure whose members are words, or structures of words.
macro_rules! offsets {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$member:meta])* pub $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$member])* pub $field: $type,)+
        }

        impl $crate::ebpf::offsets::Offsets for $name {
            const NONE: Self = Self {
                $($field: <$type as $crate::ebpf::offsets::Offsets>::NONE,)+
            };

            fn each(&self, word: &mut impl FnMut(u32)) {
                $(self.$field.each(word);)+
            }
        }
    };
}
pub(crate) use offsets;

#[cfg(test)]
mod tests {
    use super::*;

    offsets! {
        /// A structure.
        pub struct Inner {
            /// A word.
            pub a: u32,
            /// A word.
            pub b: u32,
        }
    }

    offsets! {
        /// A structure within a structure.
        pub struct Outer {
            /// A word.
            pub first: u32,
            /// Words.
            pub inner: Inner,
            /// A word.
            pub last: u32,
        }
    }

    #[test]
    fn words_come_in_the_order_of_the_members() {
        let inner = Inner { a: 2, b: 3 };
        let outer = Outer {
            first: 1,
            inner,
            last: 4,
        };
        assert_eq!(outer.words(), [1, 2, 3, 4]);
        assert_eq!(Outer::NONE.words(), [0; 4]);
    }
}
