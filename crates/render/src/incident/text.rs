//! The text of a report: columns of numbers in JSON, compressed. Rows refer to names by index.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use trackiops_query::operations::OperationAnswer;
use trackiops_query::times::{Zone, rfc3339};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::Direction;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_schemas::unit::us_from_ns;

use super::events::EventColumns;
use super::limits::Limits;
use super::names::{Names, TenantNames, pseudonyms};
use super::rows::{Place, Rows, Tree};
use super::{Found, Incident, IncidentError, Recorded, notes};
use crate::pseudonym::Unknown;

/// Format version, which `web/src/report/data.ts` checks.
const FORMAT: u32 = 3;
/// No index in a list.
const NONE: i64 = -1;

#[derive(Serialize)]
struct Document<'d> {
    format: u32,
    version: &'d str,
    /// Time at which the report was made.
    made: String,
    /// Times are ms since 1970, lengths ms.
    since: i64,
    until: i64,
    /// The requested range. Earlier data are for comparison.
    incident_since: i64,
    incident_until: i64,
    step: i64,
    level: &'static str,
    is_anonymized: bool,
    files: Count,
    trees: Count,
    tenants: Count,
    names: Names,
    places: Places,
    rows: RowColumns,
    operations: OperationColumns,
    no_operations: Option<String>,
    recorded: Times,
    operations_recorded: Times,
    had_names: HadNames,
    events: EventColumns,
    notes: Vec<String>,
}

/// Numbers of entities with separate places.
#[derive(Serialize)]
struct Count {
    kept: usize,
    all: usize,
}

#[derive(Default, Serialize)]
struct Places {
    host: Vec<usize>,
    mount: Vec<i64>,
    root: Vec<usize>,
    /// `file`, or a group of other files: in a `dir`, without a name (`unnamed`), or all `other` ones.
    kind: Vec<&'static str>,
    /// Path of the file or directory.
    path: Vec<i64>,
    /// Number of the file; equal for all of its names.
    file: Vec<i64>,
    dev: Vec<Option<String>>,
    fileid: Vec<i64>,
}

#[derive(Default, Serialize)]
struct RowColumns {
    /// Windows since the first one.
    window: Vec<i64>,
    place: Vec<usize>,
    tenant: Vec<i64>,
    read: DirectionColumns,
    write: DirectionColumns,
}

/// Sums and maxima in us, like in the store.
#[derive(Default, Serialize)]
struct DirectionColumns {
    requests: Vec<u64>,
    bytes: Vec<u64>,
    errors: Vec<u64>,
    untimed: Vec<u64>,
    unsplit: Vec<u64>,
    folded: Vec<u64>,
    latency_us_sum: Vec<u64>,
    latency_us_max: Vec<u64>,
    queue_us_sum: Vec<u64>,
    rtt_us_sum: Vec<u64>,
    histogram: Histograms,
}

#[derive(Default, Serialize)]
struct OperationColumns {
    window: Vec<i64>,
    host: Vec<usize>,
    mount: Vec<i64>,
    operation: Vec<usize>,
    requests: Vec<u64>,
    errors: Vec<u64>,
    queue_us_sum: Vec<u64>,
    rtt_us_sum: Vec<u64>,
    execute_us_sum: Vec<u64>,
    execute_us_max: Vec<u64>,
    histogram: Histograms,
}

/// For each row: its number of buckets, then for each bucket the distance to the one before and the count.
#[derive(Default, Serialize)]
#[serde(transparent)]
struct Histograms(Vec<i64>);

#[derive(Default, Serialize)]
struct Times {
    host: Vec<usize>,
    since: Vec<i64>,
    until: Vec<i64>,
    recorded_ms: Vec<u64>,
}

#[derive(Default, Serialize)]
struct HadNames {
    host: Vec<usize>,
    file: Vec<i64>,
    path: Vec<usize>,
    first: Vec<i64>,
    last: Vec<i64>,
}

/// Writes the report within the limits.
pub fn written(
    incident: &Incident,
    found: &Found,
    rows: &Rows,
    limits: Limits,
) -> Result<String, IncidentError> {
    let mut writer = Columns {
        tenants: &found.tenants,
        names: Names::default(),
        files: HashMap::new(),
        first: found.range.start.align(limits.step),
        step: limits.step,
    };
    let (places, row_columns) = writer.rows(rows);
    let operations = writer.operations(&found.operations);
    let (recorded, operations_recorded) = (
        writer.times(&found.recorded),
        writer.times(&found.operations_recorded),
    );
    let had_names = writer.had_names(found);
    let mut names = writer.names;
    let mut told = found.notes.clone();
    let mut with = incident.key.as_ref().map(pseudonyms);
    if let (Some(key), Some(with)) = (&incident.key, &mut with) {
        names.hide(key, with)?;
        let hidden = told.iter().map(|note| notes::hidden(note, with));
        told = hidden
            .filter_map(Result::transpose)
            .collect::<Result<_, Unknown>>()?;
    }
    let events = EventColumns::new(&found.events, rows.hosts().len() > 1, with.as_mut())?;
    let count = |kept: usize, all: usize| Count { kept, all };
    let ranked = &found.ranked;
    let document = Document {
        format: FORMAT,
        version: incident.version,
        made: rfc3339(incident.question.now),
        since: found.range.start.0,
        until: found.range.end.0,
        incident_since: found.incident.start.0,
        incident_until: found.incident.end.0,
        step: limits.step.ms(),
        level: ranked.level.as_str(),
        is_anonymized: incident.key.is_some(),
        files: count(limits.files, ranked.files.len()),
        trees: count(limits.trees, ranked.trees.len()),
        tenants: count(limits.tenants, ranked.tenants.len()),
        names,
        places,
        rows: row_columns,
        operations,
        no_operations: found.no_operations.clone(),
        recorded,
        operations_recorded,
        had_names,
        events,
        // UTC, because the reader may be in any time zone.
        notes: told.iter().map(|note| note.show(Zone::utc())).collect(),
    };
    Ok(packed(&document)?)
}

fn packed(document: &Document<'_>) -> io::Result<String> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    {
        let mut buffered = io::BufWriter::with_capacity(1 << 16, &mut out);
        serde_json::to_writer(&mut buffered, document)?;
        buffered.flush()?;
    }
    Ok(STANDARD.encode(out.finish()?))
}

struct Columns<'f> {
    tenants: &'f TenantNames,
    names: Names,
    files: HashMap<FileKey, usize>,
    first: UtcMs,
    step: Granularity,
}

fn signed(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(NONE)
}

impl Columns<'_> {
    fn window(&self, time: UtcMs) -> i64 {
        (time.align(self.step).0 - self.first.0) / self.step.ms()
    }

    fn file(&mut self, key: FileKey) -> i64 {
        let next = self.files.len();
        signed(*self.files.entry(key).or_insert(next))
    }

    fn rows(&mut self, rows: &Rows) -> (Places, RowColumns) {
        let (mut places, mut columns) = (Places::default(), RowColumns::default());
        let mut known: HashMap<&Place, usize> = HashMap::new();
        // Rows of equal tenants are in order of hosts and tenants: the page has only their indices.
        for (host, tenant) in rows.tenants() {
            self.names.tenant(&host, &tenant, self.tenants);
        }
        for ((time, place, tenant), row) in rows.in_order() {
            let at = *known.entry(place).or_insert_with(|| {
                self.place(&mut places, place);
                places.host.len() - 1
            });
            let tenant = tenant.as_ref();
            let tenant = tenant.map(|tenant| self.names.tenant(&place.host, tenant, self.tenants));
            columns.window.push(self.window(*time));
            columns.place.push(at);
            columns.tenant.push(tenant.map_or(NONE, signed));
            columns.read.push(&row.read);
            columns.write.push(&row.write);
        }
        (places, columns)
    }

    fn place(&mut self, places: &mut Places, place: &Place) {
        let (kind, path) = match (&place.file, &place.tree) {
            (Some(file), _) => ("file", file.path.as_ref()),
            (None, Tree::Dir(dir)) => ("dir", Some(dir)),
            (None, Tree::NoName) => ("unnamed", None),
            (None, Tree::Others) => ("other", None),
        };
        let mount = place.mount.as_ref().map(|mount| self.names.mount(mount));
        let path = path.map(|path| self.names.path(path));
        let file = place.file.as_ref();
        places.host.push(self.names.host(&place.host));
        places.mount.push(mount.map_or(NONE, signed));
        places.root.push(self.names.path(&place.root));
        places.kind.push(kind);
        places.path.push(path.map_or(NONE, signed));
        places.dev.push(file.map(|file| file.dev.to_string()));
        let fileid = file.map(|file| self.names.fileid(file.fileid));
        places.fileid.push(fileid.map_or(NONE, signed));
        places
            .file
            .push(file.map_or(NONE, |file| self.file(file.key)));
    }

    fn operations(&mut self, rows: &[OperationAnswer]) -> OperationColumns {
        // Windows may be longer than the requested ones.
        type OperationKey = (usize, i64, usize, i64);
        let mut sums: BTreeMap<OperationKey, OperationSums> = BTreeMap::new();
        for row in rows {
            let mount = row.mount.as_ref().map(|mount| self.names.mount(mount));
            let key = (
                self.names.host(&row.host),
                mount.map_or(NONE, signed),
                self.names.operation(&row.op),
                self.window(row.time),
            );
            sums.entry(key).or_default().merge(&row.sums);
        }
        let mut columns = OperationColumns::default();
        for ((host, mount, operation, window), sums) in sums {
            columns.window.push(window);
            columns.host.push(host);
            columns.mount.push(mount);
            columns.operation.push(operation);
            columns.requests.push(sums.requests);
            columns.errors.push(sums.errors);
            columns.queue_us_sum.push(us_from_ns(sums.queue_ns_sum));
            columns.rtt_us_sum.push(us_from_ns(sums.rtt_ns_sum));
            columns.execute_us_sum.push(us_from_ns(sums.execute_ns_sum));
            columns.execute_us_max.push(us_from_ns(sums.execute_ns_max));
            columns.histogram.push(&sums.execute);
        }
        columns
    }

    fn times(&mut self, recorded: &[Recorded]) -> Times {
        let mut times = Times::default();
        for Recorded { host, time, ms } in recorded {
            times.host.push(self.names.host(host));
            times.since.push(time.start.0);
            times.until.push(time.end.0);
            times.recorded_ms.push(*ms);
        }
        times
    }

    /// Earlier names of files with separate places.
    fn had_names(&mut self, found: &Found) -> HadNames {
        let mut names = HadNames::default();
        for name in &found.names {
            let Some(file) = self.files.get(&name.key) else {
                continue;
            };
            names.host.push(self.names.host(&name.host));
            names.file.push(signed(*file));
            names.path.push(self.names.path(&name.path));
            names.first.push(name.seen.0.0);
            names.last.push(name.seen.1.0);
        }
        names
    }
}

impl DirectionColumns {
    fn push(&mut self, of: &Direction) {
        self.requests.push(of.requests);
        self.bytes.push(of.bytes);
        self.errors.push(of.errors);
        self.untimed.push(of.untimed);
        self.unsplit.push(of.unsplit);
        self.folded.push(of.folded);
        self.latency_us_sum.push(us_from_ns(of.latency_ns_sum));
        self.latency_us_max.push(us_from_ns(of.latency_ns_max));
        self.queue_us_sum.push(us_from_ns(of.queue_ns_sum));
        self.rtt_us_sum.push(us_from_ns(of.rtt_ns_sum));
        self.histogram.push(&of.latency);
    }
}

impl Histograms {
    fn push(&mut self, of: &Histogram) {
        let buckets = of.buckets();
        self.0.push(signed(buckets.len()));
        let mut before = 0;
        for (bucket, count) in buckets {
            self.0.push((bucket - before).into());
            self.0.push(i64::try_from(*count).unwrap_or(i64::MAX));
            before = *bucket;
        }
    }
}
