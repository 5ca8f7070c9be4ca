//! Answering a question: plan, read, add up, sort, and plan again where what was planned is gone.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::mem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::columns::PATH;
use trackiops_schemas::file_ops::FileOps;
use trackiops_schemas::rollup::Direction;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Damage, Dataset, JournalTail, Snapshot, StoreError, Unread};

use crate::aggregation::{Group, GroupKey, Groups};
use crate::answer::{Answer, AnswerRow, EmptyReason, Outcome, Which};
use crate::columns::Column;
use crate::coverage::Interval;
use crate::coverage::needed_notes::{folded, notes};
use crate::coverage::note::Note;
use crate::coverage::recorded_time::RecordedTime;
use crate::error::QueryError;
use crate::execute::{Found, execute};
use crate::explain::Stage;
use crate::file::{FileSelection, FileSelector, resolve};
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::{Entity, GroupBy, Grouping, TenantKey};
use crate::mount_filter::MountFilter;
use crate::plan::{Plan, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE};
use crate::step::Step;
use crate::times::show;

/// How often a question is planned again because another segment vanished between plan and scan.
const ATTEMPTS: usize = 32;

/// A window may have been appended once more so long after it was closed, with requests that came late: what is damaged may be that.
const LATE_MS: i64 = 60_000;

/// Answers a question about files.
pub fn ask(question: &Question) -> Result<Outcome, QueryError> {
    ask_with(question, ask_once)
}

/// Answers a question with one row per file, or what else `by` says, for the whole range; `make` makes of these rows what is wanted.
pub fn ask_whole<R>(
    question: &Question,
    by: GroupBy,
    make: impl Fn(&Snapshot, Answer) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    let question = Question {
        by,
        step: Some(Step::All),
        projection: Projection::totals(),
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
pub fn ask_with<R>(
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
pub fn journals(snapshot: &Snapshot, question: &Question) -> Vec<Note> {
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
pub fn unread(
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

/// Refuses a range that is empty or in the future.
pub fn check(question: &Question) -> Result<(), QueryError> {
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
    let terms = FilterAndSort::new(question)?;
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
            Entity::File(key) => Some(*key),
            _ => None,
        });
        wanted = Some(wanted.unwrap_or_default().only(keys));
    }
    let projection = question.projection.with(needs(question, &terms, plan.step));
    let row_limit = question.row_limit;
    let mut found = execute(
        &plan,
        wanted.as_ref(),
        projection,
        &grouping,
        row_limit,
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
        return Ok(nothing(EmptyReason::NoMount(hint)));
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
fn needs(question: &Question, terms: &FilterAndSort<AnswerRow>, step: Step) -> Projection {
    let compared = terms.compared().into_iter().map(Column::needs);
    let mut needs = compared.fold(Projection::default(), Projection::with);
    match (terms.sorted_by(), step) {
        (Some(column), _) => needs = needs.with(column.needs()),
        (None, Step::All) => needs = needs.with(Projection::bytes()),
        (None, Step::Windows(_)) => {}
    }
    if Which::of(&question.files) != Which::One {
        needs = needs.with(Projection::new([PATH]));
    }
    // Of one direction only those files are told that have any requests in it.
    needs.only_transfers(!question.ops.is_empty())
}

/// The files that are asked for.
struct Selection {
    /// `None` is all.
    wanted: Option<FileSelection>,
    /// What is to be said of those that there are not.
    notes: Vec<Note>,
}

/// Finds the files that are asked for, or why there is nothing of them.
fn select(
    snapshot: &Snapshot,
    question: &Question,
    span: Interval,
) -> Result<Result<Selection, EmptyReason>, QueryError> {
    let found = resolve(snapshot, &question.files, asked(span, question))?;
    if found.wanted.is_none() && !question.files.is_empty() {
        return Ok(Err(EmptyReason::UnknownFile(found.never.join("; "))));
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

/// An answer without rows, and why there are none.
pub fn nothing<R>(why: EmptyReason) -> Outcome<R> {
    let notes = Vec::new();
    Outcome::Nothing { why, notes }
}

/// What was recorded in all.
pub fn recorded(snapshot: &Snapshot, question: &Question) -> Result<Interval, EmptyReason> {
    let (start, end) = snapshot
        .span()
        .ok_or_else(|| EmptyReason::EmptyStore(question.stores.clone()))?;
    Ok(Interval::new(start, end))
}

/// The range that is asked for: what it leaves open ends with what was recorded.
pub fn asked(span: Interval, question: &Question) -> Interval {
    let Range { since, until } = question.range;
    Interval::new(since.unwrap_or(span.start), until.unwrap_or(span.end))
}

/// Whether the range has something in common with what was recorded.
pub fn within(span: Interval, question: &Question) -> Result<(), EmptyReason> {
    let asked = asked(span, question);
    if !asked.intersect(span).is_empty() {
        return Ok(());
    }
    let until = question.range.until;
    let until = until.unwrap_or(question.now).max(asked.start);
    let asked = Interval::new(asked.start, until);
    Err(EmptyReason::NotRecorded { asked, span })
}

/// The place of each file, or of what else a row stands for, among those with the most bytes in the range.
type Ranks = HashMap<(Entity, Option<TenantKey>), usize>;

/// What takes a rank.
fn ranked(row: &AnswerRow, by: GroupBy) -> (Entity, Option<TenantKey>) {
    (row.of.clone(), by.tenant(&row.tenant))
}

/// Ranks what rows stand for. Projection few columns of the coarsest granularities. Where there is one row for the whole range, only
/// what has a row that meets the conditions takes a rank. Also returns how many of them were neither read nor written.
fn rank(
    snapshot: &Snapshot,
    span: Interval,
    question: &Question,
    terms: &FilterAndSort<AnswerRow>,
    wanted: Option<&FileSelection>,
    grouping: &Grouping,
    top: NonZeroUsize,
) -> Result<(Ranks, usize), QueryError> {
    let plan = plan(snapshot, Dataset::Rollup, span, question, Some(Step::All))?;
    let conditions = question.step == Some(Step::All);
    let mut needs = match terms.sorted_by() {
        Some(column) => column.needs(),
        None => Projection::bytes(),
    };
    if conditions {
        let compared = terms.compared().into_iter().map(Column::needs);
        needs = compared.fold(needs, Projection::with);
    }
    let only_transfers = question.projection.is_of_transfers() || !question.ops.is_empty();
    let projection = needs.only_transfers(only_transfers);
    let mut found = execute(&plan, wanted, projection, grouping, None, &question.explain)?;
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
fn rows(
    groups: Groups,
    covered: &RecordedTime,
    plan: &Plan<'_>,
    question: &Question,
) -> Vec<AnswerRow> {
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
    terms: &FilterAndSort<AnswerRow>,
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
                EmptyReason::NoRow { conditions, asked }
            }
            true if !question.ops.is_empty() => EmptyReason::NoneOf {
                what: format!("{} requests", question.ops.join(" or ")),
                asked,
            },
            true => EmptyReason::Idle { asked, files },
            false => EmptyReason::NotRecorded { asked, span },
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
    by: GroupBy,
    ranks: Option<&Ranks>,
    terms: &FilterAndSort<AnswerRow>,
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
            Entity::File(_) => (row.path().is_none(), row.path().map(str::to_owned)),
            Entity::Dir(_, dir) => (dir.is_none(), None),
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
