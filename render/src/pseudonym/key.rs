//! The key of pseudonyms, and the text that a key file holds.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What a key file begins with: the version of everything that is done with the key.
const HEADER: &str = "trackiops anonymization key 1";
/// Bytes of the key of AES-256-SIV, which is two keys of AES-256.
pub(super) const WORDS_BYTES: usize = 64;
/// Bytes of the key of FF1.
pub(super) const NUMBERS_BYTES: usize = 32;

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub(super) words: [u8; WORDS_BYTES],
    pub(super) numbers: [u8; NUMBERS_BYTES],
}

/// It is never shown.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// What a file holds is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It begins otherwise.
    #[error(
        "it is no key file of TrackIOps, or of a later version; `trackiops anonymize-key` makes one"
    )]
    NoKey,
    /// It begins like one.
    #[error("the key in it is damaged; restore it from a copy")]
    Damaged,
}

impl Key {
    /// So many random bytes make a key.
    pub const BYTES: usize = WORDS_BYTES + NUMBERS_BYTES;

    /// The key of random bytes.
    pub fn new(random: &[u8; Self::BYTES]) -> Self {
        let mut key = Self {
            words: [0; WORDS_BYTES],
            numbers: [0; NUMBERS_BYTES],
        };
        let (words, numbers) = random.split_at(WORDS_BYTES);
        key.words.copy_from_slice(words);
        key.numbers.copy_from_slice(numbers);
        key
    }

    /// What its file holds.
    pub fn to_text(&self) -> String {
        let bytes = [self.words.as_slice(), &self.numbers].concat();
        format!("{HEADER}\n{}\n", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The key of a file.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let (header, rest) = text.split_once('\n').ok_or(KeyError::NoKey)?;
        if header != HEADER {
            return Err(KeyError::NoKey);
        }
        let bytes = URL_SAFE_NO_PAD.decode(rest.trim_end());
        let bytes = bytes.ok().and_then(|bytes| bytes.try_into().ok());
        Ok(Self::new(&bytes.ok_or(KeyError::Damaged)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_and_half_of_one_does_not() {
        let key = Key::new(&std::array::from_fn(|i| i as u8));
        let text = key.to_text();
        assert_eq!(Key::parse(&text).as_ref(), Ok(&key));
        assert_eq!(Key::parse(&text[..text.len() - 5]), Err(KeyError::Damaged));
        for other in ["", "\n", "PRIVATE KEY\nabc\n"] {
            assert_eq!(Key::parse(other), Err(KeyError::NoKey), "{other}");
        }
        assert_eq!(format!("{key:?}"), "Key");
    }
}
