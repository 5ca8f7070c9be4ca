//! Errors of a question.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::{Granularity, GranularityError};
use trackiops_store::StoreError;

use crate::column::ColumnError;
use crate::condition::ConditionError;

/// Why a question failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows of several levels would be added up.
    #[error(
        "rows of several levels are not added up: name one level with --level, or add `level` to --by"
    )]
    SeveralLevels,
    /// Function calls have no rows of windows.
    #[error(
        "there are no rows of the level {0}: `trackiops requests --level {0}` has single calls, where they were kept"
    )]
    NoRowsOf(IoLevel),
    /// Only NFS has connections to servers.
    #[error("{0} are recorded at the level wire alone: leave out --level")]
    OnlyWire(&'static str),
    /// The range ends before it begins.
    #[error(
        "the range is empty: it begins at {since} and ends at {until}; give --since an earlier time than --until"
    )]
    EmptyRange {
        /// Start of the range, as text.
        since: String,
        /// End of the range, as text.
        until: String,
    },
    /// The range starts in the future.
    #[error(
        "--since {since} lies in the future: nothing can have been recorded then; give an earlier time"
    )]
    Future {
        /// Start of the range, as text.
        since: String,
    },
    /// The text of `--step` is not a granularity.
    #[error("--step: {0}; or write `all` for one row per file")]
    Step(#[from] GranularityError),
    /// The step is not a multiple of any stored granularity.
    #[error(
        "--step {step} is not a multiple of what is stored ({stored}); name a multiple of one of these, or `all`",
        stored = list(.stored)
    )]
    StepNotStored {
        /// The step.
        step: Granularity,
        /// Granularities in the store.
        stored: Vec<Granularity>,
    },
    /// A part of the range was recorded with other granularities.
    #[error(
        "--step {step} does not fit what {host} recorded {range}, where only {stored} is stored; \
         name a multiple of one of these, or a range without that part",
        stored = list(.stored)
    )]
    StepNotRecorded {
        /// The step.
        step: Granularity,
        /// The host that recorded this part.
        host: String,
        /// The part, as text.
        range: String,
        /// Granularities of that part.
        stored: Vec<Granularity>,
    },
    /// The recordings' granularities have no common multiple.
    #[error("the recordings in this range have no step in common (stored: {stored}); name one with --step, or `all`", stored = list(.stored))]
    NoCommonStep {
        /// Granularities in the store.
        stored: Vec<Granularity>,
    },
    /// The store has too few data to derive the size of an entry.
    #[error(
        "cannot plan by the store: it has {entries} sealed entries of its shortest windows, from {has}, and a plan needs \
         {least_entries}, from {needed}; record longer, or leave out --store to plan by the synthetic day"
    )]
    TooLittleToPlan {
        /// Length of the recorded time, as text.
        has: String,
        /// Number of entries of the finest granularity.
        entries: u64,
        /// Least recorded time, as text.
        needed: String,
        /// Least number of entries.
        least_entries: u64,
    },
    /// The answer has more rows than [`crate::Question::row_limit`].
    #[error(
        "there are too many rows to be held at once; ask for a shorter range, or a longer --step"
    )]
    TooManyRows,
    /// Rows do not fit into columns.
    #[error("rows cannot be put into columns: {0}")]
    Rows(io::Error),
    /// A question about connections selects files. The store does not record the connection of a file's requests.
    #[error(
        "--by transport is about all files; drop --file and --tenant, and what else --by has beside op, mount and host"
    )]
    ConnectionsOfFile,
    /// `--sort` names an unknown column, or one without numbers.
    #[error("--sort: {0}")]
    Sort(ColumnError),
    /// `--where` has an invalid condition.
    #[error("--where: {0}")]
    Condition(#[from] ConditionError),
    /// The mount of the path does not answer.
    #[error(
        "no file was recorded under the name {path}, and its file system did not answer within {limit:?}; \
         name the file by --file DEV:FILEID, or by the path under which it was recorded"
    )]
    PathHangs {
        /// The path.
        path: String,
        /// How long the query waited.
        limit: Duration,
    },
    /// The query cannot run `stat`.
    #[error(
        "no file was recorded under the name {path}, and `stat` cannot be run to find it: {source}; name it by --file DEV:FILEID"
    )]
    NoStat {
        /// The path.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The query cannot read the current directory, which completes a relative path.
    #[error("cannot make {path} absolute: {source}; name it from the root")]
    NotAbsolute {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The catalog lists a segment that is not on disk.
    #[error(
        "segment {0} is in the catalog but not on disk; if nothing removed it a moment ago, restore it from a copy"
    )]
    Vanished(PathBuf),
    /// The query cannot open a segment.
    #[error("cannot open segment {path}: {source}; check who may read the store")]
    Open {
        /// Path of the segment.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The content of a segment is invalid.
    #[error("segment {path} is damaged: {why}; restore it from a copy")]
    Damaged {
        /// Path of the segment.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// `1s, 10s, 1m`.
pub(crate) fn list(granularities: &[Granularity]) -> String {
    let names: Vec<_> = granularities.iter().map(Granularity::to_string).collect();
    names.join(", ")
}
