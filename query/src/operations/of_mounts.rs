//! Operations of mounts, from a separate dataset.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::{CONNECTION, OperationRow, OperationSums};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use super::filter_and_sort::filter_and_sort;
use super::of_files::ask_operations_by;
use super::{Connections, KnownBytes, OperationAnswer, without_times};
use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::{ask_with, nothing, recorded, within};
use crate::coverage::account::Account;
use crate::coverage::needed_notes::notes;
use crate::coverage::recorded_time::HostTimes;
use crate::error::QueryError;
use crate::execute::{Recorded, in_stages};
use crate::filter_and_sort::FilterAndSort;
use crate::group::GroupBy;
use crate::mount_filter::MountFilter;
use crate::origin::HostIndex;
use crate::parallel::share_out;
use crate::plan::{Plan, Tail, plan};
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

/// Answers a question about operations of mounts. For selected files, tenants or another level than the wire, the
/// answer comes from rows of files, grouped by mount. The same applies to local files if NFS mounts had none of the
/// operations.
///
/// Fails with [`QueryError::ConnectionsOfFile`] for connections of selected files.
pub fn ask_operations(
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    if !question.levels.iter().all(|level| *level == IoLevel::Wire) {
        return match connections {
            Connections::Together => ask_operations_by(question, GroupBy::MOUNT),
            Connections::Apart | Connections::Stored => Err(QueryError::OnlyWire("connections")),
        };
    }
    let is_of_all = question.files.is_empty() && question.tenants.is_empty();
    match (is_of_all, connections) {
        (true, _) => {}
        (false, Connections::Together) => return ask_operations_by(question, GroupBy::MOUNT),
        (false, _) => return Err(QueryError::ConnectionsOfFile),
    }
    let of_mounts = ask_with(question, |snapshot, question| {
        ask_once(snapshot, question, connections)
    })?;
    let may_be_local = question.levels.is_empty() && connections == Connections::Together;
    let Outcome::Nothing { why, .. } = &of_mounts else {
        return Ok(of_mounts);
    };
    if !may_be_local {
        return Ok(of_mounts);
    }
    let has_none = matches!(
        why,
        EmptyReason::NoOperation { .. } | EmptyReason::LeftOut { .. }
    );
    let of_files = ask_operations_by(&about_local(question), GroupBy::MOUNT)?;
    Ok(match &of_files {
        Outcome::Found(_) => of_files,
        Outcome::Nothing {
            why: EmptyReason::NoneOf { .. },
            ..
        } if has_none => of_files,
        Outcome::Nothing { .. } => of_mounts,
    })
}

/// The question about files of other file systems. Rows of NFS files have some of the operations, but not all.
fn about_local(question: &Question) -> Question {
    let levels = match question.ops.is_empty() {
        true => vec![IoLevel::Block],
        false => Vec::new(),
    };
    Question {
        levels,
        ..question.clone()
    }
}

fn ask_once(
    snapshot: &Snapshot,
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let terms = FilterAndSort::new(question)?;
    let mounts = MountFilter::new(snapshot, &question.mounts, &question.volumes)?;
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let plan = plan(snapshot, Dataset::Ops, span, question, question.step)?;
    let (mut groups, Recorded { covered, hosts }) = execute(&plan, connections, question)?;
    if connections == Connections::Apart {
        repeat_connections(&mut groups);
    }
    let any = !groups.is_empty();
    let counted = groups.keys().filter_map(|key| key.mount.as_deref());
    let shared = mounts.as_ref().and_then(|mounts| mounts.shared(counted));
    if let Some(mounts) = &mounts {
        groups.retain(|key, _| mounts.matches(key.mount.as_deref()));
    }
    if any && groups.is_empty() {
        let hint = match shared {
            Some(shared) => shared,
            None => MountFilter::hint(snapshot, &question.mounts, &question.volumes)?,
        };
        return Ok(nothing(EmptyReason::NoMount(hint)));
    }
    let recorded = covered.is_any();
    let left_out = hosts.iter().any(|(host, _)| host.left_out().is_some());
    let notes = notes(Vec::new(), hosts, &plan, question, groups.is_empty(), None);
    if groups.is_empty() && snapshot.has_exports() {
        let why = "operations of mounts: `trackiops query --by file,op` has those of files, or ask the store";
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
    let row = |(key, group): (Key, Group)| {
        let [untimed, unsplit] = without_times(&group.sums);
        OperationAnswer {
            time: key.window,
            host: Arc::clone(&names[key.host]),
            covered_ms: plan.rate_ms(&covered, key.host, key.window),
            mount_requests: mounts[&(key.window, key.host, key.mount.clone())],
            mount: key.mount,
            op: key.op,
            transport: group.transport,
            about: None,
            tenant: Arc::default(),
            level: IoLevel::Wire,
            // Imports may lack them: no operation has no bytes.
            bytes: match group.sums.bytes() {
                0 => KnownBytes::None,
                _ => KnownBytes::Messages,
            },
            untimed,
            unsplit,
            sums: group.sums,
        }
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    sort(&mut groups, plan.step);
    let answer = Answer {
        rows: groups.into_iter().map(row).collect(),
        step: plan.step,
        by: GroupBy::MOUNT,
        range: plan.asked,
        notes,
        recorded: Arc::new(HostTimes::new(&plan.hosts, covered)),
    };
    Ok(filter_and_sort(question, &terms, connections, answer))
}

type Groups = HashMap<Key, Group>;

/// Adds up operations like [`execute()`](crate::execute::execute) adds up rows of files.
fn execute(
    plan: &Plan<'_>,
    connections: Connections,
    question: &Question,
) -> Result<(Groups, Recorded), QueryError> {
    let explain = &question.explain;
    let row_limit = question.row_limit.unwrap_or(usize::MAX);
    let key = |time, host, mount: Option<Arc<str>>, op: Arc<str>, transport| Key {
        window: plan.window(time),
        host,
        mount,
        op,
        transport,
    };
    let segments = |groups: &mut Groups| {
        let jobs: Vec<_> = plan
            .journals
            .iter()
            .flat_map(|journal| journal.rows.iter().map(move |segment| (journal, segment)))
            .collect();
        let rows = jobs.iter().map(|(_, segment)| segment.rows).sum();
        explain.expect(rows);
        let shares = share_out(&jobs, rows, |share: &mut Groups, (journal, segment)| {
            let has_tcp = connections != Connections::Together;
            scan::ops(segment, has_tcp, explain, &mut |stored| {
                if journal.bounds.contains(stored.time) && share.len() <= row_limit {
                    let mount = stored.mount.map(Into::into);
                    let transport = stored.transport.map(Into::into);
                    let op = stored.op.into();
                    let key = key(stored.time, journal.host, mount, op, transport);
                    add(share, connections, key, &stored.sums);
                }
            })
        })?;
        for (key, group) in shares.into_iter().flatten() {
            merge(groups, key, group.transport, &group.sums);
        }
        Ok(())
    };
    let tail = |groups: &mut Groups, account: &mut Account<'_>, tail: &Tail<'_>| {
        tail.tail.windows(&mut |window| {
            account.window(tail, window.start, window.health);
        })?;
        tail.tail.operations(&mut |start, rows| {
            if !tail.bounds.contains(start) || groups.len() > row_limit {
                return;
            }
            for OperationRow { operation, sums } in rows {
                let mount = operation.mount.map(Into::into);
                let transport = operation.transport.map(Into::into);
                let key = key(start, tail.host, mount, operation.op.into(), transport);
                add(groups, connections, key, &sums);
            }
        })?;
        Ok(())
    };
    let mut groups = Groups::new();
    let recorded = in_stages(plan, explain, &mut groups, segments, tail)?;
    match groups.len() > row_limit {
        true => Err(QueryError::TooManyRows),
        false => Ok((groups, recorded)),
    }
}

fn add(groups: &mut Groups, connections: Connections, mut key: Key, sums: &OperationSums) {
    let transport = match connections {
        Connections::Together if *key.op == *CONNECTION => return,
        Connections::Together => key.transport.take(),
        Connections::Apart | Connections::Stored => key.transport.clone(),
    };
    merge(groups, key, transport, sums);
}

/// Copies what TCP knows of a connection to each of its operations. Without any, the connection keeps its row.
fn repeat_connections(groups: &mut Groups) {
    let connection = |key: &Key| (key.window, key.host, key.transport.clone());
    let rows = groups.extract_if(|key, _| *key.op == *CONNECTION);
    let rows = rows.map(|(key, group)| (connection(&key), (key, group)));
    let mut rows: HashMap<_, _> = rows.collect();
    let mut used = HashSet::new();
    for (key, group) in &mut *groups {
        let of = connection(key);
        if let Some((_, row)) = rows.get(&of) {
            group.sums.tcp = row.sums.tcp;
            used.insert(of);
        }
    }
    rows.retain(|of, _| !used.contains(of));
    groups.extend(rows.into_values());
}

fn merge(groups: &mut Groups, key: Key, transport: Option<Arc<str>>, sums: &OperationSums) {
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
