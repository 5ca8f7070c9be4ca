//! Assigns files to the groups of a question.

use trackiops_schemas::level::IoLevel;
use trackiops_store::{MountRoots, Snapshot, is_below, is_in};

use crate::error::QueryError;
use crate::file_selector::FileSelector;
use crate::group::{Entity, GroupBy, Level};
use crate::mount_filter::MountFilter;
use crate::origin::{File, HostIndex};
use crate::question::Question;
use crate::tenant_filter::TenantFilter;
use crate::volume_names::VolumeNames;

/// Assigns files to entities.
#[derive(Debug, Default)]
pub struct Grouping {
    /// How the query groups rows.
    pub by: GroupBy,
    /// Directories that the question names, deepest first, from which depth counts.
    dirs: Vec<String>,
    mount_roots: MountRoots,
    /// The query keeps only files of these mounts.
    mounts: Option<MountFilter>,
    /// Names of volumes.
    pub(crate) volumes: VolumeNames,
    /// The query keeps only rows of these tenants.
    pub(crate) tenants: TenantFilter,
    /// The query keeps only rows of these levels; of all levels if empty.
    pub(crate) levels: Vec<IoLevel>,
}

impl Grouping {
    /// Groups all rows `by` anything except a directory.
    pub(crate) fn all(by: GroupBy) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    /// Groups rows by the question, for its selected files, mounts and tenants. Fails if the catalog cannot be read.
    pub fn new(snapshot: &Snapshot, question: &Question) -> Result<Self, QueryError> {
        let by = question.by;
        let volumes = VolumeNames::new(snapshot)?;
        let mut grouping = Self {
            by,
            mounts: MountFilter::new(snapshot, &question.mounts, &question.volumes)?,
            tenants: TenantFilter::new(&question.tenants, question.tenant_rules.clone())
                .with_volumes(volumes.clone())
                .of_users(by.only_users),
            volumes,
            levels: question.levels.clone(),
            ..Self::default()
        };
        if let Level::Dir { .. } = by.level {
            let dirs = question.files.iter().filter_map(|selector| match selector {
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

    /// Whether the query needs each file's mount or name to filter rows, or to name their tenants.
    pub(crate) fn needs_names(&self) -> bool {
        self.mounts.is_some() || self.tenants.needs_names()
    }

    /// Whether a file is on a selected mount and level.
    pub(crate) fn is_selected(&self, file: &File) -> bool {
        if !self.levels.is_empty() && !self.levels.contains(&file.level) {
            return false;
        }
        let mounts = self.mounts.as_ref();
        mounts.is_none_or(|mounts| mounts.matches(file.mount.as_deref()))
    }

    /// The entity of a file.
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
            Level::Volume => {
                let volume = file
                    .mount
                    .as_deref()
                    .and_then(|mount| self.volumes.of(mount));
                Entity::Volume(volume.map(|name| name.volume.as_str().into()))
            }
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

/// The directory of a path, cut to at most `depth` components below `base`. `base` itself stays unchanged: operations
/// can concern it, and its parent is outside the mount. Text that is not a path, such as `(other)`, also stays
/// unchanged.
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
