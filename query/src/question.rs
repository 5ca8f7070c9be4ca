//! What is asked: which rows, of which time, in which order, and how much of each.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use trackiops_schemas::time::UtcMs;

use crate::condition::Condition;
use crate::explain::Explain;
use crate::file::FileSelector;
use crate::group::GroupBy;
use crate::projection::Projection;
use crate::step::Step;
use crate::times::Zone;

/// Operations that files have in whole, as the protocol calls them.
pub const READ: &str = "READ";
/// As [`READ`].
pub const WRITE: &str = "WRITE";

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The stores' directories.
    pub stores: Vec<PathBuf>,
    /// The files; all without any.
    pub files: Vec<FileSelector>,
    /// When.
    pub range: Range,
    /// The windows of the answer; chosen to suit the range without it.
    pub step: Option<Step>,
    /// Only files of these mounts: `server:/export`, where it was mounted, or a pattern of either. All without any.
    pub mounts: Vec<String>,
    /// Only these operations, by the protocol's names. All without any.
    pub ops: Vec<String>,
    /// Only rows that meet all of these.
    pub conditions: Vec<Condition>,
    /// What rows are sorted by, in place of the usual order.
    pub sort: Option<Sort>,
    /// Only the files, or what else a row stands for, that come first by `sort`, or else those with the most bytes, in that order.
    pub top: Option<NonZeroUsize>,
    /// What a row stands for.
    pub by: GroupBy,
    /// The stored columns that the answer needs.
    pub projection: Projection,
    /// The time that it is.
    pub now: UtcMs,
    /// The zone in which times are shown.
    pub zone: Zone,
    /// Collects what answering takes.
    pub explain: Explain,
    /// More rows than about that are refused ([`QueryError::TooManyRows`]), before there are many more in memory.
    pub row_limit: Option<usize>,
}

/// The asked range; an open end is an end of what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Its start.
    pub since: Option<UtcMs>,
    /// The first point after it.
    pub until: Option<UtcMs>,
}

/// What rows are sorted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Name of a column, long or short.
    pub column: String,
    /// Smallest first.
    pub ascending: bool,
}

/// There is no such order.
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
