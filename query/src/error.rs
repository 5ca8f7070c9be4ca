//! What can go wrong with a question.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use trackiops_schemas::time::{Granularity, GranularityError};
use trackiops_store::StoreError;

use crate::columns::ColumnError;
use crate::condition::ConditionError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The range ends before it begins.
    #[error(
        "the range is empty: it begins at {since} and ends at {until}; give --since an earlier time than --until"
    )]
    EmptyRange {
        /// Its start, as shown to people.
        since: String,
        /// Its end, as shown to people.
        until: String,
    },
    /// The range has not come yet.
    #[error(
        "--since {since} lies in the future: nothing can have been recorded then; give an earlier time"
    )]
    Future {
        /// The start of the range, as shown to people.
        since: String,
    },
    /// The step is no granularity.
    #[error("--step: {0}; or write `all` for one row per file")]
    Step(#[from] GranularityError),
    /// Nothing that is stored adds up to it.
    #[error(
        "--step {step} is not a multiple of what is stored ({stored}); name a multiple of one of these, or `all`",
        stored = list(.stored)
    )]
    StepNotStored {
        /// The step.
        step: Granularity,
        /// Granularities that occur in the store.
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
        /// The recording host.
        host: String,
        /// When, as shown to people.
        range: String,
        /// Granularities of that recording.
        stored: Vec<Granularity>,
    },
    /// Recordings whose granularities have no common multiple.
    #[error("the recordings in this range have no step in common (stored: {stored}); name one with --step, or `all`", stored = list(.stored))]
    NoCommonStep {
        /// Granularities that occur in the store.
        stored: Vec<Granularity>,
    },
    /// What was recorded does not tell how large entries are.
    #[error(
        "cannot plan by the store: it has {entries} sealed entries of its shortest windows, from {has}, and a plan needs \
         {least_entries}, from {needed}; record longer, or leave out --store to plan by the synthetic day"
    )]
    TooLittleToPlan {
        /// For how long it has recorded, as shown to people.
        has: String,
        /// Entries of the finest granularity.
        entries: u64,
        /// As long as is needed, as shown to people.
        needed: String,
        /// As many as are needed.
        least_entries: u64,
    },
    /// More rows than were asked for at once.
    #[error(
        "there are too many rows to be held at once; ask for a shorter range, or a longer --step"
    )]
    TooManyRows,
    /// Rows cannot be put into columns.
    #[error("rows cannot be put into columns: {0}")]
    Rows(io::Error),
    /// The connection of a file's requests is not recorded.
    #[error(
        "--by transport is about all files; drop --file, and what else --by has beside op, mount and host"
    )]
    ConnectionsOfFile,
    /// Rows are sorted by what is no column, or no number.
    #[error("--sort: {0}")]
    Sort(ColumnError),
    /// Rows are chosen by what is none.
    #[error("--where: {0}")]
    Condition(#[from] ConditionError),
    /// A pattern of mounts that is none.
    #[error("--mount {pattern} is no pattern: {why}; name it as `trackiops mounts` does")]
    MountPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pattern that is none.
    #[error(
        "--file {pattern} is no pattern: {why}; where a character of a name is meant, put it into brackets: [[] [*] [?]"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The mount of the path does not answer.
    #[error(
        "no file was recorded under the name {path}, and its file system did not answer within {limit:?}; \
         name the file by --file DEV:FILEID, or by the path under which it was recorded"
    )]
    PathHangs {
        /// The path.
        path: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// `stat` could not be run.
    #[error(
        "no file was recorded under the name {path}, and `stat` cannot be run to find it: {source}; name it by --file DEV:FILEID"
    )]
    NoStat {
        /// The path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The current directory is needed to complete a path.
    #[error("cannot make {path} absolute: {source}; name it from the root")]
    NotAbsolute {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A segment of the catalog is not there.
    #[error(
        "segment {0} is in the catalog but not on disk; if nothing removed it a moment ago, restore it from a copy"
    )]
    Vanished(PathBuf),
    /// A segment cannot be opened.
    #[error("cannot open segment {path}: {source}; check who may read the store")]
    Open {
        /// The segment.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A segment does not hold what it should.
    #[error("segment {path} is damaged: {why}; restore it from a copy")]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// `1s, 10s, 1m`.
pub(crate) fn list(granularities: &[Granularity]) -> String {
    let names: Vec<_> = granularities.iter().map(Granularity::to_string).collect();
    names.join(", ")
}
