//! A question: a selection of rows, with a range, an order and columns.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;
use trackiops_tenants::Rules;

use crate::condition::Condition;
use crate::explain::Explain;
use crate::file_selector::FileSelector;
use crate::group::GroupBy;
use crate::projection::Projection;
use crate::step::Step;
use crate::times::Zone;
use crate::usual_latencies::UsualLatencies;

/// The protocol's name of READ. Files have full counters only for READ and WRITE.
pub const READ: &str = "READ";
/// The protocol's name of WRITE.
pub const WRITE: &str = "WRITE";

/// A question to one or several stores.
#[derive(Clone, Debug)]
pub struct Question {
    /// Directories of the stores.
    pub stores: Vec<PathBuf>,
    /// An open view, used unchanged in place of the stores.
    pub view: Option<Rc<Snapshot>>,
    /// The files; all if empty.
    pub files: Vec<FileSelector>,
    /// The range.
    pub range: Range,
    /// Windows of the answer. `None` chooses a length that suits the range.
    pub step: Option<Step>,
    /// Only files of these mounts: the name in rows, the source, the mount point, or a pattern of name or mount point.
    /// All if empty.
    pub mounts: Vec<String>,
    /// Only files of these volumes: names of volumes or claims, or patterns of either. All if empty.
    pub volumes: Vec<String>,
    /// Only rows of these tenants: names, or patterns of names. All if empty.
    pub tenants: Vec<String>,
    /// Only rows of these levels. If empty, only the first level with rows, in the order of [`IoLevel::ALL`]. Several
    /// levels require grouping by level.
    pub levels: Vec<IoLevel>,
    /// Rules that name tenants, in place of their recorded names.
    pub tenant_rules: Option<Arc<Rules>>,
    /// Only these operations, by the protocol's names. All if empty.
    pub ops: Vec<String>,
    /// Only rows that meet all of these conditions.
    pub conditions: Vec<Condition>,
    /// Order of rows, in place of the default one.
    pub sort: Option<Sort>,
    /// Only the first entities by `sort`, or those with the most bytes, in that order.
    pub top: Option<NonZeroUsize>,
    /// How rows are grouped.
    pub by: GroupBy,
    /// Stored columns that the answer needs.
    pub projection: Projection,
    /// Current time.
    pub now: UtcMs,
    /// Time zone of the text output.
    pub zone: Zone,
    /// Collects statistics for `--explain`.
    pub explain: Explain,
    /// Limit of rows; more are an error ([`crate::QueryError::TooManyRows`]). It limits memory, so it is approximate:
    /// each thread checks its own rows. If lost time would need more rows of the time before, it is unknown instead.
    pub row_limit: Option<usize>,
    /// What lost time is compared with; `None` reads the time before the range.
    pub usual: Option<Arc<UsualLatencies>>,
}

impl Question {
    /// Whether it is about calls of applications in place of requests: of the level `app`, without `block`.
    pub fn is_of_calls(&self) -> bool {
        self.levels.contains(&IoLevel::App) && !self.levels.contains(&IoLevel::Block)
    }

    /// Whether it selects mounts in any way.
    pub(crate) fn names_mounts(&self) -> bool {
        !self.mounts.is_empty() || !self.volumes.is_empty()
    }
}

/// The range of a question. An open end becomes the end of the recorded time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Start.
    pub since: Option<UtcMs>,
    /// End, exclusive.
    pub until: Option<UtcMs>,
}

/// Whether an operation is one of these. Without any, every operation is.
pub(crate) fn is_asked(ops: &[String], op: Option<&str>) -> bool {
    let is = |op: &str| ops.iter().any(|of| of.eq_ignore_ascii_case(op));
    ops.is_empty() || op.is_some_and(is)
}

/// Order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Name of a column, long or short.
    pub column: String,
    /// Smallest value first.
    pub ascending: bool,
}

/// The text of `--sort` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an order: write a column, which puts the largest first, or COLUMN:asc")]
pub struct SortError(String);

impl FromStr for Sort {
    type Err = SortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (column, order) = text.split_once(':').unwrap_or((text, "desc"));
        let ascending = match order {
            "asc" => true,
            "desc" => false,
            _ => return Err(SortError(text.into())),
        };
        let column = column.to_owned();
        Ok(Self { column, ascending })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_column_and_which_end_is_first() {
        let sort = |text: &str| text.parse::<Sort>().map(|s| (s.column, s.ascending));
        assert_eq!(sort("read_p99"), Ok(("read_p99".into(), false)));
        assert_eq!(sort("iops:asc"), Ok(("iops".into(), true)));
        assert_eq!(sort("iops:desc"), Ok(("iops".into(), false)));
        assert!(sort("iops:up").unwrap_err().to_string().contains("iops:up"));
    }
}
