//! What is asked: which rows, of which time, in which order, and how much of each.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use trackiops_schemas::columns::*;
use trackiops_schemas::time::UtcMs;

use crate::condition::Condition;
use crate::explain::Explain;
use crate::file::FileSelector;
use crate::group::By;
use crate::needs::Needs;
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
    pub by: By,
    /// How much of each row is needed.
    pub detail: Detail,
    /// The time that it is.
    pub now: UtcMs,
    /// The zone in which times are shown.
    pub zone: Zone,
    /// Collects what answering takes.
    pub explain: Explain,
    /// More rows than about that are refused ([`QueryError::TooManyRows`]), before there are many more in memory.
    pub most_rows: Option<usize>,
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

/// How much of a row is needed. What is not needed stays zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Bytes, to rank files.
    Bytes,
    /// Requests, bytes and latencies, only the sums.
    Totals,
    /// What a table shows.
    Figures(Figures),
    /// What some columns are made of.
    Needs(Needs),
    /// All columns, and all that was recorded: files of which there is only metadata as well.
    Full,
}

/// What a table tells of each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Figures {
    /// Requests, throughput and latency.
    #[default]
    Rates,
    /// Requests, and of what their latency consists.
    Parts,
}

impl Detail {
    /// What columns need beside it.
    pub fn with(self, needs: Needs) -> Self {
        let all = rollup_schema();
        let names = all.fields().iter().map(|field| field.name().as_str());
        let own = Needs::new(names.filter(|name| self.includes(name)));
        match self {
            Self::Full => Self::Full,
            _ => Self::Needs(own.and(needs).only_transfers(self.is_of_transfers())),
        }
    }

    /// What an answer about reading and writing has in formats for other programs: all columns.
    pub fn of_transfers() -> Self {
        Self::Needs(Needs::all().only_transfers(true))
    }

    /// Whether files of which there is only metadata are left out: of what people ask about they would be rows of zeros. Whoever
    /// asks for all that there is gets them as well.
    pub(crate) fn is_of_transfers(self) -> bool {
        match self {
            Self::Figures(_) | Self::Totals => true,
            Self::Needs(needs) => needs.is_of_transfers(),
            Self::Bytes | Self::Full => false,
        }
    }

    pub(crate) fn includes(self, column: &str) -> bool {
        let plain = column
            .strip_prefix("read_")
            .or(column.strip_prefix("write_"));
        match self {
            Self::Full => true,
            Self::Needs(needs) => needs.include(column),
            Self::Figures(figures) => {
                let seldom = [
                    "latency_us_max",
                    "short",
                    "sequential",
                    "retrans",
                    "direct",
                    "stable",
                    ERRNOS,
                ];
                let rates = [LATENCY_HIST];
                let parts = ["queue_us_sum", "rtt_us_sum", UNSPLIT];
                let without = match figures {
                    Figures::Rates => parts.as_slice(),
                    Figures::Parts => rates.as_slice(),
                };
                !matches!(column, FILE_OPS | PATH_INFERRED | UID | USER | CGROUP)
                    && !plain
                        .is_some_and(|plain| seldom.contains(&plain) || without.contains(&plain))
            }
            Self::Totals => {
                let sums = ["requests", "bytes", "latency_us_sum"];
                matches!(column, MOUNT | PATH) || plain.is_some_and(|plain| sums.contains(&plain))
            }
            Self::Bytes => plain == Some("bytes"),
        }
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
