//! Which mount an RPC client belongs to.
//!
//! From Linux 6.5 on `/sys/fs/nfs/MAJOR:MINOR` has a link to each RPC client that a superblock uses
//! (fs/nfs/sysfs.c). Without links, a client belongs to the only mount from its server's address,
//! if there is only one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ahash::{AHashMap, AHashSet};
use trackiops_schemas::identity::Dev;

use crate::clock::{MonotonicNs, is_due};
use crate::names::mountinfo::sources_at;

/// Below the root.
const DIRECTORY: &str = "sys/fs/nfs";
/// The kernel reuses numbers of clients. So links are read again after this time, even if no mount
/// of this namespace came or went.
const LOOK: Duration = Duration::from_secs(10);

/// What is known of RPC clients. One that is gone stays known until its number is used again: its
/// last RPCs may still arrive.
pub struct RpcClients {
    root: PathBuf,
    devices: AHashMap<u32, AHashSet<Dev>>,
    looked: Option<MonotonicNs>,
    /// What was found by version and address since the last look.
    sources: AHashMap<(u8, String), Vec<String>>,
    /// Without links: the only mount that was last found, by client.
    only: AHashMap<u32, String>,
}

/// An RPC client, as the sums of RPCs describe it.
pub struct RpcClient<'a> {
    /// Its number.
    pub number: u32,
    /// Its version of NFS (3, 4).
    pub version: u32,
    /// Address of its server.
    pub server: &'a str,
}

impl RpcClients {
    /// Those of the kernel whose files are below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            devices: AHashMap::new(),
            looked: None,
            sources: AHashMap::new(),
            only: AHashMap::new(),
        }
    }

    /// To be called when a mount came or went.
    pub fn forget_look(&mut self) {
        self.looked = None;
    }

    /// To be called before [`Self::mount`]. Reads the links if they may have changed, or if one of
    /// these clients is not known.
    pub fn look(&mut self, clients: impl IntoIterator<Item = u32>, now: MonotonicNs) {
        self.sources.clear();
        let mut clients = clients.into_iter();
        let unknown = clients.any(|client| !self.devices.contains_key(&client));
        if is_due(&mut self.looked, now, LOOK) || unknown {
            self.devices.extend(links(&self.root.join(DIRECTORY)));
        }
    }

    /// `server:/export` of a client, if it belongs to one mount only. `source` returns that of a
    /// device.
    pub fn mount<'m>(
        &mut self,
        client: &RpcClient<'_>,
        source: impl Fn(Dev) -> Option<&'m str>,
    ) -> Option<String> {
        if let Some(devices) = self.devices.get(&client.number) {
            let mut sources = devices.iter().map(|dev| source(*dev));
            let first = sources.next()??;
            return sources
                .all(|other| other == Some(first))
                .then(|| first.to_owned());
        }
        let version = u8::try_from(client.version).ok()?;
        let root = &self.root;
        let sources = self
            .sources
            .entry((version, client.server.to_owned()))
            .or_insert_with(|| sources_at(root, client.server, version));
        match sources.as_slice() {
            // It was just unmounted.
            [] => self.only.get(&client.number).cloned(),
            [source] => {
                self.only.insert(client.number, source.clone());
                Some(source.clone())
            }
            _ => {
                self.only.remove(&client.number);
                None
            }
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

        fn mount(&self, source: &str, vers: &str) {
            let path = self.0.path().join("proc/self/mountinfo");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut text = fs::read_to_string(&path).unwrap_or_default();
            text += &format!("36 22 0:49 / /m rw - nfs {source} rw,vers={vers},addr=10.0.0.5\n");
            fs::write(path, text).unwrap();
        }
    }

    const SOURCES: [(Dev, &str); 3] = [
        (Dev(49), "nas:/a"),
        (Dev(50), "nas:/b"),
        (Dev(51), "nas:/a"),
    ];

    fn mount(clients: &mut RpcClients, number: u32) -> Option<String> {
        let client = RpcClient {
            number,
            version: 4,
            server: "10.0.0.5",
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
        kernel.mount("nas:/a", "4.2");
        let mut clients = RpcClients::below(kernel.0.path());
        clients.look([5], MonotonicNs(0));
        let told = [4, 5, 6, 7, 8, 9].map(|client| mount(&mut clients, client));
        let (a, b) = (Some("nas:/a".to_owned()), Some("nas:/b".to_owned()));
        assert_eq!(told, [None, a.clone(), b.clone(), a.clone(), a, None]);

        // Gone, and its number in use again.
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
    fn without_links_the_only_mount_from_the_address_is_meant() {
        let kernel = Kernel::new();
        let mut clients = RpcClients::below(kernel.0.path());
        let mut told = || {
            clients.look([], MonotonicNs(0));
            mount(&mut clients, 5)
        };
        assert_eq!(told(), None);
        kernel.mount("nas:/a", "4.2");
        kernel.mount("nas:/b", "3");
        assert_eq!(told().as_deref(), Some("nas:/a"));
        fs::write(kernel.0.path().join("proc/self/mountinfo"), "").unwrap();
        assert_eq!(told().as_deref(), Some("nas:/a"), "it has just left");
        kernel.mount("nas:/a", "4.2");
        kernel.mount("nas:/c", "4.1");
        assert_eq!(told(), None);
    }
}
