//! The NFS client's list of superblocks: each one's fsid on the server, and the network namespace in which it reaches the server.
//! From `/proc/PID/net/nfsfs/volumes` (`nfs_volume_list_show`, fs/nfs/client.c), which lists the superblocks of the process's network namespace.
//! Reading it never contacts a server.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use trackiops_schemas::identity::{Dev, path_text};

use crate::names::mountinfo::HOST;

/// Stands for a network namespace without a process, whose superblocks cannot be listed.
const UNSEEN: &str = "other";
/// Where `ip netns` names network namespaces, as the first process sees it.
pub const NAMED: &str = "/proc/1/root/run/netns";

/// Properties of a superblock that its mounts do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Superblock {
    /// Major and minor fsid from the server, in hexadecimal. `None` if the list is not readable.
    pub fsid: Option<String>,
    /// The network namespace in which it reaches its server, if that is not the host's: the name that `ip netns` gave it, or its number.
    pub network: Option<String>,
}

/// The superblocks of all network namespaces that have a process.
#[derive(Debug, Default)]
pub struct Superblocks {
    /// Superblocks of the host's network namespace; `None` if the kernel does not list them.
    host: Option<HashMap<Dev, String>>,
    /// Superblocks of other network namespaces.
    others: HashMap<Dev, Superblock>,
}

impl Superblocks {
    /// Reads the host's list again.
    pub fn refresh_host(&mut self) {
        self.host = volumes_of(HOST).map(|volumes| volumes.into_iter().collect());
    }

    /// Reads the lists of all network namespaces again. `processes` has at least one process of each.
    pub fn refresh_all(&mut self, processes: impl Iterator<Item = u32>) {
        self.refresh_host();
        self.others.clear();
        let mut seen: HashSet<_> = network_of(HOST).into_iter().collect();
        for pid in processes {
            let Some(link) = network_of(pid) else {
                continue;
            };
            if !seen.insert(link.clone()) {
                continue;
            }
            let volumes = volumes_of(pid).unwrap_or_default();
            if volumes.is_empty() {
                continue;
            }
            let network = Some(network_name(&link.to_string_lossy()));
            self.others.extend(volumes.into_iter().map(|(dev, fsid)| {
                let superblock = Superblock {
                    fsid: Some(fsid),
                    network: network.clone(),
                };
                (dev, superblock)
            }));
        }
    }

    /// Whether a superblock is listed, or lists are not available.
    pub fn knows(&self, dev: Dev) -> bool {
        let host = self.host.as_ref();
        host.is_none_or(|host| host.contains_key(&dev)) || self.others.contains_key(&dev)
    }

    /// The properties of a superblock.
    pub fn get(&self, dev: Dev) -> Superblock {
        let Some(host) = &self.host else {
            return Superblock::default();
        };
        if let Some(fsid) = host.get(&dev) {
            return Superblock {
                fsid: Some(fsid.clone()),
                network: None,
            };
        }
        let other = self.others.get(&dev).cloned();
        other.unwrap_or_else(|| Superblock {
            fsid: None,
            network: Some(UNSEEN.to_owned()),
        })
    }
}

#[cfg(test)]
impl Superblocks {
    /// A host with this list, and one superblock of another network namespace.
    pub fn listed(text: &[u8], other: Option<(Dev, Superblock)>) -> Self {
        Self {
            host: Some(parse_volumes(text).into_iter().collect()),
            others: other.into_iter().collect(),
        }
    }
}

/// Whether the network namespace of a process has superblocks of NFS. `process` is a name below /proc.
pub fn has_superblocks(process: impl fmt::Display) -> bool {
    volumes_of(process).is_some_and(|volumes| !volumes.is_empty())
}

/// The superblocks of a process's network namespace, with their fsids; `None` if they cannot be read.
fn volumes_of(process: impl fmt::Display) -> Option<Vec<(Dev, String)>> {
    let text = fs::read(format!("/proc/{process}/net/nfsfs/volumes")).ok()?;
    Some(parse_volumes(&text))
}

/// Parses `v4 7f000001  801 0:43         2900000000:0                      no`. A superblock that is still being set up has device 0:0.
pub(crate) fn parse_volumes(text: &[u8]) -> Vec<(Dev, String)> {
    let text = String::from_utf8_lossy(text);
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let dev: Dev = words.nth(3)?.parse().ok()?;
        let fsid = words.next()?;
        (dev != Dev(0)).then(|| (dev, fsid.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

fn network_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// The name of the network namespace of a link such as `net:[4026532287]`, or its number.
fn network_name(link: &str) -> String {
    let number = link.trim_start_matches("net:[").trim_end_matches(']');
    let mut names: Vec<_> = fs::read_dir(NAMED)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let inode = fs::metadata(entry.path()).map(|metadata| metadata.ino());
            inode.is_ok_and(|inode| inode.to_string() == number)
        })
        .map(|entry| path_text(entry.file_name().as_bytes()))
        .collect();
    names.sort_unstable();
    names
        .into_iter()
        .next()
        .unwrap_or_else(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"NV SERVER   PORT DEV          FSID                              FSC\n\
        v4 7f000001  801 0:43         29:0                              no \n\
        v3 7f000001  801 0:0          0:0                               no \n\
        v3 0a000005 4e51 0:1048575    a1b2c3d4e5f60718:0                yes\n";

    #[test]
    fn file_systems_are_known_by_what_their_servers_call_them() {
        let volumes = parse_volumes(TEXT);
        let expected = [
            (Dev(43), "29:0".to_owned()),
            (Dev(1_048_575), "a1b2c3d4e5f60718:0".to_owned()),
        ];
        assert_eq!(volumes, expected);
        let mut known = Superblocks {
            host: Some(volumes.into_iter().collect()),
            ..Superblocks::default()
        };
        assert_eq!(known.get(Dev(43)).fsid.as_deref(), Some("29:0"));
        assert_eq!(known.get(Dev(44)).network.as_deref(), Some(UNSEEN));
        assert!(known.knows(Dev(43)) && !known.knows(Dev(44)));
        known.host = None;
        assert_eq!(known.get(Dev(44)), Superblock::default());
    }
}
