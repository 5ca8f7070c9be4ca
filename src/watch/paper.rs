//! The output of the CHEOPS'24 paper's extractor: one line per file and window,
//! `[Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency`.

use std::fmt::Write;

use trackiops_query::origin::File;
use trackiops_query::times::rfc3339;
use trackiops_query::{Answer, AnswerRow, Step};
use trackiops_render::visible::visible;
use trackiops_schemas::row::Direction;

/// What the columns of lines are.
pub const HEADER: &str =
    "[Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency\n";

/// The lines of an answer with windows, each with its line end. Rates divide by the time really
/// covered.
pub fn lines(answer: &Answer<AnswerRow>) -> String {
    let mut text = String::new();
    for row in &answer.rows {
        let (Some(file), Step::Windows(step)) = (&row.file, answer.step) else {
            continue;
        };
        let covered_ms = match row.covered_ms {
            // A window of late requests only: they belong to a second that was covered before.
            0 => step.ms() as f64,
            ms => ms as f64,
        };
        let _ = write!(text, "[{}], {}", rfc3339(row.time), id(file));
        for direction in [row.sum.read(), row.sum.write()] {
            let [iops, throughput, latency] = metrics(&direction, covered_ms / 1000.0);
            let _ = write!(text, ", {iops}, {throughput}, {latency}");
        }
        text.push('\n');
    }
    text
}

/// What tells a file from others. Rows that stand for several files have no number, but a name in brackets.
fn id(file: &File) -> String {
    match (file.fileid, &file.path) {
        (0, Some(path)) => format!("{}:{}", file.dev, visible(path)),
        (number, _) => format!("{}:{number}", file.dev),
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

    use super::*;

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
