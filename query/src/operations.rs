//! Questions about operations: what servers were asked to do.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::file_ops::OpName;
use trackiops_schemas::ops::{OperationRow, OperationSums};
use trackiops_schemas::rollup::{Direction, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use crate::answer::{
    Answer, AnswerRow, Nothing, Outcome, Question, ask, ask_with, nothing, recorded, within,
};
use crate::error::QueryError;
use crate::execute::Account;
use crate::group::By;
use crate::merge::HostIndex;
use crate::plan::{Plan, plan};
use crate::report::notes;
use crate::scan::{self, Detail};
use crate::step::Step;

/// Whether the connections to a server are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A row is of an operation.
    Together,
    /// A row is of an operation over one connection.
    Apart,
}

/// What the rows of an answer stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Files: [`crate::ask`].
    Files(By),
    /// Operations: [`ask_operations`].
    Operations(Connections),
}

/// Rows cannot be grouped by that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rows are not grouped by `{0}`: write file, dir, mount, tenant, host, op or transport")]
pub struct SubjectError(String);

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "op" => Ok(Self::Operations(Connections::Together)),
            "transport" => Ok(Self::Operations(Connections::Apart)),
            _ => match text.parse() {
                Ok(by) => Ok(Self::Files(by)),
                Err(_) => Err(SubjectError(text.into())),
            },
        }
    }
}

/// One operation in one window.
#[derive(Clone, Debug)]
pub struct OperationAnswer {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: Arc<str>,
    /// `server:/export`; `None` where it is not known, and for what is of several mounts.
    pub mount: Option<Arc<str>>,
    /// The procedure.
    pub op: Arc<str>,
    /// The connection; `None` where it is not known or the row is of several.
    pub transport: Option<Arc<str>>,
    /// Its counters.
    pub sums: OperationSums,
    /// Those of the requests of which no time is known: READs and WRITEs of a file alone have any.
    pub untimed: u64,
    /// Requests of all operations of the mount, or of its files that are asked for, in the window.
    pub mount_requests: u64,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
}

impl OperationAnswer {
    /// The share of a sum of times that falls to each request of which it is known; `None` without one.
    pub fn per_timed(&self, sum_ns: u64) -> Option<f64> {
        let timed = self.sums.requests.saturating_sub(self.untimed);
        (timed > 0).then(|| sum_ns as f64 / timed as f64)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    window: UtcMs,
    host: HostIndex,
    mount: Option<Arc<str>>,
    op: Arc<str>,
    /// Where connections are told apart.
    transport: Option<Arc<str>>,
}

struct Group {
    /// As tenants are in rows of files: of several, none stands in the sum.
    transport: Option<Arc<str>>,
    sums: OperationSums,
}

/// Answers a question about operations. That it may not ask for the connections of a file, nor for the most active, is checked.
pub fn ask_operations(
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    if question.top.is_some() {
        return Err(QueryError::TopOperations);
    }
    match (question.files.is_empty(), connections) {
        (false, Connections::Apart) => return Err(QueryError::ConnectionsOfFile),
        (false, Connections::Together) => return of_files(question),
        (true, _) => {}
    }
    ask_with(question, |snapshot, question| {
        ask_once(snapshot, question, connections)
    })
}

/// The operations that are known to be about the files. READs and WRITEs have its data for their bytes, without what is around
/// it in a message; of others bytes are not known.
fn of_files(question: &Question) -> Result<Outcome<OperationAnswer>, QueryError> {
    let question = Question {
        by: By::Mount,
        detail: Detail::Full,
        ..question.clone()
    };
    Ok(match ask(&question)? {
        Outcome::Nothing { why, notes } => Outcome::Nothing { why, notes },
        Outcome::Found(answer) => Outcome::Found(Answer {
            rows: of_rows(&answer),
            step: answer.step,
            by: answer.by,
            range: answer.range,
            notes: answer.notes,
        }),
    })
}

/// Of several files of a mount one operation is one row.
fn of_rows(answer: &Answer<AnswerRow>) -> Vec<OperationAnswer> {
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut mounts: HashMap<_, u64> = HashMap::new();
    let mut rows: Vec<OperationAnswer> = Vec::new();
    for row in &answer.rows {
        let mount: Option<Arc<str>> = row.mount().map(Into::into);
        let window = (row.time, Arc::clone(&row.host), mount.clone());
        for (op, sums, untimed) in of_row(&row.row) {
            *mounts.entry(window.clone()).or_default() += sums.requests;
            let place = places.entry((window.clone(), op)).or_insert(rows.len());
            if *place == rows.len() {
                rows.push(OperationAnswer {
                    time: row.time,
                    host: Arc::clone(&row.host),
                    mount: mount.clone(),
                    op: op.as_str().into(),
                    transport: None,
                    sums: OperationSums::default(),
                    untimed: 0,
                    mount_requests: 0,
                    covered_ms: row.covered_ms,
                });
            }
            let all = &mut rows[*place];
            all.sums.merge(&sums);
            all.untimed += untimed;
        }
    }
    for row in &mut rows {
        let window = (row.time, Arc::clone(&row.host), row.mount.clone());
        row.mount_requests = mounts[&window];
    }
    let requests = |row: &OperationAnswer| match answer.step {
        Step::All => Reverse(row.sums.requests),
        Step::Windows(_) => Reverse(0),
    };
    rows.sort_by(|a, b| {
        (a.time, &a.host, &a.mount, requests(a), &a.op).cmp(&(
            b.time,
            &b.host,
            &b.mount,
            requests(b),
            &b.op,
        ))
    });
    rows
}

/// The operations of one file that there were, and how many of each are untimed.
fn of_row(row: &Row) -> impl Iterator<Item = (OpName, OperationSums, u64)> {
    let Row { read, write, ops } = row;
    let direction = |name, d: &Direction| {
        let sums = OperationSums {
            requests: d.requests,
            errors: d.errors,
            queue_ns_sum: d.queue_ns_sum,
            rtt_ns_sum: d.rtt_ns_sum,
            execute_ns_sum: d.latency_ns_sum,
            execute_ns_max: d.latency_ns_max,
            execute: d.latency.clone(),
            ..OperationSums::default()
        };
        (OpName::new(name), sums, d.untimed)
    };
    let mut both = [direction("READ", read), direction("WRITE", write)];
    both[0].1.received_bytes = read.bytes;
    both[1].1.sent_bytes = write.bytes;
    let others = ops.as_slice().iter().map(|op| {
        let sums = OperationSums {
            requests: op.requests,
            errors: op.errors,
            queue_ns_sum: op.queue_ns_sum,
            rtt_ns_sum: op.rtt_ns_sum,
            execute_ns_sum: op.latency_ns_sum,
            execute_ns_max: op.latency_ns_max,
            ..OperationSums::default()
        };
        (op.op, sums, 0)
    });
    let all = both.into_iter().chain(others);
    all.filter(|(_, sums, _)| sums.requests > 0)
}

fn ask_once(
    snapshot: &Snapshot,
    question: &Question,
    connections: Connections,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    if let Err(why) = within(span, question) {
        return Ok(nothing(why));
    }
    let (range, zone) = (question.range, question.zone);
    let plan = plan(snapshot, Dataset::Ops, span, range, question.step, zone)?;
    let (groups, account) = execute(&plan, connections)?;
    let Account { covered, hosts, .. } = account;
    let recorded = covered.values().any(|covered_ms| *covered_ms > 0);
    let left_out = hosts.iter().any(|(host, _)| host.left_out().is_some());
    let notes = notes(Vec::new(), hosts, &plan, question, groups.is_empty(), None);
    if groups.is_empty() {
        let asked = plan.asked;
        let why = match (recorded, left_out) {
            (true, _) => Nothing::NoOperation { asked },
            (false, true) => Nothing::LeftOut { asked },
            (false, false) => Nothing::NotRecorded { asked, span },
        };
        return Ok(Outcome::Nothing { why, notes });
    }
    let mut mounts: HashMap<(UtcMs, HostIndex, Option<Arc<str>>), u64> = HashMap::new();
    for (key, group) in &groups {
        let mount = (key.window, key.host, key.mount.clone());
        *mounts.entry(mount).or_default() += group.sums.requests;
    }
    let names: Vec<Arc<str>> = plan.hosts.iter().map(|host| host.as_str().into()).collect();
    let row = |(key, group): (Key, Group)| OperationAnswer {
        time: key.window,
        host: Arc::clone(&names[key.host]),
        covered_ms: covered.get(&(key.host, key.window)).copied().unwrap_or(0),
        mount_requests: mounts[&(key.window, key.host, key.mount.clone())],
        mount: key.mount,
        op: key.op,
        transport: group.transport,
        sums: group.sums,
        untimed: 0,
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    sort(&mut groups, plan.step);
    Ok(Outcome::Found(Answer {
        rows: groups.into_iter().map(row).collect(),
        step: plan.step,
        by: question.by,
        range: plan.asked,
        notes,
    }))
}

fn execute<'p>(
    plan: &'p Plan<'p>,
    connections: Connections,
) -> Result<(HashMap<Key, Group>, Account<'p>), QueryError> {
    let mut groups = HashMap::new();
    let mut account = Account::new(plan);
    for journal in &plan.journals {
        for segment in &journal.rows {
            scan::ops(segment, &mut |stored| {
                if journal.bounds.contains(stored.time) {
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
            if !tail.bounds.contains(start) {
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
    Ok((groups, account))
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

/// By time and mount; of a mount by name, or where there is one row per operation by requests.
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
