//! The network namespaces with connections of the NFS client.
//!
//! sysfs and sockets show one namespace each. The thread enters another one to mount its sysfs, in no directory, and to open
//! a socket. Both go on showing that namespace when the thread has returned.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use trackiops_schemas::tcp::TcpSums;
use trackiops_threads::privileges;

use crate::clock::{MonotonicNs, is_due};
use crate::connections::sock_diag::SockDiag;
use crate::connections::transports::Transports;
use crate::names::mountinfo::pids;
use crate::names::superblocks::{NAMED, has_superblocks};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";
/// The host's sysfs, which shows the recorder's namespace unless it runs in a container.
const SYSFS: &str = "/sys";
/// How often other namespaces are looked for, which takes a system call for each process.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Most namespaces. Each takes two open files. Connections in further ones are unknown.
const MOST: usize = 16;

/// The recorder's network namespace, and others that have connections.
pub struct Networks {
    own: Option<Network>,
    others: Vec<Network>,
    /// Leads back to the own namespace. `None` if others may not be entered.
    home: Option<OwnedFd>,
    looked: Option<MonotonicNs>,
}

/// A network namespace.
struct Network {
    inode: u64,
    diag: SockDiag,
    transports: Transports,
    /// A mount of its sysfs.
    _sysfs: Option<OwnedFd>,
}

impl Networks {
    /// Knows the calling thread's namespace. All calls have to come from this thread.
    pub fn new() -> Self {
        // Entering the own namespace shows whether the thread may enter any.
        let home = open(Path::new(OWN)).and_then(|home| enter(&home).map(|()| home));
        let mut networks = Self {
            own: Network::of_thread(Some(Path::new(SYSFS))).ok(),
            others: Vec::new(),
            home: None,
            looked: None,
        };
        match home {
            Ok(home) => networks.home = Some(home),
            Err(_) => networks.stay(),
        }
        networks
    }

    /// Enters no further namespace, and gives up the capabilities that only that needs. Known namespaces are read
    /// through open files.
    fn stay(&mut self) {
        self.home = None;
        // As at the thread's start, the recording must not end if this is forbidden.
        let _ = privileges::keep_none();
    }

    /// Reads all connections, as [`Transports::read`].
    pub fn read(&mut self, now: MonotonicNs) -> Vec<(String, TcpSums)> {
        if is_due(&mut self.looked, now, LOOK_EVERY) {
            self.find_others();
        }
        let networks = self.own.iter_mut().chain(&mut self.others);
        let read = networks.flat_map(|network| {
            let diag = &mut network.diag;
            network.transports.read(now, |ends| diag.look_up(ends))
        });
        let read = read.collect();
        // The socket would keep a namespace alive that the client has left.
        self.others.retain(|network| !network.transports.is_empty());
        read
    }

    /// Finds namespaces that are not known and have superblocks of NFS. A namespace that only has a name shows its
    /// superblocks inside.
    fn find_others(&mut self) {
        let Some(home) = &self.home else {
            return;
        };
        let known = self.own.iter().chain(&self.others);
        let mut seen: HashSet<_> = known.map(|network| network.inode).collect();
        let of_processes =
            pids().map(|pid| (PathBuf::from(format!("/proc/{pid}/ns/net")), Some(pid)));
        let named = fs::read_dir(NAMED).into_iter().flatten().flatten();
        let named = named.map(|entry| (entry.path(), None));
        for (path, pid) in of_processes.chain(named) {
            if self.others.len() >= MOST {
                return;
            }
            let is_new = fs::metadata(&path).is_ok_and(|of| seen.insert(of.ino()));
            if !is_new || pid.is_some_and(|pid| !has_superblocks(pid)) {
                continue;
            }
            match Network::at(&path, home) {
                Ok(network) => self.others.extend(network),
                // A security module forbids it, for example. Then no other namespace can be entered either.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.stay();
                    return;
                }
                // It has just ended, or the name stands for something else.
                Err(_) => {}
            }
        }
    }
}

impl Network {
    /// The calling thread's namespace. If it has to mount its sysfs and may not, it uses `instead`.
    fn of_thread(instead: Option<&Path>) -> io::Result<Self> {
        let (sysfs, directory) = match (mount_sysfs(), instead) {
            (Ok(sysfs), _) => {
                let directory = format!("/proc/self/fd/{}", sysfs.as_raw_fd());
                (Some(sysfs), PathBuf::from(directory))
            }
            (Err(_), Some(instead)) => (None, instead.to_owned()),
            (Err(error), None) => return Err(error),
        };
        Ok(Self {
            inode: fs::metadata(OWN)?.ino(),
            diag: SockDiag::open()?,
            transports: Transports::below(&directory),
            _sysfs: sysfs,
        })
    }

    /// The namespace of this file, if it has superblocks of NFS. Returns to the namespace `home`.
    fn at(path: &Path, home: &OwnedFd) -> io::Result<Option<Self>> {
        let namespace = open(path)?;
        enter(&namespace)?;
        let network = has_superblocks("thread-self").then(|| Self::of_thread(None));
        enter(home)?;
        network.transpose()
    }
}

/// Opens the file of a namespace. A name may stand for anything, such as a FIFO.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    let network = Some(LinkNameSpaceType::Network);
    Ok(move_into_link_name_space(namespace.as_fd(), network)?)
}

/// Mounts the sysfs of the calling thread's namespace, in no directory.
fn mount_sysfs() -> io::Result<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

    use super::*;
    use crate::clock::ClockSample;

    fn held() -> CapabilitySet {
        capabilities(None).unwrap().permitted
    }

    #[test]
    fn a_thread_that_may_not_enter_namespaces_keeps_no_capability() {
        let thread = thread::spawn(|| {
            let kept = held().difference(CapabilitySet::SYS_ADMIN);
            let sets = CapabilitySets {
                effective: kept,
                permitted: kept,
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, sets).unwrap();
            let mut networks = Networks::new();
            networks.read(ClockSample::take().now);
            held()
        });
        assert_eq!(thread.join().unwrap(), CapabilitySet::empty());
    }
}
