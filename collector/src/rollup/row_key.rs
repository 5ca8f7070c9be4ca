//! What identifies a row of a window.

use trackiops_schemas::ebpf::app_sums::AppKey;
use trackiops_schemas::ebpf::file_op_sums::FileOpKey;
use trackiops_schemas::ebpf::ring::{FoldKey, RequestRecord};
use trackiops_schemas::identity::{Dev, FileId, TenantId};

/// What requests have in common that are added up in one row of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileId,
    /// Who used it.
    pub tenant: TenantId,
}

/// Makes row keys of the types that the kernel side sends. All of them name a file and a tenant by
/// the same fields.
macro_rules! row_key_from {
    ($($sent:ty),*) => {$(
        impl From<&$sent> for RowKey {
            fn from(sent: &$sent) -> Self {
                Self {
                    file: FileId {
                        dev: Dev(sent.dev),
                        fileid: sent.fileid,
                        handle_hash: sent.handle_hash,
                    },
                    tenant: TenantId {
                        uid: sent.uid,
                        cgroup: sent.cgroup,
                    },
                }
            }
        }
    )*};
}

row_key_from!(RequestRecord, FoldKey, FileOpKey, AppKey);
