//! Identifies the store of a file.
//!
//! A store gets a random id when it is created. Its catalog, journals, segments and marks repeat the id. A copy has the
//! id of its original until its first write. Then it takes a new id, and keeps the old ones as its former ids. A catalog
//! names the inode that it was written to, so a copy is noticed.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// Why a file is not read.
pub(crate) const FOREIGN: &str = "it is of another store, or of a copy of this one";

/// The id of a store, written as 32 hexadecimal digits. Zeros in journals without a store.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct StoreId(u128);

impl StoreId {
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(u128::from_le_bytes(bytes)))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for StoreId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = u128::from_str_radix(text, 16).ok();
        let id = id.map(Self).filter(|id| id.to_string() == text);
        id.ok_or("it is not the id of a store")
    }
}

impl From<StoreId> for String {
    fn from(id: StoreId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for StoreId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The ids that a store has had; the last one is current.
pub(crate) type Ids = Arc<[StoreId]>;

/// The ids of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreIds {
    /// The current one.
    pub id: StoreId,
    /// Earlier ones, in their order: ids of the stores that it was copied from.
    pub former: Vec<StoreId>,
    /// Whether the store is a copy that was not recorded into. Its original has the same id.
    pub is_copy: bool,
}

/// The id that a segment or a journal is written under, and the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    pub(crate) id: StoreId,
    pub(crate) parent: Option<StoreId>,
}

impl Identity {
    pub(crate) fn of(ids: &[StoreId]) -> Self {
        let mut last = ids.iter().rev().copied();
        Self {
            id: last.next().unwrap_or_default(),
            parent: last.next(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) => write!(f, "{}<{parent}", self.id),
            None => self.id.fmt(f),
        }
    }
}

impl FromStr for Identity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, parent) = match text.split_once('<') {
            Some((id, parent)) => (id, Some(parent.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            id: id.parse()?,
            parent,
        })
    }
}

/// The ids of the store that most of these files belong to; the last one is current.
pub(crate) fn of_most(files: &[Identity]) -> Vec<StoreId> {
    let past = |of: &Identity| {
        let mut ids = vec![of.id];
        let mut parent = of.parent;
        while let Some(id) = parent.filter(|id| !ids.contains(id)) {
            ids.push(id);
            let known = files.iter().filter(|known| known.id == id);
            parent = known.filter_map(|known| known.parent).next();
        }
        ids.reverse();
        ids
    };
    let mut distinct = files.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let count = |ids: &Vec<StoreId>| {
        let of = files.iter().filter(|of| ids.contains(&of.id));
        (of.count(), ids.len())
    };
    distinct
        .iter()
        .map(past)
        .max_by_key(count)
        .unwrap_or_default()
}

/// The file that something was written to: its inode, and the inode's birth time. No copy has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) inode: u64,
    /// 0 if the file system does not record it.
    pub(crate) birth_ns: u64,
}

impl Place {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&file.metadata()?))
    }
}

impl From<&Metadata> for Place {
    fn from(metadata: &Metadata) -> Self {
        let birth = metadata.created().ok();
        let birth = birth.and_then(|birth| birth.duration_since(UNIX_EPOCH).ok());
        Self {
            inode: metadata.ino(),
            birth_ns: birth.map_or(0, |birth| birth.as_nanos() as u64),
        }
    }
}

/// Whether both are of the same file or directory, as long as one of them is open.
pub(crate) fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_as_they_are_written() {
        let [a, b] = [StoreId(1), StoreId(u128::MAX)];
        for ids in [&[a][..], &[a, b]] {
            let identity = Identity::of(ids);
            assert_eq!(identity.to_string().parse(), Ok(identity));
        }
        for text in ["", "1", "<", &format!("+{}", &a.to_string()[1..])] {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
    }

    #[test]
    fn files_are_of_the_store_that_most_of_them_are_of_and_of_its_past() {
        let of = |id, parent: Option<u128>| Identity {
            id: StoreId(id),
            parent: parent.map(StoreId),
        };
        let own = [of(1, None), of(2, Some(1)), of(1, None)];
        let foreign = [of(7, None), of(8, Some(7))];
        let all = [&own[..], &foreign].concat();
        assert_eq!(of_most(&all), [StoreId(1), StoreId(2)]);
        assert_eq!(of_most(&[]), []);
        let round = [of(1, Some(2)), of(2, Some(1))];
        assert_eq!(of_most(&round).len(), 2);
    }
}
