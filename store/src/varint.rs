//! Variable-length integers (LEB128, zigzag for signed ones) of journals and file indexes.

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The input ends within a value. More input may help.
    Truncated,
    /// The input is invalid. More input does not help.
    Malformed(&'static str),
}

impl DecodeError {
    /// The error as text.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Truncated => "it ends within a value",
            Self::Malformed(why) => why,
        }
    }
}

pub(crate) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_u64(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// An optional text: 0 for none, else its length plus one and its bytes.
pub(crate) fn put_optional_str(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.push(0),
        Some(text) => {
            put_u64(out, text.len() as u64 + 1);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Reads values from the front of a byte slice.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.bytes.split_first().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed("a number is longer than 64 bits"))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.u64()?)
            .map_err(|_| DecodeError::Malformed("a number is longer than 32 bits"))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        let value = self.u64()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, DecodeError> {
        let length = self.u64()?;
        self.text(length)
    }

    pub(crate) fn optional_str(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match self.u64()? {
            0 => Ok(None),
            length => self.text(length - 1).map(Some),
        }
    }

    fn text(&mut self, length: u64) -> Result<&'a str, DecodeError> {
        let split = usize::try_from(length).ok();
        let (text, rest) = split
            .and_then(|length| self.bytes.split_at_checked(length))
            .ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        str::from_utf8(text).map_err(|_| DecodeError::Malformed("a text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back(u: u64, i: i64, text: Option<String>) {
            let mut out = Vec::new();
            put_u64(&mut out, u);
            put_i64(&mut out, i);
            put_optional_str(&mut out, text.as_deref());
            let mut input = Input::new(&out);
            prop_assert_eq!(input.u64(), Ok(u));
            prop_assert_eq!(input.i64(), Ok(i));
            prop_assert_eq!(input.optional_str(), Ok(text.as_deref()));
            prop_assert_eq!(input.remaining(), 0);
        }

        #[test]
        fn any_bytes_decode_to_a_value_or_an_error(bytes: Vec<u8>) {
            let _ = Input::new(&bytes).u64();
            let _ = Input::new(&bytes).optional_str();
        }
    }

    #[test]
    fn overlong_numbers_are_malformed() {
        let bytes = [0xff; 11];
        assert!(matches!(
            Input::new(&bytes).u64(),
            Err(DecodeError::Malformed(_))
        ));
    }
}
