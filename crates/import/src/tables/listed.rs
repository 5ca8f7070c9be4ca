//! Files and users named by the rows of a table.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_schemas::ebpf::ring::NO_USER;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, OTHERS, Tenant, TenantId};
use trackiops_schemas::level::IoLevel;
use xxhash_rust::xxh3::xxh3_64;

use crate::names::Names;

/// Most files that are known at a time.
const MOST_FILES: usize = 1 << 19;
/// Most bytes of the texts of files and users.
const MOST_BYTES: usize = 256 << 20;
/// Hashes of handles with a special meaning: see [`FileId::others`] and [`FileId::missed`].
const RESERVED: u32 = 2;

/// A file as named by a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listed {
    /// `server:/export`.
    pub mount: Option<String>,
    /// Path.
    pub path: Option<String>,
    /// Whether the path was inferred.
    pub path_inferred: bool,
    /// Number on its server.
    pub fileid: Option<u64>,
    /// Key of the file on all hosts.
    pub key: Option<i64>,
    /// Device.
    pub dev: Option<Dev>,
    /// Level of its requests.
    pub level: IoLevel,
}

/// The files and users of a table.
#[derive(Default)]
pub struct ListedNames {
    ids: HashMap<Listed, FileId>,
    files: HashMap<FileId, Listed>,
    mounts: HashMap<Option<String>, u32>,
    tenants: Vec<Arc<Tenant>>,
    tenant_ids: HashMap<Arc<Tenant>, u64>,
    /// Bytes of texts.
    bytes: usize,
}

impl ListedNames {
    /// The file of a row.
    pub fn file(&mut self, listed: Listed) -> FileId {
        if let Some(id) = self.ids.get(&listed) {
            return *id;
        }
        let name = format!(
            "{:?}",
            (&listed.mount, &listed.path, listed.fileid, listed.key)
        );
        let hash = xxh3_64(name.as_bytes());
        let mut id = FileId {
            dev: listed.dev.unwrap_or_else(|| self.device(&listed.mount)),
            fileid: listed.fileid.unwrap_or(hash),
            handle_hash: (hash as u32).max(RESERVED),
        };
        while self.files.contains_key(&id) {
            id.handle_hash = id.handle_hash.wrapping_add(1).max(RESERVED);
        }
        self.bytes += 2 * bytes_of([&listed.mount, &listed.path]);
        self.ids.insert(listed.clone(), id);
        self.files.insert(id, listed);
        id
    }

    /// A number for a mount without a known device.
    fn device(&mut self, mount: &Option<String>) -> Dev {
        if let Some(known) = self.mounts.get(mount) {
            return Dev(*known);
        }
        let next = self.mounts.len() as u32 + 1;
        self.mounts.insert(mount.clone(), next);
        Dev(next)
    }

    /// The tenant of a request.
    pub fn tenant(&mut self, tenant: Tenant) -> TenantId {
        let uid = tenant.uid.unwrap_or(NO_USER);
        let tenant = Arc::new(tenant);
        let next = self.tenants.len() as u64;
        let cgroup = *self.tenant_ids.entry(Arc::clone(&tenant)).or_insert(next);
        if cgroup == next {
            let Tenant {
                uid: _,
                user,
                cgroup,
                container,
                name,
                labels,
            } = &*tenant;
            self.bytes += size_of::<Tenant>() + bytes_of([user, cgroup, container, name, labels]);
            self.tenants.push(tenant);
        }
        TenantId { uid, cgroup }
    }
}

fn bytes_of<const N: usize>(texts: [&Option<impl AsRef<str>>; N]) -> usize {
    let texts = texts.into_iter().flatten();
    texts.map(|text| text.as_ref().len()).sum()
}

impl Names for ListedNames {
    fn attributes(&self, file: FileId, tenant: TenantId) -> Arc<FileAttributes> {
        let known = self.files.get(&file);
        let place = usize::try_from(tenant.cgroup).ok();
        let tenant = place.and_then(|place| self.tenants.get(place));
        let mount = known.and_then(|listed| listed.mount.clone());
        let path = match known {
            Some(listed) => listed.path.clone(),
            None => (file == FileId::others(file.dev)).then(|| OTHERS.to_owned()),
        };
        // The same in every import: from the file's number on its server, or else from its path.
        let has_number = known.is_some_and(|listed| listed.fileid.is_some());
        let own = FileId {
            dev: Dev(0),
            handle_hash: if has_number { 0 } else { file.handle_hash },
            ..file
        };
        let key = known.and_then(|listed| listed.key).map(FileKey);
        Arc::new(FileAttributes {
            key: key
                .unwrap_or_else(|| FileKey::new(Some(mount.as_deref().unwrap_or_default()), own)),
            id: file,
            mount,
            path,
            path_inferred: known.is_some_and(|listed| listed.path_inferred),
            tenant: tenant.cloned().unwrap_or_default(),
            level: known.map(|listed| listed.level).unwrap_or_default(),
        })
    }

    fn is_full(&self) -> bool {
        self.files.len() >= MOST_FILES || self.bytes >= MOST_BYTES
    }

    fn forget(&mut self) {
        let Self {
            ids,
            files,
            // Keep the numbers of devices, because rows use them.
            mounts: _,
            tenants,
            tenant_ids,
            bytes,
        } = self;
        *bytes = 0;
        ids.clear();
        files.clear();
        tenants.clear();
        tenant_ids.clear();
    }
}
