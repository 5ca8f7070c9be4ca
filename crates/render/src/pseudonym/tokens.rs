//! Tokens of single names and numbers, and the way back.

use std::collections::HashMap;

use aes::Aes256;
use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fpe::ff1::{BinaryNumeralString, FF1};
use trackiops_schemas::identity::{MISSED, OTHERS};

use super::key::Key;

/// Largest number of cached components, and of cached numbers: names recur in many rows.
const MOST_REMEMBERED: usize = 1 << 17;

/// Direction of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From names to pseudonyms.
    Hide,
    /// From pseudonyms to names.
    Reveal,
}

/// This key did not make the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` was not made by this key")]
pub struct Unknown(pub String);

/// Translates with one key in one direction.
pub struct Pseudonyms {
    way: Way,
    words: Aes256Siv,
    numbers: FF1<Aes256>,
    known_words: HashMap<Box<str>, Box<str>>,
    known_numbers: HashMap<(&'static str, u64), u64>,
}

impl Pseudonyms {
    /// Translates with `key` in the direction `way`.
    pub fn new(key: &Key, way: Way) -> Self {
        // The radix is a valid constant, so this cannot fail.
        let numbers = FF1::new(&key.numbers, 2).unwrap_or_else(|_| unreachable!("radix 2"));
        Self {
            way,
            words: Aes256Siv::new(&key.words.into()),
            numbers,
            known_words: HashMap::new(),
            known_numbers: HashMap::new(),
        }
    }

    /// Translates a component of a path, or a name without components.
    pub fn word(&mut self, word: &str) -> Result<String, Unknown> {
        if let Some(known) = self.known_words.get(word) {
            return Ok(known.to_string());
        }
        let made = match self.way {
            Way::Hide => self.hide(word),
            Way::Reveal => self.reveal(word),
        };
        let made = made.ok_or_else(|| Unknown(word.to_owned()))?;
        if self.known_words.len() >= MOST_REMEMBERED {
            self.known_words.clear();
        }
        self.known_words.insert(word.into(), made.as_str().into());
        Ok(made)
    }

    fn hide(&mut self, word: &str) -> Option<String> {
        let hidden = self.words.encrypt(NO_HEADERS, word.as_bytes()).ok()?;
        Some(URL_SAFE_NO_PAD.encode(hidden))
    }

    fn reveal(&mut self, word: &str) -> Option<String> {
        let hidden = URL_SAFE_NO_PAD.decode(word).ok()?;
        let word = self.words.decrypt(NO_HEADERS, &hidden).ok()?;
        String::from_utf8(word).ok()
    }

    /// Translates each component of a path. `(other)` and `(missed)`, rows that stand for no single file, stay.
    pub fn path(&mut self, path: &str) -> Result<String, Unknown> {
        if [OTHERS, MISSED].contains(&path) {
            return Ok(path.to_owned());
        }
        let mut made = String::with_capacity(2 * path.len());
        for (i, word) in path.split('/').enumerate() {
            if i > 0 {
                made.push('/');
            }
            if !word.is_empty() {
                made += &self.word(word)?;
            }
        }
        Ok(made)
    }

    /// Translates `server:/export`: the server, whose address may contain colons, and the path.
    pub fn mount(&mut self, mount: &str) -> Result<String, Unknown> {
        match mount.find(":/") {
            Some(at) => {
                let server = self.word(&mount[..at])?;
                Ok(format!("{server}:{}", self.path(&mount[at + 1..])?))
            }
            None => self.word(mount),
        }
    }

    /// Translates the path of a cgroup. The number of a cgroup without a known path stays.
    pub fn cgroup(&mut self, cgroup: &str) -> Result<String, Unknown> {
        match is_id(cgroup) {
            true => Ok(cgroup.to_owned()),
            false => self.path(cgroup),
        }
    }

    /// Translates the number of a user.
    pub fn uid(&mut self, uid: u32) -> u32 {
        let made = self.number("uid", uid.into(), size_of::<u32>());
        u32::try_from(made).unwrap_or(u32::MAX)
    }

    /// Translates a 64-bit number. Each column has different pseudonyms, because the same number has another meaning there.
    pub fn id(&mut self, column: &'static str, number: u64) -> u64 {
        self.number(column, number, size_of::<u64>())
    }

    fn number(&mut self, column: &'static str, number: u64, bytes: usize) -> u64 {
        if let Some(known) = self.known_numbers.get(&(column, number)) {
            return *known;
        }
        let plain = BinaryNumeralString::from_bytes_le(&number.to_le_bytes()[..bytes]);
        let made = match self.way {
            Way::Hide => self.numbers.encrypt(column.as_bytes(), &plain),
            Way::Reveal => self.numbers.decrypt(column.as_bytes(), &plain),
        };
        // FF1 accepts numbers of 32 and of 64 bits, so this cannot fail.
        let made = made
            .unwrap_or_else(|_| unreachable!("{bytes} bytes"))
            .to_bytes_le();
        let mut all = [0; size_of::<u64>()];
        all[..made.len()].copy_from_slice(&made);
        let made = u64::from_le_bytes(all);
        if self.known_numbers.len() >= MOST_REMEMBERED {
            self.known_numbers.clear();
        }
        self.known_numbers.insert((column, number), made);
        made
    }
}

/// No associated data, so that a component has the same token everywhere.
const NO_HEADERS: [&[u8]; 0] = [];

/// Whether a text is not a name and stays as it is.
pub(super) fn is_no_name(text: &str) -> bool {
    [OTHERS, MISSED].contains(&text) || is_id(text)
}

/// `?` and the number of a cgroup that was gone before its path was looked up: it reveals no name.
fn is_id(cgroup: &str) -> bool {
    let digits = cgroup.strip_prefix('?');
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(seed: u8) -> (Pseudonyms, Pseudonyms) {
        let key = Key::new(&[seed; Key::BYTES]);
        (
            Pseudonyms::new(&key, Way::Hide),
            Pseudonyms::new(&key, Way::Reveal),
        )
    }

    #[test]
    fn a_component_is_the_same_token_wherever_it_stands() {
        let (mut hide, _) = pair(1);
        let home = hide.word("home").unwrap();
        let path = hide.path("/mnt/home/a b").unwrap();
        assert_eq!(path.split('/').count(), 4);
        assert_eq!(path.split('/').nth(2), Some(home.as_str()));
        let mount = hide.mount("[fe80::1]:/home").unwrap();
        assert_eq!(mount.split_once(":/").unwrap().1, home);
        assert_eq!(hide.cgroup("/home").unwrap(), format!("/{home}"));
        assert!(!path.contains("home"));
        // Keys stay valid forever, so their results must never change.
        assert_eq!(home, "of8NMpRBMKOLeDLKpuK_EK5ub1U");
    }

    #[test]
    fn what_is_no_name_stays() {
        let (mut hide, mut reveal) = pair(1);
        for none in [OTHERS, MISSED] {
            assert_eq!(hide.path(none).unwrap(), none);
            assert_eq!(reveal.path(none).unwrap(), none);
        }
        assert_eq!(hide.path("/").unwrap(), "/");
        assert_eq!(hide.cgroup("?77").unwrap(), "?77");
        assert_eq!(reveal.cgroup("?77").unwrap(), "?77");
    }

    #[test]
    fn another_key_is_told() {
        let (mut hide, _) = pair(1);
        let (_, mut reveal) = pair(2);
        let token = hide.word("home").unwrap();
        assert_eq!(reveal.word(&token), Err(Unknown(token)));
        for plain in ["home", "", "AAAA", "a.b"] {
            assert!(reveal.word(plain).is_err(), "{plain}");
        }
    }

    #[test]
    fn the_longest_names_have_tokens_that_are_longer_than_a_name_may_be() {
        let (mut hide, mut reveal) = pair(1);
        for (bytes, chars) in [(1, 23), (175, 255), (176, 256), (255, 362)] {
            let name = "n".repeat(bytes);
            let token = hide.word(&name).unwrap();
            assert_eq!(token.len(), chars, "{bytes}");
            assert_eq!(reveal.word(&token), Ok(name));
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "\\PC{0,12}|[/:?\\n0-9a]{0,12}", id: u64, uid: u32) {
            let (mut hide, mut reveal) = pair(3);
            let there = hide.path(&text).unwrap();
            prop_assert_eq!(reveal.path(&there), Ok(text.clone()));
            let there = hide.mount(&text).unwrap();
            prop_assert_eq!(reveal.mount(&there), Ok(text.clone()));
            let there = hide.word(&text).unwrap();
            prop_assert_eq!(reveal.word(&there), Ok(text));
            let there = hide.id("fileid", id);
            prop_assert_eq!(reveal.id("fileid", there), id);
            prop_assert_ne!(there, hide.id("file_key", id));
            let there = hide.uid(uid);
            prop_assert_eq!(reveal.uid(there), uid);
        }

        #[test]
        fn every_cgroup_comes_back(cgroup in "(/\\PC{0,12})|(\\?[0-9]{1,9})|(\\?\\PC{0,3})|") {
            let (mut hide, mut reveal) = pair(3);
            let there = hide.cgroup(&cgroup).unwrap();
            prop_assert_eq!(reveal.cgroup(&there), Ok(cgroup));
        }
    }
}
