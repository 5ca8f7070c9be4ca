//! What is mounted where.

use serde::{Deserialize, Serialize};

use crate::identity::Dev;

/// A mount of an NFS file system, as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct MountPoint {
    /// Device of its superblock.
    pub dev: Dev,
    /// Its name, as rows of its files have it.
    pub mount: String,
    /// `server:/export` with the path from there to where it begins, as the kernel shows it. Behind it a name has what else tells it apart.
    pub source: String,
    /// Where it is mounted, in its mount namespace.
    pub path: String,
    /// Version of NFS, such as `4.2`, where it is told.
    pub version: Option<String>,
    /// Its options and those of its file system, as the kernel tells them.
    pub options: String,
    /// Whether it is seen in other mount namespaces than the recorder's.
    pub is_foreign: bool,
    /// The volume that it is, as the kubelet or a container engine calls it.
    pub volume: Option<String>,
    /// The claim of that volume, `namespace/name` or as much of that as is known.
    pub claim: Option<String>,
}
