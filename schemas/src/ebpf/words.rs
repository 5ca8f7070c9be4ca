//! Integers in the words of which keys and values of BPF maps consist.

/// The two integers that stand in a word, in the order in which they stand in memory.
pub(crate) fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let half = |at: usize| {
        let mut half = [0; 4];
        half.copy_from_slice(&bytes[at..at + 4]);
        u32::from_ne_bytes(half)
    };
    [half(0), half(4)]
}
