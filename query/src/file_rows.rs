//! Answers about files, and about groups of files: select, rank, add up, sort.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;

use trackiops_schemas::columns::PATH;
use trackiops_schemas::file_ops::FileOps;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{AppCalls, Direction};
use trackiops_store::{Dataset, Snapshot};

use crate::answer::{Answer, AnswerRow, EmptyReason, OrEmpty, Outcome, Which};
use crate::ask::{ask_with, asked, nothing, recorded, within};
use crate::column::Column;
use crate::coverage::Gap;
use crate::coverage::note::{Note, OtherLevels};
use crate::error::QueryError;
use crate::execute::Recorded;
use crate::explain::Stage;
use crate::file_groups::{Group, GroupKey, Groups};
use crate::file_selector::{FileSelection, FileSelector, resolve};
use crate::file_sums::{FileRows, Found};
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::{Entity, GroupBy, TenantKey};
use crate::grouping::Grouping;
use crate::interval::Interval;
use crate::lost::Lost;
use crate::mount_filter::MountFilter;
use crate::needed_notes::{calls_out_of_percentiles, folded};
use crate::origin::HostIndex;
use crate::plan::{Plan, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, Sort, WRITE};
use crate::ranking::{self, Ranked};
use crate::step::Step;
use crate::usual_latencies::UsualLatencies;
use crate::volume_names::VolumeNames;

/// Answers a question about files.
pub fn ask(question: &Question) -> Result<Outcome, QueryError> {
    ask_with(question, ask_once)
}

/// The question about windows that selects the same as one about single requests. Its rows are hosts and levels.
pub(crate) fn about_sums(question: &Question) -> Question {
    Question {
        step: Some(Step::All),
        by: GroupBy {
            levels: true,
            ..GroupBy::HOST
        },
        // For notes about calls, which are also single requests.
        projection: Projection::bytes()
            .with(Projection::calls())
            .and_single_requests(),
        // Single calls have no rows.
        levels: Vec::new(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        ..question.clone()
    }
}

/// Notes about the recorded time in the range of a question; or the reason why there is none, with notes.
pub(crate) fn ask_notes(question: &Question) -> Result<OrNothing<Vec<Note>>, QueryError> {
    Ok(match ask(&about_sums(question))? {
        Outcome::Found(Answer { notes, .. }) => Ok(notes),
        // The last second may have requests, but no closed window yet.
        Outcome::Nothing {
            why: EmptyReason::Idle { .. } | EmptyReason::NotRecorded { .. },
            notes,
        } => Ok(notes),
        Outcome::Nothing { why, notes } => Err((why, notes)),
    })
}

/// Why there are no rows, and notes.
pub type Nothing = (EmptyReason, Vec<Note>);

/// What was found, or why nothing was.
pub type OrNothing<T> = Result<T, Nothing>;

/// Answers a question with one row per `by` for the whole range. `make` builds the final outcome from these rows.
pub fn ask_whole<R>(
    question: &Question,
    by: GroupBy,
    make: impl Fn(&Snapshot, Answer) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    let question = Question {
        by,
        step: Some(Step::All),
        projection: question
            .projection
            .with(Projection::totals())
            .only_transfers(true),
        ..question.clone()
    };
    ask_with(&question, |snapshot, question| {
        match ask_once(snapshot, question)? {
            Outcome::Nothing { why, notes } => Ok(Outcome::Nothing { why, notes }),
            Outcome::Found(answer) => make(snapshot, answer),
        }
    })
}

/// Answers a question about files from one snapshot of the stores.
fn ask_once(snapshot: &Snapshot, question: &Question) -> Result<Outcome, QueryError> {
    if question.levels.contains(&IoLevel::App) {
        return ask_once(snapshot, &about_calls(question)?);
    }
    let has_rows = |level: &&IoLevel| IoLevel::OF_ROWS.contains(level);
    if let Some(level) = question.levels.iter().find(|level| !has_rows(level)) {
        return Err(QueryError::NoRowsOf(*level));
    }
    if question.levels.len() > 1 && !question.by.levels {
        return Err(QueryError::SeveralLevels);
    }
    let terms = FilterAndSort::new(question)?;
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    let explain = &question.explain;
    let selection = match explain.time(Stage::Find, || select(snapshot, question, span))? {
        Ok(selection) => selection,
        Err(why) => return Ok(nothing(why)),
    };
    let plan = plan(snapshot, Dataset::Rollup, span, question, question.step)?;
    let mut grouping = explain.time(Stage::Find, || Grouping::new(snapshot, question))?;
    let mut wanted = selection.wanted;
    let of_terms = needs(question, &terms, plan.step);
    // An order by lost time, or a condition on it, needs the latencies of all selected files.
    let ranks_by_lost = question.top.is_some() && of_terms.has_lost();
    let mut usual = match ranks_by_lost {
        true => UsualLatencies::ask(snapshot, span, question, wanted.as_ref())?,
        false => Arc::default(),
    };
    let projection = question.projection.with(of_terms);
    let rows = FileRows {
        plan: &plan,
        wanted: wanted.as_ref(),
        projection,
        grouping: &grouping,
        usual: &usual,
        explain,
    };
    let rank = |top| rank(snapshot, span, question, &terms, rows, top);
    let (ranks, first) = question.top.map(rank).transpose()?.unzip();
    if let Some(Found {
        other_levels: Some(OtherLevels { shown, .. }),
        ..
    }) = &first
    {
        grouping.levels = vec![*shown];
    }
    if let Some(ranks) = ranks.as_ref().filter(|_| question.by.is_of_files()) {
        let keys = ranks.keys().filter_map(|(of, ..)| match of {
            Entity::File(key) => Some(*key),
            _ => None,
        });
        wanted = Some(wanted.unwrap_or_default().only(keys));
    }
    // Without such an order, the first files are known here: only their latencies are read.
    if projection.has_lost() && !ranks_by_lost && plan.step == Step::All {
        usual = UsualLatencies::ask(snapshot, span, question, wanted.as_ref())?;
    }
    let rows = FileRows {
        plan: &plan,
        wanted: wanted.as_ref(),
        projection,
        grouping: &grouping,
        usual: &usual,
        explain,
    };
    let mut found = rows.add_up(question.row_limit)?;
    // The ranking has read the rows of all entities.
    let (only_metadata, other_levels) = match first {
        Some(first) => (first.only_metadata, first.other_levels),
        None => (found.only_metadata, None),
    };
    let other_levels = other_levels.or(found.other_levels.take());
    let mut groups = mem::take(&mut found.groups);
    keep_ops(&mut groups, &question.ops);
    if let Some(ranks) = &ranks {
        groups
            .retain(|key, _| ranks.contains_key(&(key.of.clone(), key.tenant.clone(), key.level)));
    }
    // With ranks, an answer without groups may mean that rows exist but none meets the conditions.
    let any_asked = ranks.is_none() || question.conditions.is_empty();
    if groups.is_empty() && only_metadata == 0 && any_asked && question.names_mounts() {
        let hint = MountFilter::hint(snapshot, &question.mounts, &question.volumes)?;
        return Ok(nothing(EmptyReason::NoMount(hint)));
    }
    let mut told = selection.notes;
    told.extend(other_levels.map(Note::OtherLevels));
    told.extend(usual.note());
    // A question about one direction does not concern files with neither.
    if question.ops.is_empty() && is_worth_a_note(only_metadata, groups.len(), &question.files) {
        let (count, by) = (only_metadata, question.by);
        told.push(Note::OnlyMetadata { count, by });
    }
    let asked = Asked::new(question, &terms, &rows);
    Ok(explain.time(Stage::Finish, || {
        asked.outcome(groups, found, span, ranks.as_ref(), told)
    }))
}

/// Replaces the level `app` by the rows of the level `block` with calls. Rows without calls are dropped, unless the
/// question names `block`, too.
fn about_calls(question: &Question) -> Result<Question, QueryError> {
    let mut about = question.clone();
    about.projection = about.projection.with(Projection::calls());
    about.levels = levels_of_rows(&question.levels);
    if question.levels.contains(&IoLevel::Block) {
        return Ok(about);
    }
    about
        .conditions
        .push("app_calls > 0 or app_called_bytes > 0".parse()?);
    if about.sort.is_none() && (about.step == Some(Step::All) || about.top.is_some()) {
        about.sort = Some(Sort {
            column: "app_called_bytes".to_owned(),
            ascending: false,
        });
    }
    Ok(about)
}

/// The levels of the rows that hold data of these levels.
pub(crate) fn levels_of_rows(levels: &[IoLevel]) -> Vec<IoLevel> {
    let of_rows = |level: &IoLevel| match level {
        IoLevel::App => IoLevel::Block,
        level => *level,
    };
    let mut levels: Vec<_> = levels.iter().map(of_rows).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Whether rows by tenant or user can have requests, which may lack a caller, beside calls, which have one.
fn may_have_no_callers(question: &Question) -> bool {
    question.by.tenants && question.projection.is_of_calls()
}

/// The sort key of a row, smallest first: by `--sort`, or else by the time that its requests took. Rows whose requests
/// have no caller are sorted by the bytes of all calls. Rows without such a value follow, by the bytes of requests.
fn place(row: &AnswerRow, question: &Question, terms: &FilterAndSort<AnswerRow>) -> f64 {
    let (read, write) = (row.sum.read(), row.sum.write());
    let has_no_caller = row.level == IoLevel::Block && row.tenant.name.is_none();
    let ranks = match has_no_caller && may_have_no_callers(question) {
        true => {
            let (read, write) = (row.sum.app_read(), row.sum.app_write());
            read.all_bytes().saturating_add(write.all_bytes())
        }
        false => read.latency_ns_sum.saturating_add(write.latency_ns_sum),
    };
    terms.place_or(row, ranks, read.bytes + write.bytes)
}

/// Whether to report files that were neither read nor written, beside `rows` that were. Roots of mounts and directories
/// on the way to files have a few GETATTRs, which do not concern a question about bytes. They matter if they outnumber
/// the other rows, or if the question names a file.
fn is_worth_a_note(only_metadata: usize, rows: usize, files: &[FileSelector]) -> bool {
    let is_named = files.iter().any(|selector| !selector.is_of_several());
    only_metadata > rows || (only_metadata > 0 && is_named)
}

/// Drops reads or writes, if the question selects only the other direction.
fn keep_ops(groups: &mut Groups, ops: &[String]) {
    let is_asked = |op: &str| ops.is_empty() || ops.iter().any(|asked| asked == op);
    let (read, write) = (is_asked(READ), is_asked(WRITE));
    if read && write {
        return;
    }
    for group in groups.values_mut() {
        group.sum.change(|row| {
            for (is_asked, direction, calls) in [
                (read, &mut row.read, &mut row.app_read),
                (write, &mut row.write, &mut row.app_write),
            ] {
                if !is_asked {
                    *direction = Direction::default();
                    *calls = AppCalls::default();
                }
            }
            row.ops = FileOps::default();
        });
    }
    groups.retain(|_, group| group.sum.is_transfer() || group.sum.has_calls());
}

/// Columns that [`place`] reads without `--sort`.
fn needs_of_place(question: &Question) -> Projection {
    match may_have_no_callers(question) {
        true => Projection::ranks().with(Projection::calls()),
        false => Projection::ranks(),
    }
}

/// Columns that conditions and order need, in addition to the shown ones.
fn needs(question: &Question, terms: &FilterAndSort<AnswerRow>, step: Step) -> Projection {
    let compared = terms.compared().into_iter().map(Column::needs);
    let mut needs = compared.fold(Projection::default(), Projection::with);
    match (terms.sorted_by(), step) {
        (Some(column), _) => needs = needs.with(column.needs()),
        (None, Step::All) => needs = needs.with(needs_of_place(question)),
        (None, Step::Windows(_)) => {}
    }
    if Which::of(&question.files) != Which::One {
        needs = needs.with(Projection::new([PATH]));
    }
    // For one direction, report only files with requests in it.
    needs.only_transfers(!question.ops.is_empty())
}

/// Files that the question selects.
struct Selection {
    /// `None` selects all files.
    wanted: Option<FileSelection>,
    /// Notes about selectors without matches.
    notes: Vec<Note>,
}

/// Finds the selected files, or the reason why there are none.
fn select(
    snapshot: &Snapshot,
    question: &Question,
    span: Interval,
) -> Result<OrEmpty<Selection>, QueryError> {
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

/// Rank of each entity and tenant: first by `--sort`, or else by the time that requests took in the range.
type Ranks = ranking::Ranks<RankKey>;

/// The key of a rank.
type RankKey = (Entity, Option<TenantKey>, IoLevel);

/// The key of a row's rank.
fn ranked(row: &AnswerRow, by: GroupBy) -> RankKey {
    (row.of.clone(), by.tenant(&row.tenant), row.level)
}

impl Ranked for AnswerRow {
    fn add(&mut self, other: &Self) {
        self.sum.merge(&other.sum.row());
        self.lost.add(other.lost);
        // Hosts record the same time in parallel, so take the longest time instead of the sum.
        self.covered_ms = self.covered_ms.max(other.covered_ms);
    }
}

/// Ranks entities, reading few columns of the coarsest granularities. If the answer has one row for the whole range,
/// only entities whose row meets the conditions get a rank.
fn rank(
    snapshot: &Snapshot,
    span: Interval,
    question: &Question,
    terms: &FilterAndSort<AnswerRow>,
    rows: FileRows<'_>,
    top: NonZeroUsize,
) -> Result<(Ranks, Found), QueryError> {
    let conditions = question.step == Some(Step::All);
    let mut needs = match terms.sorted_by() {
        Some(column) => column.needs(),
        None => needs_of_place(question),
    };
    if conditions {
        let compared = terms.compared().into_iter().map(Column::needs);
        needs = compared.fold(needs, Projection::with);
    }
    let only_transfers = question.projection.is_of_transfers() || !question.ops.is_empty();
    let projection = needs.only_transfers(only_transfers);
    let plan = plan(snapshot, Dataset::Rollup, span, question, Some(Step::All))?;
    let rows = FileRows {
        plan: &plan,
        projection,
        ..rows
    };
    let mut found = rows.add_up(None)?;
    let mut groups = mem::take(&mut found.groups);
    keep_ops(&mut groups, &question.ops);
    let asked = Asked::new(question, terms, &rows);
    let rows = asked.rows(groups, &found.recorded);
    let ranks = ranking::rank(
        rows.into_iter().map(Cow::Owned),
        |row| ranked(row, question.by),
        |row| !conditions || terms.hold(row),
        |row| place(row, question, terms),
        top,
    );
    Ok((ranks, found))
}

/// Finds rows whose requests and calls have the same tenants and time, so that they can be compared.
struct Sides<'r> {
    recorded: &'r Recorded,
    /// Whether rows are grouped or selected by tenant.
    by_tenant: bool,
    /// Hosts and levels with requests of unknown tenants. Any calls may have caused these requests.
    unknown: HashSet<(HostIndex, IoLevel)>,
}

/// Whether the group has requests of a tenant without a name.
fn is_unnamed(group: &Group) -> bool {
    group.tenant.name.is_none() && group.sum.is_transfer()
}

impl<'r> Sides<'r> {
    fn new(groups: &Groups, recorded: &'r Recorded, question: &Question) -> Self {
        let by_tenant = question.by.tenants || !question.tenants.is_empty();
        let places = |is: fn(&Group) -> bool| {
            let are = groups.iter().filter(|(_, group)| by_tenant && is(group));
            let places = are.map(|(key, _)| (key.host, key.level));
            places.collect::<HashSet<_>>()
        };
        let mut unknown = places(|group| is_unnamed(group) && group.tenant.uid.is_none());
        // Without cgroups on both sides, only users can be compared.
        let without_cgroup = places(|group| is_unnamed(group) && group.tenant.cgroup.is_none());
        let called_in_cgroup =
            places(|group| group.sum.has_calls() && group.tenant.cgroup.is_some());
        unknown.extend(without_cgroup.intersection(&called_in_cgroup));
        Self {
            recorded,
            by_tenant,
            unknown,
        }
    }

    fn are_known(&self, key: &GroupKey, plan: &Plan<'_>) -> bool {
        let (coverage, _) = &self.recorded.hosts[key.host];
        let window = match plan.step {
            Step::Windows(step) => Interval::new(key.window, key.window.plus(step)),
            Step::All => plan.asked,
        };
        let is_gap = |gap: Gap| !gap.range.intersect(window).is_empty();
        if coverage.without_calls().is_some_and(is_gap) || coverage.calls_shed().is_some_and(is_gap)
        {
            return false;
        }
        match key.level {
            // Requests to a device have no caller.
            IoLevel::Block => !self.by_tenant && !coverage.without_block().is_some_and(is_gap),
            _ => !self.unknown.contains(&(key.host, key.level)),
        }
    }
}

/// A question about files, its plan, and what makes rows of groups.
struct Asked<'q> {
    plan: &'q Plan<'q>,
    question: &'q Question,
    terms: &'q FilterAndSort<AnswerRow>,
    volumes: &'q VolumeNames,
}

impl<'q> Asked<'q> {
    fn new(
        question: &'q Question,
        terms: &'q FilterAndSort<AnswerRow>,
        rows: &FileRows<'q>,
    ) -> Self {
        Self {
            plan: rows.plan,
            question,
            terms,
            volumes: &rows.grouping.volumes,
        }
    }

    fn rows(&self, groups: Groups, recorded: &Recorded) -> Vec<AnswerRow> {
        let plan = self.plan;
        let hosts: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
        let sides = Sides::new(&groups, recorded, self.question);
        let row = |(key, group): (GroupKey, Group)| {
            let has_both_sides = sides.are_known(&key, plan);
            let mut row = AnswerRow {
                time: key.window,
                host: Arc::clone(&hosts[key.host]),
                covered_ms: plan.rate_ms(&recorded.covered, key.host, key.window),
                file: self.question.by.is_of_files().then_some(group.file),
                has_both_sides,
                lost: match plan.step {
                    Step::All => group.lost,
                    Step::Windows(_) => Lost::default(),
                },
                of: key.of,
                volume: None,
                tenant: group.tenant,
                level: key.level,
                sum: group.sum,
            };
            let volume = match &row.of {
                Entity::Volume(volume) => {
                    volume.as_deref().and_then(|name| self.volumes.named(name))
                }
                _ => row.mount().and_then(|mount| self.volumes.of(mount)),
            };
            row.volume = volume.cloned();
            row
        };
        groups.into_iter().map(row).collect()
    }

    fn outcome(
        &self,
        groups: Groups,
        found: Found,
        span: Interval,
        ranks: Option<&Ranks>,
        told: Vec<Note>,
    ) -> Outcome {
        let (plan, question) = (self.plan, self.question);
        let chosen = !question.conditions.is_empty() && (!groups.is_empty() || ranks.is_some());
        let mut rows = self.rows(groups, &found.recorded);
        let is_recorded = found.recorded.covered.is_any();
        rows.retain(|row| self.terms.hold(row));
        self.sort(&mut rows, ranks);
        let folded = folded(plan, &rows);
        let percentiles = calls_out_of_percentiles(question, &rows);
        let mut answer = found.recorded.answer(plan, question, rows, told, folded);
        answer.notes.extend(percentiles);
        let asked = plan.asked;
        answer.or_nothing(|| match is_recorded {
            _ if chosen || is_recorded && !question.tenants.is_empty() => EmptyReason::NoRow {
                conditions: in_words(question),
                asked,
            },
            true if !question.ops.is_empty() => EmptyReason::NoneOf {
                what: format!("{} requests", question.ops.join(" or ")),
                asked,
            },
            true => EmptyReason::Idle {
                asked,
                files: Which::of(&question.files),
            },
            false => EmptyReason::NotRecorded { asked, span },
        })
    }

    /// Sorts by rank (with `--top`), then by `--sort`, then by time and name.
    /// Without `--sort`, rows for the whole range are sorted by the time that requests took, largest first.
    fn sort(&self, rows: &mut [AnswerRow], ranks: Option<&Ranks>) {
        rows.sort_by(|a, b| {
            let rank =
                |row: &AnswerRow| ranks.and_then(|ranks| ranks.get(&ranked(row, self.question.by)));
            let place = |row: &AnswerRow| match self.plan.step {
                // With ranks, the windows of one entity stay together, in order of time.
                Step::Windows(_) if ranks.is_some() => 0.0,
                Step::Windows(_) => self.terms.place_or(row, 0, 0),
                Step::All => self::place(row, self.question, self.terms),
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
                .then_with(|| a.level.cmp(&b.level))
        });
    }
}
