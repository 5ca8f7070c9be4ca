//! Origin of a row: its file and its host.

use trackiops_schemas::identity::{Dev, FileAttributes, FileKey};
use trackiops_schemas::level::IoLevel;

/// A file, as a row describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file's key in the catalog.
    pub key: FileKey,
    /// Device number on the host that recorded the row.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
    /// `server:/export`; `None` if it is unknown.
    pub mount: Option<String>,
    /// Path; `None` if it is unknown.
    pub path: Option<String>,
    /// Whether the recorder found the path through a process that has the file open, instead of from the kernel. `None`
    /// if unknown.
    pub path_inferred: Option<bool>,
    /// The level at which the I/O was observed.
    pub level: IoLevel,
}

impl From<&FileAttributes> for File {
    fn from(file: &FileAttributes) -> Self {
        Self {
            key: file.key,
            dev: file.id.dev,
            fileid: file.id.fileid,
            mount: file.mount.clone(),
            path: file.path.clone(),
            path_inferred: file.path.as_ref().map(|_| file.path_inferred),
            level: file.level,
        }
    }
}

impl File {
    /// The path, or the number that `--file` accepts.
    pub fn name(&self) -> String {
        let number = || format!("{}:{}", self.dev, self.fileid);
        self.path.clone().unwrap_or_else(number)
    }
}

/// Index into the plan's hosts.
pub type HostIndex = usize;
