//! The process behind a load, from single requests and calls where these were kept. Rows of windows have no processes.

use std::path::PathBuf;
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::{
    FileSelector, Outcome, ProcessActivity, QueryError, Question, ask_processes,
};
use trackiops_schemas::level::IoLevel;

use super::load::{Load, Measure, Owner};
use super::track::within;

/// A process is behind a load if it did at least this part of it. Requests must have been kept for as large a part of the
/// time.
const MOST: f64 = 0.6;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name.
    pub name: Arc<str>,
    /// Its number.
    pub pid: i64,
    /// Its cgroup, if known.
    pub cgroup: Option<Arc<str>>,
}

/// The process that did most of a load in a time. `None` if several did, or if it is unknown.
pub fn behind(
    load: &Load,
    question: &Question,
    time: Interval,
) -> Result<Option<Process>, QueryError> {
    let Some(question) = about(load, &within(question, time)) else {
        return Ok(None);
    };
    // Windows that a recorder sends come without single requests.
    if question.view.is_some() || question.stores.is_empty() {
        return Ok(None);
    }
    let Outcome::Found(answer) = ask_processes(&question)? else {
        return Ok(None);
    };
    // A shorter time may have been that of another process.
    if (answer.range.ms() as f64) < MOST * time.ms() as f64 {
        return Ok(None);
    }
    // The process of a call is the application. That of a request may be a thread of the kernel.
    let of_level = |level| {
        let rows = answer.rows.iter();
        let rows = rows.filter(|of| of.level == level && of.host == *load.owner.host());
        most(&rows.collect::<Vec<_>>(), load.measure)
    };
    let levels = [IoLevel::App, IoLevel::Wire];
    Ok(levels.into_iter().find_map(of_level))
}

/// The question about the requests and calls of a load. `None` if its owner is a sum of files.
fn about(load: &Load, question: &Question) -> Option<Question> {
    let (files, tenants) = match &load.owner {
        Owner::File(_, name) => (vec![file(name)?], Vec::new()),
        Owner::Dir(_, dir) => (vec![FileSelector::Below(dir.to_string())], Vec::new()),
        Owner::Tenant(_, name) => (Vec::new(), vec![name.to_string()]),
    };
    let ops: &[&str] = match load.measure {
        Measure::ReadBytes => &["READ"],
        Measure::WrittenBytes => &["WRITE"],
        Measure::Requests => &["READ", "WRITE"],
        Measure::Metadata => &["OPEN"],
        Measure::Syncs => &["FSYNC", "COMMIT"],
    };
    // Exports have no single requests.
    let stores = question.stores.iter().filter(|store| store.is_dir());
    Some(Question {
        stores: stores.cloned().collect(),
        files,
        tenants,
        levels: Vec::new(),
        ops: ops.iter().map(|op| (*op).to_owned()).collect(),
        conditions: Vec::new(),
        sort: None,
        top: None,
        ..question.clone()
    })
}

/// A file by its path or its number.
fn file(name: &str) -> Option<FileSelector> {
    if name.starts_with('/') {
        return Some(FileSelector::Stored(PathBuf::from(name)));
    }
    let (dev, fileid) = name.rsplit_once(':')?;
    Some(FileSelector::Id(dev.parse().ok()?, fileid.parse().ok()?))
}

/// The process that did most, if it has a name and a number.
fn most(all: &[&ProcessActivity], measure: Measure) -> Option<Process> {
    let did = |of: &ProcessActivity| match measure {
        Measure::ReadBytes => of.read_bytes,
        Measure::WrittenBytes => of.write_bytes,
        Measure::Requests | Measure::Metadata | Measure::Syncs => of.requests,
    };
    // A forged file may have any numbers.
    let sum: u128 = all.iter().map(|of| u128::from(did(of))).sum();
    let first = all.iter().max_by_key(|of| did(of))?;
    let is_most = sum > 0 && did(first) as f64 >= MOST * sum as f64;
    let (name, pid) = first.process.clone().zip(first.pid)?;
    is_most.then(|| Process {
        name,
        pid,
        cgroup: first.cgroup.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, pid: i64, write_bytes: u64) -> ProcessActivity {
        ProcessActivity {
            process: (!name.is_empty()).then(|| name.into()),
            pid: (pid > 0).then_some(pid),
            write_bytes,
            requests: 1,
            ..ProcessActivity::default()
        }
    }

    #[test]
    fn a_process_is_named_only_if_most_is_its_own() {
        let pid_of = |all: [&ProcessActivity; 2], measure| most(&all, measure).map(|of| of.pid);
        let (tar, cp) = (process("tar", 4711, 70), process("cp", 4712, 30));
        assert_eq!(pid_of([&cp, &tar], Measure::WrittenBytes), Some(4711));
        // They made a request each, and read nothing.
        assert_eq!(pid_of([&cp, &tar], Measure::Requests), None);
        assert_eq!(pid_of([&cp, &tar], Measure::ReadBytes), None);
        let unknown = process("", 0, 300);
        assert_eq!(pid_of([&unknown, &tar], Measure::WrittenBytes), None);
        assert_eq!(most(&[], Measure::Requests), None);
        let huge = process("dd", 4713, u64::MAX);
        assert_eq!(pid_of([&huge, &huge], Measure::WrittenBytes), None);
        assert_eq!(pid_of([&huge, &tar], Measure::WrittenBytes), Some(4713));
    }

    #[test]
    fn a_sum_of_files_is_no_file() {
        let path = FileSelector::Stored("/a/b*".into());
        assert_eq!(file("/a/b*"), Some(path));
        assert!(matches!(file("0:49:7"), Some(FileSelector::Id(_, 7))));
        for name in ["(other)", "(filesystem)", "(no name)"] {
            assert_eq!(file(name), None, "{name}");
        }
    }
}
