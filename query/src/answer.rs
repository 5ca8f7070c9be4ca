//! From a question to its answer.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use crate::coverage::Interval;
use crate::error::QueryError;
use crate::execute::{Found, execute};
use crate::file::{FileSelector, Wanted, resolve};
use crate::group::{By, Grouping, Of};
use crate::merge::{File, Group, GroupKey};
use crate::note::Note;
use crate::plan::{Plan, Range, plan};
use crate::report::{folded, notes};
use crate::scan::Detail;
use crate::step::Step;
use crate::times::{Zone, show, show_range};

/// How often a question is planned again because a segment vanished between plan and scan.
const ATTEMPTS: usize = 3;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The store's directory.
    pub store: PathBuf,
    /// The files; all without any.
    pub files: Vec<FileSelector>,
    /// When.
    pub range: Range,
    /// The windows of the answer; chosen to suit the range without it.
    pub step: Option<Step>,
    /// Only the files, or what else a row stands for, with the most bytes, in that order.
    pub top: Option<NonZeroUsize>,
    /// What a row stands for.
    pub by: By,
    /// How much of each row is needed.
    pub detail: Detail,
    /// The time that it is.
    pub now: UtcMs,
    /// The zone in which times are shown.
    pub zone: Zone,
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
    /// Who used it; `None` where it is not known or the row is of several.
    pub tenant: Option<Arc<str>>,
    /// Its counters.
    pub row: Row,
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

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing was recorded yet.
    EmptyStore(PathBuf),
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
    /// It was recorded, and there was no operation.
    NoOperation {
        /// The range.
        asked: Interval,
    },
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
            Self::EmptyStore(store) => format!(
                "nothing is recorded in {} yet; `trackiops record` fills it, a window shows once it is closed",
                store.display()
            ),
            Self::UnknownFile(what) => what.clone(),
            Self::NotRecorded { asked, span } => format!(
                "nothing was recorded from {}; the recording is from {}",
                from_to(asked),
                from_to(span)
            ),
            Self::LeftOut { asked } => format!(
                "no operations were recorded from {}: `trackiops record` without --no-ops, and with the direct engine, \
                 records them",
                from_to(asked)
            ),
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

/// Answers a question by `ask_once`, which is called again where a segment has vanished meanwhile.
pub(crate) fn ask_with<R>(
    question: &Question,
    ask_once: impl Fn(&Snapshot, &Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    check(question)?;
    let mut damage = LeftOut::default();
    let mut attempt = 1;
    loop {
        let snapshot = Snapshot::open(&question.store)?.without(&damage.paths);
        let (path, why) = match ask_once(&snapshot, question) {
            Err(QueryError::Vanished(_)) if attempt < ATTEMPTS => {
                attempt += 1;
                continue;
            }
            Err(QueryError::Vanished(path)) => (path, "it is missing".to_owned()),
            Err(QueryError::Damaged { path, why }) => (path, why),
            answered => {
                let mut notes = damage.notes;
                notes.extend(journals(&snapshot, question));
                return answered.map(|outcome| outcome.with(notes));
            }
        };
        damage.leave_out(&snapshot, path, why)?;
    }
}

/// What is left out of an answer, so that there is one.
#[derive(Default)]
struct LeftOut {
    paths: HashSet<PathBuf>,
    notes: Vec<Note>,
}

impl LeftOut {
    /// Leaves a segment out from now on.
    fn leave_out(
        &mut self,
        snapshot: &Snapshot,
        path: PathBuf,
        why: String,
    ) -> Result<(), QueryError> {
        let mut covers = None;
        for dataset in Dataset::ALL {
            let segments = snapshot.segments(dataset, None)?;
            if let Some(segment) = segments.into_iter().find(|s| s.path == path) {
                let range = Interval::new(segment.start, segment.end);
                covers = Some((range, segment.files.keys().count()));
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

/// What is damaged of journals, and may be of the range.
fn journals(snapshot: &Snapshot, question: &Question) -> Vec<Note> {
    let unreadable = snapshot.unreadable().iter();
    let unreadable = unreadable.map(|(path, why)| Note::Damaged {
        path: path.clone(),
        why: why.clone(),
        covers: None,
    });
    let mut notes: Vec<_> = unreadable.collect();
    for tail in snapshot.tails() {
        for damage in tail.damage() {
            let start = damage.after.map(|after| after.plus(tail.granularity()));
            let ends = start.or(damage.before).zip(damage.before.or(start));
            let range = ends.map(|(start, end)| Interval::new(start, end.max(start)));
            let Range { since, until } = question.range;
            let is_asked = range.is_none_or(|range| {
                since.is_none_or(|since| since < range.end)
                    && until.is_none_or(|until| range.start < until)
            });
            if is_asked {
                notes.push(Note::Damaged {
                    path: tail.path().to_owned(),
                    why: format!("{} bytes at byte {}", damage.bytes, damage.offset),
                    covers: range.map(|range| (range, 0)),
                });
            }
        }
    }
    notes
}

fn check(question: &Question) -> Result<(), QueryError> {
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
    let selection = match select(snapshot, question, span)? {
        Ok(selection) => selection,
        Err(why) => return Ok(nothing(why)),
    };
    let (range, zone) = (question.range, question.zone);
    let plan = plan(snapshot, Dataset::Rollup, span, range, question.step, zone)?;
    let grouping = Grouping::new(snapshot, question.by, &question.files)?;
    let mut wanted = selection.wanted;
    let ranks = match question.top {
        None => None,
        Some(top) => Some(rank(
            snapshot,
            span,
            question,
            wanted.as_ref(),
            &grouping,
            top,
        )?),
    };
    if let Some(ranks) = ranks.as_ref().filter(|_| question.by.is_of_files()) {
        let keys = ranks.keys().filter_map(|of| match of {
            Of::File(key) => Some(*key),
            _ => None,
        });
        wanted = Some(wanted.unwrap_or_default().only(keys));
    }
    let mut found = execute(&plan, wanted.as_ref(), question.detail, &grouping)?;
    if let Some(ranks) = &ranks {
        found.groups.retain(|(key, _)| ranks.contains_key(&key.of));
    }
    Ok(outcome(
        found,
        &plan,
        question,
        span,
        ranks,
        selection.notes,
    ))
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
        .ok_or_else(|| Nothing::EmptyStore(question.store.clone()))?;
    Ok(Interval::new(start, end))
}

fn asked(span: Interval, question: &Question) -> Interval {
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

/// Each file's place among those with the most bytes in the range, or that of what else a row stands for.
type Ranks = HashMap<Of, usize>;

/// Ranks what rows stand for by bytes. Needs few columns of the coarsest granularities.
fn rank(
    snapshot: &Snapshot,
    span: Interval,
    question: &Question,
    wanted: Option<&Wanted>,
    grouping: &Grouping,
    top: NonZeroUsize,
) -> Result<Ranks, QueryError> {
    let plan = plan(
        snapshot,
        Dataset::Rollup,
        span,
        question.range,
        Some(Step::All),
        question.zone,
    )?;
    let mut bytes: HashMap<Of, u64> = HashMap::new();
    for (key, group) in execute(&plan, wanted, Detail::Bytes, grouping)?.groups {
        *bytes.entry(key.of).or_default() += total_bytes(&group.row);
    }
    let mut ranked: Vec<_> = bytes.into_iter().collect();
    ranked.sort_unstable_by(|(a, x), (b, y)| (Reverse(x), a).cmp(&(Reverse(y), b)));
    let ranked = ranked.into_iter().take(top.get()).enumerate();
    Ok(ranked.map(|(rank, (of, _))| (of, rank)).collect())
}

fn total_bytes(row: &Row) -> u64 {
    row.read.bytes + row.write.bytes
}

fn outcome(
    found: Found,
    plan: &Plan<'_>,
    question: &Question,
    span: Interval,
    ranks: Option<Ranks>,
    told: Vec<Note>,
) -> Outcome {
    let Found {
        mut groups,
        covered,
        hosts: coverage,
    } = found;
    sort(&mut groups, plan.step, ranks);
    let recorded = covered.values().any(|covered_ms| *covered_ms > 0);
    let folded = folded(plan, &groups);
    let notes = notes(told, coverage, plan, question, groups.is_empty(), folded);
    if groups.is_empty() {
        let asked = plan.asked;
        let files = Which::of(&question.files);
        let why = match recorded {
            true => Nothing::Idle { asked, files },
            false => Nothing::NotRecorded { asked, span },
        };
        return Outcome::Nothing { why, notes };
    }
    let hosts: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (GroupKey, Group)| AnswerRow {
        time: key.window,
        host: Arc::clone(&hosts[key.host]),
        covered_ms: covered.get(&(key.host, key.window)).copied().unwrap_or(0),
        file: question.by.is_of_files().then_some(group.file),
        of: key.of,
        tenant: group.tenant,
        row: group.row,
    };
    Outcome::Found(Answer {
        rows: groups.into_iter().map(row).collect(),
        step: plan.step,
        by: question.by,
        range: plan.asked,
        notes,
    })
}

/// By time and name; with `--top` by rank first; one row per file, or what else a row stands for, by bytes.
fn sort(groups: &mut [(GroupKey, Group)], step: Step, ranks: Option<Ranks>) {
    groups.sort_by(|(ka, a), (kb, b)| {
        let rank = |key: &GroupKey| ranks.as_ref().and_then(|ranks| ranks.get(&key.of));
        let bytes = |group: &Group| match step {
            Step::All => Reverse(total_bytes(&group.row)),
            Step::Windows(_) => Reverse(0),
        };
        let name = |key: &GroupKey, group: &Group| match &key.of {
            Of::File(_) => (group.file.path.is_none(), group.file.path.clone()),
            Of::Dir(_, dir) => (dir.is_none(), None),
            _ => (false, None),
        };
        rank(ka)
            .cmp(&rank(kb))
            .then_with(|| bytes(a).cmp(&bytes(b)))
            .then_with(|| ka.window.cmp(&kb.window))
            .then_with(|| name(ka, a).cmp(&name(kb, b)))
            .then_with(|| (&ka.of, ka.host, &ka.tenant).cmp(&(&kb.of, kb.host, &kb.tenant)))
    });
}
