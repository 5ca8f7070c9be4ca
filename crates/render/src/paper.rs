//! The output of the CHEOPS'24 paper's extractor: one line per file and window,
//! `[Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency`.

use std::fmt::Write;

use trackiops_query::times::rfc3339;
use trackiops_query::{Answer, AnswerRow, Step};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Row};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::visible::visible;

/// The column header.
pub const HEADER: &str =
    "[Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency\n";

/// The lines of an answer with windows, each with its line end. Rates divide by the time that was really covered.
pub fn lines(answer: &Answer<AnswerRow>) -> String {
    let mut text = String::new();
    for row in &answer.rows {
        let (Some(file), Step::Windows(step)) = (&row.file, answer.step) else {
            continue;
        };
        let id = id(file.dev, file.fileid, file.path.as_deref());
        let directions = [&*row.sum.read(), &*row.sum.write()];
        add_line(&mut text, (row.time, step, row.covered_ms), &id, directions);
    }
    text
}

/// The lines of a recorder's window, summed over tenants.
pub fn lines_of_window(window: &ClosedWindow, length: Granularity) -> String {
    let mut text = String::new();
    let same =
        |a: &FileRow, b: &FileRow| a.file.key == b.file.key && a.file.id.dev == b.file.id.dev;
    for rows in window.rows.chunk_by(same) {
        let file = &rows[0].file;
        let mut sum = Row::default();
        rows.iter().for_each(|row| sum.merge(&row.row));
        let id = id(file.id.dev, file.id.fileid, file.path.as_deref());
        let time = (window.start, length, window.health.covered_ms);
        add_line(&mut text, time, &id, [&sum.read, &sum.write]);
    }
    text
}

fn add_line(
    text: &mut String,
    (start, length, covered_ms): (UtcMs, Granularity, u64),
    id: &str,
    directions: [&Direction; 2],
) {
    // Neither read nor written: operations and calls have no place in these lines.
    if directions.iter().all(|direction| direction.requests == 0) {
        return;
    }
    let covered_ms = match covered_ms {
        // The window only has late requests, which belong to a second that was already covered.
        0 => length.ms() as f64,
        ms => ms as f64,
    };
    let _ = write!(text, "[{}], {id}", rfc3339(start));
    for direction in directions {
        let [iops, throughput, latency] = metrics(direction, covered_ms / 1000.0);
        let _ = write!(text, ", {iops}, {throughput}, {latency}");
    }
    text.push('\n');
}

/// Identifies a file. Rows that stand for several files have no number, but a name in brackets.
fn id(dev: Dev, fileid: u64, path: Option<&str>) -> String {
    match (fileid, path) {
        (0, Some(path)) => format!("{dev}:{}", visible(path)),
        (number, _) => format!("{dev}:{number}"),
    }
}

/// Requests/s, bytes/s, mean latency in ns, each rounded to a whole number.
fn metrics(direction: &Direction, seconds: f64) -> [u64; 3] {
    let rate = |count: u64| (count as f64 / seconds).round() as u64;
    let latency = direction.latency_ns_mean().unwrap_or(0.0).round() as u64;
    [rate(direction.requests), rate(direction.bytes), latency]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use trackiops_schemas::identity::{FileAttributes, FileId, FileKey, Tenant};
    use trackiops_schemas::row::Health;

    #[test]
    fn a_file_of_two_tenants_is_one_line_of_a_window() {
        let row = |fileid, uid, requests| {
            let file = FileAttributes {
                id: FileId {
                    dev: Dev(49),
                    fileid,
                    handle_hash: 1,
                },
                key: FileKey(fileid.cast_signed()),
                tenant: Arc::new(Tenant {
                    uid: Some(uid),
                    ..Tenant::default()
                }),
                mount: None,
                path: None,
                path_inferred: false,
                level: Default::default(),
            };
            let mut row = Row::default();
            row.read.requests = requests;
            row.read.bytes = 4096 * requests;
            row.read.latency_ns_sum = 1000 * requests;
            FileRow {
                file: Arc::new(file),
                row,
            }
        };
        let window = ClosedWindow {
            start: UtcMs(1_795_233_600_000),
            rows: vec![row(1, 0, 1), row(1, 1000, 2), row(2, 0, 4)],
            ops: Vec::new(),
            health: Health {
                covered_ms: 500,
                ..Health::default()
            },
        };
        let lines = lines_of_window(&window, "1s".parse().unwrap());
        let expected = "[2026-11-21T04:00:00.000Z], 0:49:1, 6, 24576, 1000, 0, 0, 0\n\
                        [2026-11-21T04:00:00.000Z], 0:49:2, 8, 32768, 1000, 0, 0, 0\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn rates_divide_by_the_covered_time() {
        let direction = Direction {
            requests: 10,
            bytes: 40_960,
            latency_ns_sum: 5000,
            ..Direction::default()
        };
        assert_eq!(metrics(&direction, 0.5), [20, 81_920, 500]);
        assert_eq!(metrics(&Direction::default(), 1.0), [0, 0, 0]);
    }
}
