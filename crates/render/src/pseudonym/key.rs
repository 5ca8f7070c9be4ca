//! The key of pseudonyms, and the format of its file.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// First line of a key file. Its version covers everything that uses the key.
const HEADER: &str = "trackiops anonymization key 1";
/// Length of the AES-256-SIV key, bytes: it consists of two AES-256 keys.
pub(super) const WORDS_BYTES: usize = 64;
/// Length of the FF1 key, bytes.
pub(super) const NUMBERS_BYTES: usize = 32;

/// A key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    pub(super) words: [u8; WORDS_BYTES],
    pub(super) numbers: [u8; NUMBERS_BYTES],
}

/// Never shows the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// A text is not a key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The first line is not that of a key file.
    #[error(
        "it is no key file of TrackIOps, or of a later version; `trackiops anonymize-key` makes one"
    )]
    NoKey,
    /// The first line is right, but the rest is damaged.
    #[error("the key in it is damaged; restore it from a copy")]
    Damaged,
}

impl Key {
    /// Random bytes that a key needs.
    pub const BYTES: usize = WORDS_BYTES + NUMBERS_BYTES;

    /// Makes a key from random bytes.
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

    /// Content of its file.
    pub fn to_text(&self) -> String {
        let bytes = [self.words.as_slice(), &self.numbers].concat();
        format!("{HEADER}\n{}\n", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Parses the content of a key file.
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
