//! Mutates files that have checksums. Random bytes would fail at the checksums, so most mutations recompute them; the others leave them
//! wrong.

use crate::parts;
use crate::sealed::{self, Journal, Segment};

/// Random numbers from libFuzzer's seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 1 | 1)
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count.max(1)
    }
}

/// Mutates an input in libFuzzer's buffer. If the result is too long, the input stays unchanged.
pub fn input(
    data: &mut [u8],
    size: usize,
    most: usize,
    change: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> usize {
    match change(&data[..size]).filter(|changed| changed.len() <= most) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, most),
    }
}

/// Bytes mutated by libFuzzer, which may add a few.
fn bytes(bytes: &mut Vec<u8>) {
    let size = bytes.len();
    bytes.resize(size + 64, 0);
    let most = bytes.len();
    let size = libfuzzer_sys::fuzzer_mutate(bytes, size, most);
    bytes.truncate(size);
}

/// Changes a few bytes in place: in most formats, other bytes contain positions.
fn in_place(bytes: &mut [u8], random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let most = (bytes.len() - at).min(1 + random.below(32));
    let mut some = bytes[at..at + most].to_vec();
    let size = libfuzzer_sys::fuzzer_mutate(&mut some, most, most);
    bytes[at..at + size].copy_from_slice(&some[..size]);
}

/// A mutated journal, with a mutated `.end` beside it ([`parts`]).
pub fn journal(input: &[u8], seed: u32) -> Option<Vec<u8>> {
    let random = &mut Random::new(seed);
    let (end, journal) = parts::split(input);
    if random.below(8) == 0 {
        let mut end = end.to_vec();
        match random.below(3) {
            0 => end.clear(),
            1 => in_place(&mut end, random),
            _ => {
                end.resize(540, 0);
                let slot = [0, 512][random.below(2)];
                bytes_of_numbers(&mut end[slot..slot + 24], journal.len(), random);
            }
        }
        return Some(parts::join(&sealed::end(end), journal));
    }
    let mut parsed = Journal::parse(journal)?;
    let count = parsed.frames.len();
    let (one, other) = (random.below(count), random.below(count));
    match random.below(16) {
        0 => bytes(&mut parsed.fields),
        1 => bytes(&mut parsed.rest),
        2 if count > 0 => drop(parsed.frames.remove(one)),
        3 if count > 0 => parsed.frames.insert(other, parsed.frames[one].clone()),
        4 if count > 0 => parsed.frames.swap(one, other),
        5 if count > 0 => parsed.frames[one].0 = [1, 2, 3, 4, 0x80, 0][random.below(6)],
        6 => {
            // Wrong checksums, at any place.
            let mut journal = parsed.encode();
            in_place(&mut journal, random);
            return Some(parts::join(end, &journal));
        }
        _ if count > 0 => bytes(&mut parsed.frames[one].1),
        _ => return None,
    }
    Some(parts::join(end, &parsed.encode()))
}

/// A slot's numbers: a length near that of the journal, and any times.
fn bytes_of_numbers(slot: &mut [u8], length: usize, random: &mut Random) {
    in_place(slot, random);
    let length = (length + random.below(64)) as u64;
    slot[..8].copy_from_slice(&length.to_le_bytes());
}

/// A mutated segment.
pub fn segment(input: &[u8], seed: u32) -> Option<Vec<u8>> {
    let random = &mut Random::new(seed);
    let mut segment = Segment::parse(input)?;
    match random.below(16) {
        0 => return None,
        1 => {
            let mut file = segment.encode();
            in_place(&mut file, random);
            return Some(file);
        }
        2..6 => in_place(&mut segment.footer, random),
        6..9 => bytes(&mut segment.footer),
        9 => bytes(&mut segment.data),
        _ => in_place(&mut segment.data, random),
    }
    Some(segment.encode())
}

/// A mutated catalog.
pub fn catalog(input: &[u8], seed: u32) -> Option<Vec<u8>> {
    let random = &mut Random::new(seed);
    let mut database = sealed::database(input).to_vec();
    match random.below(16) {
        0 => return None,
        1 => bytes(&mut database),
        // The header, and thereby the schema's page.
        2 | 3 => {
            let length = database.len().min(100);
            in_place(&mut database[..length], random);
        }
        _ => in_place(&mut database, random),
    }
    Some(sealed::catalog(database))
}
