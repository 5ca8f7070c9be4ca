//! Lists single requests in an order.

use std::collections::HashSet;
use std::mem;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::error::ArrowError;
use trackiops_schemas::columns::{
    CGROUP, CONTAINER, DEV, FILE_KEY, FILEID, LABELS, LATENCY_NS, LEVEL, MOUNT, OP, PATH, QUEUE_NS,
    RTT_NS, TENANT_NAME, UID, USER,
};
use trackiops_schemas::identity::{Dev, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Direction;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{RequestsView, Snapshot, ends_ns};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::{asked, recorded};
use crate::column::Value;
use crate::coverage::damage::unread;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::file_rows::{OrNothing, ask_notes};
use crate::file_selector::{FileMatch, FileSelection, resolve};
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::{Entity, GroupBy};
use crate::grouping::Grouping;
use crate::interval::Interval;
use crate::mount_filter::MountFilter;
use crate::origin::File;
use crate::question::{Question, Range, is_asked};
use crate::tenant_filter::TenantFilter;
use crate::unkept_requests;
use crate::volume_names::VolumeNames;

/// Number of rows beyond the limit after which the excess is dropped.
const MOST_SPARE: usize = 1 << 14;

/// A single request.
#[derive(Clone, Debug)]
pub struct KeptRequest {
    rows: Arc<RecordBatch>,
    row: usize,
}

impl KeptRequest {
    /// All requests of a batch. Each holds the batch.
    pub fn all_of(batch: &RecordBatch) -> impl Iterator<Item = Self> + use<> {
        let all = Arc::new(batch.clone());
        (0..batch.num_rows()).map(move |row| Self {
            rows: Arc::clone(&all),
            row,
        })
    }

    /// A column of [`trackiops_schemas::columns::request_schema`].
    pub fn value(&self, column: &str) -> Value<'_> {
        let array = self.rows.column_by_name(column);
        let Some(array) = array.filter(|array| array.is_valid(self.row)) else {
            return Value::Null;
        };
        match array.data_type() {
            DataType::Utf8 => Value::text(array.as_string::<i32>().value(self.row)),
            DataType::Boolean => Value::Flag(array.as_boolean().value(self.row)),
            DataType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(self.row).into()),
            DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(self.row)),
            DataType::Timestamp(..) => Value::TimeUs(
                array
                    .as_primitive::<TimestampMicrosecondType>()
                    .value(self.row),
            ),
            _ => Value::Null,
        }
    }

    /// A text, where known.
    pub fn text(&self, column: &str) -> Option<&str> {
        let array = self.rows.column_by_name(column)?.as_string_opt::<i32>()?;
        array.is_valid(self.row).then(|| array.value(self.row))
    }

    /// A number, where known.
    pub fn number(&self, column: &str) -> Option<i64> {
        match self.value(column) {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Latency and its parts, us, where known: in the queue, in network and server, in the completion.
    pub fn latency_us(&self) -> (Option<f64>, [Option<f64>; 3]) {
        let ns = |column| self.number(column);
        let us = |ns: i64| ns as f64 / 1000.0;
        let [all, queue, rtt] = [LATENCY_NS, QUEUE_NS, RTT_NS].map(ns);
        let rest = all
            .zip(queue.zip(rtt))
            .map(|(all, (queue, rtt))| all - queue - rtt);
        (all.map(us), [queue, rtt, rest].map(|part| part.map(us)))
    }
}

/// The slowest single requests, or the first ones by `--sort`; all without `--top`. Holds somewhat more rows in memory
/// than the answer has.
pub fn ask_requests(question: &Question) -> Result<Outcome<KeptRequest>, QueryError> {
    let terms = FilterAndSort::<KeptRequest>::new(question)?;
    let mut kept = match KeptRequests::open(question)? {
        Ok(kept) => kept,
        Err((why, notes)) => return Ok(Outcome::Nothing { why, notes }),
    };
    let mut first = First::new(question, &terms);
    kept.read(kept.range, &mut |batch| {
        first.add(&batch)?;
        Ok(true)
    })?;
    let is_kept = first.is_kept;
    let (rows, any) = first.finish();
    let (range, none, notes) = kept.finish(question);
    let answer = Answer::of_range(rows, GroupBy::FILE, range, notes);
    Ok(answer.or_nothing(|| match any {
        false if is_kept && !question.ops.is_empty() => none_of(question, range),
        false => none,
        true => EmptyReason::NoRow {
            conditions: in_words(question),
            asked: range,
        },
    }))
}

/// An operation, and the latencies of its calls.
pub type LatenciesOf = (String, Direction);

/// The latencies of single calls by operation, for the question's operations. Without a level in the question, of
/// application calls.
pub fn ask_call_latencies(question: &Question) -> Result<Outcome<LatenciesOf>, QueryError> {
    let mut question = question.clone();
    if question.levels.is_empty() {
        question.levels = vec![IoLevel::App];
    }
    let mut kept = match KeptRequests::open(&question)? {
        Ok(kept) => kept,
        Err((why, notes)) => return Ok(Outcome::Nothing { why, notes }),
    };
    let names = question.ops.iter().map(|op| op.to_lowercase());
    let mut rows: Vec<LatenciesOf> = names.map(|op| (op, Direction::default())).collect();
    let mut is_kept = false;
    kept.read(kept.range, &mut |batch| {
        let (ops, latencies) = (texts(&batch, OP), numbers(&batch, LATENCY_NS));
        is_kept |= batch.num_rows() > 0;
        for row in 0..batch.num_rows() {
            let op = text_in(ops, row).unwrap_or_default();
            let Some((_, sums)) = rows.iter_mut().find(|(of, _)| of.eq_ignore_ascii_case(op))
            else {
                continue;
            };
            let latency = latencies.filter(|latencies| latencies.is_valid(row));
            let latency = latency.and_then(|latencies| latencies.value(row).try_into().ok());
            sums.requests += 1;
            match latency {
                Some(ns) => {
                    sums.latency_ns_sum = sums.latency_ns_sum.saturating_add(ns);
                    sums.latency_ns_max = sums.latency_ns_max.max(ns);
                    sums.latency.record(ns);
                }
                None => sums.untimed += 1,
            }
        }
        Ok(true)
    })?;
    let (range, none, notes) = kept.finish(&question);
    rows.retain(|(_, sums)| sums.requests > 0);
    let answer = Answer::of_range(rows, GroupBy::HOST, range, notes);
    Ok(answer.or_nothing(|| match is_kept {
        false => none,
        true => none_of(&question, range),
    }))
}

/// Requests exist, but none of the question's operations.
pub(crate) fn none_of(question: &Question, asked: Interval) -> EmptyReason {
    let what = format!("{} requests", question.ops.join(" or "));
    EmptyReason::NoneOf { what, asked }
}

/// The single requests that a question selects.
pub struct KeptRequests {
    views: Vec<RequestsView>,
    chosen: Chosen,
    grouping: Grouping,
    /// Range of their completions. An open end is now, because requests may be kept before their window is closed.
    pub range: Interval,
    asked: Interval,
    /// The end of the last request that was read.
    last_end: UtcMs,
    notes: Vec<Note>,
    not_kept: Option<Note>,
}

impl KeptRequests {
    /// Opens them, or returns why there are none.
    pub fn open(question: &Question) -> Result<OrNothing<Self>, QueryError> {
        let notes = match ask_notes(question)? {
            Ok(notes) => notes,
            Err(nothing) => return Ok(Err(nothing)),
        };
        let snapshot = Snapshot::open_all(question.stores.iter().map(|store| &**store))?;
        let span = match recorded(&snapshot, question) {
            Ok(span) => span,
            Err(why) => return Ok(Err((why, notes))),
        };
        let asked = asked(span, question);
        let chosen = Chosen::new(&snapshot, question, asked)?;
        let grouping = Grouping::new(&snapshot, question)?;
        let views = open(question)?;
        let not_kept = unkept_requests::note(question, asked, &views)?;
        // Single requests may be kept longer than windows.
        let begin = views.iter().filter_map(RequestsView::start).min();
        let start = question.range.since.max(begin).unwrap_or(span.start);
        let end = question.range.until.unwrap_or(question.now).max(start);
        Ok(Ok(Self {
            views,
            chosen,
            grouping,
            range: Interval::new(start, end),
            asked,
            last_end: start,
            notes,
            not_kept,
        }))
    }

    /// Passes on requests that completed in a range, store by store and file by file. When `each` returns false, skips
    /// to the next store.
    pub fn read(
        &mut self,
        range: Interval,
        each: &mut dyn FnMut(RecordBatch) -> Result<bool, ArrowError>,
    ) -> Result<(), QueryError> {
        let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
        let Self {
            views,
            chosen,
            last_end,
            ..
        } = self;
        for view in views {
            view.read(ns(range.start)..ns(range.end), &mut |batch| {
                let batch = chosen.of(&batch)?;
                if let Some(ns) = ends_ns(&batch).iter().max() {
                    *last_end = UtcMs(ns.div_euclid(1_000_000) + 1).max(*last_end);
                }
                each(batch)
            })?;
        }
        Ok(())
    }

    /// If the question names no level, keeps only the first of [`IoLevel::ALL`] with requests, so that requests can be
    /// added up.
    pub fn keep_one_level(&mut self) -> Result<(), QueryError> {
        if !self.chosen.levels.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        self.read(self.range, &mut |batch| {
            let levels = texts(&batch, LEVEL);
            for row in 0..batch.num_rows() {
                let level = level_in(levels, row);
                // Function calls have no file.
                if level != IoLevel::User && !found.contains(&level) {
                    found.push(level);
                }
            }
            Ok(!found.contains(&IoLevel::ALL[0]))
        })?;
        self.chosen.levels = found.into_iter().min().into_iter().collect();
        Ok(())
    }

    /// Like [`Self::read`], with the entity of each request by the question's grouping. Entities are files, names,
    /// directories and mounts; hosts are not distinguished here.
    pub fn read_by_entity(
        &mut self,
        range: Interval,
        mut each: impl FnMut(&RecordBatch, &[Entity]) -> Result<(), ArrowError>,
    ) -> Result<(), QueryError> {
        let grouping = mem::take(&mut self.grouping);
        self.read(range, &mut |batch| {
            let file = file_in(&batch);
            let entities = (0..batch.num_rows()).map(|row| grouping.of(0, &file(row)));
            each(&batch, &entities.collect::<Vec<_>>())?;
            Ok(true)
        })
    }

    /// Their range, the reason for an empty answer, and notes about them and the recording. An open end of the range is the end of the recorded
    /// time, as in other answers, or of the last request, if that is later.
    pub fn finish(self, question: &Question) -> (Interval, EmptyReason, Vec<Note>) {
        let mut notes = self.notes;
        let damaged = self.views.iter().flat_map(RequestsView::damaged);
        notes.extend(damaged.map(|(path, why)| Note::Damaged {
            path: path.clone(),
            why: why.clone(),
            covers: None,
        }));
        let Range { since, until } = question.range;
        for view in &self.views {
            notes.extend(unread(view.unread(), since, until));
        }
        let deleted = self.views.iter().filter_map(|view| {
            let before = view.deleted_before()?;
            Some((before, view.is_start_unknown()))
        });
        let deleted = deleted
            .filter(|(before, _)| self.asked.start < *before)
            .max();
        notes.extend(
            deleted.map(|(before, is_unknown)| Note::RequestsDeleted { before, is_unknown }),
        );
        let is_dropped = |note: &Note| matches!(note, Note::RequestsDropped { .. });
        let was_dropped = notes.iter().any(is_dropped);
        // Those that were dropped are in the windows as well, and have a note.
        notes.extend(self.not_kept.filter(|_| !was_dropped));
        let were_wanted = self.views.iter().any(RequestsView::has_any) || was_dropped;
        let what = match were_wanted {
            true => "single requests kept",
            false => "single requests kept (`trackiops record --requests` keeps them)",
        };
        let none = EmptyReason::NoneOf {
            what: what.into(),
            asked: self.asked,
        };
        let end = until.unwrap_or(self.asked.end.max(self.last_end));
        let start = self.range.start;
        (Interval::new(start, end.max(start)), none, notes)
    }
}

/// The first requests in the order of a question.
struct First<'q> {
    terms: &'q FilterAndSort<KeptRequest>,
    /// Operations to keep. Calls have the names of the equivalent requests, in lower case.
    ops: &'q [String],
    top: usize,
    /// Rows with their sort keys.
    rows: Vec<(f64, KeptRequest)>,
    /// Whether any request matched the files and operations.
    any: bool,
    /// Whether any request matched the files.
    is_kept: bool,
}

impl<'q> First<'q> {
    fn new(question: &'q Question, terms: &'q FilterAndSort<KeptRequest>) -> Self {
        Self {
            terms,
            ops: &question.ops,
            top: question.top.map_or(usize::MAX, NonZeroUsize::get),
            rows: Vec::new(),
            any: false,
            is_kept: false,
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.is_kept |= batch.num_rows() > 0;
        let rows = KeptRequest::all_of(batch);
        let rows: Vec<_> = rows.filter(|row| self.is_of_op(row)).collect();
        self.any |= !rows.is_empty();
        let rows = rows.into_iter().filter(|row| self.terms.hold(row));
        let mut rows: Vec<_> = rows.map(|row| (self.place(&row), row)).collect();
        keep_first(&mut rows, self.top);
        // Copies the rows, because each holds its whole batch.
        let places: UInt32Array = rows.iter().map(|(_, row)| row.row as u32).collect();
        let copy = Arc::new(take_record_batch(batch, &places)?);
        let copied = rows.iter().enumerate().map(|(row, (place, _))| {
            let rows = Arc::clone(&copy);
            (*place, KeptRequest { rows, row })
        });
        self.rows.extend(copied);
        if self.rows.len() > self.top.saturating_add(MOST_SPARE) {
            keep_first(&mut self.rows, self.top);
        }
        Ok(())
    }

    fn is_of_op(&self, row: &KeptRequest) -> bool {
        is_asked(self.ops, row.text(OP))
    }

    /// Sort key: slowest first by default. Unknown latencies come last.
    fn place(&self, row: &KeptRequest) -> f64 {
        match self.terms.is_sorted() {
            true => self.terms.place(row),
            false => row.latency_us().0.map_or(f64::INFINITY, |us| -us),
        }
    }

    fn finish(mut self) -> (Vec<KeptRequest>, bool) {
        keep_first(&mut self.rows, self.top);
        let rows = self.rows.into_iter().map(|(_, row)| row);
        (rows.collect(), self.any)
    }
}

/// Equal requests keep their order.
fn keep_first(rows: &mut Vec<(f64, KeptRequest)>, top: usize) {
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    rows.truncate(top);
}

/// Opens the requests of each store once.
fn open(question: &Question) -> Result<Vec<RequestsView>, QueryError> {
    let mut known = HashSet::new();
    let mut views = Vec::new();
    for store in &question.stores {
        let id = store.metadata().ok().map(|of| (of.dev(), of.ino()));
        if known.insert(id) {
            views.push(RequestsView::open(store)?);
        }
    }
    Ok(views)
}

/// A column of numbers of a batch.
pub(crate) fn numbers<'b>(batch: &'b RecordBatch, name: &str) -> Option<&'b Int64Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()
}

/// A column of texts of a batch.
pub(crate) fn texts<'b>(batch: &'b RecordBatch, name: &str) -> Option<&'b StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

/// A text in a column, where known.
pub(crate) fn text_in(texts: Option<&StringArray>, row: usize) -> Option<&str> {
    let texts = texts.filter(|texts| texts.is_valid(row))?;
    Some(texts.value(row))
}

/// The file of each row of a batch.
fn file_in(batch: &RecordBatch) -> impl Fn(usize) -> File {
    let [keys, fileids] = [FILE_KEY, FILEID].map(|name| numbers(batch, name));
    let [dev, mount, path, levels] = [DEV, MOUNT, PATH, LEVEL].map(|name| texts(batch, name));
    let some = |texts, row| text_in(texts, row).map(str::to_owned);
    move |row| File {
        key: FileKey(keys.map_or(0, |keys| keys.value(row))),
        dev: text_in(dev, row)
            .and_then(|dev| dev.parse().ok())
            .unwrap_or(Dev(0)),
        fileid: fileids.map_or(0, |ids| ids.value(row).cast_unsigned()),
        mount: some(mount, row),
        path: some(path, row),
        path_inferred: None,
        level: level_in(levels, row),
    }
}

/// The level in a column.
pub(crate) fn level_in(levels: Option<&StringArray>, row: usize) -> IoLevel {
    text_in(levels, row)
        .and_then(|level| level.parse().ok())
        .unwrap_or_default()
}

/// The tenant of each row of a batch.
fn tenant_in(batch: &RecordBatch) -> impl Fn(usize) -> Tenant {
    let uids = numbers(batch, UID);
    let [user, cgroup, container, name, labels] =
        [USER, CGROUP, CONTAINER, TENANT_NAME, LABELS].map(|name| texts(batch, name));
    let some = |texts, row| text_in(texts, row).map(Into::into);
    move |row| Tenant {
        uid: uids
            .filter(|uids| uids.is_valid(row))
            .and_then(|uids| uids.value(row).try_into().ok()),
        user: some(user, row),
        cgroup: some(cgroup, row),
        container: some(container, row),
        name: some(name, row),
        labels: some(labels, row),
    }
}

/// The files, mounts, tenants and levels that a question selects.
struct Chosen {
    /// All levels if empty.
    levels: Vec<IoLevel>,
    wanted: Option<FileSelection>,
    mounts: Option<MountFilter>,
    tenants: TenantFilter,
}

impl Chosen {
    /// Looks up the question's selectors in a range.
    fn new(snapshot: &Snapshot, question: &Question, range: Interval) -> Result<Self, QueryError> {
        Ok(Self {
            levels: question.levels.clone(),
            wanted: resolve(snapshot, &question.files, range)?.wanted,
            mounts: MountFilter::new(snapshot, &question.mounts, &question.volumes)?,
            tenants: TenantFilter::new(&question.tenants, question.tenant_rules.clone())
                .with_volumes(VolumeNames::new(snapshot)?),
        })
    }

    fn of_levels(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.levels.is_empty() {
            return Ok(batch.clone());
        }
        let levels = texts(batch, LEVEL);
        let is_wanted = |row| self.levels.contains(&level_in(levels, row));
        let wanted: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_wanted(row)))
            .collect();
        filter_record_batch(batch, &wanted)
    }

    /// The selected requests of a batch.
    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let of_levels = self.of_levels(batch)?;
        let batch = &of_levels;
        if self.wanted.is_none() && self.mounts.is_none() && !self.tenants.needs_tenants() {
            return Ok(of_levels);
        }
        let file = file_in(batch);
        let ends = ends_ns(batch);
        let tenant = tenant_in(batch);
        let mut tenants = self.tenants.chooser();
        // The tenant of each row; `None` if the row is not wanted.
        let mut chosen: Vec<Option<Arc<Tenant>>> = vec![None; batch.num_rows()];
        let mut is_wanted = |row: usize| {
            let file = file(row);
            let mounts = self.mounts.as_ref();
            let on = mounts.is_none_or(|mounts| mounts.matches(file.mount.as_deref()));
            let at = UtcMs(ends[row].div_euclid(1_000_000));
            let is_chosen = on
                && self
                    .wanted
                    .as_ref()
                    .is_none_or(|wanted| match wanted.match_of(&file) {
                        FileMatch::All => true,
                        FileMatch::None => false,
                        FileMatch::Depends => wanted.holds(at, file.key),
                    });
            if !self.tenants.needs_tenants() || !is_chosen {
                return is_chosen;
            }
            let (file, tenant) = (Arc::new(file), Arc::new(tenant(row)));
            chosen[row] = tenants.choose(&file, &tenant).cloned();
            chosen[row].is_some()
        };
        let wanted: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_wanted(row)))
            .collect();
        let batch = match self.tenants.needs_names() {
            true => with_tenants(batch, &chosen)?,
            false => batch.clone(),
        };
        filter_record_batch(&batch, &wanted)
    }
}

/// The rows with these names and labels of tenants, in place of their own.
fn with_tenants(
    batch: &RecordBatch,
    tenants: &[Option<Arc<Tenant>>],
) -> Result<RecordBatch, ArrowError> {
    let texts = |of: fn(&Tenant) -> Option<&str>| -> ArrayRef {
        let texts = tenants.iter().map(|tenant| tenant.as_deref().and_then(of));
        Arc::new(texts.collect::<StringArray>())
    };
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns.map(|(field, column)| match field.name().as_str() {
        TENANT_NAME => texts(|tenant| tenant.name.as_deref()),
        LABELS => texts(|tenant| tenant.labels.as_deref()),
        _ => Arc::clone(column),
    });
    RecordBatch::try_new(Arc::clone(&schema), columns.collect())
}
