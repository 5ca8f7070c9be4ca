//! What a row of a window is about.

use trackiops_schemas::identity::{Dev, FileId, TenantId};
use trackiops_schemas::ring::{FoldKey, RequestRecord};

/// What requests have in common that are added up in one row of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileId,
    /// Who used it.
    pub tenant: TenantId,
}

impl From<&RequestRecord> for RowKey {
    fn from(record: &RequestRecord) -> Self {
        Self {
            file: FileId {
                dev: Dev(record.dev),
                fileid: record.fileid,
                handle_hash: record.handle_hash,
            },
            tenant: TenantId {
                uid: record.uid,
                cgroup: record.cgroup,
            },
        }
    }
}

impl From<&FoldKey> for RowKey {
    fn from(key: &FoldKey) -> Self {
        Self {
            file: FileId {
                dev: Dev(key.dev),
                fileid: key.fileid,
                handle_hash: key.handle_hash,
            },
            tenant: TenantId {
                uid: key.uid,
                cgroup: key.cgroup,
            },
        }
    }
}
