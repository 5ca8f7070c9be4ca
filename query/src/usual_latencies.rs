//! The usual latencies of files: their means in the time before the range of a question.
//!
//! Each row that is read is compared with its file and tenant, and the lost times of a group add up. Where larger requests begin on a mount, its
//! mean latency rises, but no request takes longer than before.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use trackiops_schemas::identity::{FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Row;

use crate::group::{GroupBy, TenantKey};
use crate::lost::{Lost, Usual};
use crate::origin::File;

/// A file, and a tenant who uses it.
type Use = (FileKey, Option<TenantKey>, IoLevel);

/// Usual latencies by host, file and tenant. Without them, all lost time is unknown.
#[derive(Debug, Default)]
pub struct UsualLatencies {
    pub(crate) by: GroupBy,
    pub(crate) of: HashMap<String, HashMap<Use, Usual, RandomState>, RandomState>,
    /// The limit, if there were more files and tenants.
    pub(crate) exceeded: Option<usize>,
}

impl UsualLatencies {
    /// Whether any are known.
    pub(crate) fn are_known(&self) -> bool {
        !self.of.is_empty()
    }

    /// What the requests of a row lost.
    pub(crate) fn lost(&self, host: &str, file: &File, tenant: &Arc<Tenant>, row: &Row) -> Lost {
        if !self.are_known() {
            return Lost::default();
        }
        let of = (file.key, self.by.tenant(tenant), file.level);
        let usual = self.of.get(host).and_then(|of_host| of_host.get(&of));
        usual.map(|usual| usual.lost(row)).unwrap_or_default()
    }
}
