//! Where a row is from: its file and its host.

use trackiops_schemas::identity::{Dev, FileAttributes, FileKey};

/// What a row says about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file on disk.
    pub key: FileKey,
    /// Its device number on the host that recorded it.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
    /// `server:/export`, where known.
    pub mount: Option<String>,
    /// Its name, where known.
    pub path: Option<String>,
    /// Whether that was found by looking at who has the file open, rather than told by the kernel; `None` where not known.
    pub path_inferred: Option<bool>,
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
        }
    }
}

impl File {
    /// The path, or what `--file` takes in its place.
    pub fn name(&self) -> String {
        let number = || format!("{}:{}", self.dev, self.fileid);
        self.path.clone().unwrap_or_else(number)
    }
}

/// Which host a row is from: an index into the plan's hosts.
pub type HostIndex = usize;
