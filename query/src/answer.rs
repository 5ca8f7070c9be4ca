//! From a question to its answer.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use crate::coverage::Interval;
use crate::error::QueryError;
use crate::execute::{Found, execute};
use crate::file::{FileSelector, Resolved, Wanted, resolve};
use crate::merge::{By, File, Group, GroupKey};
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
    /// The file; all files without it.
    pub file: Option<FileSelector>,
    /// When.
    pub range: Range,
    /// The windows of the answer; chosen to suit the range without it.
    pub step: Option<Step>,
    /// Only the files with the most bytes, in that order.
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

/// One file in one window, or what one tenant did with it.
#[derive(Clone, Debug)]
pub struct AnswerRow {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: Arc<str>,
    /// The file.
    pub file: Arc<File>,
    /// Who used it; `None` where it is not known or the row is of several.
    pub tenant: Option<Arc<str>>,
    /// Its counters.
    pub row: Row,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
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
    /// The file was never recorded; the text says which.
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
    /// It was recorded, and nothing happened.
    Idle {
        /// The range.
        asked: Interval,
        /// Whether that is said of one file.
        one_file: bool,
    },
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
            Self::UnknownFile(what) => {
                format!("{what}; `trackiops query` without --file lists the files that were")
            }
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
            Self::Idle { asked, one_file } => format!(
                "{} from {}",
                if *one_file {
                    "the file was neither read nor written"
                } else {
                    "no file was read or written"
                },
                from_to(asked)
            ),
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

/// Answers a question about files.
pub fn ask(question: &Question) -> Result<Outcome, QueryError> {
    ask_with(question, ask_once)
}

/// Answers a question by `ask_once`, which is called again where a segment has vanished meanwhile.
pub(crate) fn ask_with<R>(
    question: &Question,
    ask_once: impl Fn(&Snapshot, &Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    check(question)?;
    let mut attempt = 1;
    loop {
        let snapshot = Snapshot::open(&question.store)?;
        match ask_once(&snapshot, question) {
            Err(QueryError::Vanished(_)) if attempt < ATTEMPTS => attempt += 1,
            outcome => return outcome,
        }
    }
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

fn ask_once(snapshot: &Snapshot, question: &Question) -> Result<Outcome, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    let mut wanted = match &question.file {
        None => None,
        Some(selector) => match resolve(snapshot, selector)? {
            Resolved::Known(wanted) => Some(wanted),
            Resolved::Unknown(what) => return Ok(nothing(Nothing::UnknownFile(what))),
        },
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let (range, zone) = (question.range, question.zone);
    let plan = plan(snapshot, Dataset::Rollup, span, range, question.step, zone)?;
    let ranks = match question.top {
        None => None,
        Some(top) => Some(rank(snapshot, span, question, wanted.as_ref(), top)?),
    };
    if let Some(ranks) = &ranks {
        let id = wanted.and_then(|wanted| wanted.id);
        wanted = Some(Wanted::new(ranks.keys().copied().collect(), id));
    }
    let found = execute(&plan, wanted.as_ref(), question.detail, question.by)?;
    Ok(outcome(found, &plan, question, span, ranks))
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

/// Whether the range has something in common with what was recorded.
pub(crate) fn within(span: Interval, question: &Question) -> Result<(), Nothing> {
    let Range { since, until } = question.range;
    let asked = Interval::new(since.unwrap_or(span.start), until.unwrap_or(span.end));
    if !asked.intersect(span).is_empty() {
        return Ok(());
    }
    let until = until.unwrap_or(question.now).max(asked.start);
    let asked = Interval::new(asked.start, until);
    Err(Nothing::NotRecorded { asked, span })
}

/// Each file's place among those with the most bytes in the range.
type Ranks = HashMap<FileKey, usize>;

/// Ranks the files by bytes. Needs few columns of the coarsest granularities.
fn rank(
    snapshot: &Snapshot,
    span: Interval,
    question: &Question,
    wanted: Option<&Wanted>,
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
    let mut bytes: HashMap<FileKey, u64> = HashMap::new();
    for (key, group) in execute(&plan, wanted, Detail::Bytes, By::File)?.groups {
        *bytes.entry(key.file).or_default() += total_bytes(&group.row);
    }
    let mut files: Vec<_> = bytes.into_iter().collect();
    files.sort_unstable_by_key(|(key, bytes)| (Reverse(*bytes), *key));
    let ranked = files.into_iter().take(top.get()).enumerate();
    Ok(ranked.map(|(rank, (key, _))| (key, rank)).collect())
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
) -> Outcome {
    let Found {
        mut groups,
        covered,
        hosts: coverage,
    } = found;
    sort(&mut groups, plan.step, ranks);
    let recorded = covered.values().any(|covered_ms| *covered_ms > 0);
    let folded = folded(plan, &groups);
    let notes = notes(coverage, plan, question, groups.is_empty(), folded);
    if groups.is_empty() {
        let asked = plan.asked;
        let one_file = question.file.is_some();
        let why = match recorded {
            true => Nothing::Idle { asked, one_file },
            false => Nothing::NotRecorded { asked, span },
        };
        return Outcome::Nothing { why, notes };
    }
    let hosts: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (GroupKey, Group)| AnswerRow {
        time: key.window,
        host: Arc::clone(&hosts[key.host]),
        covered_ms: covered.get(&(key.host, key.window)).copied().unwrap_or(0),
        file: group.file,
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

/// By time and name; with `--top` by rank first; one row per file, by bytes.
fn sort(groups: &mut [(GroupKey, Group)], step: Step, ranks: Option<Ranks>) {
    groups.sort_by(|(ka, a), (kb, b)| {
        let rank = |key: &GroupKey| ranks.as_ref().and_then(|ranks| ranks.get(&key.file));
        let bytes = |group: &Group| match step {
            Step::All => Reverse(total_bytes(&group.row)),
            Step::Windows(_) => Reverse(0),
        };
        let name = |group: &Group| (group.file.path.is_none(), group.file.path.clone());
        rank(ka)
            .cmp(&rank(kb))
            .then_with(|| bytes(a).cmp(&bytes(b)))
            .then_with(|| ka.window.cmp(&kb.window))
            .then_with(|| name(a).cmp(&name(b)))
            .then_with(|| (ka.file, ka.host, &ka.tenant).cmp(&(kb.file, kb.host, &kb.tenant)))
    });
}
