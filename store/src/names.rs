//! The names of files, in the catalog and in journals that are not sealed yet.

use std::collections::HashMap;

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

/// For each mount the directories, without a slash at their ends, at which it begins on its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trunks {
    /// Where it was mounted, deepest first.
    points: HashMap<String, Vec<String>>,
    /// What is known of a mount that was not seen.
    names: HashMap<Option<String>, InCommon>,
}

/// What the names of a mount's files have in common, in whole components.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InCommon {
    path: String,
    /// Whether all the names are this path. Otherwise it is a directory, and may be a name itself.
    is_the_only_one: bool,
}

impl InCommon {
    fn dir(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((parent, _)) if self.is_the_only_one => parent,
            _ => &self.path,
        }
    }
}

impl Trunks {
    /// That of a mount, or of what is of no known mount, which holds a path.
    pub fn of(&self, mount: Option<&str>, path: &str) -> &str {
        let points = mount.and_then(|mount| self.points.get(mount));
        let mut points = points.into_iter().flatten();
        let point = points.find(|point| is_in(path, point));
        let names = || self.names.get(&mount.map(str::to_owned));
        let dir = point
            .map(String::as_str)
            .or_else(|| names().map(InCommon::dir));
        dir.unwrap_or("")
    }

    /// Takes into account where a mount was mounted.
    pub(crate) fn add_mount_point(&mut self, mount: &str, path: &str) {
        let points = self.points.entry(mount.to_owned()).or_default();
        points.push(path.trim_end_matches('/').to_owned());
        points.sort_by_key(|point| std::cmp::Reverse(point.len()));
        points.dedup();
    }

    /// Takes a name into account. What is no path, such as `(other)`, has no directory.
    pub(crate) fn add(&mut self, mount: Option<&str>, path: &str) {
        if !path.starts_with('/') {
            return;
        }
        match self.names.get_mut(&mount.map(str::to_owned)) {
            Some(known) if known.path == path => {}
            Some(known) => {
                known.path.truncate(in_common(&known.path, path));
                known.is_the_only_one = false;
            }
            None => {
                let names = InCommon {
                    path: path.to_owned(),
                    is_the_only_one: true,
                };
                self.names.insert(mount.map(str::to_owned), names);
            }
        }
    }
}

/// How much of two paths is the same, in whole components, bytes.
fn in_common(a: &str, b: &str) -> usize {
    let mut length = 0;
    for (x, y) in a.split('/').zip(b.split('/')) {
        if x != y {
            break;
        }
        length += x.len() + 1;
    }
    length.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trunk_is_made_of_whole_components() {
        let trunk = |paths: &[&str]| {
            let mut trunks = Trunks::default();
            paths.iter().for_each(|path| trunks.add(None, path));
            trunks.of(None, "/").to_owned()
        };
        assert_eq!(trunk(&["/mnt/nfs/a/x"]), "/mnt/nfs/a");
        assert_eq!(trunk(&["/mnt/nfs/a/x", "/mnt/nfs/ab/x"]), "/mnt/nfs");
        assert_eq!(
            trunk(&["/mnt/nfs/a/x", "/mnt/nfs/y", "(other)"]),
            "/mnt/nfs"
        );
        // An operation is about the directory that the mount begins with.
        assert_eq!(trunk(&["/mnt/nfs", "/mnt/nfs/a/x"]), "/mnt/nfs");
        assert_eq!(trunk(&["/mnt/nfs/a/x", "/mnt/nfs"]), "/mnt/nfs");
        assert_eq!(trunk(&["/mnt/nfs", "/mnt/nfs"]), "/mnt");
        assert_eq!(trunk(&["/mnt/nfs", "/mnt/nfs-2/x", "/mnt/nfs/x"]), "/mnt");
        assert_eq!(trunk(&["/mnt/x", "/srv/x"]), "");
        assert_eq!(trunk(&["/x", "/mnt/x"]), "");
        assert_eq!(trunk(&["(other)"]), "");
    }

    #[test]
    fn a_mount_begins_where_it_was_mounted_if_that_was_seen() {
        let mut trunks = Trunks::default();
        trunks.add(Some("s:/e"), "/mnt/e/a/x");
        for point in ["/mnt/e", "/", "/mnt/e/a", "/mnt/e"] {
            trunks.add_mount_point("s:/e", point);
        }
        assert_eq!(trunks.of(Some("s:/e"), "/mnt/e/b/x"), "/mnt/e");
        assert_eq!(trunks.of(Some("s:/e"), "/mnt/e/a/x"), "/mnt/e/a");
        assert_eq!(trunks.of(Some("s:/e"), "/mnt/e/a"), "/mnt/e/a");
        assert_eq!(trunks.of(Some("s:/e"), "/srv/x"), "");
        trunks.add(Some("s:/f"), "/mnt/f/a/x");
        assert_eq!(trunks.of(Some("s:/f"), "/mnt/f/a/x"), "/mnt/f/a");
    }

    #[test]
    fn below_a_directory_is_not_beside_it() {
        assert!(is_below("/mnt/a/b", "/mnt/a") && is_below("/mnt", ""));
        assert!(!is_below("/mnt/ab", "/mnt/a") && !is_below("/mnt/a", "/mnt/a"));
        assert!(is_in("/mnt/a/b", "/mnt/a") && is_in("/mnt/a", "/mnt/a"));
        assert!(is_in("/", "") && !is_in("/mnt/ab", "/mnt/a") && !is_in("(other)", ""));
    }
}
