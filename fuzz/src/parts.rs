//! Two files as one input: the length of the first u32, little-endian, and both.

/// Puts two files together.
pub fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    let length = first.len() as u32;
    [&length.to_le_bytes(), first, second].concat()
}

/// The two files. A length that is too large is that of the first alone.
pub fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else {
        return (input, &[]);
    };
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at(length.min(rest.len()))
}
