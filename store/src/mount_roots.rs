//! The directories at which mounts begin on their hosts.

use std::collections::HashMap;

use crate::names::is_in;

/// For each mount, the directories at which it begins on its host, without a slash at their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountRoots {
    /// Mount points of mounts, deepest first.
    points: HashMap<String, Vec<String>>,
    /// Common directories of names, for mounts without a known mount point.
    names: HashMap<Option<String>, InCommon>,
}

/// The longest common prefix of the names of a mount's files, in whole components.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InCommon {
    path: String,
    /// Whether all names are this path. Otherwise it is a directory, which may also be a name.
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

impl MountRoots {
    /// The directory at which a mount begins on its host. If it has several mount points, the one
    /// that contains `path` counts. `None` stands for files without a known mount.
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

    /// Adds a mount point.
    pub(crate) fn add_mount_point(&mut self, mount: &str, path: &str) {
        let points = self.points.entry(mount.to_owned()).or_default();
        points.push(path.trim_end_matches('/').to_owned());
        points.sort_by_key(|point| std::cmp::Reverse(point.len()));
        points.dedup();
    }

    /// Adds a name. Ignores names that are not paths, such as `(other)`.
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

/// Length of the common prefix of two paths, in whole components, bytes.
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
    fn a_root_is_made_of_whole_components() {
        let root = |paths: &[&str]| {
            let mut mount_roots = MountRoots::default();
            paths.iter().for_each(|path| mount_roots.add(None, path));
            mount_roots.of(None, "/").to_owned()
        };
        assert_eq!(root(&["/mnt/nfs/a/x"]), "/mnt/nfs/a");
        assert_eq!(root(&["/mnt/nfs/a/x", "/mnt/nfs/ab/x"]), "/mnt/nfs");
        assert_eq!(root(&["/mnt/nfs/a/x", "/mnt/nfs/y", "(other)"]), "/mnt/nfs");
        // An operation can concern the directory at which the mount begins.
        assert_eq!(root(&["/mnt/nfs", "/mnt/nfs/a/x"]), "/mnt/nfs");
        assert_eq!(root(&["/mnt/nfs/a/x", "/mnt/nfs"]), "/mnt/nfs");
        assert_eq!(root(&["/mnt/nfs", "/mnt/nfs"]), "/mnt");
        assert_eq!(root(&["/mnt/nfs", "/mnt/nfs-2/x", "/mnt/nfs/x"]), "/mnt");
        assert_eq!(root(&["/mnt/x", "/srv/x"]), "");
        assert_eq!(root(&["/x", "/mnt/x"]), "");
        assert_eq!(root(&["(other)"]), "");
    }

    #[test]
    fn a_mount_begins_where_it_was_mounted_if_that_was_seen() {
        let mut mount_roots = MountRoots::default();
        mount_roots.add(Some("s:/e"), "/mnt/e/a/x");
        for point in ["/mnt/e", "/", "/mnt/e/a", "/mnt/e"] {
            mount_roots.add_mount_point("s:/e", point);
        }
        assert_eq!(mount_roots.of(Some("s:/e"), "/mnt/e/b/x"), "/mnt/e");
        assert_eq!(mount_roots.of(Some("s:/e"), "/mnt/e/a/x"), "/mnt/e/a");
        assert_eq!(mount_roots.of(Some("s:/e"), "/mnt/e/a"), "/mnt/e/a");
        assert_eq!(mount_roots.of(Some("s:/e"), "/srv/x"), "");
        mount_roots.add(Some("s:/f"), "/mnt/f/a/x");
        assert_eq!(mount_roots.of(Some("s:/f"), "/mnt/f/a/x"), "/mnt/f/a");
    }
}
