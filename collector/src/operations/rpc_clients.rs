//! Finds the mount of an RPC client.
//!
//! From Linux 6.5 on `/sys/fs/nfs/MAJOR:MINOR` has a link to each RPC client that a superblock uses
//! (fs/nfs/sysfs.c). Without links, a client belongs to the superblock from its server's address,
//! if there is exactly one.
//!
//! Links may mislead. While `mount` looks for the way to an export over v4, a temporary superblock
//! has links, too. After a migration a superblock keeps the link to the old server's client (6.12, 7.2: the
//! kernel warns of a duplicate name). Another client may get that client's number.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ahash::{AHashMap, AHashSet};
use trackiops_schemas::identity::Dev;

use crate::clock::{MonotonicNs, is_due};
use crate::names::mountinfo::{Port, mounts_at};

/// Path below the root.
const DIRECTORY: &str = "sys/fs/nfs";
/// The kernel reuses numbers of clients. So links are read again after this time, even if no mount
/// of this namespace came or went.
const LOOK: Duration = Duration::from_secs(10);

/// The mounts of RPC clients. A client that is gone stays known until its number is used again: its
/// last RPCs may still arrive.
pub struct RpcClients {
    root: PathBuf,
    linked: AHashMap<u32, Linked>,
    looked: Option<MonotonicNs>,
    /// Superblocks by version and address, looked up since the last look.
    superblocks: AHashMap<(u8, String), Vec<Dev>>,
    /// Without links: the last known single mount of each client.
    only: AHashMap<u32, String>,
}

/// A client and its links.
struct Linked {
    devices: AHashSet<Dev>,
    /// Whether the last look still showed a link.
    is_linked: bool,
    /// Address of its server, once an RPC has shown it.
    server: Option<String>,
}

/// An RPC client, as the sums of RPCs describe it.
pub struct RpcClient<'a> {
    /// Its number.
    pub number: u32,
    /// Its NFS version (3, 4).
    pub version: u32,
    /// Address of its server.
    pub server: &'a str,
}

impl RpcClients {
    /// The clients of the kernel whose files are below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            linked: AHashMap::new(),
            looked: None,
            superblocks: AHashMap::new(),
            only: AHashMap::new(),
        }
    }

    /// Call this when a mount came or went.
    pub fn forget_look(&mut self) {
        self.looked = None;
    }

    /// Call this before [`Self::mount`]. Reads the links if they may have changed, or if one of
    /// these clients is unknown.
    pub fn look(&mut self, clients: impl IntoIterator<Item = u32>, now: MonotonicNs) {
        self.superblocks.clear();
        let mut clients = clients.into_iter();
        let unknown = clients.any(|client| !self.linked.contains_key(&client));
        if is_due(&mut self.looked, now, LOOK) || unknown {
            self.read_links();
        }
    }

    fn read_links(&mut self) {
        for linked in self.linked.values_mut() {
            linked.is_linked = false;
        }
        for (client, devices) in links(&self.root.join(DIRECTORY)) {
            let known = self.linked.remove(&client);
            let known = known.filter(|known| known.devices == devices);
            let linked = Linked {
                devices,
                is_linked: true,
                server: known.and_then(|known| known.server),
            };
            self.linked.insert(client, linked);
        }
    }

    /// `server:/export` of a client, if it belongs to exactly one mount. `source` returns that of a
    /// device.
    pub fn mount<'m>(
        &mut self,
        client: &RpcClient<'_>,
        source: impl Fn(Dev) -> Option<&'m str>,
    ) -> Option<String> {
        if let Some(linked) = self.linked.get_mut(&client.number) {
            let mount = linked.mount(&source);
            if linked.is_linked {
                linked
                    .server
                    .get_or_insert_with(|| client.server.to_owned());
            }
            // Without a link, these are the client's last RPCs, or another client has taken its number.
            let is_same =
                linked.is_linked || linked.server.as_deref().is_some_and(|s| s == client.server);
            match mount {
                Mounts::One(mount) if is_same => return Some(mount.to_owned()),
                Mounts::None if linked.is_linked => return None,
                _ => {}
            }
        }
        let version = u8::try_from(client.version).ok()?;
        let root = &self.root;
        let superblocks = self
            .superblocks
            .entry((version, client.server.to_owned()))
            .or_insert_with(|| superblocks_at(root, client.server, version));
        let name = match superblocks.as_slice() {
            // The mount has just been unmounted.
            [] => return self.only.get(&client.number).cloned(),
            [dev] => source(*dev).map(str::to_owned),
            _ => None,
        };
        match &name {
            Some(name) => self.only.insert(client.number, name.clone()),
            None => self.only.remove(&client.number),
        };
        name
    }
}

/// The superblocks of an NFS version with a server at this address, on any port: sums of RPCs have no port.
fn superblocks_at(root: &Path, address: &str, version: u8) -> Vec<Dev> {
    let mounts = mounts_at(root, (address, Port::Any), version);
    let mut devices: Vec<_> = mounts.into_iter().map(|mount| mount.dev).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The mounts that a client's links lead to.
enum Mounts<'m> {
    None,
    One(&'m str),
    Several,
}

impl Linked {
    /// `server:/export` of its devices that are mounted.
    fn mount<'m>(&self, source: impl Fn(Dev) -> Option<&'m str>) -> Mounts<'m> {
        let mut sources = self.devices.iter().filter_map(|dev| source(*dev));
        match sources.next() {
            None => Mounts::None,
            Some(first) if sources.all(|other| other == first) => Mounts::One(first),
            Some(_) => Mounts::Several,
        }
    }
}

/// The devices that have a link to each client.
fn links(directory: &Path) -> AHashMap<u32, AHashSet<Dev>> {
    let mut found: AHashMap<u32, AHashSet<Dev>> = AHashMap::new();
    for superblock in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = superblock.file_name();
        let Some(dev) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let links = fs::read_dir(superblock.path());
        for link in links.into_iter().flatten().flatten() {
            let target = fs::read_link(link.path()).ok();
            if let Some(client) = target.as_deref().and_then(client_of) {
                found.entry(client).or_default().insert(dev);
            }
        }
    }
    found
}

/// Parses `../../../kernel/sunrpc/rpc-clients/clnt-5`.
fn client_of(target: &Path) -> Option<u32> {
    let name = target.file_name()?.to_str()?;
    name.strip_prefix("clnt-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Kernel(tempfile::TempDir);

    impl Kernel {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn link(&self, dev: &str, name: &str, client: u32) {
            let superblock = self.0.path().join(DIRECTORY).join(dev);
            fs::create_dir_all(&superblock).unwrap();
            let target = format!("../../../kernel/sunrpc/rpc-clients/clnt-{client}");
            symlink(target, superblock.join(name)).unwrap();
        }

        fn mount(&self, dev: &str, source: &str, vers: &str) {
            let path = self.0.path().join("proc/1/mountinfo");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut text = fs::read_to_string(&path).unwrap_or_default();
            text += &format!("36 22 {dev} / /m rw - nfs {source} rw,vers={vers},addr=10.0.0.5\n");
            fs::write(path, text).unwrap();
        }
    }

    const SOURCES: [(Dev, &str); 3] = [
        (Dev(49), "nas:/a"),
        (Dev(50), "nas:/b"),
        (Dev(51), "nas:/a"),
    ];

    fn mount(clients: &mut RpcClients, number: u32) -> Option<String> {
        mount_from(clients, number, "10.0.0.5")
    }

    fn mount_from(clients: &mut RpcClients, number: u32, server: &str) -> Option<String> {
        let client = RpcClient {
            number,
            version: 4,
            server,
        };
        clients.mount(&client, |dev| {
            let mut known = SOURCES.iter();
            known
                .find(|(own, _)| *own == dev)
                .map(|(_, source)| *source)
        })
    }

    #[test]
    fn links_tell_the_mount_of_a_client_unless_it_is_shared() {
        let kernel = Kernel::new();
        for (dev, client) in [("0:49", 5), ("0:50", 6), ("0:51", 7)] {
            kernel.link(dev, "nfs_client", client);
            kernel.link(dev, "nfs_state_client", 4);
        }
        kernel.link("0:49", "acl_client", 8);
        kernel.link("0:51", "acl_client", 8);
        kernel.link("0:99", "nfs_client", 9);
        kernel.mount("0:49", "nas:/a", "4.2");
        kernel.mount("0:50", "nas:/b", "4.2");
        let mut clients = RpcClients::below(kernel.0.path());
        clients.look([5], MonotonicNs(0));
        let told = [4, 5, 6, 7, 8, 9].map(|client| mount(&mut clients, client));
        let (a, b) = (Some("nas:/a".to_owned()), Some("nas:/b".to_owned()));
        assert_eq!(told, [None, a.clone(), b.clone(), a.clone(), a, None]);

        // The client is gone, and its number is in use again.
        fs::remove_dir_all(kernel.0.path().join(DIRECTORY)).unwrap();
        clients.look([17], MonotonicNs(1));
        assert_eq!(mount(&mut clients, 6), b);
        kernel.link("0:50", "nfs_client", 5);
        clients.look([5], MonotonicNs(2));
        assert_eq!(mount(&mut clients, 5).as_deref(), Some("nas:/a"));
        clients.forget_look();
        clients.look([5], MonotonicNs(3));
        assert_eq!(mount(&mut clients, 5), b);
    }

    #[test]
    fn a_link_that_is_gone_does_not_keep_a_client_from_its_mount() {
        let kernel = Kernel::new();
        // The temporary superblock of the server's root, while `mount` looks for the way from there.
        kernel.link("0:99", "nfs_state_client", 4);
        kernel.link("0:50", "nfs_client", 6);
        kernel.link("0:50", "nfs_state_client", 7);
        kernel.link("0:99", "nfs_state_too", 7);
        kernel.mount("0:49", "nas:/a", "4.2");
        let mut clients = RpcClients::below(kernel.0.path());
        clients.look([4], MonotonicNs(0));
        let told = [4, 6, 7].map(|client| mount(&mut clients, client));
        let b = Some("nas:/b".to_owned());
        assert_eq!(told, [None, b.clone(), b]);
        fs::remove_dir_all(kernel.0.path().join(DIRECTORY)).unwrap();
        clients.forget_look();
        clients.look([4], MonotonicNs(1));
        assert_eq!(mount(&mut clients, 4).as_deref(), Some("nas:/a"));
        // The last RPCs of a former mount, and RPCs of another client with its number.
        assert_eq!(mount(&mut clients, 6).as_deref(), Some("nas:/b"));
        assert_eq!(mount_from(&mut clients, 6, "10.0.0.6"), None);
    }

    #[test]
    fn a_link_to_a_client_of_another_server_does_not_count() {
        let kernel = Kernel::new();
        // The first client has migrated.
        for dev in ["0:49", "0:50"] {
            kernel.link(dev, "nfs_state_client", 4);
        }
        kernel.mount("0:50", "nas:/b", "4.2");
        let mut clients = RpcClients::below(kernel.0.path());
        clients.look([4], MonotonicNs(0));
        assert_eq!(mount(&mut clients, 4).as_deref(), Some("nas:/b"));
    }

    #[test]
    fn without_links_the_only_mount_from_the_address_is_meant() {
        let kernel = Kernel::new();
        let mut clients = RpcClients::below(kernel.0.path());
        let mut told = || {
            clients.look([], MonotonicNs(0));
            mount(&mut clients, 5)
        };
        assert_eq!(told(), None);
        kernel.mount("0:49", "nas:/a", "4.2");
        kernel.mount("0:50", "nas:/b", "3");
        assert_eq!(told().as_deref(), Some("nas:/a"));
        fs::write(kernel.0.path().join("proc/1/mountinfo"), "").unwrap();
        assert_eq!(told().as_deref(), Some("nas:/a"), "it has just left");
        kernel.mount("0:49", "nas:/a", "4.2");
        kernel.mount("0:49", "nas:/a/volume", "4.2");
        assert_eq!(told().as_deref(), Some("nas:/a"), "one superblock");
        kernel.mount("0:52", "nas:/c", "4.1");
        assert_eq!(told(), None);
    }
}
