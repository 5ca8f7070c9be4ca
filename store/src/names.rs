//! Names of files, in the catalog and in unsealed journals.

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::time::UtcMs;

/// A time range, from the start of a window of the finest granularity to the end of a later one.
pub type Seen = (UtcMs, UtcMs);

/// Selects names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names<'a> {
    /// This name.
    Exactly(&'a str),
    /// All names below this directory, and the directory itself, because operations can concern it. It has no slash at
    /// its end, so the root is empty.
    Below(&'a str),
    /// All names.
    All,
}

impl Names<'_> {
    /// Whether a name is selected.
    pub fn contain(&self, path: &str) -> bool {
        match self {
            Self::Exactly(name) => path == *name,
            Self::Below(dir) => is_in(path, dir),
            Self::All => true,
        }
    }
}

/// Whether a path is below a directory. The directory has no slash at its end.
pub fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a path is a directory or below it. The directory has no slash at its end.
pub fn is_in(path: &str, dir: &str) -> bool {
    path == dir || is_below(path, dir)
}

/// A name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameSeen {
    /// The file.
    pub key: FileKey,
    /// The name.
    pub path: String,
    /// When the file was first and last seen under this name. `None` for names in a journal.
    pub seen: Option<Seen>,
}

/// When a file was seen, and its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHistory {
    /// When it was first and last seen.
    pub seen: Seen,
    /// Names ordered by time, each with when the file was first and last seen under it. If two overlap, the file had
    /// both names, or had one of them twice.
    pub names: Vec<(String, Seen)>,
}

impl FileHistory {
    /// A file that was seen at this time.
    pub(crate) fn new(seen: Seen) -> Self {
        Self {
            seen,
            names: Vec::new(),
        }
    }

    /// Adds a time at which the file was seen, with its name if known.
    pub(crate) fn add(&mut self, path: Option<&str>, seen: Seen) {
        self.seen = hull(self.seen, seen);
        let Some(path) = path else { return };
        match self.names.iter_mut().find(|(name, _)| name == path) {
            Some((_, known)) => *known = hull(*known, seen),
            None => self.names.push((path.to_owned(), seen)),
        }
    }

    /// Adds the file's history from another store.
    pub(crate) fn merge(&mut self, other: Self) {
        self.seen = hull(self.seen, other.seen);
        for (name, seen) in other.names {
            self.add(Some(&name), seen);
        }
    }

    pub(crate) fn sort(&mut self) {
        self.names.sort_by(|(a, x), (b, y)| (x, a).cmp(&(y, b)));
    }
}

pub(crate) fn hull(a: Seen, b: Seen) -> Seen {
    (a.0.min(b.0), a.1.max(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_directory_is_not_beside_it() {
        assert!(is_below("/mnt/a/b", "/mnt/a") && is_below("/mnt", ""));
        assert!(!is_below("/mnt/ab", "/mnt/a") && !is_below("/mnt/a", "/mnt/a"));
        assert!(is_in("/mnt/a/b", "/mnt/a") && is_in("/mnt/a", "/mnt/a"));
        assert!(is_in("/", "") && !is_in("/mnt/ab", "/mnt/a") && !is_in("(other)", ""));
    }
}
