//! The identity of a row in a window.

use trackiops_schemas::ebpf::app_sums::{AppKey, FILE_SYSTEM, LOCAL};
use trackiops_schemas::ebpf::file_op_sums::FileOpKey;
use trackiops_schemas::ebpf::local::FILE_SYSTEM_HASH;
use trackiops_schemas::ebpf::ring::{FoldKey, RequestRecord, flags};
use trackiops_schemas::identity::{Dev, FileId, TenantId};
use trackiops_schemas::level::IoLevel;

/// The properties that all requests of a row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileId,
    /// The user and cgroup.
    pub tenant: TenantId,
    /// Where the requests were seen.
    pub level: IoLevel,
}

/// Whether two requests are counted in the same row of a window. Cheaper than making both keys.
#[inline]
pub fn have_same_row(a: &RequestRecord, b: &RequestRecord) -> bool {
    a.fileid == b.fileid
        && a.dev == b.dev
        && a.handle_hash == b.handle_hash
        && a.cgroup == b.cgroup
        && a.uid == b.uid
        && (a.flags ^ b.flags) & LEVEL_BITS == 0
}

/// The bits of a request's flags that encode its level.
const LEVEL_BITS: u32 = flags::BLOCK | flags::SPAN;

/// The level of requests with these flags.
fn level_of(bits: u32) -> IoLevel {
    match bits & LEVEL_BITS {
        0 => IoLevel::Wire,
        flags::SPAN => IoLevel::User,
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
);

impl From<&AppKey> for RowKey {
    fn from(sum: &AppKey) -> Self {
        let is_file = sum.direction & FILE_SYSTEM == 0;
        Self {
            file: FileId {
                dev: Dev(sum.dev),
                fileid: if is_file { sum.fileid } else { 0 },
                handle_hash: if is_file {
                    sum.handle_hash
                } else {
                    FILE_SYSTEM_HASH
                },
            },
            tenant: TenantId {
                uid: sum.uid,
                cgroup: sum.cgroup,
            },
            level: match sum.direction & LOCAL {
                0 => IoLevel::Wire,
                _ => IoLevel::Block,
            },
        }
    }
}
