//! From a question to its answer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::mem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::columns::PATH;
use trackiops_schemas::file_ops::FileOps;
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::rollup::Direction;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Damage, Dataset, JournalTail, Snapshot, StoreError, Unread};

use crate::columns::Column;
use crate::condition::Condition;
use crate::coverage::Interval;
use crate::covered::Covered;
use crate::error::QueryError;
use crate::execute::{Found, execute};
use crate::explain::{Explain, Stage};
use crate::file::{FileSelector, Wanted, resolve};
use crate::group::{By, ByTenant, Grouping, Of};
use crate::merge::{File, Group, GroupKey, Groups};
use crate::needs::Needs;
use crate::note::Note;
use crate::on::MountFilter;
use crate::plan::{Plan, Range, plan};
use crate::report::{folded, notes};
use crate::scan::Detail;
use crate::step::Step;
use crate::sum::Sum;
use crate::terms::{Sort, Terms, in_words};
use crate::times::{Zone, show, show_range};

/// How often a question is planned again because another segment vanished between plan and scan.
const ATTEMPTS: usize = 32;

/// A window may have been appended once more so long after it was closed, with requests that came late: what is damaged may be that.
const LATE_MS: i64 = 60_000;

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

/// One file in one window, or what else a row stands for.
#[derive(Clone, Debug)]
pub struct AnswerRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: Arc<str>,
    /// What it is of.
    pub of: Of,
    /// The file, if it is of one.
    pub file: Option<Arc<File>>,
    /// Who used it; a part that is unknown or differs between several tenants is `None`.
    pub tenant: Arc<Tenant>,
    /// Its counters.
    pub sum: Sum,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
}

impl AnswerRow {
    /// `server:/export`, where it is known and the row is of one.
    pub fn mount(&self) -> Option<&str> {
        match &self.of {
            Of::File(_) => self.file.as_ref()?.mount.as_deref(),
            Of::Name(mount, _) | Of::Dir(mount, _) | Of::Mount(mount) => mount.as_deref(),
            Of::Host(_) => None,
        }
    }

    /// The name of the file or directory, where it is known and the row is of one.
    pub fn path(&self) -> Option<&str> {
        match &self.of {
            Of::File(_) => self.file.as_ref()?.path.as_deref(),
            Of::Name(_, name) => Some(name),
            Of::Dir(_, dir) => dir.as_deref(),
            Of::Mount(_) | Of::Host(_) => None,
        }
    }

    /// What people call what it is of. A file without a name has what `--file` takes in its place.
    pub fn name(&self) -> String {
        let unknown = || "-".to_owned();
        match &self.of {
            Of::File(_) => self.file.as_ref().map_or_else(unknown, |file| file.name()),
            Of::Name(_, name) => name.to_string(),
            Of::Dir(_, dir) => dir.as_deref().unwrap_or("(no name)").to_owned(),
            Of::Mount(mount) => mount.as_deref().map_or_else(unknown, str::to_owned),
            Of::Host(_) => self.host.to_string(),
        }
    }
}

/// The rows, in order, and what they cover.
#[derive(Clone, Debug)]
pub struct Answer<R = AnswerRow> {
    /// The rows; at least one.
    pub rows: Vec<R>,
    /// Their windows.
    pub step: Step,
    /// What each stands for.
    pub by: By,
    /// The range that they cover.
    pub range: Interval,
    /// What else to know.
    pub notes: Vec<Note>,
}

impl<R> Answer<R> {
    /// Keeps the first rows, and notes how many there were more.
    pub fn keep_first(&mut self, most: usize) {
        let count = self.rows.len().saturating_sub(most);
        if count > 0 {
            self.rows.truncate(most);
            self.notes.push(Note::MoreRows { count });
        }
    }
}

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing was recorded yet.
    EmptyStore(Vec<PathBuf>),
    /// No such file was ever recorded; the text says which.
    UnknownFile(String),
    /// The range lies outside of what was recorded.
    NotRecorded {
        /// The range.
        asked: Interval,
        /// What was recorded.
        span: Interval,
    },
    /// It was recorded without operations, which were asked for.
    LeftOut {
        /// The range.
        asked: Interval,
    },
    /// Exports do not have what is asked for; the text says what to ask in its place.
    NotExported(&'static str),
    /// It was recorded, and there was no operation.
    NoOperation {
        /// The range.
        asked: Interval,
    },
    /// There were rows, and none meets the conditions.
    NoRow {
        /// These, in words.
        conditions: String,
        /// The range.
        asked: Interval,
    },
    /// Nothing was recorded on the mounts that are asked for; the text says more.
    NoMount(String),
    /// There were requests, and none of that which is asked for.
    NoneOf {
        /// That, in words.
        what: String,
        /// The range.
        asked: Interval,
    },
    /// It was recorded, and nothing happened.
    Idle {
        /// The range.
        asked: Interval,
        /// Of what that is said.
        files: Which,
    },
}

/// Which files are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One.
    One,
    /// Some of them.
    Some,
    /// All.
    All,
}

impl Which {
    fn of(files: &[FileSelector]) -> Self {
        match files {
            [] => Self::All,
            [file] if !file.is_of_several() => Self::One,
            _ => Self::Some,
        }
    }
}

impl Nothing {
    /// The reason as people read it.
    pub fn show(&self, zone: Zone) -> String {
        let from_to = |range: &Interval| show_range(range.start, range.end, zone);
        match self {
            Self::EmptyStore(stores) => format!(
                "nothing is recorded in {} yet; `trackiops record` fills it, a window shows once it is closed",
                stores
                    .iter()
                    .map(|store| store.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::UnknownFile(what) | Self::NoMount(what) => what.clone(),
            Self::NoRow { conditions, asked } => {
                format!("there is no row with {conditions} from {}", from_to(asked))
            }
            Self::NotRecorded { asked, span } => format!(
                "nothing was recorded from {}; the recording is from {}",
                from_to(asked),
                from_to(span)
            ),
            Self::LeftOut { asked } => format!(
                "no operations were recorded from {}: `trackiops record` without --no-ops and without filters, and with the \
                 direct engine, records them",
                from_to(asked)
            ),
            Self::NotExported(what) => format!("an export has no {what}"),
            Self::NoOperation { asked } => {
                format!("no operation completed from {}", from_to(asked))
            }
            Self::NoneOf { what, asked } => format!("there were no {what} from {}", from_to(asked)),
            Self::Idle { asked, files } => {
                let files = match files {
                    Which::One => "the file was neither read nor written",
                    Which::Some => "the files were neither read nor written",
                    Which::All => "no file was read or written",
                };
                format!("{files} from {}", from_to(asked))
            }
        }
    }
}

impl Nothing {
    /// As [`Self::show`], where a part cannot be read: there may have been something in it.
    pub fn show_damaged(&self, zone: Zone) -> String {
        match self {
            Self::NotRecorded { asked, .. }
            | Self::LeftOut { asked }
            | Self::NoOperation { asked }
            | Self::NoRow { asked, .. }
            | Self::NoneOf { asked, .. }
            | Self::Idle { asked, .. } => format!(
                "no rows can be read from {}; the damaged files may have some",
                show_range(asked.start, asked.end, zone)
            ),
            Self::EmptyStore(_)
            | Self::UnknownFile(_)
            | Self::NoMount(_)
            | Self::NotExported(_) => format!("as far as it can be read, {}", self.show(zone)),
        }
    }
}

/// What a question leads to.
#[derive(Clone, Debug)]
pub enum Outcome<R = AnswerRow> {
    /// At least one row.
    Found(Answer<R>),
    /// No row.
    Nothing {
        /// Why.
        why: Nothing,
        /// What else to know.
        notes: Vec<Note>,
    },
}

impl<R> Outcome<R> {
    /// The outcome with more notes.
    fn with(mut self, more: Vec<Note>) -> Self {
        let (Self::Found(Answer { notes, .. }) | Self::Nothing { notes, .. }) = &mut self;
        notes.extend(more);
        self
    }
}

/// Answers a question about files.
pub fn ask(question: &Question) -> Result<Outcome, QueryError> {
    ask_with(question, ask_once)
}

/// Answers a question with one row per file, or what else `by` says, for the whole range; `make` makes of these rows what is wanted.
pub(crate) fn ask_whole<R>(
    question: &Question,
    by: By,
    make: impl Fn(&Snapshot, Answer) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    let question = Question {
        by,
        step: Some(Step::All),
        detail: Detail::Totals,
        ..question.clone()
    };
    ask_with(&question, |snapshot, question| {
        match ask_once(snapshot, question)? {
            Outcome::Nothing { why, notes } => Ok(Outcome::Nothing { why, notes }),
            Outcome::Found(answer) => make(snapshot, answer),
        }
    })
}

/// Answers a question by `ask_once`, which is called again where a segment has vanished meanwhile. The catalog forgets a segment
/// before it is deleted, so one that a new plan has once more is missing.
pub(crate) fn ask_with<R>(
    question: &Question,
    ask_once: impl Fn(&Snapshot, &Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    check(question)?;
    let mut damage = LeftOut::default();
    let mut vanished = HashSet::new();
    loop {
        let stores = question.stores.iter().map(PathBuf::as_path);
        let opened = question
            .explain
            .time(Stage::Open, || Snapshot::open_all(stores))?;
        let snapshot = opened.without(&damage.paths);
        let (path, why) = match ask_once(&snapshot, question) {
            Err(QueryError::Vanished(path))
                if vanished.len() < ATTEMPTS && vanished.insert(path.clone()) =>
            {
                question.explain.again();
                continue;
            }
            Err(QueryError::Vanished(path)) => (path, "it is missing".to_owned()),
            Err(QueryError::Damaged { path, why }) => (path, why),
            // A journal whose checksums hold and whose windows make no sense.
            Err(QueryError::Store(StoreError::Damaged { path, why, .. })) => (path, why.to_owned()),
            answered => {
                let mut notes = damage.notes();
                notes.extend(journals(&snapshot, question));
                return answered.map(|outcome| outcome.with(notes));
            }
        };
        damage.leave_out(&snapshot, question.range, path, why)?;
        question.explain.again();
    }
}

/// What is left out of an answer, so that there is one.
#[derive(Default)]
struct LeftOut {
    paths: HashSet<PathBuf>,
    notes: Vec<Note>,
}

/// So many damaged files are told one by one.
const TOLD: usize = 10;
/// Once so many segments were left out, all are looked at together: a store of which much is damaged is not planned again for each.
const ONE_BY_ONE: usize = 8;

impl LeftOut {
    /// Leaves a segment or a journal out from now on.
    fn leave_out(
        &mut self,
        snapshot: &Snapshot,
        range: Range,
        path: PathBuf,
        why: String,
    ) -> Result<(), QueryError> {
        self.leave_one_out(snapshot, path, why)?;
        if self.notes.len() < ONE_BY_ONE {
            return Ok(());
        }
        let since = range.since.unwrap_or(UtcMs(i64::MIN));
        let until = range.until.unwrap_or(UtcMs(i64::MAX));
        for dataset in Dataset::ALL {
            for segment in snapshot.segments(dataset, Some((since, until)))? {
                let why = match segment.verify() {
                    Err(StoreError::DamagedSegment { why, .. }) => why,
                    Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                        "it is missing".to_owned()
                    }
                    _ => continue,
                };
                if self.paths.insert(segment.path.clone()) {
                    let range = Interval::new(segment.start, segment.end);
                    self.notes.push(Note::Damaged {
                        path: segment.path,
                        why,
                        covers: Some((range, segment.files.unpack().keys().count())),
                    });
                }
            }
        }
        Ok(())
    }

    /// What is left out: the first ones one by one.
    fn notes(mut self) -> Vec<Note> {
        if self.notes.len() <= TOLD {
            return self.notes;
        }
        let more = self.notes.split_off(TOLD);
        let ranges = more.iter().filter_map(|note| match note {
            Note::Damaged { covers, .. } => covers.map(|(range, _)| range),
            _ => None,
        });
        let hull = ranges.reduce(|a, b| Interval::new(a.start.min(b.start), a.end.max(b.end)));
        self.notes.extend(hull.map(|range| Note::MoreDamaged {
            count: more.len(),
            range,
        }));
        self.notes
    }

    fn leave_one_out(
        &mut self,
        snapshot: &Snapshot,
        path: PathBuf,
        why: String,
    ) -> Result<(), QueryError> {
        let journal = snapshot.tails().iter().find(|tail| tail.path() == path);
        let mut covers = journal.and_then(|tail| covers(tail.span()));
        for dataset in Dataset::ALL {
            let segments = snapshot.segments(dataset, None)?;
            if let Some(segment) = segments.into_iter().find(|s| s.path == path) {
                let range = Interval::new(segment.start, segment.end);
                covers = Some((range, segment.files.unpack().keys().count()));
            }
        }
        // Else it would be met again.
        if !self.paths.insert(path.clone()) {
            return Err(QueryError::Damaged { path, why });
        }
        self.notes.push(Note::Damaged { path, why, covers });
        Ok(())
    }
}

/// What is damaged of journals, and may be of the range; and what is no store.
pub(crate) fn journals(snapshot: &Snapshot, question: &Question) -> Vec<Note> {
    let Range { since, until } = question.range;
    let mut notes: Vec<_> = unread(snapshot.unread(), since, until).collect();
    let exports = snapshot.tails().iter().filter(|tail| tail.is_export());
    let mut exports: Vec<_> = exports.map(|tail| tail.path().to_owned()).collect();
    exports.dedup();
    notes.extend(exports.into_iter().map(|path| Note::Export { path }));
    for tail in snapshot.tails() {
        let asked = tail.damage().iter().filter(|damage| {
            damage.covers.is_none_or(|(start, end)| {
                let start = UtcMs(start.0.saturating_sub(LATE_MS));
                since.is_none_or(|since| since < end) && until.is_none_or(|until| start < until)
            })
        });
        notes.extend(damaged(tail, &asked.collect::<Vec<_>>()));
    }
    notes
}

/// One note of all damaged parts of a journal that are asked for.
fn damaged(tail: &JournalTail, parts: &[&Damage]) -> Option<Note> {
    let why = match parts {
        [] => return None,
        [part] if part.is_cut => format!("its last {} bytes are missing", part.bytes),
        [part] => format!("{} bytes at byte {}", part.bytes, part.offset),
        parts => {
            let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
            format!("{bytes} bytes in {} places", parts.len())
        }
    };
    let spans: Option<Vec<_>> = parts.iter().map(|part| part.covers).collect();
    let span = spans.and_then(|spans| {
        let hull = |a: (UtcMs, UtcMs), b: (UtcMs, UtcMs)| (a.0.min(b.0), a.1.max(b.1));
        spans.into_iter().reduce(hull)
    });
    Some(Note::Damaged {
        path: tail.path().to_owned(),
        why,
        covers: covers(span),
    })
}

/// Journals that are not read and may be of a time.
pub(crate) fn unread(
    journals: &[Unread],
    since: Option<UtcMs>,
    until: Option<UtcMs>,
) -> impl Iterator<Item = Note> {
    let journals = journals.iter();
    let asked = journals.filter(move |journal| journal.may_overlap(since, until));
    asked.map(|journal| Note::Damaged {
        path: journal.path.clone(),
        why: journal.why.clone(),
        covers: covers(journal.covers),
    })
}

fn covers(span: Option<(UtcMs, UtcMs)>) -> Option<(Interval, usize)> {
    span.map(|(start, end)| (Interval::new(start, end.max(start)), 0))
}

pub(crate) fn check(question: &Question) -> Result<(), QueryError> {
    let Range { since, until } = question.range;
    let shown = |at| show(at, question.zone);
    match (since, until) {
        (Some(since), _) if since > question.now => Err(QueryError::Future {
            since: shown(since),
        }),
        (Some(since), Some(until)) if since >= until => Err(QueryError::EmptyRange {
            since: shown(since),
            until: shown(until),
        }),
        _ => Ok(()),
    }
}

/// Answers a question about files from one view of the store.
fn ask_once(snapshot: &Snapshot, question: &Question) -> Result<Outcome, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    let explain = &question.explain;
    let selection = match explain.time(Stage::Find, || select(snapshot, question, span))? {
        Ok(selection) => selection,
        Err(why) => return Ok(nothing(why)),
    };
    let terms = Terms::new(question)?;
    let plan = plan(snapshot, Dataset::Rollup, span, question, question.step)?;
    let grouping = explain.time(Stage::Find, || {
        let mounts = MountFilter::new(snapshot, &question.mounts)?;
        Grouping::new(snapshot, question.by, &question.files, mounts)
    })?;
    let mut wanted = selection.wanted;
    let (ranks, mut only_metadata) = match question.top {
        None => (None, 0),
        Some(top) => {
            let wanted = wanted.as_ref();
            let (ranks, only_metadata) =
                rank(snapshot, span, question, &terms, wanted, &grouping, top)?;
            (Some(ranks), only_metadata)
        }
    };
    if let Some(ranks) = ranks.as_ref().filter(|_| question.by.is_of_files()) {
        let keys = ranks.keys().filter_map(|(of, _)| match of {
            Of::File(key) => Some(*key),
            _ => None,
        });
        wanted = Some(wanted.unwrap_or_default().only(keys));
    }
    let detail = question.detail.with(needs(question, &terms, plan.step));
    let most_rows = question.most_rows;
    let mut found = execute(
        &plan,
        wanted.as_ref(),
        detail,
        &grouping,
        most_rows,
        explain,
    )?;
    let mut groups = mem::take(&mut found.groups);
    keep_ops(&mut groups, &question.ops);
    if let Some(ranks) = &ranks {
        groups.retain(|key, _| ranks.contains_key(&(key.of.clone(), key.tenant.clone())));
    }
    // Without a rank, rows may have been there and not met the conditions.
    let any_asked = ranks.is_none() || question.conditions.is_empty();
    if ranks.is_none() {
        only_metadata = found.only_metadata;
    }
    if groups.is_empty() && only_metadata == 0 && any_asked && !question.mounts.is_empty() {
        let hint = MountFilter::hint(snapshot, &question.mounts)?;
        return Ok(nothing(Nothing::NoMount(hint)));
    }
    let mut told = selection.notes;
    // Who asks for one direction does not ask for what had neither.
    if question.ops.is_empty() && is_worth_a_note(only_metadata, groups.len(), &question.files) {
        let (count, by) = (only_metadata, question.by);
        told.push(Note::OnlyMetadata { count, by });
    }
    Ok(explain.time(Stage::Finish, || {
        outcome(groups, found, &plan, question, &terms, span, ranks, told)
    }))
}

/// Whether it helps to know that so many were neither read nor written, beside `rows` that were. Each mount's root, and directories
/// on the way to files, had a GETATTR: who asks what was read and written is not asking for these few. But they are all there is, most
/// of what was used, or a file that was asked for by name.
fn is_worth_a_note(only_metadata: usize, rows: usize, files: &[FileSelector]) -> bool {
    let is_named = files.iter().any(|selector| !selector.is_of_several());
    only_metadata > rows || (only_metadata > 0 && is_named)
}

/// Of files only their READs, or only their WRITEs, if one of them is asked for.
fn keep_ops(groups: &mut Groups, ops: &[String]) {
    let is_asked = |op: &str| ops.is_empty() || ops.iter().any(|asked| asked == op);
    let (read, write) = (is_asked(READ), is_asked(WRITE));
    if read && write {
        return;
    }
    for group in groups.values_mut() {
        group.sum.change(|row| {
            for (is_asked, direction) in [(read, &mut row.read), (write, &mut row.write)] {
                if !is_asked {
                    *direction = Direction::default();
                }
            }
            row.ops = FileOps::default();
        });
    }
    groups.retain(|_, group| group.sum.is_transfer());
}

/// What it takes to choose and to order rows, beside what is shown of them.
fn needs(question: &Question, terms: &Terms<AnswerRow>, step: Step) -> Needs {
    let compared = terms.compared().into_iter().map(Column::needs);
    let mut needs = compared.fold(Needs::default(), Needs::and);
    match (terms.sorted_by(), step) {
        (Some(column), _) => needs = needs.and(column.needs()),
        (None, Step::All) => needs = needs.and(Needs::new(["read_bytes", "write_bytes"])),
        (None, Step::Windows(_)) => {}
    }
    if Which::of(&question.files) != Which::One {
        needs = needs.and(Needs::new([PATH]));
    }
    // Of one direction only those files are told that have any requests in it.
    needs.only_transfers(!question.ops.is_empty())
}

/// The files that are asked for.
struct Selection {
    /// `None` is all.
    wanted: Option<Wanted>,
    /// What is to be said of those that there are not.
    notes: Vec<Note>,
}

/// Finds the files that are asked for, or why there is nothing of them.
fn select(
    snapshot: &Snapshot,
    question: &Question,
    span: Interval,
) -> Result<Result<Selection, Nothing>, QueryError> {
    let found = resolve(snapshot, &question.files, asked(span, question))?;
    if found.wanted.is_none() && !question.files.is_empty() {
        return Ok(Err(Nothing::UnknownFile(found.never.join("; "))));
    }
    let never = found.never.into_iter().map(Note::NoSuchFile);
    let elsewhere = found.elsewhere.into_iter();
    let elsewhere = elsewhere.map(|(names, range)| Note::SeenElsewhere { names, range });
    let notes = never.chain(elsewhere).collect();
    Ok(within(span, question).map(|()| Selection {
        wanted: found.wanted,
        notes,
    }))
}

pub(crate) fn nothing<R>(why: Nothing) -> Outcome<R> {
    let notes = Vec::new();
    Outcome::Nothing { why, notes }
}

/// What was recorded in all.
pub(crate) fn recorded(snapshot: &Snapshot, question: &Question) -> Result<Interval, Nothing> {
    let (start, end) = snapshot
        .span()
        .ok_or_else(|| Nothing::EmptyStore(question.stores.clone()))?;
    Ok(Interval::new(start, end))
}

pub(crate) fn asked(span: Interval, question: &Question) -> Interval {
    let Range { since, until } = question.range;
    Interval::new(since.unwrap_or(span.start), until.unwrap_or(span.end))
}

/// Whether the range has something in common with what was recorded.
pub(crate) fn within(span: Interval, question: &Question) -> Result<(), Nothing> {
    let asked = asked(span, question);
    if !asked.intersect(span).is_empty() {
        return Ok(());
    }
    let until = question.range.until;
    let until = until.unwrap_or(question.now).max(asked.start);
    let asked = Interval::new(asked.start, until);
    Err(Nothing::NotRecorded { asked, span })
}

/// The place of each file, or of what else a row stands for, among those with the most bytes in the range.
type Ranks = HashMap<(Of, Option<ByTenant>), usize>;

/// What takes a rank.
fn ranked(row: &AnswerRow, by: By) -> (Of, Option<ByTenant>) {
    (row.of.clone(), by.tenant(&row.tenant))
}

/// Ranks what rows stand for. Needs few columns of the coarsest granularities. Where there is one row for the whole range, only
/// what has a row that meets the conditions takes a rank. Also returns how many of them were neither read nor written.
fn rank(
    snapshot: &Snapshot,
    span: Interval,
    question: &Question,
    terms: &Terms<AnswerRow>,
    wanted: Option<&Wanted>,
    grouping: &Grouping,
    top: NonZeroUsize,
) -> Result<(Ranks, usize), QueryError> {
    let plan = plan(snapshot, Dataset::Rollup, span, question, Some(Step::All))?;
    let conditions = question.step == Some(Step::All);
    let mut needs = match terms.sorted_by() {
        Some(column) => column.needs(),
        None => Needs::new(["read_bytes", "write_bytes"]),
    };
    if conditions {
        let compared = terms.compared().into_iter().map(Column::needs);
        needs = compared.fold(needs, Needs::and);
    }
    let only_transfers = question.detail.is_of_transfers() || !question.ops.is_empty();
    let detail = Detail::Needs(needs.only_transfers(only_transfers));
    let mut found = execute(&plan, wanted, detail, grouping, None, &question.explain)?;
    keep_ops(&mut found.groups, &question.ops);
    let mut sums: HashMap<_, (AnswerRow, bool)> = HashMap::new();
    for row in rows(found.groups, &found.covered, &plan, question) {
        let meets = !conditions || terms.hold(&row);
        match sums.entry(ranked(&row, question.by)) {
            Entry::Vacant(entry) => {
                entry.insert((row, meets));
            }
            Entry::Occupied(mut entry) => {
                let (all, any) = entry.get_mut();
                all.sum.merge(&row.sum.row());
                // Of several hosts at the same time.
                all.covered_ms = all.covered_ms.max(row.covered_ms);
                *any |= meets;
            }
        }
    }
    let place = |row: &AnswerRow| match terms.is_sorted() {
        true => terms.place(row),
        false => -(row.sum.bytes() as f64),
    };
    let met = sums.into_iter().filter(|(_, (_, meets))| *meets);
    let mut ranked: Vec<_> = met.map(|(of, (row, _))| (place(&row), of)).collect();
    ranked.sort_unstable_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| a.cmp(b)));
    let ranked = ranked.into_iter().take(top.get()).enumerate();
    let ranks = ranked.map(|(rank, (_, of))| (of, rank)).collect();
    Ok((ranks, found.only_metadata))
}

/// Groups as rows of the answer.
fn rows(groups: Groups, covered: &Covered, plan: &Plan<'_>, question: &Question) -> Vec<AnswerRow> {
    let hosts: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (GroupKey, Group)| AnswerRow {
        time: key.window,
        host: Arc::clone(&hosts[key.host]),
        covered_ms: covered.ms(key.host, plan.window_at(key.window)),
        file: question.by.is_of_files().then_some(group.file),
        of: key.of,
        tenant: group.tenant,
        sum: group.sum,
    };
    groups.into_iter().map(row).collect()
}

#[allow(clippy::too_many_arguments)] // all that was found out
fn outcome(
    groups: Groups,
    found: Found,
    plan: &Plan<'_>,
    question: &Question,
    terms: &Terms<AnswerRow>,
    span: Interval,
    ranks: Option<Ranks>,
    told: Vec<Note>,
) -> Outcome {
    let Found { covered, hosts, .. } = found;
    let recorded = covered.is_any();
    let chosen = !question.conditions.is_empty() && (!groups.is_empty() || ranks.is_some());
    let mut rows = rows(groups, &covered, plan, question);
    rows.retain(|row| terms.hold(row));
    sort(&mut rows, plan.step, question.by, ranks.as_ref(), terms);
    let folded = folded(plan, &rows);
    let notes = notes(told, hosts, plan, question, rows.is_empty(), folded);
    if rows.is_empty() {
        let asked = plan.asked;
        let files = Which::of(&question.files);
        let why = match recorded {
            _ if chosen => {
                let conditions = in_words(question);
                Nothing::NoRow { conditions, asked }
            }
            true if !question.ops.is_empty() => Nothing::NoneOf {
                what: format!("{} requests", question.ops.join(" or ")),
                asked,
            },
            true => Nothing::Idle { asked, files },
            false => Nothing::NotRecorded { asked, span },
        };
        return Outcome::Nothing { why, notes };
    }
    Outcome::Found(Answer {
        rows,
        step: plan.step,
        by: question.by,
        range: plan.asked,
        notes,
    })
}

/// By what is asked for; else by time and name; with `--top` by rank first; one row per file, or what else a row stands for,
/// by bytes.
fn sort(
    rows: &mut [AnswerRow],
    step: Step,
    by: By,
    ranks: Option<&Ranks>,
    terms: &Terms<AnswerRow>,
) {
    rows.sort_by(|a, b| {
        let rank = |row: &AnswerRow| ranks.and_then(|ranks| ranks.get(&ranked(row, by)));
        let place = |row: &AnswerRow| match (terms.is_sorted(), step) {
            // Each of those that rank has its own windows one after the other.
            (_, Step::Windows(_)) if ranks.is_some() => 0.0,
            (true, _) => terms.place(row),
            (false, Step::All) => -(row.sum.bytes() as f64),
            (false, Step::Windows(_)) => 0.0,
        };
        let name = |row: &AnswerRow| match &row.of {
            Of::File(_) => (row.path().is_none(), row.path().map(str::to_owned)),
            Of::Dir(_, dir) => (dir.is_none(), None),
            _ => (false, None),
        };
        rank(a)
            .cmp(&rank(b))
            .then_with(|| place(a).total_cmp(&place(b)))
            .then_with(|| a.time.cmp(&b.time))
            .then_with(|| name(a).cmp(&name(b)))
            .then_with(|| (&a.of, &a.host, a.tenant.id()).cmp(&(&b.of, &b.host, b.tenant.id())))
    });
}
