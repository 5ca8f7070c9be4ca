//! The output of the CHEOPS'24 paper's extractor: one line per file and window,
//! `[Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency`.

use std::fmt::Write;

use trackiops_query::times::rfc3339;
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Row};
use trackiops_schemas::time::Granularity;

/// The lines of a window, each with its line end. Rates divide by the time really covered.
pub fn lines(window: &ClosedWindow, granularity: Granularity) -> String {
    let covered_ms = match window.health.covered_ms {
        // A window of late requests only: they belong to a second that was covered before.
        0 => granularity.ms() as f64,
        ms => ms as f64,
    };
    let mut text = String::new();
    // A file that several tenants used has a row of each, one after the other.
    let same = |a: &FileRow, b: &FileRow| a.file.id == b.file.id;
    for rows in window.rows.chunk_by(same) {
        let id = &rows[0].file.id;
        let mut sum = Row::default();
        rows.iter().for_each(|row| sum.merge(&row.row));
        if !sum.is_transfer() {
            continue;
        }
        let _ = write!(
            text,
            "[{}], {}:{}",
            rfc3339(window.start),
            id.dev,
            id.fileid
        );
        for direction in [&sum.read, &sum.write] {
            let [iops, throughput, latency] = metrics(direction, covered_ms / 1000.0);
            let _ = write!(text, ", {iops}, {throughput}, {latency}");
        }
        text.push('\n');
    }
    text
}

/// Requests/s, bytes/s, mean latency in ns, each rounded to a whole number.
fn metrics(direction: &Direction, seconds: f64) -> [u64; 3] {
    let rate = |count: u64| (count as f64 / seconds).round() as u64;
    let latency = direction.latency_ns_mean().unwrap_or(0.0).round() as u64;
    [rate(direction.requests), rate(direction.bytes), latency]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey};
    use trackiops_schemas::row::Health;
    use trackiops_schemas::time::UtcMs;

    #[test]
    fn the_papers_line_adds_up_tenants_and_divides_by_the_covered_time() {
        let id = FileId {
            dev: Dev(49),
            fileid: 34_866_518,
            handle_hash: 1,
        };
        let file = |tenant: &str| FileAttributes {
            key: FileKey::new(None, id),
            id,
            mount: None,
            path: None,
            path_inferred: false,
            tenant: Arc::new(tenant.parse().unwrap()),
        };
        let row = |requests: u64| {
            let read = Direction {
                requests,
                bytes: requests * 4096,
                latency_ns_sum: requests * 500,
                ..Direction::default()
            };
            let write = Direction::default();
            Row {
                read,
                write,
                ..Row::default()
            }
        };
        let window = ClosedWindow {
            start: UtcMs(1_795_233_600_000),
            rows: vec![
                FileRow {
                    file: Arc::new(file("0:/a.service")),
                    row: row(7),
                },
                FileRow {
                    file: Arc::new(file("1000:/b.service")),
                    row: row(3),
                },
            ],
            ops: Vec::new(),
            health: Health {
                covered_ms: 500,
                ..Health::default()
            },
        };
        let expected = "[2026-11-21T04:00:00.000Z], 0:49:34866518, 20, 81920, 500, 0, 0, 0\n";
        assert_eq!(lines(&window, "1s".parse().unwrap()), expected);
    }
}
