//! What identifies a row of a window.

use trackiops_schemas::ebpf::app_sums::{AppKey, LOCAL};
use trackiops_schemas::ebpf::file_op_sums::FileOpKey;
use trackiops_schemas::ebpf::ring::{FoldKey, RequestRecord, flags};
use trackiops_schemas::identity::{Dev, FileId, TenantId};
use trackiops_schemas::level::IoLevel;

/// What requests have in common that are added up in one row of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileId,
    /// Who used it.
    pub tenant: TenantId,
    /// Where that was seen.
    pub level: IoLevel,
}

/// The level of requests with these flags.
fn level_of(bits: u32) -> IoLevel {
    match bits & flags::BLOCK {
        0 => IoLevel::Wire,
        _ => IoLevel::Block,
    }
}

/// Makes row keys of the types that the kernel side sends. All of them name a file and a tenant by
/// the same fields.
macro_rules! row_key_from {
    ($($sent:ty: $level:expr),* $(,)?) => {$(
        impl From<&$sent> for RowKey {
            fn from(sent: &$sent) -> Self {
                let level: fn(&$sent) -> IoLevel = $level;
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
                    level: level(sent),
                }
            }
        }
    )*};
}

row_key_from!(
    RequestRecord: |record| level_of(record.flags),
    FoldKey: |sum| level_of(sum.direction),
    FileOpKey: |_| IoLevel::Wire,
    AppKey: |sum| match sum.direction & LOCAL {
        0 => IoLevel::Wire,
        _ => IoLevel::Block,
    },
);
