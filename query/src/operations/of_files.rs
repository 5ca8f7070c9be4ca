//! Operations of files, derived from the rows of files.

use std::collections::BTreeMap;
use std::sync::Arc;

use trackiops_schemas::file_ops::OpName;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::{AppCalls, Direction, Row};

use super::filter_and_sort::filter_and_sort;
use super::{About, Connections, FileNumbers, KnownBytes, OperationAnswer, without_times};
use crate::aggregation::Sums;
use crate::answer::{Answer, AnswerRow, EmptyReason, Outcome};
use crate::error::QueryError;
use crate::file_rows::{ask, levels_of_rows};
use crate::filter_and_sort::FilterAndSort;
use crate::group::{Entity, GroupBy, TenantKey};
use crate::interval::Interval;
use crate::needed_notes::out_of_percentiles;
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE};
use crate::requests::{LatenciesOf, ask_call_latencies};

/// Answers a question about operations of files, grouped `by`. READs and WRITEs have the bytes of their data, without
/// the rest of their messages. Bytes of other operations are unknown.
pub fn ask_operations_by(
    question: &Question,
    by: GroupBy,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let mut outcome = ask_by(question, by)?;
    if let Outcome::Found(Answer { rows, notes, .. }) = &mut outcome {
        let calls = rows.iter().filter(|row| is_call(&row.op));
        let counts = calls.map(|row| (&*row.op, row.sums.execute.total(), row.timed()));
        notes.extend(out_of_percentiles(counts));
    }
    Ok(outcome)
}

/// Calls have names in lower case, and procedures of NFS in upper case.
fn is_call(op: &str) -> bool {
    op.chars().all(char::is_lowercase)
}

/// As [`ask_operations_by`], without notes about percentiles.
fn ask_by(question: &Question, by: GroupBy) -> Result<Outcome<OperationAnswer>, QueryError> {
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
    let found = ask_at(question, &terms, &files)?;
    if let (Outcome::Nothing { .. }, true) = (&found, question.levels.is_empty())
        && !question.ops.is_empty()
    {
        // Another level has more rows, but none of these operations.
        let files = Question {
            levels: vec![IoLevel::Block],
            ..files
        };
        let local = ask_at(question, &terms, &files)?;
        if let Outcome::Found(_) = local {
            return Ok(local);
        }
    }
    Ok(found)
}

/// Distributions of the times of the question's operations, over all selected files. Where histograms of files lack
/// calls, the distribution is that of single calls, if more of these were kept. Finds nothing if no operation has times.
pub fn ask_operation_latencies(question: &Question) -> Result<Outcome<LatenciesOf>, QueryError> {
    let mut answer = match ask_by(question, GroupBy::HOST)? {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, notes } => return Ok(Outcome::Nothing { why, notes }),
    };
    let mut rows: BTreeMap<String, Direction> = BTreeMap::new();
    for row in answer.rows.iter().filter(|row| row.histogram().is_some()) {
        let sums = &row.sums;
        let times = Direction {
            requests: sums.requests,
            untimed: row.untimed,
            latency_ns_sum: sums.execute_ns_sum,
            latency_ns_max: sums.execute_ns_max,
            latency: sums.execute.clone(),
            ..Direction::default()
        };
        rows.entry(row.op.to_lowercase()).or_default().merge(&times);
    }
    if rows.is_empty() {
        let why = EmptyReason::NoneOf {
            what: format!("times of {}", question.ops.join(" or ")),
            asked: answer.range,
        };
        let notes = answer.notes;
        return Ok(Outcome::Nothing { why, notes });
    }
    // Names in `rows` are in lower case, so only calls have the same name in the answer.
    let is_call = |op: &str| answer.rows.iter().any(|row| *row.op == *op);
    if rows.keys().any(|op| is_call(op)) {
        complete(question, answer.range, &mut rows);
    }
    let calls = rows.iter().filter(|(op, _)| is_call(op));
    let counts = calls.map(|(op, sums)| (op.as_str(), sums.latency.total(), sums.timed()));
    let notes: Vec<_> = out_of_percentiles(counts);
    answer.notes.extend(notes);
    Ok(Outcome::Found(answer.with_rows(rows.into_iter().collect())))
}

/// Takes the histogram of single calls in a range for operations whose own histogram has fewer. Single calls that
/// cannot be read are as good as none: the sums are an answer without them.
fn complete(question: &Question, range: Interval, rows: &mut BTreeMap<String, Direction>) {
    let is_complete = |sums: &Direction| sums.latency.total() >= sums.timed();
    if rows.values().all(is_complete) {
        return;
    }
    let single = Question {
        levels: vec![IoLevel::App],
        range: Range {
            since: Some(range.start),
            until: Some(range.end),
        },
        ..question.clone()
    };
    let Ok(Outcome::Found(single)) = ask_call_latencies(&single) else {
        return;
    };
    for (op, calls) in single.rows {
        if let Some(sums) = rows.get_mut(&op)
            && calls.latency.total() > sums.latency.total()
        {
            sums.latency = calls.latency;
        }
    }
}

/// Asks for the rows of files, and converts them to operations.
fn ask_at(
    question: &Question,
    terms: &FilterAndSort<OperationAnswer>,
    files: &Question,
) -> Result<Outcome<OperationAnswer>, QueryError> {
    let of_calls = files.levels == [IoLevel::App];
    let files = Question {
        levels: levels_of_rows(&files.levels),
        ..files.clone()
    };
    Ok(match ask(&files)? {
        Outcome::Nothing { why, notes } => Outcome::Nothing { why, notes },
        Outcome::Found(answer) => {
            let rows = of_rows(&answer, of_calls);
            filter_and_sort(
                question,
                terms,
                Connections::Together,
                answer.with_rows(rows),
            )
        }
    })
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

/// Adds up operations of the same name within each group. With `of_calls`, reads and writes are calls instead of
/// requests.
fn of_rows(answer: &Answer<AnswerRow>, of_calls: bool) -> Vec<OperationAnswer> {
    let mut rows: Sums<_, OperationAnswer> = Sums::default();
    let nobody = Arc::default();
    for row in &answer.rows {
        let mount: Option<Arc<str>> = row.mount().map(Into::into);
        let about = about(row);
        let tenant = if answer.by.tenants {
            &row.tenant
        } else {
            &nobody
        };
        for (op, sums, bytes, [untimed, unsplit]) in of_row(&row.sum.row(), row.level, of_calls) {
            let of = (mount.clone(), about.clone(), TenantKey::of(tenant));
            let key = (row.time, Arc::clone(&row.host), of, op);
            let all = rows.entry(key).or_insert_with(|| OperationAnswer {
                time: row.time,
                host: Arc::clone(&row.host),
                mount: mount.clone(),
                op: op.as_str().into(),
                transport: None,
                about: about.clone(),
                tenant: Arc::clone(tenant),
                level: row.level,
                sums: OperationSums::default(),
                bytes,
                untimed: 0,
                unsplit: 0,
                mount_requests: 0,
                covered_ms: row.covered_ms,
            });
            all.sums.merge(&sums);
            all.untimed += untimed;
            all.unsplit += unsplit;
        }
    }
    rows.into_values().collect()
}

/// The operations of a row that occurred, with their known bytes and their numbers of untimed and unsplit requests.
fn of_row(
    row: &Row,
    level: IoLevel,
    of_calls: bool,
) -> impl Iterator<Item = (OpName, OperationSums, KnownBytes, [u64; 2])> {
    let Row {
        read,
        write,
        ops,
        app_read,
        app_write,
        cache: _,
    } = row;
    let direction = |name, d: &Direction, bytes| {
        let sums = OperationSums {
            requests: d.requests,
            errors: d.errors,
            queue_ns_sum: d.queue_ns_sum,
            rtt_ns_sum: d.rtt_ns_sum,
            network_ns_sum: d.network_ns_sum,
            server_ns_sum: d.server_ns_sum,
            execute_ns_sum: d.latency_ns_sum,
            execute_ns_max: d.latency_ns_max,
            execute: d.latency.clone(),
            ..OperationSums::default()
        };
        (OpName::new(name), sums, bytes, [d.untimed, d.unsplit])
    };
    let calls = |name: &str, calls: &AppCalls, bytes| {
        let sums = OperationSums {
            requests: calls.calls,
            errors: calls.errors,
            execute_ns_sum: calls.latency_ns_sum,
            execute_ns_max: calls.latency_ns_max,
            execute: calls.latency.clone(),
            ..OperationSums::default()
        };
        let untimed = calls.calls.saturating_sub(calls.timed);
        let of_call = name.to_lowercase();
        (OpName::new(&of_call), sums, bytes, [untimed, calls.timed])
    };
    let (received, sent) = (KnownBytes::Received, KnownBytes::Sent);
    let mut both = match of_calls {
        false => [
            direction(READ, read, received),
            direction(WRITE, write, sent),
        ],
        true => [
            calls(READ, app_read, received),
            calls(WRITE, app_write, sent),
        ],
    };
    [both[0].1.received_bytes, both[1].1.sent_bytes] = match of_calls {
        false => [read.bytes, write.bytes],
        true => [app_read.all_bytes(), app_write.all_bytes()],
    };
    let others = ops.as_slice().iter().map(move |op| {
        let sums = OperationSums {
            requests: op.requests,
            errors: op.errors,
            queue_ns_sum: op.queue_ns_sum,
            rtt_ns_sum: op.rtt_ns_sum,
            execute_ns_sum: op.execute_ns_sum,
            execute_ns_max: op.execute_ns_max,
            execute: op.execute.clone(),
            ..OperationSums::default()
        };
        let unknown = match level {
            IoLevel::Wire => without_times(&sums),
            // Calls have no parts, and only timed calls have known times.
            _ if op.execute_ns_sum == 0 => [op.requests, 0],
            _ => [0, op.requests],
        };
        (op.op, sums, KnownBytes::None, unknown)
    });
    let all = both.into_iter().chain(others);
    all.filter(|(_, sums, ..)| sums.requests > 0)
}
