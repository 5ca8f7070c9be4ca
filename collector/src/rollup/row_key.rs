//! What identifies a row of a window.

use trackiops_schemas::ebpf::app_sums::{AppKey, FILE_SYSTEM, LOCAL};
use trackiops_schemas::ebpf::file_op_sums::FileOpKey;
use trackiops_schemas::ebpf::local::FILE_SYSTEM_HASH;
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

impl RowKey {
    /// Whether it is the key of a request, too, if it is that of one with these [`level_bits`]. Takes less than to make the other key.
    #[inline]
    pub fn is_of(&self, record: &RequestRecord, bits: u32) -> bool {
        let FileId {
            dev,
            fileid,
            handle_hash,
        } = self.file;
        let TenantId { uid, cgroup } = self.tenant;
        record.fileid == fileid
            && record.dev == dev.0
            && record.handle_hash == handle_hash
            && record.cgroup == cgroup
            && record.uid == uid
            && level_bits(record) == bits
    }
}

/// The bits of a request's flags that say of which level it is.
#[inline]
pub fn level_bits(record: &RequestRecord) -> u32 {
    record.flags & LEVEL_BITS
}

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
