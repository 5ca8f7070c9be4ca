//! Two files as one input: the length of the first as u32, little-endian, then both.

/// Puts two files together.
pub fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    let length = first.len() as u32;
    [&length.to_le_bytes(), first, second].concat()
}

/// The two files. If the length is too large, everything belongs to the first one.
pub fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else {
        return (input, &[]);
    };
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at(length.min(rest.len()))
}
