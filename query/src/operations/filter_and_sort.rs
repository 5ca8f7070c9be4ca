//! Filters and sorts operations.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{About, Connections, Identity, OperationAnswer};
use crate::answer::{Answer, EmptyReason, Outcome};
use crate::coverage::note::Note;
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::TenantKey;
use crate::question::{Question, READ};
use crate::ranking::{Ranked, rank};
use crate::step::Step;

/// The READ procedure of NFS 4.2. Rows of files count it as READ.
const READ_PLUS: &str = "READ_PLUS";

/// Keeps the selected operations, in the order of the question.
pub(super) fn filter_and_sort(
    question: &Question,
    terms: &FilterAndSort<OperationAnswer>,
    connections: Connections,
    mut answer: Answer<OperationAnswer>,
) -> Outcome<OperationAnswer> {
    count_by_mount(&mut answer.rows);
    sort(&mut answer.rows, answer.step);
    let asked = answer.range;
    let ops = &question.ops;
    let seen: BTreeSet<_> = answer.rows.iter().map(|row| Arc::clone(&row.op)).collect();
    let is_seen = |op: &&String| seen.iter().any(|seen| is_asked(op, seen));
    let (found, missing): (Vec<_>, Vec<_>) = ops.iter().partition(is_seen);
    let missing: Vec<_> = missing.into_iter().map(String::as_str).collect();
    let what = || {
        let seen: Vec<_> = seen.iter().map(|op| &**op).collect();
        let (missing, seen) = (missing.join(" or "), seen.join(", "));
        format!("{missing} operations (there were {seen})")
    };
    answer
        .rows
        .retain(|row| ops.is_empty() || ops.iter().any(|op| is_asked(op, &row.op)));
    let why = match answer.rows.is_empty() {
        true => EmptyReason::NoneOf {
            what: what(),
            asked,
        },
        false => EmptyReason::NoRow {
            conditions: in_words(question),
            asked,
        },
    };
    if !missing.is_empty() && !found.is_empty() {
        answer.notes.push(Note::NoOperation { what: what() });
    }
    if let Some(top) = question.top {
        keep_top(&mut answer, terms, connections, top);
    }
    answer.rows.retain(|row| terms.hold(row));
    if question.top.is_none() {
        terms.sort(&mut answer.rows);
    }
    answer.or_nothing(|| why)
}

/// Sets the requests of each row's mount.
fn count_by_mount(rows: &mut [OperationAnswer]) {
    let mount = |row: &OperationAnswer| (row.time, Arc::clone(&row.host), row.mount.clone());
    let mut mounts: HashMap<_, u64> = HashMap::new();
    for row in &*rows {
        let requests = mounts.entry(mount(row)).or_default();
        *requests = requests.saturating_add(row.sums.requests);
    }
    for row in rows {
        row.mount_requests = mounts[&mount(row)];
    }
}

/// Sorts by time, mount and file. Operations of each are sorted by name; rows for the whole range, by requests.
fn sort(rows: &mut [OperationAnswer], step: Step) {
    rows.sort_by_cached_key(|row| {
        let requests = match step {
            Step::All => Reverse(row.sums.requests),
            Step::Windows(_) => Reverse(0),
        };
        let mount = (row.time, Arc::clone(&row.host), row.mount.clone());
        let about = (row.about.clone(), TenantKey::of(&row.tenant));
        let op = (requests, Arc::clone(&row.op), row.transport.clone());
        (mount, about, op)
    });
}

/// Whether an operation is a selected one. READ also selects READ_PLUS. Names of calls are in lower case.
fn is_asked(asked: &str, op: &str) -> bool {
    asked.eq_ignore_ascii_case(op) || (asked == READ && op == READ_PLUS)
}

/// Identifies an operation in all windows.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct OperationKey {
    host: Arc<str>,
    mount: Option<Arc<str>>,
    op: Arc<str>,
    /// `None` if connections are added up: one window may have one connection, and another one several.
    transport: Option<Arc<str>>,
    about: Option<Identity>,
    tenant: TenantKey,
}

impl OperationKey {
    fn of(row: &OperationAnswer, connections: Connections) -> Self {
        Self {
            host: Arc::clone(&row.host),
            mount: row.mount.clone(),
            op: Arc::clone(&row.op),
            transport: match connections {
                Connections::Together => None,
                Connections::Apart | Connections::Stored => row.transport.clone(),
            },
            about: row.about.as_ref().map(About::identity),
            tenant: TenantKey::of(&row.tenant),
        }
    }
}

impl Ranked for OperationAnswer {
    fn add(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        for (sum, more) in [
            (&mut self.untimed, other.untimed),
            (&mut self.unsplit, other.unsplit),
            (&mut self.mount_requests, other.mount_requests),
            (&mut self.covered_ms, other.covered_ms),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Keeps the first operations over the whole range, by `--sort` or else by the time that they took. If the answer has
/// one row for the whole range, only rows that meet the conditions count.
fn keep_top(
    answer: &mut Answer<OperationAnswer>,
    terms: &FilterAndSort<OperationAnswer>,
    connections: Connections,
    top: NonZeroUsize,
) {
    let rows = &mut answer.rows;
    let key = |row: &OperationAnswer| OperationKey::of(row, connections);
    let meets = |row: &OperationAnswer| answer.step != Step::All || terms.hold(row);
    let place =
        |row: &OperationAnswer| terms.place_or(row, row.sums.execute_ns_sum, row.sums.requests);
    let ranks = rank(rows.iter().map(Cow::Borrowed), key, meets, place, top);
    rows.retain(|row| ranks.contains_key(&key(row)));
    rows.sort_by_key(|row| (ranks.get(&key(row)).copied(), row.time));
}
