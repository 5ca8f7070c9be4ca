//! Operations of mounts, from a separate dataset.

use std::sync::Arc;

use trackiops_schemas::level::IoLevel;
use trackiops_store::{Dataset, Snapshot};

use super::filter_and_sort::filter_and_sort;
use super::mount_sums::{Group, Groups, Key, MountRows};
use super::of_files::ask_operations_by;
use super::{Connections, KnownBytes, OperationAnswer, without_times};
use crate::answer::{EmptyReason, Outcome};
use crate::ask::{ask_with, nothing, recorded, within};
use crate::coverage::Coverage;
use crate::error::QueryError;
use crate::execute::Recorded;
use crate::filter_and_sort::FilterAndSort;
use crate::group::GroupBy;
use crate::mount_filter::MountFilter;
use crate::plan::{Plan, plan};
use crate::question::Question;

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
    let rows = MountRows {
        plan: &plan,
        connections,
        explain: &question.explain,
    };
    let (mut groups, recorded) = rows.add_up(question.row_limit)?;
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
    if groups.is_empty() && snapshot.has_exports() {
        let why = "operations of mounts: `trackiops query --by file,op` has those of files, or ask the store";
        return Ok(nothing(EmptyReason::NotExported(why)));
    }
    let asked = plan.asked;
    let left_out = |(host, _): &(Coverage, _)| host.left_out().is_some();
    let why = match (
        recorded.covered.is_any(),
        recorded.hosts.iter().any(left_out),
    ) {
        (true, _) => EmptyReason::NoOperation { asked },
        (false, true) => EmptyReason::LeftOut { asked },
        (false, false) => EmptyReason::NotRecorded { asked, span },
    };
    let rows = rows_of(groups, &plan, &recorded);
    let mut answer = recorded.answer(&plan, question, rows, Vec::new(), None);
    answer.by = GroupBy::MOUNT;
    match answer.rows.is_empty() {
        true => Ok(answer.or_nothing(|| why)),
        false => Ok(filter_and_sort(question, &terms, connections, answer)),
    }
}

/// The rows of groups, without the requests of their mounts.
fn rows_of(groups: Groups, plan: &Plan<'_>, recorded: &Recorded) -> Vec<OperationAnswer> {
    let names: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (Key, Group)| {
        let [untimed, unsplit] = without_times(&group.sums);
        OperationAnswer {
            time: key.window,
            host: Arc::clone(&names[key.host]),
            covered_ms: plan.rate_ms(&recorded.covered, key.host, key.window),
            mount_requests: 0,
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
    groups.into_iter().map(row).collect()
}
