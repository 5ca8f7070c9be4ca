//! Operations of mounts, from their own dataset.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use trackiops_schemas::ops::{OperationRow, OperationSums};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use super::filter_and_sort::filter_and_sort;
use super::of_files::ask_operations_by;
use super::{Connections, KnownBytes, OperationAnswer};
use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::{ask_with, nothing, recorded, within};
use crate::coverage::account::Account;
use crate::coverage::needed_notes::notes;
use crate::error::QueryError;
use crate::filter_and_sort::FilterAndSort;
use crate::group::GroupBy;
use crate::mount_filter::MountFilter;
use crate::origin::HostIndex;
use crate::plan::{Plan, plan};
use crate::question::Question;
use crate::scan;
use crate::step::Step;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    window: UtcMs,
    host: HostIndex,
    mount: Option<Arc<str>>,
    op: Arc<str>,
    /// The connection, if connections are separate.
    transport: Option<Arc<str>>,
}

struct Group {
    /// `None` if the group has several connections.
    transport: Option<Arc<str>>,
    sums: OperationSums,
}

/// Answers a question about operations of mounts. If it selects files, the answer is from the rows of these files, by mount.
///
/// Fails with [`QueryError::ConnectionsOfFile`] for connections of selected files.
pub fn ask_operations(
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    match (question.files.is_empty(), connections) {
        (false, Connections::Apart) => return Err(QueryError::ConnectionsOfFile),
        (false, Connections::Together) => return ask_operations_by(question, GroupBy::MOUNT),
        (true, _) => {}
    }
    ask_with(question, |snapshot, question| {
        ask_once(snapshot, question, connections)
    })
}

fn ask_once(
    snapshot: &Snapshot,
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let terms = FilterAndSort::new(question)?;
    let mounts = MountFilter::new(snapshot, &question.mounts)?;
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let plan = plan(snapshot, Dataset::Ops, span, question, question.step)?;
    let (mut groups, account) = execute(&plan, connections, question)?;
    let any = !groups.is_empty();
    if let Some(mounts) = &mounts {
        groups.retain(|key, _| mounts.matches(key.mount.as_deref()));
    }
    if any && groups.is_empty() {
        let hint = MountFilter::hint(snapshot, &question.mounts)?;
        return Ok(nothing(EmptyReason::NoMount(hint)));
    }
    let (covered, hosts) = account.finish();
    let recorded = covered.is_any();
    let left_out = hosts.iter().any(|(host, _)| host.left_out().is_some());
    let notes = notes(Vec::new(), hosts, &plan, question, groups.is_empty(), None);
    if groups.is_empty() && snapshot.has_exports() {
        let why = "operations of mounts: take --by file,op for those of files, or ask the store";
        return Ok(nothing(EmptyReason::NotExported(why)));
    }
    if groups.is_empty() {
        let asked = plan.asked;
        let why = match (recorded, left_out) {
            (true, _) => EmptyReason::NoOperation { asked },
            (false, true) => EmptyReason::LeftOut { asked },
            (false, false) => EmptyReason::NotRecorded { asked, span },
        };
        return Ok(Outcome::Nothing { why, notes });
    }
    let mut mounts: HashMap<(UtcMs, HostIndex, Option<Arc<str>>), u64> = HashMap::new();
    for (key, group) in &groups {
        let mount = (key.window, key.host, key.mount.clone());
        let requests = mounts.entry(mount).or_default();
        *requests = requests.saturating_add(group.sums.requests);
    }
    let names: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (Key, Group)| OperationAnswer {
        time: key.window,
        host: Arc::clone(&names[key.host]),
        covered_ms: covered.ms(key.host, plan.window_at(key.window)),
        mount_requests: mounts[&(key.window, key.host, key.mount.clone())],
        mount: key.mount,
        op: key.op,
        transport: group.transport,
        about: None,
        tenant: Arc::default(),
        sums: group.sums,
        bytes: KnownBytes::Messages,
        untimed: 0,
        unsplit: 0,
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    sort(&mut groups, plan.step);
    let answer = Answer {
        rows: groups.into_iter().map(row).collect(),
        step: plan.step,
        by: GroupBy::MOUNT,
        range: plan.asked,
        notes,
    };
    Ok(filter_and_sort(question, &terms, connections, answer))
}

fn execute<'p>(
    plan: &'p Plan<'p>,
    connections: Connections,
    question: &'p Question,
) -> Result<(HashMap<Key, Group>, Account<'p>), QueryError> {
    let explain = &question.explain;
    let row_limit = question.row_limit.unwrap_or(usize::MAX);
    let mut groups = HashMap::new();
    let mut account = Account::new(plan, explain);
    let segments = || plan.journals.iter().flat_map(|journal| &journal.rows);
    explain.expect(segments().map(|segment| segment.rows).sum());
    for journal in &plan.journals {
        for segment in &journal.rows {
            scan::ops(segment, explain, &mut |stored| {
                if journal.bounds.contains(stored.time) && groups.len() <= row_limit {
                    let key = Key {
                        window: plan.window(stored.time),
                        host: journal.host,
                        mount: stored.mount.map(Into::into),
                        op: stored.op.into(),
                        transport: stored.transport.map(Into::into),
                    };
                    add(&mut groups, connections, key, &stored.sums);
                }
            })?;
        }
        account.journal(journal)?;
    }
    for tail in &plan.tails {
        tail.tail.windows(&mut |window| {
            account.window(tail, window.start, window.health);
        })?;
        tail.tail.operations(&mut |start, rows| {
            if !tail.bounds.contains(start) || groups.len() > row_limit {
                return;
            }
            for OperationRow { operation, sums } in rows {
                let key = Key {
                    window: plan.window(start),
                    host: tail.host,
                    mount: operation.mount.map(Into::into),
                    op: operation.op.into(),
                    transport: operation.transport.map(Into::into),
                };
                add(&mut groups, connections, key, &sums);
            }
        })?;
    }
    match groups.len() > row_limit {
        true => Err(QueryError::TooManyRows),
        false => Ok((groups, account)),
    }
}

fn add(
    groups: &mut HashMap<Key, Group>,
    connections: Connections,
    mut key: Key,
    sums: &OperationSums,
) {
    let transport = key.transport.clone();
    if connections == Connections::Together {
        key.transport = None;
    }
    let group = groups.entry(key).or_insert_with(|| Group {
        transport: transport.clone(),
        sums: OperationSums::default(),
    });
    if group.transport != transport {
        group.transport = None;
    }
    group.sums.merge(sums);
}

/// Sorts by time and mount. Operations of a mount are sorted by name; rows for the whole range, by requests.
fn sort(groups: &mut [(Key, Group)], step: Step) {
    groups.sort_by(|(ka, a), (kb, b)| {
        let requests = |group: &Group| match step {
            Step::All => Reverse(group.sums.requests),
            Step::Windows(_) => Reverse(0),
        };
        (ka.window, ka.host, &ka.mount)
            .cmp(&(kb.window, kb.host, &kb.mount))
            .then_with(|| requests(a).cmp(&requests(b)))
            .then_with(|| ka.cmp(kb))
    });
}
