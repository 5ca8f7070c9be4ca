//! Groups of rows: files, names, directories, mounts, hosts.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::identity::{FileKey, Tenant, TenantParts};

use crate::origin::HostIndex;

/// How a query groups rows within a window and host. It never adds up rows of several hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// The entity of a group.
    pub level: Level,
    /// Whether each tenant has separate rows.
    pub tenants: bool,
    /// Whether each user and cgroup of a tenant has separate rows.
    pub users: bool,
    /// Whether users replace tenants, ignoring cgroups and names.
    pub only_users: bool,
    /// Whether each level has separate rows. Otherwise an answer is about one level.
    pub levels: bool,
}

/// The entity of a group, finest first. Each entity lies in one of the next level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A file, with all of its names.
    #[default]
    File,
    /// A name on a mount, for all files that had it.
    Name,
    /// All files below one directory. Depth counts from a directory that the question names, or else from the mount
    /// point. A file above that depth belongs to its own directory.
    Dir {
        /// Number of components below the base.
        depth: usize,
    },
    /// All files of a mount.
    Mount,
    /// All files of a volume of Kubernetes or of a container engine.
    Volume,
    /// All files of a host.
    Host,
}

/// The text of `--by` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rows are not grouped by `{0}`: write file, dir, mount, volume, tenant, user, host, level, op or transport, or several of them with commas between them; transport \
     goes with op, mount and host alone, level not with op, and user not with tenant{way}", way = way(.0)
)]
pub struct ByError(pub(crate) String);

/// Suggests the command that has rows of processes.
fn way(text: &str) -> &'static str {
    match text.split(',').any(|word| word.trim() == "process") {
        true => "; `trackiops requests --by process` has processes, where single requests are kept",
        false => "",
    }
}

impl ByError {
    /// An error for this text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Parses one word, or several separated by commas. The finest of file, dir, mount, volume and host decides, because a
/// file has one of each. `tenant`, `user` or `level` alone group by that and host.
impl FromStr for GroupBy {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut level, mut tenants, mut levels) = (None, false, false);
        let mut only_users = false;
        for word in text.split(',') {
            let this = match word.trim() {
                "file" => Level::File,
                "dir" => Level::Dir { depth: 1 },
                "mount" => Level::Mount,
                "volume" => Level::Volume,
                "host" => Level::Host,
                "tenant" => {
                    tenants = true;
                    continue;
                }
                "user" => {
                    only_users = true;
                    continue;
                }
                "level" => {
                    levels = true;
                    continue;
                }
                _ => return Err(ByError(text.into())),
            };
            level = Some(level.map_or(this, |level: Level| level.min(this)));
        }
        if tenants && only_users {
            return Err(ByError(text.into()));
        }
        Ok(Self {
            tenants: tenants || only_users,
            only_users,
            levels,
            ..Self::level(level.unwrap_or(Level::Host))
        })
    }
}

impl GroupBy {
    /// A file, summed over its tenants and names.
    pub const FILE: Self = Self::level(Level::File);
    /// A file and a tenant.
    pub const FILE_TENANT: Self = Self {
        tenants: true,
        ..Self::FILE
    };
    /// A file and a tenant, with separate users and cgroups.
    pub const FILE_USER: Self = Self {
        users: true,
        ..Self::FILE_TENANT
    };
    /// A name on a mount.
    pub const NAME: Self = Self::level(Level::Name);
    /// All files of a mount.
    pub const MOUNT: Self = Self::level(Level::Mount);
    /// All files of a host.
    pub const HOST: Self = Self::level(Level::Host);

    const fn level(level: Level) -> Self {
        Self {
            level,
            tenants: false,
            users: false,
            only_users: false,
            levels: false,
        }
    }

    /// All files below a directory, `depth` components below its base.
    pub const fn dir(depth: usize) -> Self {
        Self::level(Level::Dir { depth })
    }

    /// The tenant as part of the group's key; `None` if rows are summed over tenants.
    pub fn tenant(self, tenant: &Arc<Tenant>) -> Option<TenantKey> {
        self.tenants.then(|| TenantKey {
            tenant: Arc::clone(tenant),
            users: self.users,
        })
    }

    /// Whether the group depends on names or mounts.
    pub fn needs_names(self) -> bool {
        matches!(
            self.level,
            Level::Name | Level::Dir { .. } | Level::Mount | Level::Volume
        )
    }

    /// Whether a row describes one file.
    pub fn is_of_files(self) -> bool {
        self.level == Level::File
    }
}

/// The entity of a row. It is part of the group's key, beside window, host and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entity {
    /// A file.
    File(FileKey),
    /// A mount and a name: the path, or `MAJOR:MINOR:FILEID` if the path is unknown.
    Name(Option<Arc<str>>, Arc<str>),
    /// A mount and a directory; the directory is `None` for files without a known name.
    Dir(Option<Arc<str>>, Option<Arc<str>>),
    /// A mount; `None` if it is unknown.
    Mount(Option<Arc<str>>),
    /// A volume; `None` for files on no volume.
    Volume(Option<Arc<str>>),
    /// A host.
    Host(HostIndex),
}

/// A tenant as part of a key.
#[derive(Clone, Debug)]
pub struct TenantKey {
    /// The tenant.
    pub tenant: Arc<Tenant>,
    /// Whether users and cgroups are separate: compares by [`Tenant::id`] instead of [`Tenant::group`].
    users: bool,
}

impl TenantKey {
    /// A tenant together with all of its users and cgroups.
    pub fn of(tenant: &Arc<Tenant>) -> Self {
        Self {
            tenant: Arc::clone(tenant),
            users: false,
        }
    }

    fn key(&self) -> TenantParts<'_> {
        match self.users {
            true => self.tenant.id(),
            false => self.tenant.group(),
        }
    }
}

impl PartialEq for TenantKey {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
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
        self.key().cmp(&other.key())
    }
}

impl Hash for TenantKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
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
}
