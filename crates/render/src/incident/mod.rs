//! The data of `trackiops report incident`: all data of a range that the page needs, in one text of bounded size.
//!
//! The page answers its own questions, so the data are rows that can still be added up: sums by tenant, place and window. A place is one of
//! the files with the most time and bytes, or all other files of a tree. Fewer files with separate places and longer windows make the text
//! smaller; the sums always include all requests.

mod events;
mod limits;
mod names;
mod notes;
mod rows;
mod text;

use std::collections::HashSet;
use std::path::PathBuf;

use trackiops_query::answer::{Answer, EmptyReason, Outcome};
use trackiops_query::ask::{asked, recorded, within};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::error::QueryError;
use trackiops_query::file_rows::OrNothing;
use trackiops_query::files::ask_files;
use trackiops_query::group::{GroupBy, TenantKey};
use trackiops_query::operations::{Connections, OperationAnswer, ask_operations};
use trackiops_query::question::{Question, Range};
use trackiops_query::step::Step;
use trackiops_query::times::Zone;
use trackiops_query::{Event, Grouping, Projection, ask};
use trackiops_reports::events::ask_events;
use trackiops_reports::report::ReportError;
use trackiops_schemas::columns::{
    CGROUP, CONTAINER, DIRECTIONS, LATENCY_HIST, MOUNT, PATH, UID, UNSPLIT, USER,
};
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Seen, Snapshot};

use crate::export::pieces::{self, MOST_ROWS, Took};
use crate::pseudonym::check::CheckError;
use crate::pseudonym::columns::TranslateError;
use crate::pseudonym::{Key, Unknown};
use limits::{Limits, STEPS, Tried};
use names::TenantNames;
use rows::{Ranked, Rows};

/// Most windows of a report: about as many as a picture can show.
const MOST_WINDOWS: u64 = 400;
/// Columns of rows, besides their windows and files.
const IDENTITY: [&str; 6] = [MOUNT, PATH, UID, USER, CGROUP, CONTAINER];
/// Counters of reads and of writes, from which the page computes its columns.
const COUNTERS: [&str; 11] = [
    "requests",
    "bytes",
    "errors",
    "untimed",
    UNSPLIT,
    "folded",
    "latency_us_sum",
    "latency_us_max",
    "queue_us_sum",
    "rtt_us_sum",
    LATENCY_HIST,
];

/// A report to make.
pub struct Incident {
    /// Stores, range and current time. The report sets everything else.
    pub question: Question,
    /// Replaces names by pseudonyms.
    pub key: Option<Key>,
    /// Most bytes of the text.
    pub most_bytes: usize,
    /// The version of the program, which the page shows.
    pub version: &'static str,
}

/// The text of a report, and its content.
pub struct Report {
    /// JSON, compressed with gzip, in base64.
    pub text: String,
    /// The requested range.
    pub range: Interval,
    /// Length of the windows.
    pub step: Granularity,
    /// Number of files with separate places.
    pub files: usize,
    /// Number of all files that were read or written.
    pub all_files: usize,
    /// Notes about the range.
    pub notes: Vec<Note>,
}

/// A report, or why there is none.
pub enum Made {
    /// A report.
    Report(Report),
    /// Nothing matched.
    Nothing {
        /// The reason.
        why: EmptyReason,
        /// Notes about the range.
        notes: Vec<Note>,
    },
}

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum IncidentError {
    /// A question has no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The events cannot be listed.
    #[error(transparent)]
    Events(#[from] ReportError),
    /// Names cannot be replaced.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// A name has no pseudonym.
    #[error("a name cannot be replaced: {0}")]
    Unknown(#[from] Unknown),
    /// A name would be revealed.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The text could not be written.
    #[error("cannot make the text of the report: {0}")]
    Text(#[from] std::io::Error),
    /// Even the shortest text is too long.
    #[error(
        "the sums of {hosts} hosts alone take {bytes} bytes, and a report has at most {most}; name fewer stores"
    )]
    TooManyHosts {
        /// Number of hosts.
        hosts: usize,
        /// Length of the shortest text.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

/// All data of a report, before names are replaced.
struct Found {
    /// The requested range.
    incident: Interval,
    /// The requested range, and the same length of time before it, for comparison.
    range: Interval,
    rows: Rows,
    ranked: Ranked,
    operations: Vec<OperationAnswer>,
    /// Why operations are missing.
    no_operations: Option<String>,
    recorded: Vec<Recorded>,
    operations_recorded: Vec<Recorded>,
    names: Vec<Name>,
    tenants: TenantNames,
    events: Vec<Event>,
    notes: Vec<Note>,
}

/// A time that was recorded at least in part.
struct Recorded {
    host: String,
    time: Interval,
    ms: u64,
}

/// A name that a file had.
struct Name {
    host: String,
    key: FileKey,
    path: String,
    seen: Seen,
}

impl Incident {
    /// Makes the report.
    pub fn make(&self) -> Result<Made, IncidentError> {
        let found = match self.find()? {
            Ok(found) => found,
            Err((why, notes)) => return Ok(Made::Nothing { why, notes }),
        };
        let mut limits = Limits::first(&found.ranked, found.rows.step());
        let mut before: Option<Tried> = None;
        loop {
            let rows = found.rows.within(&found.ranked, limits);
            let text = text::written(self, &found, &rows, limits)?;
            let bytes = text.len();
            if bytes <= self.most_bytes {
                return Ok(Made::Report(Report {
                    text,
                    range: found.incident,
                    step: limits.step,
                    files: limits.files,
                    all_files: found.ranked.files.len(),
                    notes: found.notes,
                }));
            }
            let tried = Tried { limits, bytes };
            let less = tried.less(before.as_ref(), self.most_bytes, found.range.ms());
            limits = less.ok_or(IncidentError::TooManyHosts {
                hosts: rows.hosts().len(),
                bytes,
                most: self.most_bytes,
            })?;
            before = Some(tried);
        }
    }

    /// Asks all questions. Each question opens the stores again, which a recorder may be writing. All questions have the same range.
    fn find(&self) -> Result<OrNothing<Found>, IncidentError> {
        let about_all = Question {
            by: GroupBy::HOST,
            step: Some(Step::All),
            projection: Projection::bytes(),
            ..self.question.clone()
        };
        let notes = match ask(&about_all)? {
            Outcome::Found(Answer { notes, .. }) => notes,
            Outcome::Nothing { why, notes } => return Ok(Err((why, notes))),
        };
        let stores = self.question.stores.iter().map(PathBuf::as_path);
        let snapshot = Snapshot::open_all(stores).map_err(QueryError::from)?;
        let span = recorded(&snapshot, &self.question);
        let range = span.and_then(|span| {
            within(span, &self.question)?;
            let incident = asked(span, &self.question).intersect(span);
            let before = UtcMs(incident.start.0.saturating_sub_unsigned(incident.ms()));
            Ok((
                incident,
                Interval::new(before, incident.end).intersect(span),
            ))
        });
        let (incident, range) = match range {
            Ok(ranges) => ranges,
            Err(why) => return Ok(Err((why, notes))),
        };
        let question = Question {
            range: Range {
                since: Some(range.start),
                until: Some(range.end),
            },
            ..self.question.clone()
        };
        let (step, recorded) = recorded_times(&question, range)?;
        let all = Question {
            by: GroupBy::dir(1),
            files: Vec::new(),
            mounts: Vec::new(),
            volumes: Vec::new(),
            ..question.clone()
        };
        let grouping = Grouping::new(&snapshot, &all)?;
        let ranked = ranked(&question, &grouping)?;
        let limits = Limits::first(&ranked, step);
        let rows = rows(&question, range, &snapshot, &grouping, &ranked, limits)?;
        let (operations, operations_recorded, no_operations) = operations(&question, range, step)?;
        let names = names(&question, &ranked.kept(limits).files)?;
        let tenants = tenants(&question)?;
        let events = match ask_events(&question)? {
            Outcome::Found(answer) => answer.rows,
            Outcome::Nothing { .. } => Vec::new(),
        };
        Ok(Ok(Found {
            tenants,
            events,
            incident,
            range,
            rows,
            ranked,
            operations,
            no_operations,
            recorded,
            operations_recorded,
            names,
            notes,
        }))
    }
}

/// The shortest windows that the whole range has and that are not too many, and the recorded times of the range.
fn recorded_times(
    question: &Question,
    range: Interval,
) -> Result<(Granularity, Vec<Recorded>), QueryError> {
    let is_long = |ms: &i64| range.ms().div_ceil(ms.unsigned_abs()) <= MOST_WINDOWS;
    // In a range of years, even the longest windows are more.
    let first = STEPS.iter().position(is_long);
    let mut refused = None;
    for ms in &STEPS[first.unwrap_or(STEPS.len() - 1)..] {
        let step = Granularity::from_ms(*ms).map_err(QueryError::from)?;
        let by_window = Question {
            by: GroupBy::HOST,
            step: Some(Step::Windows(step)),
            projection: Projection::bytes(),
            ..question.clone()
        };
        match ask(&by_window) {
            Ok(Outcome::Found(answer)) => return Ok((step, times_of(&answer, step, range))),
            Ok(Outcome::Nothing { .. }) => return Ok((step, Vec::new())),
            Err(
                error @ (QueryError::StepNotStored { .. } | QueryError::StepNotRecorded { .. }),
            ) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or(QueryError::NoCommonStep { stored: Vec::new() }))
}

/// The recorded times of an answer within the range.
fn times_of<R>(answer: &Answer<R>, step: Granularity, range: Interval) -> Vec<Recorded> {
    let pieces = answer.recorded.pieces(step);
    let mut times: Vec<_> = pieces
        .map(|(host, time, ms)| (host, time.intersect(range), time, ms))
        .filter(|(_, within, _, _)| !within.is_empty())
        // If a window was recorded in part, its part within the range counts as recorded.
        .map(|(host, within, time, ms)| Recorded {
            host: host.to_owned(),
            ms: match ms == time.ms() {
                true => within.ms(),
                false => ms.min(within.ms()),
            },
            time: within,
        })
        .collect();
    times.sort_by(|a, b| (&a.host, a.time).cmp(&(&b.host, b.time)));
    times
}

/// All files, trees and tenants, sorted by time and bytes, largest first.
fn ranked(question: &Question, grouping: &Grouping) -> Result<Ranked, QueryError> {
    let whole = Question {
        by: GroupBy::FILE_TENANT,
        step: Some(Step::All),
        projection: Projection::totals().with(Projection::new(["uid", "user", "cgroup"])),
        ..question.clone()
    };
    Ok(match ask(&whole)? {
        Outcome::Found(answer) => Ranked::new(&answer.rows, grouping),
        Outcome::Nothing { .. } => Ranked::default(),
    })
}

/// The names of users and containers.
fn tenants(question: &Question) -> Result<TenantNames, QueryError> {
    let columns = [UID, USER, CGROUP, CONTAINER];
    let whole = Question {
        by: GroupBy {
            tenants: true,
            ..GroupBy::HOST
        },
        step: Some(Step::All),
        projection: Projection::bytes().with(Projection::new(columns)),
        ..question.clone()
    };
    let rows = match ask(&whole)? {
        Outcome::Found(answer) => answer.rows,
        Outcome::Nothing { .. } => Vec::new(),
    };
    let named = rows.into_iter().map(|row| {
        let key = TenantKey::of(&row.tenant);
        ((row.host, key), row.tenant)
    });
    Ok(named.collect())
}

/// Sums by tenant, place and window. Reads the range in pieces, so that only the sums are in memory.
fn rows(
    question: &Question,
    range: Interval,
    snapshot: &Snapshot,
    grouping: &Grouping,
    ranked: &Ranked,
    limits: Limits,
) -> Result<Rows, IncidentError> {
    let roots = snapshot.mount_roots().map_err(QueryError::from)?;
    let kept = ranked.kept(limits);
    let mut rows = Rows::new(limits.step);
    let of = |direction: &&str| COUNTERS.map(|counter| format!("{direction}_{counter}"));
    let counters: Vec<_> = DIRECTIONS.iter().flat_map(of).collect();
    let columns = IDENTITY
        .into_iter()
        .chain(counters.iter().map(String::as_str));
    let projection = Projection::new(columns).only_transfers(true);
    pieces::take(range, limits.step, |piece, may_refuse| {
        let question = Question {
            range: Range {
                since: Some(piece.start),
                until: Some(piece.end),
            },
            by: GroupBy::FILE_TENANT,
            step: Some(Step::Windows(limits.step)),
            projection,
            row_limit: may_refuse.then_some(MOST_ROWS),
            ..question.clone()
        };
        match ask(&question) {
            Err(QueryError::TooManyRows) => Ok(Took::TooMany),
            Err(error) => Err(IncidentError::from(error)),
            Ok(Outcome::Nothing { .. }) => Ok(Took::Rows(0)),
            Ok(Outcome::Found(answer)) => {
                let count = answer.rows.len();
                for row in answer.rows {
                    rows.add_answer(row, grouping, &roots, &kept);
                }
                Ok(Took::Rows(count))
            }
        }
    })?;
    Ok(rows)
}

type Operations = (Vec<OperationAnswer>, Vec<Recorded>, Option<String>);

fn operations(
    question: &Question,
    range: Interval,
    step: Granularity,
) -> Result<Operations, QueryError> {
    let by_window = Question {
        by: GroupBy::MOUNT,
        step: Some(Step::Windows(step)),
        ..question.clone()
    };
    match ask_operations(&by_window, Connections::Together) {
        Ok(Outcome::Found(answer)) => {
            let times = times_of(&answer, step, range);
            Ok((answer.rows, times, None))
        }
        Ok(Outcome::Nothing { why, .. }) => {
            let why = match why {
                EmptyReason::LeftOut { .. } | EmptyReason::NoOperation { .. } => {
                    why.show(Zone::utc())
                }
                _ => "no operations were recorded in this range".to_owned(),
            };
            Ok((Vec::new(), Vec::new(), Some(why)))
        }
        // Operations may be stored in other windows than rows of files.
        Err(QueryError::StepNotStored { .. } | QueryError::StepNotRecorded { .. }) => {
            let why = "operations of this range are stored in other windows than the report has";
            Ok((Vec::new(), Vec::new(), Some(why.to_owned())))
        }
        Err(error) => Err(error),
    }
}

/// The names that these files had.
fn names(question: &Question, files: &HashSet<FileKey>) -> Result<Vec<Name>, QueryError> {
    let answer = match ask_files(question)? {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { .. } => return Ok(Vec::new()),
    };
    let mut names = Vec::new();
    let there = answer.rows.into_iter();
    for row in there.filter(|row| files.contains(&row.file.key)) {
        let (host, key) = (row.host.to_string(), row.file.key);
        names.extend(row.history.names.into_iter().map(|(path, seen)| Name {
            host: host.clone(),
            key,
            path,
            seen,
        }));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;
    use trackiops_query::explain::Explain;
    use trackiops_schemas::time::UtcMs;
    use trackiops_testkit::generated::{THREE, windows};
    use trackiops_testkit::stores::{options, record};

    fn incident(store: PathBuf, most_bytes: usize) -> Incident {
        let question = Question {
            stores: vec![store],
            view: None,
            files: Vec::new(),
            range: Range::default(),
            step: None,
            mounts: Vec::new(),
            volumes: Vec::new(),
            tenants: Vec::new(),
            tenant_rules: None,
            levels: Vec::new(),
            ops: Vec::new(),
            conditions: Vec::new(),
            sort: None,
            top: None,
            by: GroupBy::FILE,
            projection: Projection::totals(),
            now: UtcMs(THREE + 3_600_000),
            zone: Zone::utc(),
            explain: Explain::default(),
            row_limit: None,
            usual: None,
        };
        Incident {
            question,
            key: None,
            most_bytes,
            version: "1",
        }
    }

    fn data(text: &str) -> Value {
        let packed = STANDARD.decode(text).unwrap();
        let mut json = String::new();
        let mut reader = flate2::read::GzDecoder::new(&*packed);
        reader.read_to_string(&mut json).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_shorter_text_has_less_detail_and_the_same_sums() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        record(&store, options("h"), &windows(1, THREE, 1000, 200, 150));
        let mut sums = Vec::new();
        let mut detail = Vec::new();
        for most_bytes in [1_000_000, 200_000, 60_000, 20_000, 6_000] {
            let Made::Report(report) = incident(store.clone(), most_bytes).make().unwrap() else {
                panic!("no report");
            };
            assert!(report.text.len() <= most_bytes);
            let data = data(&report.text);
            let column = |name: &str| -> u64 {
                let of = |direction| data["rows"][direction][name].as_array().unwrap().iter();
                of("read")
                    .chain(of("write"))
                    .map(|n| n.as_u64().unwrap())
                    .sum()
            };
            sums.push(["requests", "bytes", "errors", "latency_us_sum"].map(column));
            detail.push((report.step, std::cmp::Reverse(report.files)));
        }
        assert!(sums[0][0] > 10_000);
        assert!(sums.iter().all(|of| *of == sums[0]), "{sums:?}");
        assert_eq!(detail[0].0.ms(), 1000);
        assert!(detail.is_sorted(), "{detail:?}");
        assert!(detail[1] != detail[4], "{detail:?}");
    }

    #[test]
    fn sums_that_fit_nowhere_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        record(&store, options("h"), &windows(1, THREE, 1000, 20, 5));
        let refused = incident(store, 100).make().err().unwrap().to_string();
        assert!(
            refused.starts_with("the sums of 1 hosts alone take"),
            "{refused}"
        );
    }
}
