//! One line per window for a person at a terminal.

use trackiops_query::render::units;
use trackiops_query::times::Zone;
use trackiops_schemas::rollup::ClosedWindow;

/// Requests/s, bytes/s, files, lost and missed requests of a window.
pub fn line(window: &ClosedWindow) -> String {
    let sum = |of: fn(&trackiops_schemas::rollup::Row) -> u64| {
        window.rows.iter().map(|r| of(&r.row)).sum::<u64>()
    };
    let requests = sum(|row| row.read.requests + row.write.requests);
    let bytes = sum(|row| row.read.bytes + row.write.bytes);
    let seconds = (window.health.covered_ms.max(1)) as f64 / 1000.0;
    format!(
        "{}  {:>8.0} requests/s  {:>12}  {:>6} files  {} lost{}",
        Zone::Local.at(window.start).format("%H:%M:%S"),
        requests as f64 / seconds,
        units::bytes_per_second(bytes as f64 / seconds),
        window.rows.len(),
        window.health.lost,
        match window.health.missed {
            0 => String::new(),
            missed => format!(", up to {missed} missed"),
        },
    )
}
