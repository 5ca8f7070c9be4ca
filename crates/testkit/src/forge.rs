//! Forged segments with matching checksums: only decoded data shows that something is wrong.

use std::ops::Range;

const BLOCK_BYTES: usize = 8 << 10;

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Start of a Parquet file's footer.
fn footer_at(bytes: &[u8]) -> usize {
    let end = bytes.len() - 8;
    end - number(bytes, end)
}

/// Range of the sums of a segment's blocks, including their number.
pub fn sums(bytes: &[u8]) -> Range<usize> {
    let end = footer_at(bytes);
    end - 4 * (number(bytes, end - 4) + 1)..end
}

/// Start of a value in the metadata, after these bytes: the key, the head of a field, a length.
pub fn place(bytes: &[u8], before: &[u8]) -> usize {
    let mut windows = bytes.windows(before.len());
    windows.rposition(|window| window == before).unwrap() + before.len()
}

/// Range of the digits of a segment's checksum.
pub fn digits(bytes: &[u8]) -> Range<usize> {
    let start = place(bytes, b"trackiops.crc32c\x18\x08");
    start..start + 8
}

/// The checksum stored in a segment.
pub fn crc32c_of(bytes: &[u8]) -> u32 {
    let digits = std::str::from_utf8(&bytes[digits(bytes)]).unwrap();
    u32::from_str_radix(digits, 16).unwrap()
}

/// Corrects the checksums.
pub fn seal(bytes: &mut [u8]) {
    let sums = sums(bytes);
    let of_blocks: Vec<_> = bytes[..sums.start]
        .chunks(BLOCK_BYTES)
        .flat_map(|block| crc32c::crc32c(block).to_le_bytes())
        .collect();
    bytes[sums.start..sums.end - 4].copy_from_slice(&of_blocks);
    let digits = digits(bytes);
    bytes[digits.clone()].fill(b'0');
    let sum = format!("{:08x}", crc32c::crc32c(&bytes[sums.start..]));
    bytes[digits].copy_from_slice(sum.as_bytes());
}

/// Turns a Parquet file, whose metadata has the key of a checksum, into a segment.
pub fn segment(parquet: &[u8]) -> Vec<u8> {
    let footer_at = footer_at(parquet);
    let count = footer_at.div_ceil(BLOCK_BYTES);
    let mut bytes = parquet[..footer_at].to_vec();
    bytes.resize(footer_at + 4 * count, 0);
    bytes.extend((count as u32).to_le_bytes());
    bytes.extend(&parquet[footer_at..]);
    seal(&mut bytes);
    bytes
}
