//! Checks that anonymized rows contain no names, independently of the code that replaced them.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use arrow::array::RecordBatch;

use super::columns::{TranslateError, apply, is_vocabulary, texts};
use super::key::Key;
use super::tokens::{self, Pseudonyms, Way};

/// Components up to this length occur in any text by chance, and are too short to reveal much.
const SHORT: usize = 2;
/// Longest word in the vocabulary of NFS and of device numbers, bytes.
const LONGEST_OF_VOCABULARY: usize = 64;

/// Anonymized rows failed the check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A column would reveal a name.
    #[error("the column {column} would tell the name `{name}`: nothing is written; report this")]
    Told {
        /// The column.
        column: String,
        /// The name.
        name: String,
    },
    /// Revealing the rows does not give the originals.
    #[error(
        "what was made of some rows does not lead back to them: nothing is written; report this"
    )]
    NoWayBack,
    /// The rows cannot be revealed.
    #[error(
        "what was made of some rows does not lead back to them ({0}): nothing is written; report this"
    )]
    Lost(#[from] TranslateError),
}

/// Compares originals with anonymized rows. It keeps eight bytes per component.
pub struct Check {
    reveal: Pseudonyms,
    hasher: RandomState,
    /// Hashes of the originals' components.
    originals: HashSet<u64>,
}

impl Check {
    /// Checks rows that this key made.
    pub fn new(key: &Key) -> Self {
        Self {
            reveal: Pseudonyms::new(key, Way::Reveal),
            hasher: RandomState::new(),
            originals: HashSet::new(),
        }
    }

    /// Checks that `hidden` leads back to `original`, and remembers the names of `original`.
    pub fn leads_back(
        &mut self,
        original: &RecordBatch,
        hidden: &RecordBatch,
    ) -> Result<(), CheckError> {
        let Self {
            hasher, originals, ..
        } = self;
        texts(original, &mut |column, text| {
            if !is_vocabulary(column) {
                originals.extend(components(text).map(|name| hasher.hash_one(name)));
            }
        });
        match apply(hidden, &mut self.reveal)? == *original {
            true => Ok(()),
            false => Err(CheckError::NoWayBack),
        }
    }

    /// Checks that rows of the output file contain no remembered names, and only texts that the key made.
    pub fn tells_nothing(&mut self, written: &RecordBatch) -> Result<(), CheckError> {
        let Self {
            hasher, originals, ..
        } = self;
        let mut told = None;
        texts(written, &mut |column, text| {
            let name = match is_vocabulary(column) {
                true => (!is_of_vocabulary(text)).then_some(text),
                false => components(text).find(|name| originals.contains(&hasher.hash_one(name))),
            };
            if let Some(name) = name {
                told.get_or_insert_with(|| (column.to_owned(), name.to_owned()));
            }
        });
        if let Some((column, name)) = told {
            return Err(CheckError::Told { column, name });
        }
        apply(written, &mut self.reveal)?;
        Ok(())
    }
}

/// The names in a text.
fn components(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(['/', ':']);
    parts.filter(|part| part.chars().count() > SHORT && !tokens::is_no_name(part))
}

/// Procedures, connections and device numbers.
fn is_of_vocabulary(text: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "_-:()?. ".contains(c);
    text.len() <= LONGEST_OF_VOCABULARY && text.chars().all(is_known)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    use super::*;

    fn batch(columns: &[(&str, &str)]) -> RecordBatch {
        let columns = columns.iter().map(|(name, text)| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![*text]));
            (*name, array)
        });
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn hidden(key: &Key, batch: &RecordBatch) -> RecordBatch {
        apply(batch, &mut Pseudonyms::new(key, Way::Hide)).unwrap()
    }

    #[test]
    fn a_name_that_would_be_told_is_found() {
        let key = Key::new(&[7; Key::BYTES]);
        let mut check = Check::new(&key);
        let plain = batch(&[("path", "/mnt/secret/a"), ("host", "web-1"), ("op", "READ")]);
        let there = hidden(&key, &plain);
        check.leads_back(&plain, &there).unwrap();
        check.tells_nothing(&there).unwrap();
        let whole = &there.column(0).clone();
        let token = whole.as_any().downcast_ref::<StringArray>().unwrap();
        for (column, text) in [
            (
                "path",
                token.value(0).rsplit_once('/').unwrap().0.to_owned() + "/secret",
            ),
            ("host", "secret".to_owned()),
            ("cgroup", "/secret".to_owned()),
            ("user", "secret".to_owned()),
            ("op", "/mnt/x".to_owned()),
        ] {
            let leaking = batch(&[(column, &text)]);
            let found = check.tells_nothing(&leaking);
            assert!(matches!(found, Err(CheckError::Told { .. })), "{column}");
        }
        // It is not one of the names, but the key did not make it either.
        let foreign = batch(&[("host", "db-7")]);
        assert!(matches!(
            check.tells_nothing(&foreign),
            Err(CheckError::Lost(_))
        ));
    }

    #[test]
    fn what_does_not_lead_back_is_found() {
        let key = Key::new(&[7; Key::BYTES]);
        let mut check = Check::new(&key);
        let (one, other) = (batch(&[("path", "/one")]), batch(&[("path", "/other")]));
        let result = check.leads_back(&one, &hidden(&key, &other));
        assert!(matches!(result, Err(CheckError::NoWayBack)));
        let another = Key::new(&[8; Key::BYTES]);
        let result = check.leads_back(&one, &hidden(&another, &one));
        assert!(matches!(result, Err(CheckError::Lost(_))));
    }
}
