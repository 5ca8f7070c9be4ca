//! Activity of processes, from their single requests and calls. Rows of windows have no processes.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use trackiops_schemas::columns::{
    CGROUP, DONE_BYTES, HOST, LATENCY_NS, LEVEL, OP, PID, PIECE, PROCESS,
};
use trackiops_schemas::level::IoLevel;

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::error::QueryError;
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::GroupBy;
use crate::question::{Question, is_asked};
use crate::requests::{KeptRequests, level_in, none_of, numbers, text_in, texts};

/// Activity of a process at a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessActivity {
    /// The host that it ran on.
    pub host: Arc<str>,
    /// Its name; the last one if it had several. `None` if unknown.
    pub process: Option<Arc<str>>,
    /// Its number. `None` for I/O without a known process, such as requests to devices.
    pub pid: Option<i64>,
    /// Its cgroup; the last one if it had several. `None` if unknown.
    pub cgroup: Option<Arc<str>>,
    /// The level at which the I/O was observed.
    pub level: IoLevel,
    /// Requests, or calls.
    pub requests: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
    /// Requests with a known latency.
    pub timed: u64,
    /// Sum of their latencies, ns.
    pub latency_ns_sum: u64,
    /// The largest of them.
    pub latency_ns_max: u64,
}

impl ProcessActivity {
    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }

    /// The largest latency, us, where any is known.
    pub fn latency_us_max(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.latency_ns_max as f64 / 1000.0)
    }

    /// The mean latency, us, where any is known.
    pub fn latency_us_mean(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.latency_ns_sum as f64 / self.timed as f64 / 1000.0)
    }
}

/// Replaces a name by a known one.
fn keep_last(name: &mut Option<Arc<str>>, last: Option<&str>) {
    if last.is_some() && name.as_deref() != last {
        *name = last.map(Into::into);
    }
}

/// The processes of the selected single requests and calls, with the most bytes first, or by `--sort`.
pub fn ask_processes(question: &Question) -> Result<Outcome<ProcessActivity>, QueryError> {
    let terms = FilterAndSort::<ProcessActivity>::new(question)?;
    // They apply to processes, not to requests.
    let about_requests = Question {
        conditions: Vec::new(),
        sort: None,
        top: None,
        ..question.clone()
    };
    let mut kept = match KeptRequests::open(&about_requests)? {
        Ok(kept) => kept,
        Err((why, notes)) => return Ok(Outcome::Nothing { why, notes }),
    };
    let mut found: HashMap<(Arc<str>, Option<i64>, IoLevel), ProcessActivity> = HashMap::new();
    let mut hosts: HashSet<Arc<str>> = HashSet::new();
    let mut is_kept = false;
    kept.read(kept.range, &mut |batch| {
        let [all_hosts, levels, ops, processes, cgroups] =
            [HOST, LEVEL, OP, PROCESS, CGROUP].map(|name| texts(&batch, name));
        let [pids, bytes, latencies] =
            [PID, DONE_BYTES, LATENCY_NS].map(|name| numbers(&batch, name));
        let pieces = batch.column_by_name(PIECE);
        let pieces = pieces.and_then(|pieces| pieces.as_boolean_opt());
        is_kept |= batch.num_rows() > 0;
        for row in 0..batch.num_rows() {
            let op = text_in(ops, row);
            if !is_asked(&question.ops, op) {
                continue;
            }
            let op = op.unwrap_or_default();
            let number =
                |of: Option<&Int64Array>| of.filter(|of| of.is_valid(row)).map(|of| of.value(row));
            let host = text_in(all_hosts, row).unwrap_or_default();
            let known = hosts.get(host).map(Arc::clone);
            let host = known.unwrap_or_else(|| {
                let host: Arc<str> = host.into();
                hosts.insert(Arc::clone(&host));
                host
            });
            let (pid, level) = (number(pids), level_in(levels, row));
            let key = (Arc::clone(&host), pid, level);
            let of = found.entry(key).or_insert_with(|| ProcessActivity {
                host,
                pid,
                level,
                ..ProcessActivity::default()
            });
            keep_last(&mut of.process, text_in(processes, row));
            keep_last(&mut of.cgroup, text_in(cgroups, row));
            let bytes = number(bytes).unwrap_or_default().max(0).cast_unsigned();
            if op.eq_ignore_ascii_case("read") {
                of.read_bytes = of.read_bytes.saturating_add(bytes);
            } else if op.eq_ignore_ascii_case("write") {
                of.write_bytes = of.write_bytes.saturating_add(bytes);
            }
            // Further bytes of a request that was already counted.
            if pieces.is_some_and(|pieces| pieces.is_valid(row) && pieces.value(row)) {
                continue;
            }
            of.requests += 1;
            if let Some(ns) = number(latencies).and_then(|ns| u64::try_from(ns).ok()) {
                of.timed += 1;
                of.latency_ns_sum = of.latency_ns_sum.saturating_add(ns);
                of.latency_ns_max = of.latency_ns_max.max(ns);
            }
        }
        Ok(true)
    })?;
    let (range, none, notes) = kept.finish(&about_requests);
    let any = !found.is_empty();
    let mut rows: Vec<_> = found.into_values().filter(|row| terms.hold(row)).collect();
    rows.sort_by_cached_key(|row| {
        let order = (Reverse(row.bytes()), Reverse(row.requests));
        (order, Arc::clone(&row.host), row.pid, row.level)
    });
    terms.sort(&mut rows);
    if let Some(top) = question.top {
        rows.truncate(top.get());
    }
    let answer = Answer::of_range(rows, GroupBy::HOST, range, notes);
    Ok(answer.or_nothing(|| match (is_kept, any) {
        (false, _) => none,
        (true, false) => none_of(question, range),
        (true, true) => EmptyReason::NoRow {
            conditions: in_words(question),
            asked: range,
        },
    }))
}
