//! Text of `--explain`.

use std::fmt::Write as _;
use std::time::Duration;

use trackiops_query::explain::{Explained, Part, Read, Segments};
use trackiops_query::times::{Zone, show_range};

use crate::units::bytes;
use crate::visible::{visible, wrap};

/// Most segments, and most parts of the range, with a separate line; one line counts the others.
const MAX_LINES: usize = 24;

/// Formats the statistics in lines of at most `width` cells; `None` means no limit.
pub fn explain(explained: &Explained, zone: Zone, width: Option<usize>) -> String {
    let Explained {
        stages,
        segments,
        parts,
        read,
        health,
        journals,
        again,
    } = explained;
    let all = explained.rows_read();
    let mut lines = Vec::new();
    if *again > 0 {
        let why = "segments had vanished or cannot be read";
        lines.push(("again".into(), format!("{again} more attempts: {why}")));
    }
    let part = |part: &Part| {
        let Part {
            host,
            range,
            granularity,
        } = part;
        let range = show_range(range.start, range.end, zone);
        let name = format!("by {granularity}");
        (name, format!("{range} on {host}"))
    };
    lines.extend(parts.iter().take(MAX_LINES).map(part));
    lines.extend(more("parts", parts.len()));
    let Segments {
        all: known,
        outside,
        damaged,
        other_granularity,
        without_files,
        read: opened,
    } = segments;
    lines.push((
        "segments".into(),
        format!(
            "{known} in the catalog: {opened} read; not read {outside} outside of the range, {other_granularity} of other \
             granularities or times, {without_files} without these files, {damaged} damaged"
        ),
    ));
    lines.push(("read".into(), amount(&all)));
    let mut each: Vec<&Read> = read.iter().collect();
    each.sort_by(|a, b| a.path.cmp(&b.path));
    let of_segment = |read: &&Read| {
        let text = format!("{}: {}", read.path.display(), amount(read));
        (String::new(), text)
    };
    lines.extend(each.iter().take(MAX_LINES).map(of_segment));
    lines.extend(more("segments", each.len()));
    let (files, health) = (health.segments, amount(health));
    lines.push(("coverage".into(), format!("{files} segments: {health}")));
    lines.push(("journals".into(), format!("{journals} not sealed")));
    let times = stages.iter();
    let times: Vec<_> = times
        .map(|(stage, took)| format!("{stage} {}", ms(*took)))
        .collect();
    let sum: Duration = stages.iter().map(|(_, took)| *took).sum();
    lines.push((
        "time".into(),
        format!("{}; {} in all", times.join(", "), ms(sum)),
    ));
    let mut text = String::new();
    for (name, line) in lines {
        let line = format!("explain: {name:<9} {line}");
        let line = wrap(&visible(&line), width, 19);
        let _ = writeln!(text, "{line}");
    }
    text
}

fn amount(read: &Read) -> String {
    let share = match read.bytes_stored {
        0 => 0.0,
        stored => read.bytes as f64 / stored as f64 * 100.0,
    };
    format!(
        "{} of {} rows, {} pages, {} of {} ({share:.2} %)",
        read.rows,
        read.rows_stored,
        read.pages,
        bytes(read.bytes),
        bytes(read.bytes_stored),
    )
}

fn more(what: &str, count: usize) -> Option<(String, String)> {
    let left = count.saturating_sub(MAX_LINES);
    (left > 0).then(|| (String::new(), format!("and {left} more {what}")))
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
