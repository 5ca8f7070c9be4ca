//! Files of a capture: the files behind handles, and the names that were looked up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use trackiops_capture::{Attributes, Handle};
use trackiops_schemas::ebpf::ring::NO_USER;
use trackiops_schemas::identity::{
    Dev, FileAttributes, FileId, FileKey, OTHERS, Tenant, TenantId, path_text,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::names::Names;

/// Most files that are known at a time: some 300 MiB.
const MOST_FILES: usize = 1 << 20;
/// Most bytes of their handles and names.
const MOST_BYTES: usize = 256 << 20;
/// The depth at which a path ends, because directories may form a loop.
const DEEPEST: usize = 64;

/// Index of a file in [`Files`].
type Index = u32;

struct File {
    id: FileId,
    key: FileKey,
    /// Directory and name.
    name: Option<(Index, Box<str>)>,
    is_root: bool,
}

/// The files of all servers.
#[derive(Default)]
pub struct Files {
    servers: Vec<IpAddr>,
    files: Vec<File>,
    by_handle: HashMap<(usize, Handle), Index>,
    by_id: HashMap<FileId, Index>,
    in_directory: HashMap<(Index, Box<str>), Index>,
    /// Bytes of handles and names.
    bytes: usize,
}

impl Files {
    /// `server:/`, because a capture does not contain the exported directory that a client mounted.
    pub fn mount(server: IpAddr) -> String {
        match server {
            IpAddr::V4(address) => format!("{address}:/"),
            IpAddr::V6(address) => format!("[{address}]:/"),
        }
    }

    /// The file of a handle. Its number comes from the first reply, if that reply has one.
    pub fn id(
        &mut self,
        server: IpAddr,
        handle: &Handle,
        attributes: Option<&Attributes>,
    ) -> FileId {
        let index = self.index(server, handle, attributes);
        self.files[index as usize].id
    }

    fn index(&mut self, server: IpAddr, handle: &Handle, attributes: Option<&Attributes>) -> Index {
        let server = self.server(server);
        if let Some(index) = self.by_handle.get(&(server, handle.clone())) {
            return *index;
        }
        let hash = xxh3_64(&handle.0);
        let mount = Self::mount(self.servers[server]);
        let by_handle = FileId {
            dev: Dev(server as u32 + 1),
            fileid: hash,
            handle_hash: crc32(&handle.0),
        };
        let fileid = attributes.and_then(|attributes| attributes.fileid);
        let mut id = FileId {
            fileid: fileid.unwrap_or(hash),
            ..by_handle
        };
        if self.by_id.contains_key(&id) {
            id = by_handle;
        }
        let index = self.files.len() as Index;
        self.files.push(File {
            id,
            // From the handle alone, so that the key does not depend on which message came first.
            key: FileKey::new(Some(&mount), by_handle),
            name: None,
            is_root: false,
        });
        self.bytes += handle.0.len();
        self.by_handle.insert((server, handle.clone()), index);
        self.by_id.insert(id, index);
        index
    }

    fn server(&mut self, address: IpAddr) -> usize {
        let known = self.servers.iter().position(|server| *server == address);
        known.unwrap_or_else(|| {
            self.servers.push(address);
            self.servers.len() - 1
        })
    }

    /// Notes that a handle belongs to a root.
    pub fn is_root(&mut self, server: IpAddr, handle: &Handle, attributes: Option<&Attributes>) {
        let index = self.index(server, handle, attributes);
        self.files[index as usize].is_root = true;
    }

    /// Notes that a name leads from a directory to a file.
    pub fn named(
        &mut self,
        server: IpAddr,
        directory: &Handle,
        name: &[u8],
        file: &Handle,
        attributes: Option<&Attributes>,
    ) {
        let directory = self.index(server, directory, None);
        let file = self.index(server, file, attributes);
        if directory != file {
            self.put_name(directory, path_text(name).into(), file);
        }
    }

    /// Notes that a name leads from a directory to a file without a known handle. `file` becomes an alias of the file that is known by this
    /// name, or else a file itself.
    pub fn found_by_name(
        &mut self,
        server: IpAddr,
        directory: &Handle,
        name: &[u8],
        file: &Handle,
    ) {
        let parent = self.index(server, directory, None);
        let known = self.in_directory.get(&(parent, path_text(name).into()));
        match known.copied() {
            Some(index) => {
                let server = self.server(server);
                self.by_handle.insert((server, file.clone()), index);
            }
            None => self.named(server, directory, name, file, None),
        }
    }

    fn put_name(&mut self, directory: Index, name: Box<str>, file: Index) {
        self.bytes += 2 * name.len();
        let place = (directory, name.clone());
        self.in_directory.insert(place, file);
        self.files[file as usize].name = Some((directory, name));
    }

    /// Notes that a file has a new name from now on.
    pub fn renamed(
        &mut self,
        server: IpAddr,
        (from, old): (&Handle, &[u8]),
        (to, new): (&Handle, &[u8]),
    ) {
        let from = self.index(server, from, None);
        let to = self.index(server, to, None);
        let old = (from, path_text(old).into());
        if let Some(file) = self.in_directory.remove(&old)
            && file != to
        {
            self.put_name(to, path_text(new).into(), file);
        }
    }

    /// The names below the root. If a directory's parents are unknown, `?` and the hash of its handle replace them.
    fn path(&self, index: Index) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        let mut at = index;
        while let Some((directory, name)) = &self.files[at as usize].name
            && names.len() < DEEPEST
            && !self.files[at as usize].is_root
        {
            names.push(name);
            at = *directory;
        }
        let top = &self.files[at as usize];
        if names.is_empty() {
            return top.is_root.then(|| "/".to_owned());
        }
        names.reverse();
        let names = names.join("/");
        Some(match top.is_root {
            true => format!("/{names}"),
            false => format!("/?{:08x}/{names}", top.id.handle_hash),
        })
    }
}

impl Names for Files {
    fn attributes(&self, file: FileId, tenant: TenantId) -> Arc<FileAttributes> {
        let known = self.by_id.get(&file).copied();
        let server = (file.dev.0 as usize).checked_sub(1);
        let server = server.and_then(|server| self.servers.get(server));
        let mount = server.map(|server| Self::mount(*server));
        let path = match known {
            Some(index) => self.path(index),
            None => (file == FileId::others(file.dev)).then(|| OTHERS.to_owned()),
        };
        let key = known.map(|index| self.files[index as usize].key);
        Arc::new(FileAttributes {
            key: key.unwrap_or_else(|| FileKey::new(mount.as_deref(), file)),
            id: file,
            mount,
            path,
            path_inferred: false,
            tenant: Arc::new(Tenant {
                uid: (tenant.uid != NO_USER).then_some(tenant.uid),
                ..Tenant::default()
            }),
            level: Default::default(),
        })
    }

    fn is_full(&self) -> bool {
        self.files.len() >= MOST_FILES || self.bytes >= MOST_BYTES
    }

    fn forget(&mut self) {
        self.files.clear();
        self.by_handle.clear();
        self.by_id.clear();
        self.in_directory.clear();
        self.bytes = 0;
    }
}

/// The kernel's hash of a handle (`nfs_fhandle_hash`, fs/nfs/nfs4_fs.h): CRC-32.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn handle(byte: u8) -> Handle {
        Handle(vec![byte; 8].into())
    }

    fn path(files: &mut Files, byte: u8) -> Option<String> {
        let id = files.id(SERVER, &handle(byte), None);
        let tenant = TenantId { uid: 7, cgroup: 0 };
        files.attributes(id, tenant).path.clone()
    }

    #[test]
    fn paths_are_the_names_that_were_looked_up_below_a_root_or_below_what_is_unknown() {
        let mut files = Files::default();
        files.named(SERVER, &handle(1), b"a", &handle(2), None);
        files.named(SERVER, &handle(2), b"b", &handle(3), None);
        let hash = crc32(&[1; 8]);
        assert_eq!(path(&mut files, 3), Some(format!("/?{hash:08x}/a/b")));
        files.is_root(SERVER, &handle(1), None);
        assert_eq!(path(&mut files, 3).as_deref(), Some("/a/b"));
        assert_eq!(path(&mut files, 1).as_deref(), Some("/"));
        assert_eq!(path(&mut files, 9), None);
        files.renamed(SERVER, (&handle(2), b"b"), (&handle(1), b"c"));
        assert_eq!(path(&mut files, 3).as_deref(), Some("/c"));
        // A directory below itself.
        files.named(SERVER, &handle(2), b"x", &handle(4), None);
        files.named(SERVER, &handle(4), b"y", &handle(2), None);
        assert!(path(&mut files, 4).is_some());
    }

    #[test]
    fn a_file_has_the_same_key_whatever_is_known_of_it() {
        let key = |attributes: Option<&Attributes>| {
            let mut files = Files::default();
            let id = files.id(SERVER, &handle(1), attributes);
            let tenant = TenantId { uid: 7, cgroup: 0 };
            (files.attributes(id, tenant).key, id.fileid)
        };
        let known = Attributes {
            fileid: Some(42),
            ..Attributes::default()
        };
        assert_eq!(key(None).0, key(Some(&known)).0);
        assert_eq!(key(Some(&known)).1, 42);
    }
}
