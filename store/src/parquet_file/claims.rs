//! The claims in a page's header, and the memory that decoding the page takes.

use parquet::basic::Compression;

use super::budget::Place;
use super::thrift::{Field, I32, STRUCT, Walk};

/// Memory of the length of a text while a page with lengths is decoded. A page has up to two lists of lengths.
const LENGTHS_BYTES: u64 = 8;

const PLAIN: u64 = 0;
const DELTA_LENGTH_BYTE_ARRAY: u64 = 6;
const DELTA_BYTE_ARRAY: u64 = 7;
/// Indexes into a dictionary.
const IN_DICTIONARY: [u64; 2] = [2, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Dictionary,
    DataV2,
}

impl Kind {
    /// A `PageType`, and the id of the field with its header.
    fn of(number: i64) -> Option<(Self, i16)> {
        Some(match number {
            0 => (Self::Data, 5),
            2 => (Self::Dictionary, 7),
            3 => (Self::DataV2, 8),
            _ => return None,
        })
    }
}

/// Size when unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    kind: Kind,
    /// Unpacked size.
    bytes: u64,
    packed_bytes: u64,
    values: u64,
    encoding: u64,
    /// Bytes of the levels, which V2 never packs.
    levels_bytes: u64,
    is_packed: bool,
    /// Length of the header.
    pub(crate) header_bytes: usize,
}

/// Memory that decoding a page takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(super) is_dictionary: bool,
    /// Memory without the values.
    pub(super) bytes: u64,
    pub(super) values: u64,
    /// Bytes that a value may take in addition to its type: the texts of a dictionary repeat, and so do prefixes of
    /// texts.
    pub(super) longest: u64,
}

impl Claims {
    /// Parses the start of a `PageHeader`. `None` if it is damaged or longer than these bytes.
    pub(crate) fn of(whole: &[u8]) -> Option<Self> {
        let mut walk = Walk(whole);
        let (mut kind, mut sizes) = (None, [None; 2]);
        let mut own = Vec::new();
        walk.fields(|walk, field| match (field.id, field.kind) {
            (1, I32) => {
                kind = Some(Kind::of(walk.number()?)?);
                Some(())
            }
            (2 | 3, I32) => {
                sizes[field.id as usize - 2] = Some(u64::try_from(walk.number()?).ok()?);
                Some(())
            }
            (5..=8, STRUCT) => {
                own.push((field.id, Own::of(walk)?));
                Some(())
            }
            _ => walk.skip(field.kind),
        })?;
        let (kind, id) = kind?;
        // The decoder uses the V2 header if there is one.
        let own = match &own[..] {
            [(found, own)] if *found == id => own,
            _ => return None,
        };
        let [encoding, levels_bytes] = own.of_kind(kind)?;
        Some(Self {
            kind,
            bytes: sizes[0]?,
            packed_bytes: sizes[1]?,
            values: own.number(1)?,
            encoding,
            levels_bytes,
            is_packed: own.is_packed,
            header_bytes: whole.len() - walk.0.len(),
        })
    }

    /// Bytes of the page in the file, after its header.
    pub(crate) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    pub(crate) fn is_within(&self, most_bytes: u64, most_values: u64) -> bool {
        self.bytes.max(self.packed_bytes) <= most_bytes && self.values <= most_values
    }

    /// The memory that decoding takes. `content` follows the header. `None` if it cannot be decoded.
    pub(crate) fn held(&self, content: &[u8], place: &Place) -> Option<Held> {
        let is_dictionary = self.kind == Kind::Dictionary;
        let (mut bytes, mut longest) = (self.bytes + self.packed_bytes, 0);
        if is_dictionary {
            bytes += self.values.saturating_mul(place.value_bytes);
            if place.is_text {
                longest = self.longest(&self.unpacked(content, place)?)?;
            }
        } else if [DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY].contains(&self.encoding) {
            self.check_lengths(&self.unpacked(content, place)?, place)?;
            bytes += self.values.saturating_mul(LENGTHS_BYTES);
            if self.encoding == DELTA_BYTE_ARRAY {
                longest = self.bytes;
            }
        } else if place.is_text && self.encoding != PLAIN && !IN_DICTIONARY.contains(&self.encoding)
        {
            return None;
        }
        Some(Held {
            is_dictionary,
            bytes,
            values: if is_dictionary { 0 } else { self.values },
            longest,
        })
    }

    fn unpacked<'c>(&self, content: &'c [u8], place: &Place) -> Option<Content<'c>> {
        if !self.is_packed || place.codec == Compression::UNCOMPRESSED {
            return Some(Content::Plain(content));
        }
        let (levels, packed) =
            content.split_at_checked(usize::try_from(self.levels_bytes).ok()?)?;
        let bytes = usize::try_from(self.bytes.checked_sub(self.levels_bytes)?).ok()?;
        let unpacked = zstd::bulk::decompress(packed, bytes).ok()?;
        Some(Content::Unpacked([levels, &unpacked].concat()))
    }

    /// Length of the longest text of a dictionary.
    fn longest(&self, texts: &[u8]) -> Option<u64> {
        let mut texts = Walk(texts);
        let mut longest = 0;
        for _ in 0..self.values {
            let length = u32::from_le_bytes(texts.bytes(4)?.try_into().ok()?);
            texts.bytes(length as usize)?;
            longest = longest.max(length);
        }
        Some(u64::from(longest))
    }

    /// Checks that a page has no more lengths of texts than claimed values, because the decoder unpacks all lengths at
    /// once.
    fn check_lengths(&self, content: &[u8], place: &Place) -> Option<()> {
        let mut walk = Walk(content);
        if self.kind == Kind::DataV2 {
            walk.bytes(usize::try_from(self.levels_bytes).ok()?)?;
        } else {
            for _ in 0..place.kinds_of_levels {
                let length = u32::from_le_bytes(walk.bytes(4)?.try_into().ok()?);
                walk.bytes(length as usize)?;
            }
        }
        lengths(&mut walk, self.values)?;
        match self.encoding {
            DELTA_BYTE_ARRAY => lengths(&mut walk, self.values),
            _ => Some(()),
        }
    }
}

/// Skips at most `most` numbers in the encoding of packed differences.
///
/// <https://parquet.apache.org/docs/file-format/data-pages/encodings/#DELTAENC>
fn lengths(walk: &mut Walk<'_>, most: u64) -> Option<()> {
    let (of_block, runs) = (walk.varint()?, usize::try_from(walk.varint()?).ok()?);
    let of_run = of_block.checked_div(runs as u64)?;
    let count = walk.varint()?;
    walk.number()?;
    if count > most {
        return None;
    }
    let mut left = count.saturating_sub(1);
    while left > 0 {
        walk.number()?;
        for width in walk.bytes(runs)? {
            if left == 0 {
                break;
            }
            let bits = of_run.checked_mul(u64::from(*width))?;
            walk.bytes(usize::try_from(bits.div_ceil(8)).ok()?)?;
            left = left.saturating_sub(of_run);
        }
        (of_run > 0).then_some(())?;
    }
    Some(())
}

enum Content<'c> {
    Plain(&'c [u8]),
    Unpacked(Vec<u8>),
}

impl std::ops::Deref for Content<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Unpacked(bytes) => bytes,
        }
    }
}

/// The header of one kind of page: its numbers by field id.
struct Own {
    numbers: [Option<u64>; 6],
    is_packed: bool,
}

impl Own {
    fn of(walk: &mut Walk<'_>) -> Option<Self> {
        let mut own = Self {
            numbers: [None; 6],
            is_packed: true,
        };
        walk.fields(|walk, field| match field {
            Field {
                id: id @ 1..=6,
                kind: I32,
            } => {
                own.numbers[id as usize - 1] = Some(u64::try_from(walk.number()?).ok()?);
                Some(())
            }
            // `is_sorted` of a dictionary is field 3.
            Field { id: 7, .. } => {
                own.is_packed = field.flag()?;
                Some(())
            }
            _ => walk.skip(field.kind),
        })?;
        Some(own)
    }

    fn number(&self, field: usize) -> Option<u64> {
        *self.numbers.get(field - 1)?
    }

    /// The encoding, and the number of level bytes that are not packed.
    fn of_kind(&self, kind: Kind) -> Option<[u64; 2]> {
        Some(match kind {
            Kind::Data | Kind::Dictionary => [self.number(2)?, 0],
            Kind::DataV2 => {
                let levels = self.number(5)?.checked_add(self.number(6)?)?;
                [self.number(4)?, levels]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(is_text: bool) -> Place {
        Place {
            bytes: 0..1,
            leaf: 0,
            is_text,
            is_flat: true,
            codec: Compression::UNCOMPRESSED,
            value_bytes: 12,
            kinds_of_levels: 0,
        }
    }

    #[test]
    fn a_page_says_how_much_is_in_it() {
        // A data page with 64 values, 300 bytes in 200, and a dictionary with one value.
        let data = [
            0x15, 0, 0x15, 0xD8, 0x04, 0x15, 0x90, 0x03, 0x2C, 0x15, 0x80, 0x01, 0x15, 0, 0x15, 6,
            0x15, 6, 0, 0,
        ];
        let claims = Claims::of(&data).unwrap();
        assert_eq!(
            (claims.bytes, claims.packed_bytes, claims.values),
            (300, 200, 64)
        );
        assert_eq!(claims.header_bytes, data.len());
        let held = claims.held(&[], &place(true)).unwrap();
        assert_eq!((held.bytes, held.values, held.longest), (500, 64, 0));
        let dictionary = [
            0x15, 4, 0x15, 18, 0x15, 18, 0x4C, 0x15, 2, 0x15, 0, 0x12, 0, 0, 5, 0, 0, 0, b'a',
            b'b', b'c', b'd', b'e',
        ];
        let claims = Claims::of(&dictionary).unwrap();
        assert_eq!(
            (claims.bytes, claims.values, claims.header_bytes),
            (9, 1, 14)
        );
        let held = |content| claims.held(content, &place(true));
        assert_eq!(held(&dictionary[14..]).unwrap().longest, 5);
        assert_eq!(held(&dictionary[14..20]), None);
        for cut in 0..data.len() {
            assert_eq!(Claims::of(&data[..cut]), None);
        }
        for cut in 0..14 {
            assert_eq!(Claims::of(&dictionary[..cut]), None);
        }
    }

    #[test]
    fn a_header_is_of_its_kind_alone_and_without_negative_sizes() {
        let negative = [0x15, 0, 0x15, 1, 0x15, 8, 0x2C, 0x15, 2, 0x15, 0, 0, 0];
        assert_eq!(Claims::of(&negative), None);
        // A V1 data page with an additional V2 header.
        let both = [
            0x15, 0, 0x15, 8, 0x15, 8, 0x2C, 0x15, 2, 0x15, 0, 0, 0x3C, 0x15, 2, 0x15, 0, 0x15, 2,
            0x15, 0, 0x15, 0, 0x15, 0, 0, 0,
        ];
        assert_eq!(Claims::of(&both), None);
    }

    #[test]
    fn lengths_of_texts_are_no_more_than_the_values() {
        // Blocks of 128 in 4 runs; 3 numbers, or 2^31; the first is 1; no differences.
        let three = [0x80, 1, 4, 3, 2, 0, 0, 0, 0, 0];
        let mut walk = Walk(&three);
        assert_eq!(lengths(&mut walk, 3), Some(()));
        assert!(walk.0.is_empty());
        assert_eq!(lengths(&mut Walk(&three), 2), None);
        let many = [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 8, 2, 0, 0, 0, 0, 0];
        assert_eq!(lengths(&mut Walk(&many), 1 << 20), None);
        // Blocks without values, and without runs.
        for block in [[0, 4], [0x7f, 0]] {
            let bytes = [&block[..], &[100, 2], &[0; 100]].concat();
            assert_eq!(lengths(&mut Walk(&bytes), 1 << 20), None);
        }
    }
}
