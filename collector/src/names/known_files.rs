//! The attributes of recently active files, as they were last found.

use std::sync::Arc;

use trackiops_schemas::identity::{FileAttributes, FileId, OTHERS};

use crate::clock::MonotonicNs;
use crate::generations::Generations;
use crate::names::mounts::Mounts;
use crate::names::paths::ExportPath;
use crate::rollup::row_key::RowKey;
use crate::tenants::naming::Named;

/// Number of searches through all processes before a file stays without a name.
pub const FULL_SCAN_TRIES: u8 = 3;

/// What is known of a file.
pub struct KnownFile {
    pub attributes: Arc<FileAttributes>,
    /// The reported path from which the attributes were made.
    pub place: Option<ExportPath>,
    /// When its name was last searched for or found.
    pub checked: MonotonicNs,
    /// How often all processes may still be searched for its name.
    pub tries_left: u8,
    /// The result of the tenant rules for the attributes.
    pub named: Option<Named>,
}

/// The recently active files, by row.
pub struct KnownFiles(Generations<RowKey, KnownFile>);

impl KnownFiles {
    /// No file is known.
    pub fn new() -> Self {
        Self(Generations::new())
    }

    /// The entry of a row. A new entry has only the mount.
    pub fn entry(&mut self, row: RowKey, mounts: &Mounts, now: MonotonicNs) -> &mut KnownFile {
        let file = row.file;
        let path = is_others(file).then(|| OTHERS.to_owned());
        self.0.entry(row, || KnownFile {
            attributes: Arc::new(FileAttributes {
                key: mounts.key(file, None),
                id: file,
                mount: mounts.name_of(file.dev, None),
                path,
                path_inferred: false,
                tenant: Arc::default(),
                level: Default::default(),
            }),
            place: None,
            checked: now,
            tries_left: FULL_SCAN_TRIES,
            named: None,
        })
    }

    /// The files that were used since the last rotation.
    pub fn recent(&mut self) -> impl Iterator<Item = (&RowKey, &mut KnownFile)> {
        self.0.recent()
    }

    /// Forgets the files that were idle since the previous call.
    pub fn rotate(&mut self) {
        self.0.rotate();
    }
}

/// Whether a file stands for all files of a device that have no row.
pub fn is_others(file: FileId) -> bool {
    file == FileId::others(file.dev)
}
