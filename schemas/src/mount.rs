//! Mount points.

use serde::{Deserialize, Serialize};

use crate::identity::Dev;

/// A mount of an NFS file system, as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct MountPoint {
    /// Device of its superblock.
    pub dev: Dev,
    /// Its name, as in rows of its files.
    pub mount: String,
    /// `server:/export` and the path below it where the mount begins, as the kernel shows it. `mount` may add a suffix
    /// to it.
    pub source: String,
    /// Where it is mounted, in its mount namespace.
    pub path: String,
    /// Version of NFS, such as `4.2`, where the kernel shows it.
    pub version: Option<String>,
    /// Its options and the options of its file system, as the kernel shows them.
    pub options: String,
    /// Whether it is in another mount namespace than the recorder's.
    pub is_foreign: bool,
    /// Its volume, as the kubelet or a container engine names it.
    pub volume: Option<String>,
    /// The claim of that volume: `namespace/name`, as far as known.
    pub claim: Option<String>,
}
