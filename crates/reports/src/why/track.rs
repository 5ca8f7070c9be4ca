//! Tracks: the requests of each kind of work of a place, by interval.

use std::collections::BTreeMap;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::file_rows::Nothing;
use trackiops_query::{
    Answer, GroupBy, Outcome, Projection, QueryError, Question, Range as TimeRange, Step, ask,
};
use trackiops_schemas::columns::{APP_DIRECTIONS, DIRECTIONS, FILE_OPS, LATENCY_HIST, UNSPLIT};
use trackiops_schemas::file_ops::FileOp;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{AppCalls, Direction, Row};
use trackiops_schemas::time::Granularity;

use crate::report::{Made, ReportError};
use crate::series::{Intervals, RecordedHost, recorded_hosts};
use crate::subject::is_only_missed;

/// Operations that wait until data is stable.
const SYNCS: [&str; 2] = ["COMMIT", "fsync"];

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Requests that read.
    Read,
    /// Requests that write.
    Write,
    /// COMMIT of NFS, or fsync of applications.
    Sync,
    /// All other operations, such as LOOKUP or open.
    Metadata,
    /// Read calls of applications.
    ReadCall,
    /// Write calls of applications.
    WriteCall,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Metadata,
        Self::ReadCall,
        Self::WriteCall,
    ];

    /// The plural, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Sync => "syncs",
            Self::Metadata => "metadata operations",
            Self::ReadCall => "read calls",
            Self::WriteCall => "write calls",
        }
    }

    /// Whether an application made it. Otherwise the NFS client or a file system did, perhaps on behalf of a call. Both wait for the same
    /// time, so their times are not added up.
    pub fn is_call(self, level: IoLevel) -> bool {
        match self {
            Self::Read | Self::Write => false,
            Self::Sync | Self::Metadata => level == IoLevel::Block,
            Self::ReadCall | Self::WriteCall => true,
        }
    }

    /// The part of a row with this kind.
    pub fn of(self, row: &Row) -> Direction {
        let is_sync = |op: &&FileOp| SYNCS.contains(&op.op.as_str());
        match self {
            Self::Read => row.read.clone(),
            Self::Write => row.write.clone(),
            Self::Sync => operations(row.ops.as_slice().iter().filter(is_sync)),
            Self::Metadata => operations(row.ops.as_slice().iter().filter(|op| !is_sync(op))),
            Self::ReadCall => calls(&row.app_read),
            Self::WriteCall => calls(&row.app_write),
        }
    }
}

fn operations<'o>(ops: impl Iterator<Item = &'o FileOp>) -> Direction {
    let mut sum = Direction::default();
    for op in ops {
        sum.requests += op.requests;
        sum.errors += op.errors;
        // Without --app-latency, calls have no times.
        sum.untimed += if op.execute_ns_sum == 0 {
            op.requests
        } else {
            0
        };
        sum.latency_ns_sum = sum.latency_ns_sum.saturating_add(op.execute_ns_sum);
        sum.latency_ns_max = sum.latency_ns_max.max(op.execute_ns_max);
        sum.queue_ns_sum = sum.queue_ns_sum.saturating_add(op.queue_ns_sum);
        sum.rtt_ns_sum = sum.rtt_ns_sum.saturating_add(op.rtt_ns_sum);
        sum.latency.merge(&op.execute);
        sum.unsplit += if op.rtt_ns_sum == 0 { op.requests } else { 0 };
    }
    sum
}

fn calls(of: &AppCalls) -> Direction {
    Direction {
        requests: of.calls,
        bytes: of.all_bytes(),
        errors: of.errors,
        latency_ns_sum: of.latency_ns_sum,
        latency_ns_max: of.latency_ns_max,
        untimed: of.calls.saturating_sub(of.timed),
        unsplit: of.timed,
        latency: of.latency.clone(),
        ..Direction::default()
    }
}

/// Unit that may be slow by itself: an NFS server, for all hosts, or a device of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The level of its requests.
    pub level: IoLevel,
    /// The host of a device; `None` for a server.
    pub host: Option<Arc<str>>,
    /// The server, or the device by its mount.
    pub name: Arc<str>,
}

impl Site {
    /// The site of a row.
    pub fn of(level: IoLevel, host: &str, mount: Option<&str>) -> Self {
        let mount = mount.unwrap_or("(unknown)");
        match level {
            IoLevel::Block => Self {
                level,
                host: Some(host.into()),
                name: mount.into(),
            },
            _ => Self {
                level,
                host: None,
                name: server(mount).into(),
            },
        }
    }
}

/// The server of a mount's name.
fn server(mount: &str) -> &str {
    mount.split_once(":/").map_or(mount, |(server, _)| server)
}

/// A mount on a host, at a level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The site, which other places may share.
    pub site: Site,
    /// The host.
    pub host: Arc<str>,
    /// The mount.
    pub mount: Arc<str>,
}

/// Rows of each place by interval.
pub struct Tracks {
    /// The intervals.
    pub intervals: Intervals,
    /// The requested range, which may begin and end within an interval.
    pub range: Interval,
    /// Rows by interval. An interval without a row is idle or was not recorded.
    pub places: BTreeMap<Place, Vec<Option<Row>>>,
    /// Recorded time by host.
    pub hosts: Vec<RecordedHost>,
    /// Notes of the engine.
    pub notes: Vec<Note>,
}

/// The stored columns that tracks need.
pub fn needs() -> Projection {
    let counters = [
        "requests",
        "bytes",
        "untimed",
        "folded",
        "latency_us_sum",
        "latency_us_max",
        "queue_us_sum",
        "rtt_us_sum",
        "errors",
        "retrans",
        "sequential",
        UNSPLIT,
        LATENCY_HIST,
    ];
    let of_calls = [
        "calls",
        "errors",
        "bytes",
        "direct_bytes",
        "timed",
        "latency_us_sum",
        "latency_us_max",
        LATENCY_HIST,
    ];
    let requests = DIRECTIONS
        .iter()
        .flat_map(|of| counters.map(|name| format!("{of}_{name}")));
    let calls = APP_DIRECTIONS
        .iter()
        .flat_map(|prefix| of_calls.map(|name| format!("{prefix}{name}")));
    let names: Vec<_> = requests.chain(calls).collect();
    let names = names.iter().map(String::as_str).chain([FILE_OPS, "mount"]);
    Projection::new(names)
}

/// The same question with another range.
pub fn within(question: &Question, range: Interval) -> Question {
    Question {
        range: TimeRange {
            since: Some(range.start),
            until: Some(range.end),
        },
        ..question.clone()
    }
}

/// Asks for the tracks of all places. Uses the first of `lengths` that the range was recorded with.
pub fn ask_tracks(question: &Question, lengths: &[Granularity]) -> Made<Tracks> {
    let mut refused = None;
    for length in lengths {
        let question = Question {
            step: Some(Step::Windows(*length)),
            by: GroupBy {
                levels: true,
                ..GroupBy::MOUNT
            },
            projection: needs(),
            ..question.clone()
        };
        match ask(&question) {
            Ok(Outcome::Found(answer)) => return Tracks::new(answer, *length).map(Ok),
            Ok(Outcome::Nothing { why, notes }) => return Ok(Err((why, notes) as Nothing)),
            Err(
                error @ (QueryError::StepNotStored { .. } | QueryError::StepNotRecorded { .. }),
            ) => refused = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(match refused {
        Some(error) => error.into(),
        None => ReportError::Unsuitable("the range is too long; name a shorter one".to_owned()),
    })
}

impl Tracks {
    fn new(answer: Answer, length: Granularity) -> Result<Self, ReportError> {
        let intervals = Intervals::covering(answer.range, length)?;
        let hosts = recorded_hosts(&answer, intervals);
        let mut places: BTreeMap<Place, Vec<Option<Row>>> = BTreeMap::new();
        for row in &answer.rows {
            let Some(at) = intervals.place(row.time) else {
                continue;
            };
            let sum = row.sum.row();
            if is_only_missed(row.mount(), &sum) {
                continue;
            }
            let place = Place {
                site: Site::of(row.level, &row.host, row.mount()),
                host: Arc::clone(&row.host),
                mount: row.mount().unwrap_or("(unknown)").into(),
            };
            let rows = places
                .entry(place)
                .or_insert_with(|| vec![None; intervals.count]);
            rows[at].get_or_insert_default().merge(&sum);
        }
        Ok(Self {
            intervals,
            range: answer.range,
            places,
            hosts,
            notes: answer.notes,
        })
    }

    /// One kind of work of a place, by interval; `None` where it was not recorded.
    pub fn track(&self, place: &Place, kind: Kind) -> Vec<Option<Direction>> {
        let host = self.hosts.iter().find(|host| host.name == place.host);
        let is_recorded = |at: usize| host.is_none_or(|host| host.ms[at] > 0);
        let rows = self.places.get(place).map_or(&[][..], Vec::as_slice);
        let rows = rows.iter().enumerate();
        rows.map(|(at, row)| match row {
            Some(row) => Some(kind.of(row)),
            None => is_recorded(at).then(Direction::default),
        })
        .collect()
    }

    /// The time of some intervals, cut to the range.
    pub fn time(&self, places: &std::ops::Range<usize>) -> Interval {
        let (first, last) = (
            self.intervals.at(places.start),
            self.intervals.at(places.end.saturating_sub(1)),
        );
        Interval::new(first.start, last.end).intersect(self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_of_a_server_are_one_site_and_devices_of_hosts_are_several() {
        let wire = |host, mount| Site::of(IoLevel::Wire, host, Some(mount));
        assert_eq!(wire("a", "nas:/x"), wire("b", "nas:/y"));
        assert_ne!(wire("a", "nas:/x"), wire("a", "other:/x"));
        let block = |host| Site::of(IoLevel::Block, host, Some("/dev/sda1"));
        assert_ne!(block("a"), block("b"));
    }

    #[test]
    fn syncs_are_apart_from_other_operations() {
        use trackiops_schemas::file_ops::OpName;
        let op = |name, requests| FileOp {
            op: OpName::new(name),
            requests,
            execute_ns_sum: 1000 * requests,
            ..FileOp::default()
        };
        let row = Row {
            ops: [op("fsync", 2), op("open", 3), op("COMMIT", 4)]
                .into_iter()
                .collect(),
            ..Row::default()
        };
        assert_eq!(Kind::Sync.of(&row).requests, 6);
        assert_eq!(Kind::Metadata.of(&row).requests, 3);
        assert_eq!(Kind::Metadata.of(&row).latency_ns_mean(), Some(1000.0));
    }
}
