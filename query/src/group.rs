//! What rows are added up to: files, directories, mounts, hosts.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::identity::{FileKey, Tenant};
use trackiops_store::{MountRoots, Snapshot, is_below, is_in};

use crate::error::QueryError;
use crate::file::FileSelector;
use crate::mount_filter::MountFilter;
use crate::origin::{File, HostIndex};

/// What a row of the answer stands for, beside its window and host: rows of several hosts are never added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// Which files it has.
    pub level: Level,
    /// Whether each tenant that used them has a row of its own.
    pub tenants: bool,
}

/// Which files a row has, finest first: each is in one of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A file, whatever its name.
    #[default]
    File,
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
#[error(
    "rows are not grouped by `{0}`: write file, dir, mount, tenant, host, op or transport, or several of them with commas between them; transport \
     goes with op, mount and host alone"
)]
pub struct ByError(pub(crate) String);

/// One or several with commas between them. Of file, dir, mount and host the finest says it all, as a file has one of each;
/// `tenant` alone is a tenant, whatever it did on a host.
impl FromStr for GroupBy {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut level, mut tenants) = (None, false);
        for word in text.split(',') {
            let this = match word.trim() {
                "file" => Level::File,
                "dir" => Level::Dir { depth: 1 },
                "mount" => Level::Mount,
                "host" => Level::Host,
                "tenant" => {
                    tenants = true;
                    continue;
                }
                _ => return Err(ByError(text.into())),
            };
            level = Some(level.map_or(this, |level: Level| level.min(this)));
        }
        let level = level.unwrap_or(Level::Host);
        Ok(Self { level, tenants })
    }
}

impl GroupBy {
    /// A file, whoever used it and whatever its name.
    pub const FILE: Self = Self::level(Level::File);
    /// What one tenant did with a file.
    pub const FILE_TENANT: Self = Self {
        tenants: true,
        ..Self::FILE
    };
    /// A name on a mount.
    pub const NAME: Self = Self::level(Level::Name);
    /// All files of a mount.
    pub const MOUNT: Self = Self::level(Level::Mount);
    /// All files.
    pub const HOST: Self = Self::level(Level::Host);

    const fn level(level: Level) -> Self {
        let tenants = false;
        Self { level, tenants }
    }

    /// All files below a directory that is so deep.
    pub const fn dir(depth: usize) -> Self {
        Self::level(Level::Dir { depth })
    }

    /// The tenant as far as it tells rows apart.
    pub fn tenant(self, tenant: &Arc<Tenant>) -> Option<TenantKey> {
        self.tenants.then(|| TenantKey(Arc::clone(tenant)))
    }

    /// Whether rows are told apart by their names and mounts.
    pub fn needs_names(self) -> bool {
        matches!(self.level, Level::Name | Level::Dir { .. } | Level::Mount)
    }

    /// Whether a row is of one file.
    pub fn is_of_files(self) -> bool {
        self.level == Level::File
    }
}

/// What rows with equal values of are added up, beside window, host and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entity {
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

/// A tenant that tells rows apart: its uid and cgroup do, and the name of its user does not.
#[derive(Clone, Debug)]
pub struct TenantKey(pub Arc<Tenant>);

impl PartialEq for TenantKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for TenantKey {}

impl PartialOrd for TenantKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TenantKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id().cmp(&other.0.id())
    }
}

impl Hash for TenantKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

/// What is needed to find out to what a row belongs.
#[derive(Debug, Default)]
pub struct Grouping {
    /// What a row of the answer stands for.
    pub by: GroupBy,
    /// Directories below which the depth counts, deepest first.
    dirs: Vec<String>,
    mount_roots: MountRoots,
    /// Only files of these mounts have rows.
    mounts: Option<MountFilter>,
}

impl Grouping {
    /// Groups rows `by`, of the selected files and mounts.
    pub fn new(
        snapshot: &Snapshot,
        by: GroupBy,
        files: &[FileSelector],
        mounts: Option<MountFilter>,
    ) -> Result<Self, QueryError> {
        let mut grouping = Self {
            by,
            mounts,
            ..Self::default()
        };
        if let Level::Dir { .. } = by.level {
            let dirs = files.iter().filter_map(|selector| match selector {
                FileSelector::Below(dir) => Some(dir.clone()),
                _ => None,
            });
            grouping.dirs = dirs.collect();
            grouping
                .dirs
                .sort_by_key(|dir| std::cmp::Reverse(dir.len()));
            grouping.mount_roots = snapshot.mount_roots()?;
        }
        Ok(grouping)
    }

    /// Whether it matters on which mount a file is, beside what rows are told apart by.
    pub(crate) fn needs_mounts(&self) -> bool {
        self.mounts.is_some()
    }

    /// Whether a file is on one of the mounts that are asked for.
    pub(crate) fn is_on_mounts(&self, file: &File) -> bool {
        let mounts = self.mounts.as_ref();
        mounts.is_none_or(|mounts| mounts.matches(file.mount.as_deref()))
    }

    /// To what a file's rows belong.
    pub fn of(&self, host: HostIndex, file: &File) -> Entity {
        let mount = || file.mount.as_deref().map(Into::into);
        match self.by.level {
            Level::File => Entity::File(file.key),
            Level::Name => Entity::Name(mount(), file.name().into()),
            Level::Dir { depth } => {
                let dir = file.path.as_deref().map(|path| self.dir(file, path, depth));
                Entity::Dir(mount(), dir.map(Into::into))
            }
            Level::Mount => Entity::Mount(mount()),
            Level::Host => Entity::Host(host),
        }
    }

    fn dir<'p>(&self, file: &File, path: &'p str, depth: usize) -> &'p str {
        let given = self.dirs.iter().find(|dir| is_in(path, dir));
        let base = given.map_or_else(
            || self.mount_roots.of(file.mount.as_deref(), path),
            String::as_str,
        );
        dir_below(path, base, depth)
    }
}

/// The directory of a path that is at most `depth` components below `base`, which stands for itself: operations are about it,
/// and its parent is outside of the mount. What is no path, such as `(other)`, stands for itself, too.
fn dir_below<'p>(path: &'p str, base: &str, depth: usize) -> &'p str {
    if path == base {
        return path;
    }
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
    fn of_several_the_finest_says_it_all() {
        let by = |text: &str| text.parse::<GroupBy>();
        assert_eq!(by("dir,mount"), Ok(GroupBy::dir(1)));
        assert_eq!(by("host, file"), Ok(GroupBy::FILE));
        assert_eq!(by("file,tenant"), Ok(GroupBy::FILE_TENANT));
        let tenants = |by| GroupBy {
            tenants: true,
            ..by
        };
        assert_eq!(by("tenant"), Ok(tenants(GroupBy::HOST)));
        assert_eq!(by("mount,tenant"), Ok(tenants(GroupBy::MOUNT)));
        for text in ["", "file,", "colour", "file;dir"] {
            assert!(by(text).is_err(), "{text}");
        }
    }

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
        assert_eq!(dir_below("/mnt/nfs", "/mnt/nfs", 1), "/mnt/nfs");
        assert_eq!(dir_below("(other)", "", 1), "(other)");
    }
}
