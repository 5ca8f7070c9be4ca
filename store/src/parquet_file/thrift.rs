//! Walks Thrift's compact protocol without allocating, because the lengths in it are not trusted.
//!
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

/// Deepest nesting of structures and lists. Parquet's structures nest six deep.
const DEEPEST: u8 = 16;

/// The byte after the last field of a structure.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// The bytes still to walk. Each method returns `None` if they are damaged or end too early.
#[derive(Clone, Copy)]
pub(super) struct Walk<'b>(pub(super) &'b [u8]);

/// A field of a structure. Its value follows, unless it is a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) id: i16,
    pub(super) kind: u8,
}

impl Field {
    /// The value, if it is a boolean.
    pub(super) fn flag(self) -> Option<bool> {
        match self.kind {
            TRUE => Some(true),
            FALSE => Some(false),
            _ => None,
        }
    }
}

/// A list or a set. Its elements follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) kind: u8,
    pub(super) count: usize,
}

/// Counts the elements of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elements {
    pub(super) structures: u64,
    pub(super) others: u64,
}

impl<'b> Walk<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A signed number.
    pub(super) fn number(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// A text, or bytes.
    pub(super) fn binary(&mut self) -> Option<&'b [u8]> {
        let count = usize::try_from(self.varint()?).ok()?;
        self.bytes(count)
    }

    /// The field of a structure that begins with the byte `head`, and whose predecessor has the id `last`.
    fn field(&mut self, head: u8, last: i16) -> Option<Field> {
        let id = match head >> 4 {
            0 => i16::try_from(self.number()?).ok()?,
            step => last.checked_add(step.into())?,
        };
        let kind = head & 0x0f;
        Some(Field { id, kind })
    }

    /// The head of a list or a set. Each element takes at least a byte.
    pub(super) fn list(&mut self) -> Option<List> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            count => count.into(),
        };
        let kind = head & 0x0f;
        (count <= self.0.len()).then_some(List { kind, count })
    }

    /// Calls `take` for each field of a structure, after the field's head.
    pub(super) fn fields(
        &mut self,
        mut take: impl FnMut(&mut Self, Field) -> Option<()>,
    ) -> Option<()> {
        let mut last = 0;
        loop {
            let head = self.byte()?;
            if head == STOP {
                return Some(());
            }
            let field = self.field(head, last)?;
            last = field.id;
            take(self, field)?;
        }
    }

    /// Skips the value of a field.
    pub(super) fn skip(&mut self, kind: u8) -> Option<()> {
        self.step_over(kind, DEEPEST, &mut Elements::default())
    }

    /// Skips a structure, and counts the elements of its lists.
    pub(super) fn count(&mut self) -> Option<Elements> {
        let mut elements = Elements::default();
        self.step_over(STRUCT, DEEPEST, &mut elements)?;
        Some(elements)
    }

    fn step_over(&mut self, kind: u8, depth: u8, elements: &mut Elements) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => drop(self.bytes(8)?),
            UUID => drop(self.bytes(16)?),
            BINARY => drop(self.binary()?),
            STRUCT => self.fields(|walk, field| walk.step_over(field.kind, depth, elements))?,
            LIST | SET => {
                let List { kind, count } = self.list()?;
                self.step_over_all(kind, count, depth, elements)?;
            }
            MAP => {
                let count = usize::try_from(self.varint()?).ok()?;
                if count > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..count {
                        self.step_over_all(kinds >> 4, 1, depth, elements)?;
                        self.step_over_all(kinds & 0x0f, 1, depth, elements)?;
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn step_over_all(
        &mut self,
        kind: u8,
        count: usize,
        depth: u8,
        elements: &mut Elements,
    ) -> Option<()> {
        match kind {
            STRUCT => elements.structures += count as u64,
            _ => elements.others += count as u64,
        }
        for _ in 0..count {
            match kind {
                // In a list, a boolean is a byte.
                TRUE | FALSE => drop(self.byte()?),
                kind => self.step_over(kind, depth, elements)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_walked_to_its_end() {
        // Field 1: i32 -3; field 2: a list of two structures; field 40: true; field 41: a text.
        let bytes = [
            0x15, 5, 0x19, 0x2c, 0, 0x15, 2, 0, 0x01, 80, 0x18, 2, b'a', b'b', 0,
        ];
        let mut seen = Vec::new();
        let mut walk = Walk(&bytes);
        let walked = walk.fields(|walk, field| {
            seen.push((field.id, field.flag()));
            walk.skip(field.kind)
        });
        assert!(walked.is_some() && walk.0.is_empty());
        assert_eq!(seen, [(1, None), (2, None), (40, Some(true)), (41, None)]);
        let counted = Walk(&bytes).count().unwrap();
        assert_eq!((counted.structures, counted.others), (2, 0));
        for cut in 0..bytes.len() {
            assert_eq!(Walk(&bytes[..cut]).count(), None, "{cut}");
        }
    }

    #[test]
    fn lengths_beyond_the_end_and_deep_nesting_are_refused() {
        // A list of 2^40 numbers; a text of 2^63 bytes; structures in structures.
        let long = [0x19, 0xf5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0];
        assert_eq!(Walk(&long).count(), None);
        let text = [0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(Walk(&text).count(), None);
        assert_eq!(Walk(&[0x1c; 1 << 20]).count(), None);
        assert_eq!(Walk(&[0x1b; 1 << 20]).count(), None);
    }
}
