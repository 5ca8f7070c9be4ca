//! Lists files: their names, when they were seen, their requests and calls, and the bytes of both.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use trackiops_store::{FileHistory, Snapshot};

use crate::answer::{Answer, AnswerRow, EmptyReason, Outcome};
use crate::error::QueryError;
use crate::file_rows::ask_whole;
use crate::filter_and_sort::{FilterAndSort, in_words};
use crate::group::GroupBy;
use crate::origin::File;
use crate::projection::Projection;
use crate::question::Question;

/// A file with activity in the range.
#[derive(Clone, Debug)]
pub struct FileActivity {
    /// The host that recorded the activity.
    pub host: Arc<str>,
    /// The file, with its last name in the range.
    pub file: Arc<File>,
    /// Names of the file, and when it was first and last seen, on any host and also outside the range.
    pub history: FileHistory,
    /// READ requests in the range.
    pub read_requests: u64,
    /// Bytes of these READs.
    pub read_bytes: u64,
    /// WRITE requests in the range.
    pub write_requests: u64,
    /// Bytes of these WRITEs.
    pub write_bytes: u64,
    /// Read calls of applications in the range.
    pub app_read_calls: u64,
    /// Bytes of these calls, direct ones included.
    pub app_read_called_bytes: u64,
    /// Write calls of applications in the range.
    pub app_write_calls: u64,
    /// Bytes of these calls, direct ones included.
    pub app_write_called_bytes: u64,
}

impl FileActivity {
    /// READ and WRITE requests in the range.
    pub fn requests(&self) -> u64 {
        self.read_requests + self.write_requests
    }

    /// Bytes of READs and WRITEs in the range.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }

    /// Calls of applications in the range.
    pub fn app_calls(&self) -> u64 {
        self.app_read_calls + self.app_write_calls
    }

    /// Bytes of these calls.
    pub fn app_called_bytes(&self) -> u64 {
        self.app_read_called_bytes + self.app_write_called_bytes
    }
}

/// Lists files with activity, by name without `--sort`. Holds one row for each file in memory.
pub fn ask_files(question: &Question) -> Result<Outcome<FileActivity>, QueryError> {
    let terms = FilterAndSort::new(question)?;
    // Conditions and order apply to the listed rows, which have other columns.
    let all = Question {
        conditions: Vec::new(),
        sort: None,
        top: None,
        projection: Projection::calls(),
        ..question.clone()
    };
    ask_whole(&all, GroupBy::FILE, |snapshot, answer| {
        let answer = with_histories(snapshot, answer)?;
        Ok(choose(question, &terms, answer))
    })
}

/// Applies `--where`, `--sort` and `--top`.
fn choose(
    question: &Question,
    terms: &FilterAndSort<FileActivity>,
    mut answer: Answer<FileActivity>,
) -> Outcome<FileActivity> {
    let rows = &mut answer.rows;
    rows.retain(|row| terms.hold(row));
    terms.sort(rows);
    if let Some(top) = question.top {
        if !terms.is_sorted() {
            rows.sort_by_key(|row| Reverse((row.bytes(), row.app_called_bytes())));
        }
        rows.truncate(top.get());
    }
    let asked = answer.range;
    answer.or_nothing(|| EmptyReason::NoRow {
        conditions: in_words(question),
        asked,
    })
}

fn with_histories(
    snapshot: &Snapshot,
    mut answer: Answer<AnswerRow>,
) -> Result<Answer<FileActivity>, QueryError> {
    let files = answer.rows.iter().filter_map(|row| row.file.as_ref());
    let mut keys: Vec<_> = files.map(|file| file.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let histories = snapshot.histories(&keys)?;
    let range = answer.range;
    let activity = |row: AnswerRow| {
        let file = row.file?;
        let history = histories.get(&file.key).cloned();
        let whole = || FileHistory {
            seen: (range.start, range.end),
            names: Vec::new(),
        };
        let (read, write) = (row.sum.read(), row.sum.write());
        let (app_read, app_write) = (row.sum.app_read(), row.sum.app_write());
        Some(FileActivity {
            host: row.host,
            history: history.unwrap_or_else(whole),
            file,
            read_requests: read.requests,
            read_bytes: read.bytes,
            write_requests: write.requests,
            write_bytes: write.bytes,
            app_read_calls: app_read.calls,
            app_read_called_bytes: app_read.all_bytes(),
            app_write_calls: app_write.calls,
            app_write_called_bytes: app_write.all_bytes(),
        })
    };
    let rows = mem::take(&mut answer.rows).into_iter();
    let mut rows: Vec<_> = rows.filter_map(activity).collect();
    let name = |row: &FileActivity| {
        let file = &row.file;
        (file.path.is_none(), file.path.clone(), file.key)
    };
    rows.sort_by(|a, b| (name(a), &a.host).cmp(&(name(b), &b.host)));
    Ok(answer.with_rows(rows))
}
