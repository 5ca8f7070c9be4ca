//! The names of files, in the catalog and in journals that are not sealed yet.

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::time::UtcMs;

/// From the start of a first to the end of a last window of the finest granularity.
pub type Seen = (UtcMs, UtcMs);

/// Which names are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names<'a> {
    /// This one.
    Exactly(&'a str),
    /// A directory's own, as operations are about it, and those below it. It is written without a slash at its end: the root is empty.
    Below(&'a str),
    /// All.
    All,
}

impl Names<'_> {
    /// Whether a name is one of them.
    pub fn contain(&self, path: &str) -> bool {
        match self {
            Self::Exactly(name) => path == *name,
            Self::Below(dir) => is_in(path, dir),
            Self::All => true,
        }
    }
}

/// Whether a path is below a directory, which is written without a slash at its end.
pub fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a path is a directory or below it. The directory is written without a slash at its end.
pub fn is_in(path: &str, dir: &str) -> bool {
    path == dir || is_below(path, dir)
}

/// A name that a file had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameSeen {
    /// The file.
    pub key: FileKey,
    /// The name.
    pub path: String,
    /// When it was first and last seen under it; `None` in a journal, which was not read for that.
    pub seen: Option<Seen>,
}

/// What is known of a file in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHistory {
    /// When it was first and last seen.
    pub seen: Seen,
    /// Its names, each with when it was first and last seen under it, in the order of these times. Two that overlap were
    /// both its names, or it had one of them twice.
    pub names: Vec<(String, Seen)>,
}

impl FileHistory {
    /// A file that was seen then.
    pub(crate) fn new(seen: Seen) -> Self {
        Self {
            seen,
            names: Vec::new(),
        }
    }

    /// Adds a time at which it was seen under a name, if it had one that is known.
    pub(crate) fn add(&mut self, path: Option<&str>, seen: Seen) {
        self.seen = hull(self.seen, seen);
        let Some(path) = path else { return };
        match self.names.iter_mut().find(|(name, _)| name == path) {
            Some((_, known)) => *known = hull(*known, seen),
            None => self.names.push((path.to_owned(), seen)),
        }
    }

    /// Adds what another store knows of the file.
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
