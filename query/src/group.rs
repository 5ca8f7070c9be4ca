//! What rows are added up to: files, directories, mounts, hosts.

use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::identity::FileKey;
use trackiops_store::{Snapshot, Trunks, is_below};

use crate::error::QueryError;
use crate::file::FileSelector;
use crate::merge::{File, HostIndex};

/// What a row of the answer stands for, beside its window and host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A file, whoever used it and whatever its name.
    #[default]
    File,
    /// What one tenant did with a file.
    Tenant,
    /// A name on a mount, whichever files had it.
    Name,
    /// All files below a directory that is so many components below a directory that is given, or else below the one where the
    /// mount was mounted. What is less deep is a row of its own directory.
    Dir {
        /// The number of components.
        depth: usize,
    },
    /// All files of a mount.
    Mount,
    /// All files.
    Host,
}

/// Rows cannot be grouped by that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rows are not grouped by `{0}`: write file, dir, mount, tenant or host")]
pub struct ByError(String);

impl FromStr for By {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "file" => Ok(Self::File),
            "tenant" => Ok(Self::Tenant),
            "dir" => Ok(Self::Dir { depth: 1 }),
            "mount" => Ok(Self::Mount),
            "host" => Ok(Self::Host),
            _ => Err(ByError(text.into())),
        }
    }
}

impl By {
    /// The tenant as far as it tells rows apart.
    pub fn tenant(self, tenant: Option<&str>) -> Option<Arc<str>> {
        tenant.filter(|_| self == Self::Tenant).map(Into::into)
    }

    /// Whether rows are told apart by their names and mounts.
    pub fn needs_names(self) -> bool {
        matches!(self, Self::Name | Self::Dir { .. } | Self::Mount)
    }

    /// Whether a row is of one file.
    pub fn is_of_files(self) -> bool {
        matches!(self, Self::File | Self::Tenant)
    }
}

/// What rows with equal values of are added up, beside window, host and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Of {
    /// A file.
    File(FileKey),
    /// A name: the path, or `MAJOR:MINOR:FILEID` of a file of which it is not known.
    Name(Option<Arc<str>>, Arc<str>),
    /// A directory of a mount; `None` for files whose names are not known.
    Dir(Option<Arc<str>>, Option<Arc<str>>),
    /// A mount, where known.
    Mount(Option<Arc<str>>),
    /// A host.
    Host(HostIndex),
}

/// What is needed to find out to what a row belongs.
#[derive(Debug, Default)]
pub struct Grouping {
    /// What a row of the answer stands for.
    pub by: By,
    /// Directories below which the depth counts, deepest first.
    dirs: Vec<String>,
    trunks: Trunks,
}

impl Grouping {
    /// Groups rows `by`, of the selected files.
    pub fn new(snapshot: &Snapshot, by: By, files: &[FileSelector]) -> Result<Self, QueryError> {
        let mut grouping = Self {
            by,
            ..Self::default()
        };
        if let By::Dir { .. } = by {
            let dirs = files.iter().filter_map(|selector| match selector {
                FileSelector::Below(dir) => Some(dir.clone()),
                _ => None,
            });
            grouping.dirs = dirs.collect();
            grouping
                .dirs
                .sort_by_key(|dir| std::cmp::Reverse(dir.len()));
            grouping.trunks = snapshot.trunks()?;
        }
        Ok(grouping)
    }

    /// To what a file's rows belong.
    pub fn of(&self, host: HostIndex, file: &File) -> Of {
        let mount = || file.mount.as_deref().map(Into::into);
        match self.by {
            By::File | By::Tenant => Of::File(file.key),
            By::Name => Of::Name(mount(), file.name().into()),
            By::Dir { depth } => {
                let dir = file.path.as_deref().map(|path| self.dir(file, path, depth));
                Of::Dir(mount(), dir.map(Into::into))
            }
            By::Mount => Of::Mount(mount()),
            By::Host => Of::Host(host),
        }
    }

    fn dir<'p>(&self, file: &File, path: &'p str, depth: usize) -> &'p str {
        let given = self.dirs.iter().find(|dir| is_below(path, dir));
        let base = given.map_or_else(
            || self.trunks.of(file.mount.as_deref(), path),
            String::as_str,
        );
        dir_below(path, base, depth)
    }
}

/// The directory of a path that is at most `depth` components below `base`. What is no path, such as `(other)`, stands for
/// itself.
fn dir_below<'p>(path: &'p str, base: &str, depth: usize) -> &'p str {
    let Some((parent, _)) = path
        .starts_with('/')
        .then(|| path.rsplit_once('/'))
        .flatten()
    else {
        return path;
    };
    let above = match is_below(path, base) {
        true => base.len(),
        false => 0,
    };
    let mut slashes = parent[above..].match_indices('/').map(|(at, _)| above + at);
    match &parent[..slashes.nth(depth).unwrap_or(parent.len())] {
        "" => "/",
        dir => dir,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_from_a_directory() {
        let dir = |base, depth| dir_below("/mnt/nfs/a/b/file", base, depth);
        assert_eq!(dir("/mnt/nfs", 0), "/mnt/nfs");
        assert_eq!(dir("/mnt/nfs", 1), "/mnt/nfs/a");
        assert_eq!(dir("/mnt/nfs", 2), "/mnt/nfs/a/b");
        assert_eq!(dir("/mnt/nfs", 9), "/mnt/nfs/a/b");
        assert_eq!(dir("", 0), "/");
        assert_eq!(dir("", 2), "/mnt/nfs");
        assert_eq!(dir("/srv", 1), "/mnt");
        assert_eq!(dir_below("/file", "", 3), "/");
        assert_eq!(dir_below("/mnt/nfs/file", "/mnt/nfs", 1), "/mnt/nfs");
        assert_eq!(dir_below("(other)", "", 1), "(other)");
    }
}
