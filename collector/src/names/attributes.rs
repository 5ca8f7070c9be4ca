//! Makes the attributes of rows from what is known of their files.

use std::sync::Arc;

use trackiops_schemas::identity::{FILE_SYSTEM, FileAttributes, FileId, FileKey, OTHERS};
use trackiops_schemas::level::IoLevel;

use crate::clock::MonotonicNs;
use crate::names::Names;
use crate::names::known_files::{FULL_SCAN_TRIES, is_others};
use crate::names::local_mounts;
use crate::names::paths::ExportPath;
use crate::rollup::row_key::RowKey;

impl Names {
    /// The attributes of a row, from current knowledge.
    pub fn attributes(&mut self, row: RowKey, now: MonotonicNs) -> Arc<FileAttributes> {
        let RowKey {
            file,
            tenant,
            level,
        } = row;
        match level {
            IoLevel::Block => return self.local_attributes(row, now),
            IoLevel::User => return self.function_attributes(row).into(),
            _ => {}
        }
        self.look_for_mount(file, now);
        let tenant = self.tenants.tenant(tenant);
        let place = self.paths.as_mut().and_then(|paths| paths.get(file));
        let mount = self.mounts.name_of(file.dev, place.as_deref());
        // Compared by address, because each path is stored only once.
        let at = |place: &Option<ExportPath>| place.as_ref().map(Arc::as_ptr);
        let known = self.known.entry(row, &self.mounts, now);
        let is_mount_new = known.attributes.mount != mount;
        let is_place_new = at(&known.place) != at(&place);
        // When mounts change, attributes are forgotten, except where no paths are reported.
        let may_be_another = is_mount_new || is_place_new || self.paths.is_none();
        if is_place_new || is_mount_new && place.is_some() {
            let path = place.as_ref();
            let path = path.and_then(|place| self.mounts.path(file.dev, place));
            Arc::make_mut(&mut known.attributes).path =
                path.and_then(|path| String::from_utf8(path).ok());
            known.place = place;
        }
        let key = match may_be_another {
            true => self.mounts.key(file, known.place.as_deref()),
            false => known.attributes.key,
        };
        if known.attributes.mount != mount
            || known.attributes.key != key
            || *known.attributes.tenant != tenant
        {
            // Another mount behind the same device number means another file, whose name is
            // unknown.
            let path = known.attributes.path.clone().filter(|_| {
                known.attributes.mount.is_none()
                    || known.attributes.mount == mount
                    || known.place.is_some()
            });
            known.attributes = Arc::new(FileAttributes {
                key,
                id: file,
                mount,
                path_inferred: known.attributes.path_inferred && path.is_some(),
                path,
                tenant: tenant.into(),
                level: Default::default(),
            });
            known.tries_left = FULL_SCAN_TRIES;
        }
        self.naming.named(&known.attributes, &mut known.named)
    }

    /// The attributes of a function, which takes the place of a file.
    fn function_attributes(&self, row: RowKey) -> FileAttributes {
        let name = usize::try_from(row.file.fileid)
            .ok()
            .and_then(|number| self.functions.get(number));
        FileAttributes {
            key: FileKey::new(name.map(String::as_str), row.file),
            id: row.file,
            mount: None,
            path: name.cloned(),
            path_inferred: false,
            tenant: self.tenants.tenant(row.tenant).into(),
            level: row.level,
        }
    }

    /// The attributes of a row of the block level.
    fn local_attributes(&mut self, row: RowKey, now: MonotonicNs) -> Arc<FileAttributes> {
        let RowKey {
            file,
            tenant,
            level,
        } = row;
        self.look_for_local_mount(file.dev, now);
        let local = self.local.get_or_insert_default();
        let source = local.source(file.dev);
        let path = match file {
            _ if is_others(file) => Some(OTHERS.to_owned()),
            _ if file == FileId::file_system(file.dev) => Some(FILE_SYSTEM.to_owned()),
            _ => {
                let place = self.paths.as_mut().and_then(|paths| paths.get(file));
                let path = place.and_then(|place| local.path(file.dev, &place));
                path.and_then(|path| String::from_utf8(path).ok())
            }
        };
        let attributes = FileAttributes {
            key: local_mounts::key(source, file),
            id: file,
            mount: source.map(str::to_owned),
            path,
            path_inferred: false,
            tenant: self.tenants.tenant(tenant).into(),
            level,
        };
        let known = self.known.entry(row, &self.mounts, now);
        if *known.attributes != attributes {
            known.attributes = Arc::new(attributes);
        }
        self.naming.named(&known.attributes, &mut known.named)
    }
}
