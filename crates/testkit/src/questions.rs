//! Questions, and their straightforward answers.

use std::collections::BTreeMap;
use std::path::Path;

use trackiops_query::times::Zone;
use trackiops_query::{
    Answer, AnswerRow, Explain, FileSelector, GroupBy, Outcome, Projection, Question, Range, Step,
    ask,
};
use trackiops_schemas::identity::{FileKey, Tenant};
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_schemas::time::UtcMs;

use crate::generated::THREE;

pub fn question(store: &Path) -> Question {
    Question {
        stores: vec![store.into()],
        view: None,
        files: Vec::new(),
        range: Range::default(),
        step: None,
        mounts: Vec::new(),
        volumes: Vec::new(),
        tenants: Vec::new(),
        tenant_rules: None,
        levels: Vec::new(),
        ops: Vec::new(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        by: GroupBy::FILE,
        projection: Projection::all(),
        // Long after all recordings of tests.
        now: UtcMs(THREE + 30 * 86_400_000),
        zone: Zone::utc(),
        explain: Explain::default(),
        row_limit: None,
        usual: None,
    }
}

pub fn range(since: i64, until: i64) -> Range {
    Range {
        since: Some(UtcMs(since)),
        until: Some(UtcMs(until)),
    }
}

pub fn found(question: &Question) -> Answer {
    match ask(question).unwrap() {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, .. } => panic!("nothing found: {why:?}"),
    }
}

/// The selector for an argument of `--file`.
pub fn select(text: &str) -> FileSelector {
    FileSelector::parse(Path::new(text)).unwrap()
}

/// The file of a row that is about a single file.
pub fn key_of(row: &AnswerRow) -> FileKey {
    row.file.as_ref().unwrap().key
}

/// The key of a row in an answer; with the tenant if rows are grouped by tenant.
pub type Key = (i64, String, FileKey, Option<String>);
/// The row without its key: its counters, covered time, name and tenant.
pub type Sum = (Row, u64, Option<String>, Tenant);

/// The key of a tenant.
fn apart_by(tenant: &Tenant) -> String {
    match &tenant.name {
        Some(name) => format!("named {name}"),
        None => tenant.to_string(),
    }
}

pub fn rows(answer: &Answer) -> BTreeMap<Key, Sum> {
    let row = |row: &trackiops_query::AnswerRow| {
        let tenant = Tenant::clone(&row.tenant);
        let apart = (answer.by == GroupBy::FILE_TENANT).then(|| apart_by(&tenant));
        let path = row.path().map(str::to_owned);
        (
            (row.time.0, row.host.to_string(), key_of(row), apart),
            (row.sum.row().into_owned(), row.covered_ms, path, tenant),
        )
    };
    let rows: BTreeMap<_, _> = answer.rows.iter().map(row).collect();
    assert_eq!(rows.len(), answer.rows.len(), "a row comes twice");
    rows
}

/// The straightforward answer: sums of all windows for which `counts` is true, in windows of `step`.
pub fn straightforward(
    recordings: &[(&str, &[ClosedWindow])],
    counts: impl Fn(&ClosedWindow) -> bool,
    only: Option<FileKey>,
    step: Step,
    start: i64,
    by: GroupBy,
) -> BTreeMap<Key, Sum> {
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    let mut covered: BTreeMap<(i64, String), u64> = BTreeMap::new();
    for (host, windows) in recordings {
        for window in windows.iter().filter(|window| counts(window)) {
            let time = match step {
                Step::Windows(step) => window.start.align(step).0,
                Step::All => start,
            };
            *covered.entry((time, host.to_string())).or_default() += window.health.covered_ms;
            for row in &window.rows {
                if only.is_some_and(|only| only != row.file.key) {
                    continue;
                }
                let tenant = &*row.file.tenant;
                let apart = (by == GroupBy::FILE_TENANT).then(|| apart_by(tenant));
                let sum = sums
                    .entry((time, host.to_string(), row.file.key, apart))
                    .or_insert_with(|| (Row::default(), 0, None, tenant.clone()));
                sum.0.merge(&row.row);
                sum.2 = row.file.path.clone();
                let known = &mut sum.3;
                if known.uid != tenant.uid {
                    (known.uid, known.user) = (None, None);
                } else if tenant.user.is_some() {
                    known.user = tenant.user.clone();
                }
                if known.cgroup != tenant.cgroup {
                    (known.cgroup, known.container) = (None, None);
                } else if tenant.container.is_some() {
                    known.container = tenant.container.clone();
                }
                if known.name != tenant.name {
                    (known.name, known.labels) = (None, None);
                } else if tenant.labels.is_some() {
                    known.labels = tenant.labels.clone();
                }
            }
        }
    }
    for ((time, host, ..), sum) in &mut sums {
        sum.1 = covered[&(*time, host.clone())];
    }
    sums
}
