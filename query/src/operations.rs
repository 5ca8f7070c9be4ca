//! Questions about operations: what servers were asked to do.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::file_ops::OpName;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileKey, Tenant};
use trackiops_schemas::ops::{OperationRow, OperationSums};
use trackiops_schemas::rollup::{Direction, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use crate::answer::{Answer, AnswerRow, EmptyReason, Outcome};
use crate::ask::{ask, ask_with, nothing, recorded, within};
use crate::coverage::needed_notes::notes;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::execute::Account;
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::{ByError, Entity, GroupBy, TenantKey};
use crate::mount_filter::MountFilter;
use crate::origin::HostIndex;
use crate::plan::{Plan, plan};
use crate::projection::Projection;
use crate::question::{Question, READ, WRITE};
use crate::scan;
use crate::step::Step;

/// How reading is called on mounts of NFS 4.2; rows of files have it among their READs.
const READ_PLUS: &str = "READ_PLUS";

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
    Files(GroupBy),
    /// Operations of mounts: [`ask_operations`].
    Operations(Connections),
    /// Operations of files, or of what else: [`ask_operations_by`].
    OperationsBy(GroupBy),
}

impl FromStr for Subject {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = || text.split(',').map(str::trim);
        let has = |wanted: &str| words().any(|word| word == wanted);
        // A mount has rows of its own in any case, and so has a host.
        let others = words().filter(|word| !["op", "transport", "mount", "host"].contains(word));
        let others: Vec<_> = others.collect();
        match (has("op"), has("transport"), others.is_empty()) {
            (false, false, _) => text.parse().map(Self::Files),
            (_, true, true) => Ok(Self::Operations(Connections::Apart)),
            (true, false, true) => Ok(Self::Operations(Connections::Together)),
            (_, true, false) => Err(ByError(text.into())),
            (true, false, false) if others == ["tenant"] => Ok(Self::OperationsBy(GroupBy {
                tenants: true,
                ..GroupBy::MOUNT
            })),
            (true, false, false) => match others.join(",").parse() {
                Ok(by) => Ok(Self::OperationsBy(by)),
                Err(_) => Err(ByError(text.into())),
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
    /// The file or directory that it was about, where rows are told apart by that.
    pub about: Option<About>,
    /// Who did it, where rows are told apart by that.
    pub tenant: Arc<Tenant>,
    /// Its counters.
    pub sums: OperationSums,
    /// Which of its bytes are known.
    pub bytes: KnownBytes,
    /// Those of the requests of which no time is known: READs and WRITEs of a file alone have any.
    pub untimed: u64,
    /// Those of the timed requests of which the parts of the time are not known, which only READs and WRITEs of a file have.
    pub unsplit: u64,
    /// Requests of all operations of the mount, or of its files that are asked for, in the window.
    pub mount_requests: u64,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
}

/// Which bytes of an operation are known. Where they are not, the counter is 0 and says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBytes {
    /// Those of the messages in both directions: operations of mounts.
    Messages,
    /// Those of the data that a file's READs received.
    Received,
    /// Those of the data that a file's WRITEs sent.
    Sent,
    /// None: all other operations of a file.
    None,
}

/// What operations were about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct About {
    /// Its name, where known.
    pub path: Option<Arc<str>>,
    /// The name, or what stands for it.
    pub shown: Arc<str>,
    /// The file, if it is one.
    pub file: Option<FileNumbers>,
}

impl About {
    /// A file whatever its name, or else the name.
    fn identity(&self) -> (Option<FileKey>, Option<Arc<str>>) {
        match self.file {
            Some(file) => (Some(file.key), None),
            None => (None, Some(Arc::clone(&self.shown))),
        }
    }
}

/// What tells a file from others, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumbers {
    /// The file on disk.
    pub key: FileKey,
    /// Its device number on the host that recorded it.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
}

impl OperationAnswer {
    /// What it sent, where that is known.
    pub fn sent_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Sent);
        is_known.then_some(self.sums.sent_bytes)
    }

    /// What it received, where that is known.
    pub fn received_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Received);
        is_known.then_some(self.sums.received_bytes)
    }

    /// What it sent and received, as far as that is known.
    pub fn all_bytes(&self) -> Option<u64> {
        (self.bytes != KnownBytes::None).then(|| self.sums.bytes())
    }

    /// The file that it was about, where each file has rows of its own.
    pub fn file(&self) -> Option<FileNumbers> {
        self.about.as_ref()?.file
    }

    /// How its times are spread, where that is known: it is not of what is added up by file in the kernel.
    pub fn histogram(&self) -> Option<&Histogram> {
        (self.bytes != KnownBytes::None).then_some(&self.sums.execute)
    }

    /// The share of a sum of times that falls to each request of which it is known; `None` without one.
    pub fn per_timed(&self, sum_ns: u64) -> Option<f64> {
        let timed = self.sums.requests.saturating_sub(self.untimed);
        (timed > 0).then(|| sum_ns as f64 / timed as f64)
    }

    /// The same of a part of the time: `None` unless parts are known.
    pub fn part_per_timed(&self, sum_ns: u64) -> Option<f64> {
        let without_parts = self.untimed + self.unsplit;
        let is_known = self.sums.requests > without_parts;
        self.per_timed(sum_ns).filter(|_| is_known)
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

/// Answers a question about operations of mounts. That it does not ask for the connections of a file is checked.
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

/// Answers a question about the operations that are known to be about files, added up `by`. READs and WRITEs have the data for
/// their bytes, without what is around it in a message; of others bytes are not known.
pub fn ask_operations_by(
    question: &Question,
    by: GroupBy,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let files = Question {
        by,
        projection: Projection::all(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        ..question.clone()
    };
    let terms = FilterAndSort::new(question)?;
    Ok(match ask(&files)? {
        Outcome::Nothing { why, notes } => Outcome::Nothing { why, notes },
        Outcome::Found(answer) => {
            let rows = of_rows(&answer);
            choose(
                question,
                &terms,
                Connections::Together,
                Answer {
                    rows,
                    step: answer.step,
                    by: answer.by,
                    range: answer.range,
                    notes: answer.notes,
                },
            )
        }
    })
}

/// Leaves those of the rows that are asked for, in the order that is asked for.
fn choose(
    question: &Question,
    terms: &FilterAndSort<OperationAnswer>,
    connections: Connections,
    mut answer: Answer<OperationAnswer>,
) -> Outcome<OperationAnswer> {
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
    match answer.rows.is_empty() {
        true => Outcome::Nothing {
            why,
            notes: answer.notes,
        },
        false => Outcome::Found(answer),
    }
}

/// Whether an operation is the one that is asked for: reading is READ, and READ_PLUS where a server of NFS 4.2 has it.
fn is_asked(asked: &str, op: &str) -> bool {
    asked == op || (asked == READ && op == READ_PLUS)
}

/// What tells operations apart, beside the window.
type Which = (
    Arc<str>,
    Option<Arc<str>>,
    Arc<str>,
    Option<Arc<str>>,
    Option<(Option<FileKey>, Option<Arc<str>>)>,
    TenantKey,
);

/// Of several connections that are not told apart, one window may have one and another several.
fn which(row: &OperationAnswer, connections: Connections) -> Which {
    let transport = match connections {
        Connections::Together => None,
        Connections::Apart => row.transport.clone(),
    };
    (
        Arc::clone(&row.host),
        row.mount.clone(),
        Arc::clone(&row.op),
        transport,
        row.about.as_ref().map(About::identity),
        TenantKey(Arc::clone(&row.tenant)),
    )
}

/// Leaves the rows of those operations that come first over the whole range, or else are the most frequent. Where there is one
/// row for the whole range, only those that meet the conditions count.
fn keep_top(
    answer: &mut Answer<OperationAnswer>,
    terms: &FilterAndSort<OperationAnswer>,
    connections: Connections,
    top: NonZeroUsize,
) {
    let mut sums: HashMap<Which, OperationAnswer> = HashMap::new();
    for row in &answer.rows {
        match sums.entry(which(row, connections)) {
            Entry::Vacant(entry) => {
                entry.insert(row.clone());
            }
            Entry::Occupied(mut entry) => {
                let sum = entry.get_mut();
                sum.sums.merge(&row.sums);
                for (sum, more) in [
                    (&mut sum.untimed, row.untimed),
                    (&mut sum.unsplit, row.unsplit),
                    (&mut sum.mount_requests, row.mount_requests),
                    (&mut sum.covered_ms, row.covered_ms),
                ] {
                    *sum = sum.saturating_add(more);
                }
            }
        }
    }
    if answer.step == Step::All {
        sums.retain(|_, row| terms.hold(row));
    }
    let place = |row: &OperationAnswer| match terms.is_sorted() {
        true => terms.place(row),
        false => -(row.sums.requests as f64),
    };
    let mut ranked: Vec<_> = sums
        .into_iter()
        .map(|(of, row)| (place(&row), of))
        .collect();
    ranked.sort_unstable_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| a.cmp(b)));
    let ranked = ranked.into_iter().take(top.get()).enumerate();
    let ranks: HashMap<_, _> = ranked.map(|(rank, (_, of))| (of, rank)).collect();
    answer
        .rows
        .retain(|row| ranks.contains_key(&which(row, connections)));
    answer
        .rows
        .sort_by_key(|row| (ranks.get(&which(row, connections)).copied(), row.time));
}

fn about(row: &AnswerRow) -> Option<About> {
    let is_told = matches!(row.of, Entity::File(_) | Entity::Name(..) | Entity::Dir(..));
    is_told.then(|| About {
        path: row.path().map(Into::into),
        shown: row.name().into(),
        file: row.file.as_ref().map(|file| FileNumbers {
            key: file.key,
            dev: file.dev,
            fileid: file.fileid,
        }),
    })
}

/// Of several files of a group one operation is one row.
fn of_rows(answer: &Answer<AnswerRow>) -> Vec<OperationAnswer> {
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut mounts: HashMap<_, u64> = HashMap::new();
    let mut rows: Vec<OperationAnswer> = Vec::new();
    let nobody = Arc::default();
    for row in &answer.rows {
        let mount: Option<Arc<str>> = row.mount().map(Into::into);
        let about = about(row);
        let tenant = if answer.by.tenants {
            &row.tenant
        } else {
            &nobody
        };
        let window = (row.time, Arc::clone(&row.host), mount.clone());
        for (op, sums, bytes, [untimed, unsplit]) in of_row(&row.sum.row()) {
            let requests = mounts.entry(window.clone()).or_default();
            *requests = requests.saturating_add(sums.requests);
            let by_tenant = TenantKey(Arc::clone(tenant));
            let key = (window.clone(), about.clone(), by_tenant, op);
            let place = places.entry(key).or_insert(rows.len());
            if *place == rows.len() {
                rows.push(OperationAnswer {
                    time: row.time,
                    host: Arc::clone(&row.host),
                    mount: mount.clone(),
                    op: op.as_str().into(),
                    transport: None,
                    about: about.clone(),
                    tenant: Arc::clone(tenant),
                    sums: OperationSums::default(),
                    bytes,
                    untimed: 0,
                    unsplit: 0,
                    mount_requests: 0,
                    covered_ms: row.covered_ms,
                });
            }
            let all = &mut rows[*place];
            all.sums.merge(&sums);
            all.untimed += untimed;
            all.unsplit += unsplit;
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
    let key = |row: &OperationAnswer| {
        let host_and_mount = (Arc::clone(&row.host), row.mount.clone());
        let about = (row.about.clone(), TenantKey(Arc::clone(&row.tenant)));
        (
            row.time,
            host_and_mount,
            about,
            requests(row),
            Arc::clone(&row.op),
        )
    };
    rows.sort_by_cached_key(key);
    rows
}

/// The operations of one file that there were, which of their bytes are known, and how many of each are untimed and unsplit.
fn of_row(row: &Row) -> impl Iterator<Item = (OpName, OperationSums, KnownBytes, [u64; 2])> {
    let Row { read, write, ops } = row;
    let direction = |name, d: &Direction, bytes| {
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
        (OpName::new(name), sums, bytes, [d.untimed, d.unsplit])
    };
    let mut both = [
        direction(READ, read, KnownBytes::Received),
        direction(WRITE, write, KnownBytes::Sent),
    ];
    both[0].1.received_bytes = read.bytes;
    both[1].1.sent_bytes = write.bytes;
    let others = ops.as_slice().iter().map(|op| {
        let sums = OperationSums {
            requests: op.requests,
            errors: op.errors,
            queue_ns_sum: op.queue_ns_sum,
            rtt_ns_sum: op.rtt_ns_sum,
            execute_ns_sum: op.execute_ns_sum,
            execute_ns_max: op.execute_ns_max,
            ..OperationSums::default()
        };
        (op.op, sums, KnownBytes::None, [0; 2])
    });
    let all = both.into_iter().chain(others);
    all.filter(|(_, sums, ..)| sums.requests > 0)
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
    Ok(choose(question, &terms, connections, answer))
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
