//! Selects the requests to record: translates the user's names into the keys that the kernel side
//! compares.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{major, minor};
use trackiops_schemas::ebpf::ring::{FilterKey, filters};
use trackiops_schemas::identity::{Dev, path_text, typed_path, typed_text};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::place::{absolute_path, may_be_relative};

use crate::mount_roots::MountRoots;
use crate::names::local_mounts::{self, Counted};
use crate::names::mount_names;
use crate::names::mountinfo::{CgroupRoots, HOST, NfsMount, mounts_of};
use crate::names::paths::is_below;
use crate::plan::Levels;

/// A request is recorded if it matches an entry of each list that is not empty. Mounts, directories
/// and files count as one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Mount points, or `server:/export`.
    pub mounts: Vec<MountName>,
    /// Directories on NFS, with all that is below them.
    pub directories: Vec<PathBuf>,
    /// Files on NFS.
    pub files: Vec<PathBuf>,
    /// Processes that made the requests.
    pub pids: Vec<u32>,
    /// Users that opened the files.
    pub uids: Vec<u32>,
    /// Cgroups, with those below them: directories of the hierarchy, or paths from its root.
    pub cgroups: Vec<PathBuf>,
    /// Procedures, by the kernel's names.
    pub operations: Vec<Procedure>,
}

/// A mount as the user names it, resolved once: a relative path must keep its meaning, and looking for the current
/// directory at each comparison would cost a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountName {
    /// As names of mounts are stored; a relative path is made absolute.
    name: String,
    /// The mount point that it may name.
    place: Option<PathBuf>,
}

impl MountName {
    /// Resolves what was typed, without access to the mount's file system.
    pub fn new(typed: &str) -> Self {
        let place = absolute_path(&typed_path(typed)).ok();
        let name = match &place {
            Some(place) if may_be_relative(typed) => path_text(place.as_os_str().as_bytes()),
            _ => typed_text(typed),
        };
        Self { name, place }
    }

    fn is_at(&self, source: &str, mount_point: &str) -> bool {
        let point = typed_path(mount_point);
        self.name == source || self.place.as_ref() == Some(&point)
    }
}

impl fmt::Display for MountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The procedures of NFS 3 and 4 that a client of Linux 7.2 calls, as it names them
/// (fs/nfs/nfs3xdr.c, fs/nfs/nfs4xdr.c).
#[rustfmt::skip]
const PROCEDURES: [&str; 75] = [
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE",
    "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
    "OPEN", "OPEN_CONFIRM", "OPEN_NOATTR", "OPEN_DOWNGRADE", "CLOSE", "RENEW", "SETCLIENTID", "SETCLIENTID_CONFIRM", "LOCK",
    "LOCKT", "LOCKU", "LOOKUP_ROOT", "STATFS", "SERVER_CAPS", "DELEGRETURN", "GETACL", "SETACL", "FS_LOCATIONS",
    "RELEASE_LOCKOWNER", "SECINFO", "FSID_PRESENT", "EXCHANGE_ID", "CREATE_SESSION", "DESTROY_SESSION", "SEQUENCE",
    "GET_LEASE_TIME", "RECLAIM_COMPLETE", "LAYOUTGET", "GETDEVICEINFO", "LAYOUTCOMMIT", "LAYOUTRETURN", "SECINFO_NO_NAME",
    "TEST_STATEID", "FREE_STATEID", "GETDEVICELIST", "BIND_CONN_TO_SESSION", "DESTROY_CLIENTID", "SEEK", "ALLOCATE",
    "DEALLOCATE", "ZERO_RANGE", "LAYOUTSTATS", "CLONE", "COPY", "OFFLOAD_CANCEL", "OFFLOAD_STATUS", "COPY_NOTIFY", "LOOKUPP",
    "LAYOUTERROR", "GETXATTR", "SETXATTR", "LISTXATTRS", "REMOVEXATTR",
];

/// The name of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure(&'static str);

/// There is no such procedure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "NFS has no operation `{0}`: name those that `query --by op` shows, such as read, write, commit, getattr"
)]
pub struct ProcedureError(String);

impl FromStr for Procedure {
    type Err = ProcedureError;

    /// In lower or upper case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = PROCEDURES.into_iter();
        let found = all.find(|name| name.eq_ignore_ascii_case(text));
        found
            .map(Self)
            .ok_or_else(|| ProcedureError(text.to_owned()))
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_ascii_lowercase())
    }
}

/// Why a filter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A path cannot be looked up.
    #[error("cannot look at `{}`: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A path is not on NFS.
    #[error("`{}` is not on NFS but on device {dev}: name something on an NFS mount", path.display())]
    NotNfs {
        /// The path.
        path: PathBuf,
        /// Its device.
        dev: Dev,
    },
    /// A file in place of a directory.
    #[error("`{}` is not a directory: name files with --file", .0.display())]
    NotDirectory(PathBuf),
    /// A directory in place of a file.
    #[error("`{}` is a directory: name directories with --dir", .0.display())]
    NotFile(PathBuf),
    /// A cgroup without a memory controller, to which no pages are charged.
    #[error(
        "the cgroup `{}` has no memory controller, without which its requests cannot be told apart: \
         name one that has, such as the one above it", .0.display()
    )]
    NoController(PathBuf),
    /// No cgroup hierarchy is mounted.
    #[error(
        "no cgroup hierarchy is mounted: run `mount -t cgroup2 cgroup2 /sys/fs/cgroup`, or leave out --cgroup"
    )]
    NoCgroups,
    /// What is counted by the thread's cgroup, which is of another hierarchy than the named one.
    #[error(
        "--cgroup names cgroups of version 1, which has the memory controller here, and the kernel finds the cgroup of a \
         thread in version 2: leave out --cgroup, or record with --levels wire alone"
    )]
    CgroupsApart,
    /// Only the direct engine can compare directories.
    #[error(
        "the tracepoint engine does not know directories: use --engine direct, or name files or mounts"
    )]
    DirectoriesByTracepoint,
    /// The BTF lacks members that the filter needs.
    #[error("this kernel's BTF does not lead from a request to its {0}: leave out this filter")]
    NoWay(&'static str),
    /// Requests to devices do not name their user or process.
    #[error("the block level does not know {0}: leave out --{1}, or record without --levels block")]
    NotAtBlock(&'static str, &'static str),
    /// The map of the kernel side is too small for the filter.
    #[error("the filter has {0} entries, but the kernel side has room for {1}: name fewer")]
    TooMany(usize, u32),
}

impl Filter {
    /// Whether it excludes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it has anything but `operations`. Sums of operations cannot be filtered by anything
    /// else.
    pub fn narrows(&self) -> bool {
        self.kinds() & !(filters::NO_READS | filters::NO_WRITES) != 0
    }

    /// Whether it leaves out READs or WRITEs of any file. The kernel's counters include their calls, so those are then not compared.
    pub fn leaves_out_transfers(&self) -> bool {
        self.kinds() != 0
    }

    /// Whether calls of applications can be compared with it on this host. The kernel finds the cgroup of a call by its thread.
    pub fn knows_calls(&self) -> bool {
        self.knows_threads(&CgroupRoots::new())
    }

    /// Whether the cgroups of threads are in the hierarchy that the filter names.
    fn knows_threads(&self, roots: &CgroupRoots) -> bool {
        self.cgroups.is_empty() || !roots.are_apart()
    }

    /// Whether a procedure is wanted, as the kernel names it.
    pub(crate) fn wants_operation(&self, name: &str) -> bool {
        // NFS 4.2 has a second way to read.
        let name = if name == "READ_PLUS" { "READ" } else { name };
        self.operations.is_empty() || self.operations.iter().any(|wanted| wanted.0 == name)
    }

    /// Its kinds, as bits of [`filters`].
    pub(crate) fn kinds(&self) -> u32 {
        let bit = |bits: u32, wanted: bool| if wanted { bits } else { 0 };
        let leaves_out = |name| !self.wants_operation(name);
        // A directory includes the file systems that are mounted below it.
        let mounts = !self.mounts.is_empty() || !self.directories.is_empty();
        bit(filters::PIDS, !self.pids.is_empty())
            | bit(filters::UIDS, !self.uids.is_empty())
            | bit(filters::CGROUPS, !self.cgroups.is_empty())
            | bit(filters::MOUNTS, mounts)
            | bit(filters::DIRECTORIES, !self.directories.is_empty())
            | bit(filters::FILES, !self.files.is_empty())
            | bit(filters::NO_READS, leaves_out("READ"))
            | bit(filters::NO_WRITES, leaves_out("WRITE"))
    }

    /// The named mounts that are not mounted now.
    pub fn absent_mounts(&self) -> Vec<MountName> {
        let there = visible_mounts();
        let is_absent = |named: &&MountName| {
            let is_there = |mount: &NfsMount| is_mount_named(mount, named);
            let mut local =
                local_mounts::devices_of(Counted::All, |source, at| named.is_at(source, at));
            !there.iter().any(is_there) && local.next().is_none()
        };
        self.mounts.iter().filter(is_absent).cloned().collect()
    }
}

/// In the form of the command line.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mounts,
            directories,
            files,
            pids,
            uids,
            cgroups,
            operations,
        } = self;
        fn flags<'v, T: 'v>(
            name: &str,
            values: &'v [T],
            show: impl Fn(&'v T) -> String,
        ) -> impl Iterator<Item = String> {
            let flag = format!("--{name} ");
            values.iter().map(move |value| flag.clone() + &show(value))
        }
        let path = |path: &PathBuf| path.display().to_string();
        let words = flags("mount", mounts, MountName::to_string)
            .chain(flags("dir", directories, path))
            .chain(flags("file", files, path))
            .chain(flags("pid", pids, u32::to_string))
            .chain(flags("uid", uids, u32::to_string))
            .chain(flags("cgroup", cgroups, path))
            .chain(flags("ops", operations, Procedure::to_string));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

/// A filter whose names are resolved.
#[derive(Debug)]
pub(crate) struct ResolvedFilter {
    filter: Filter,
    /// Keys that do not change while recording.
    fixed: BTreeSet<FilterKey>,
    /// Directories and files, without links, and the devices of their keys.
    places: Vec<(Dev, PathBuf)>,
    /// Directories of the cgroups.
    cgroups: Vec<PathBuf>,
    /// Where to look for mounts.
    levels: Levels,
    /// Whether the kernel side compares directories.
    by_directory: bool,
    roots: MountRoots,
}

impl ResolvedFilter {
    /// Looks files and directories up. `by_directory` says whether the kernel side compares directories.
    pub fn new(filter: &Filter, levels: Levels, by_directory: bool) -> Result<Self, FilterError> {
        let mounts = visible_mounts();
        let mut fixed = BTreeSet::new();
        let mut places = Vec::new();
        let mut filter = filter.clone();
        for path in &mut filter.directories {
            let (found, metadata, dev) = look_up(path, &mounts, levels)?;
            if !metadata.is_dir() {
                return Err(FilterError::NotDirectory(path.clone()));
            }
            fixed.insert(filter_key(filters::DIRECTORIES, dev, metadata.ino()));
            places.push((dev, without_links(&found)));
            *path = found;
        }
        for path in &filter.files {
            let (found, metadata, dev) = look_up(path, &mounts, levels)?;
            if metadata.is_dir() {
                return Err(FilterError::NotFile(path.clone()));
            }
            fixed.insert(filter_key(filters::FILES, dev, metadata.ino()));
            places.push((dev, without_links(&found)));
        }
        let of = |kind, id: &u32| filter_key(kind, Dev(0), u64::from(*id));
        fixed.extend(filter.pids.iter().map(|pid| of(filters::PIDS, pid)));
        fixed.extend(filter.uids.iter().map(|uid| of(filters::UIDS, uid)));
        let cgroups = filter.cgroups.iter().map(|path| find_cgroup(path));
        let cgroups = cgroups.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            filter,
            fixed,
            places,
            cgroups,
            levels,
            by_directory,
            roots: MountRoots::default(),
        })
    }

    /// Whether its keys may change as mounts or cgroups come and go.
    pub fn may_change(&self) -> bool {
        self.filter.kinds() & (filters::MOUNTS | filters::CGROUPS) != 0
    }

    /// Whether it names mounts, directories or files.
    pub fn names_places(&self) -> bool {
        self.filter.kinds() & filters::PLACES != 0
    }

    /// Whether files on a mount may be recorded, if these are the current keys.
    pub fn includes(&self, mount: &MountPoint, keys: &BTreeSet<FilterKey>) -> bool {
        if !self.names_places() {
            return true;
        }
        let on_it = keys.iter().filter(|key| key.dev == mount.dev.0);
        let kinds = on_it.fold(0, |kinds, key| kinds | key.kind) & filters::PLACES;
        if kinds & filters::MOUNTS != 0 {
            return true;
        }
        let at = typed_path(&mount.path);
        let is_above = |(dev, place): &(Dev, PathBuf)| *dev == mount.dev && place.starts_with(&at);
        kinds != 0 && (self.places.iter().any(is_above) || wants(&self.filter, &as_nfs(mount)))
    }

    /// The keys that the kernel side compares, for the current mounts and cgroups.
    pub fn keys(&mut self) -> BTreeSet<FilterKey> {
        let mut keys = self.fixed.clone();
        if self.filter.kinds() & filters::MOUNTS != 0 {
            let there = visible_mounts();
            self.roots.keep(&there);
            for mount in there.iter().filter(|mount| wants(&self.filter, mount)) {
                // If other volumes share the superblock, only the files below this mount's root.
                let root = match self.by_directory && is_shared(&self.filter, mount, &there) {
                    true => self.roots.inode(mount),
                    false => None,
                };
                keys.insert(match root {
                    Some(inode) => filter_key(filters::DIRECTORIES, mount.dev, inode),
                    None => filter_key(filters::MOUNTS, mount.dev, 0),
                });
            }
            if self.levels.has_local() {
                let wanted = |source: &str, at: &str| {
                    let is_named = |named: &MountName| named.is_at(source, at);
                    self.filter.mounts.iter().any(is_named) || is_in_directories(&self.filter, at)
                };
                let devices = local_mounts::devices_of(Counted::at(self.levels), wanted);
                keys.extend(devices.map(|dev| filter_key(filters::MOUNTS, dev, 0)));
            }
        }
        for directory in &self.cgroups {
            add_cgroups_below(directory, &mut keys);
        }
        keys
    }
}

/// Volumes that share a superblock are known by source and mount point.
fn as_nfs(mount: &MountPoint) -> NfsMount {
    NfsMount {
        mount_id: 0,
        dev: mount.dev,
        source: mount.source.clone(),
        mount_point: mount.path.clone(),
        options: mount.options.clone(),
    }
}

/// Whether a filter names a mount, or a directory that it is in.
fn wants(filter: &Filter, mount: &NfsMount) -> bool {
    let is_named = |named: &MountName| is_mount_named(mount, named);
    filter.mounts.iter().any(is_named) || is_in_directories(filter, &mount.mount_point)
}

/// The mount at the directory itself has a separate key.
fn is_in_directories(filter: &Filter, at: &str) -> bool {
    let at = typed_path(at);
    let is_below = |directory: &PathBuf| at != *directory && at.starts_with(directory);
    filter.directories.iter().any(is_below)
}

/// Whether files of a wanted mount's superblock can be on a mount that is not wanted.
fn is_shared(filter: &Filter, wanted: &NfsMount, there: &[NfsMount]) -> bool {
    let top = wanted.source.trim_end_matches('/').as_bytes();
    there.iter().any(|other| {
        other.dev == wanted.dev && !is_below(other.source.as_bytes(), top) && !wants(filter, other)
    })
}

fn filter_key(kind: u32, dev: Dev, id: u64) -> FilterKey {
    FilterKey {
        kind,
        dev: dev.0,
        id,
    }
}

/// The host's mounts, and this process's, where the user sees them.
fn visible_mounts() -> Vec<NfsMount> {
    let of = |pid| mounts_of(pid).unwrap_or_default();
    [of(HOST), of(std::process::id())].concat()
}

/// Matches the mount point, the source, or the name in rows.
fn is_mount_named(mount: &NfsMount, named: &MountName) -> bool {
    if named.is_at(&mount.source, &mount.mount_point) {
        return true;
    }
    let own = mount_names::name(&mount.source, &mount.options, None);
    let Some(more) = named.name.strip_prefix(&own) else {
        return false;
    };
    let has = |option: &str| mount.options.split(',').any(|own| own == option);
    more.split(',')
        .skip(1)
        .all(|option| match option.strip_prefix("dev=") {
            Some(dev) => mount.dev.to_string() == dev,
            None => has(option),
        })
        && (more.is_empty() || more.starts_with(','))
}

/// Finds a path as it was typed, or one whose displayed name was typed.
fn find(path: &Path) -> Result<(PathBuf, Metadata), FilterError> {
    metadata_of(path)
        .map(|metadata| (path.to_owned(), metadata))
        .or_else(|error| {
            let shown = typed_path(path);
            let metadata = metadata_of(&shown).map_err(|_| error)?;
            Ok((shown, metadata))
        })
}

/// The path of something that was just found.
fn without_links(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn metadata_of(path: &Path) -> Result<Metadata, FilterError> {
    fs::metadata(path).map_err(|source| FilterError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The path as [`find`] found it, its target, and the device that its requests have.
fn look_up(
    path: &Path,
    mounts: &[NfsMount],
    levels: Levels,
) -> Result<(PathBuf, Metadata, Dev), FilterError> {
    let (path, metadata) = find(path)?;
    if levels.has_local()
        && let Some(dev) = local_mounts::device_of(&path, Counted::at(levels))
    {
        return Ok((path, metadata, dev));
    }
    let dev = Dev::new(major(metadata.dev()), minor(metadata.dev())).unwrap_or(Dev(0));
    // The lookup itself may have mounted it (autofs).
    if mounts
        .iter()
        .chain(&visible_mounts())
        .any(|mount| mount.dev == dev)
    {
        return Ok((path, metadata, dev));
    }
    Err(FilterError::NotNfs { path, dev })
}

/// The directory of a cgroup. `name` is that directory, or the path from the root of the hierarchy.
fn find_cgroup(name: &Path) -> Result<PathBuf, FilterError> {
    let roots = CgroupRoots::new();
    let root = roots.charged().ok_or(FilterError::NoCgroups)?;
    let directory = if name.starts_with(root) {
        name.to_owned()
    } else {
        root.join(name.strip_prefix("/").unwrap_or(name))
    };
    let (directory, _) = find(&directory)?;
    // The root contains everything, but has no such file in version 2.
    let is_charged = |file| directory.join(file).exists();
    if directory != root && !is_charged("memory.current") && !is_charged("memory.usage_in_bytes") {
        return Err(FilterError::NoController(directory));
    }
    Ok(directory)
}

/// Adds the existing cgroups at and below this directory.
fn add_cgroups_below(directory: &Path, keys: &mut BTreeSet<FilterKey>) {
    if let Ok(metadata) = fs::symlink_metadata(directory) {
        keys.insert(filter_key(filters::CGROUPS, Dev(0), metadata.ino()));
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_cgroups_below(&entry.path(), keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_as_it_is_written_and_asks_for_what_it_names() {
        let filter = Filter {
            mounts: vec![MountName::new("nas:/home")],
            directories: vec!["/mnt/a b".into()],
            pids: vec![7, 8],
            operations: vec!["WRITE".parse().unwrap()],
            ..Filter::default()
        };
        assert_eq!(
            filter.to_string(),
            "--mount nas:/home --dir /mnt/a b --pid 7 --pid 8 --ops write"
        );
        let kinds = filters::MOUNTS | filters::DIRECTORIES | filters::PIDS | filters::NO_READS;
        assert_eq!(filter.kinds(), kinds);
        assert!(filter.narrows() && !filter.is_empty());
        let reads = Filter {
            operations: vec!["read".parse().unwrap(), "Commit".parse().unwrap()],
            ..Filter::default()
        };
        assert_eq!(reads.kinds(), filters::NO_WRITES);
        assert!(reads.wants_operation("READ_PLUS"));
        assert!(reads.wants_operation("COMMIT") && !reads.wants_operation("GETATTR"));
        assert!("reed".parse::<Procedure>().is_err());
        assert!(!reads.narrows() && !reads.is_empty());
        assert!(Filter::default().is_empty());
    }

    #[test]
    fn calls_are_not_compared_with_cgroups_of_another_hierarchy() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let hybrid = "31 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      32 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let filter = |cgroups: &[&str]| Filter {
            cgroups: cgroups.iter().map(|path| (*path).into()).collect(),
            ..Filter::default()
        };
        let knows = |cgroups: &[&str], mounts: &str| {
            filter(cgroups).knows_threads(&CgroupRoots::of(mounts.as_bytes()))
        };
        assert!(knows(&["batch"], unified) && knows(&[], hybrid));
        assert!(!knows(&["batch"], hybrid));
    }

    #[test]
    fn what_is_not_there_or_not_on_nfs_is_refused_by_name() {
        let said = |filter: &Filter| {
            ResolvedFilter::new(filter, Levels::WIRE, true)
                .unwrap_err()
                .to_string()
        };
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().to_owned();
        let of_files = |path| Filter {
            files: vec![path],
            ..Filter::default()
        };
        let missing = said(&of_files(here.join("missing")));
        assert!(
            missing.contains("missing") && missing.contains("No such file"),
            "{missing}"
        );
        let elsewhere = said(&of_files(here.clone()));
        assert!(elsewhere.contains("is not on NFS"), "{elsewhere}");
    }

    #[test]
    fn mounts_are_named_by_source_or_place_and_those_in_a_directory_come_with_it() {
        let mount = |source: &str, at: &str| NfsMount {
            mount_id: 1,
            dev: Dev(1),
            source: source.into(),
            mount_point: at.into(),
            options: String::new(),
        };
        let filter = |mounts: &[&str], directories: &[&str]| Filter {
            mounts: mounts.iter().map(|m| MountName::new(m)).collect(),
            directories: directories.iter().map(|d| (*d).into()).collect(),
            ..Filter::default()
        };
        let by_name = filter(&["nas:/a", "/mnt/b/"], &[]);
        assert!(
            wants(&by_name, &mount("nas:/a", "/x")) && wants(&by_name, &mount("nas:/b", "/mnt/b"))
        );
        assert!(!wants(&by_name, &mount("nas:/ab", "/mnt")));
        let here = std::env::current_dir().unwrap();
        let at_e = mount("nas:/e", here.join("e").to_str().unwrap());
        for named in ["e", "./e/", "x/../e", "x/./.././e"] {
            let by_name = filter(&[named], &[]);
            assert!(wants(&by_name, &at_e), "{named}");
            assert_eq!(by_name.to_string(), format!("--mount {}", at_e.mount_point));
        }
        assert!(!wants(&filter(&["f"], &[]), &at_e));
        assert!(!wants(&filter(&["e/.."], &[]), &at_e));
        let beside = filter(&["/mnt/b/../a"], &[]);
        assert!(wants(&beside, &mount("nas:/a", "/mnt/a")));
        let share = filter(&["//nas/share"], &[]);
        assert!(wants(&share, &mount("//nas/share", "/mnt/a")));
        let below = filter(&[], &["/mnt/c"]);
        assert!(wants(&below, &mount("nas:/c", "/mnt/c/d")));
        assert!(
            !wants(&below, &mount("nas:/c", "/mnt/c"))
                && !wants(&below, &mount("nas:/c", "/mnt/cc"))
        );
        let of_tunnel = NfsMount {
            options: "rw,port=20049,vers=4.2".into(),
            ..mount("nas:/a", "/x")
        };
        for (named, is_it) in [
            ("nas:/a", true),
            ("nas:/a,port=20049", true),
            ("nas:/a,port=20049,vers=4.2", true),
            ("nas:/a,port=20049,dev=0:1", true),
            ("nas:/a,port=20049,vers=3", false),
            ("nas:/a,port=200490", false),
            ("nas:/a,port=20050", false),
        ] {
            assert_eq!(wants(&filter(&[named], &[]), &of_tunnel), is_it, "{named}");
        }
    }

    #[test]
    fn mounts_without_wanted_files_are_not_included() {
        let mount = |dev, source: &str, path: &str| MountPoint {
            dev: Dev(dev),
            mount: source.into(),
            source: source.into(),
            path: path.into(),
            version: None,
            options: "rw".into(),
            is_foreign: false,
            volume: None,
            claim: None,
        };
        let all = [
            mount(1, "nas:/e/one", "/mnt/one"),
            mount(1, "nas:/e/two", "/mnt/two"),
            mount(2, "nas:/f", "/mnt/f"),
        ];
        let of = |filter: Filter, place: Option<(u32, &str)>, kind: u32, dev: u32| {
            let places = place.map(|(dev, path)| (Dev(dev), path.into()));
            let resolved = ResolvedFilter {
                filter,
                fixed: BTreeSet::new(),
                places: places.into_iter().collect(),
                cgroups: Vec::new(),
                levels: Levels::WIRE,
                by_directory: true,
                roots: MountRoots::default(),
            };
            let keys = BTreeSet::from([filter_key(kind, Dev(dev), 7)]);
            let included = all.iter().filter(|mount| resolved.includes(mount, &keys));
            let paths: Vec<_> = included.map(|mount| mount.path.as_str()).collect();
            paths.join(" ")
        };
        let one = Filter {
            mounts: vec![MountName::new("nas:/e/one")],
            ..Filter::default()
        };
        let told_apart = of(one.clone(), None, filters::DIRECTORIES, 1);
        assert_eq!(told_apart, "/mnt/one");
        let whole_superblock = of(one.clone(), None, filters::MOUNTS, 1);
        assert_eq!(whole_superblock, "/mnt/one /mnt/two");
        assert_eq!(of(one, None, filters::UIDS, 0), "", "it is not mounted");
        let below = Filter {
            directories: vec!["/mnt/two/a".into()],
            ..Filter::default()
        };
        let place = Some((1, "/mnt/two/a"));
        assert_eq!(of(below, place, filters::DIRECTORIES, 1), "/mnt/two");
        let file = Filter {
            files: vec!["/mnt/f/x".into()],
            ..Filter::default()
        };
        let place = Some((2, "/mnt/f/x"));
        assert_eq!(of(file, place, filters::FILES, 2), "/mnt/f");
        let of_user = Filter {
            uids: vec![7],
            ..Filter::default()
        };
        let everywhere = of(of_user, None, filters::UIDS, 0);
        assert_eq!(everywhere, "/mnt/one /mnt/two /mnt/f");
    }

    #[test]
    fn a_volume_that_shares_a_superblock_is_recorded_by_its_root() {
        let directory = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(directory.path()).unwrap();
        let dev = Dev::new(major(metadata.dev()), minor(metadata.dev())).unwrap();
        let mount = |source: &str, at: &str| NfsMount {
            mount_id: 1,
            dev,
            source: source.into(),
            mount_point: at.into(),
            options: String::new(),
        };
        let one = mount("s:/e/one", directory.path().to_str().unwrap());
        let filter = Filter {
            mounts: vec![MountName::new("s:/e/one")],
            ..Filter::default()
        };
        let shared = |others: &[NfsMount]| {
            is_shared(
                &filter,
                &one,
                &[std::slice::from_ref(&one), others].concat(),
            )
        };
        assert!(!shared(&[]) && !shared(&[mount("s:/e/one/sub", "/sub"), mount("s:/e/one", "/x")]));
        assert!(shared(&[mount("s:/e/on", "/on")]) && shared(&[mount("s:/e", "/e")]));
    }
}
