//! Shows a running recording to a person: the status line.

use std::io::{self, IsTerminal};
use std::mem;
use std::sync::Arc;

use trackiops_query::coverage::stalls::stalled;
use trackiops_query::times::Zone;
use trackiops_render::units;
use trackiops_render::visible::visible;
use trackiops_schemas::pending::{Pending, StalledServer};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_store::RequestCounts;

use crate::output::say;
use crate::recorder::messages::{booked, folded, left_out, missed};
use crate::recorder::service_manager::ServiceManager;

/// Shows windows to a person.
pub struct RecordingDisplay {
    status: bool,
    /// Counts of requests that are kept one by one.
    pub kept: Arc<RequestCounts>,
    left_out_shown: u64,
}

impl RecordingDisplay {
    /// `are_printed` says whether windows are printed to stdout. A terminal then shows no status lines.
    pub fn new(kept: Arc<RequestCounts>, are_printed: bool) -> Self {
        Self {
            status: io::stderr().is_terminal() && !(are_printed && io::stdout().is_terminal()),
            kept,
            left_out_shown: 0,
        }
    }

    /// Shows a window. `waiting` is the number of earlier windows that are not written yet.
    pub fn window(&mut self, window: &ClosedWindow, waiting: usize, manager: &ServiceManager) {
        if self.status || manager.listens() {
            let all_left_out = self.kept.left_out();
            let new = all_left_out - mem::replace(&mut self.left_out_shown, all_left_out);
            let line = format!(
                "{}{}{}",
                status_line(window),
                left_out(new),
                windows_waiting(waiting)
            );
            manager.goes_on(Some(&visible(&line)));
            if self.status {
                say(line);
            }
        }
    }
}

/// Requests/s, bytes/s, files, lost, folded and missed requests of a window, and servers that did not answer.
fn status_line(window: &ClosedWindow) -> String {
    let sum = |of: fn(&Row) -> u64| window.rows.iter().map(|r| of(&r.row)).sum::<u64>();
    let requests = sum(|row| row.read.requests + row.write.requests);
    let bytes = sum(|row| row.read.bytes + row.write.bytes);
    let same = |a: &FileRow, b: &FileRow| a.file.key == b.file.key;
    let seconds = (window.health.covered_ms.max(1)) as f64 / 1000.0;
    format!(
        "{}  {:>8.0} requests/s  {:>12}  {:>6} files  {} lost{}{}{}{}",
        Zone::Local.at(window.start).format("%H:%M:%S"),
        requests as f64 / seconds,
        units::bytes_per_second(bytes as f64 / seconds),
        window.rows.chunk_by(same).count(),
        window.health.lost,
        folded(window.health.folded),
        missed(window.health.missed),
        booked(window.health.audit_missed_requests),
        window.health.pending.as_ref().map_or(String::new(), stalls),
    )
}

fn stalls(pending: &Pending) -> String {
    let one = |server: &StalledServer| format!(", {server} {}", stalled(server.age_ms_max));
    pending.stalled().iter().map(one).collect()
}

/// The number of windows that wait for the disk, if it is more than the normal few.
fn windows_waiting(windows: usize) -> String {
    match windows {
        0..=2 => String::new(),
        some => format!(", {some} windows wait for the disk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
    use trackiops_schemas::pending::PendingClient;
    use trackiops_schemas::row::Health;
    use trackiops_schemas::time::UtcMs;

    fn row(fileid: u64, uid: u32) -> FileRow {
        let id = FileId {
            dev: Dev(49),
            fileid,
            handle_hash: 1,
        };
        let file = FileAttributes {
            key: FileKey(fileid.cast_signed()),
            id,
            mount: None,
            path: None,
            path_inferred: false,
            tenant: Arc::new(Tenant {
                uid: Some(uid),
                ..Tenant::default()
            }),
            level: Default::default(),
        };
        let mut row = Row::default();
        row.read.requests = 50;
        row.read.bytes = 4096;
        FileRow {
            file: Arc::new(file),
            row,
        }
    }

    #[test]
    fn a_line_counts_files_and_tells_what_is_not_recorded_in_whole() {
        let mut window = ClosedWindow {
            start: UtcMs(1_795_233_600_000),
            rows: vec![row(1, 0), row(1, 1000), row(2, 0)],
            ops: Vec::new(),
            health: Health {
                covered_ms: 500,
                ..Health::default()
            },
        };
        let told = |window: &ClosedWindow| {
            status_line(window)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let quiet = "300 requests/s 24.0 KiB/s 2 files 0 lost";
        assert!(told(&window).ends_with(quiet), "{}", told(&window));
        window.health.folded = 7;
        window.health.missed = 3;
        let loud = format!("{quiet}, 7 folded, up to 3 missed");
        assert!(told(&window).ends_with(&loud), "{}", told(&window));
        window.health.audit_missed_requests = 2;
        let loud = format!("{loud}, 2 in rows (missed)");
        assert!(told(&window).ends_with(&loud), "{}", told(&window));
        let client = |server: &str, age_ms_max| PendingClient {
            server: Some(server.to_owned()),
            mounts: vec!["nas:/home".to_owned()],
            age_ms_max,
            ..PendingClient::default()
        };
        window.health.pending = Some(Pending {
            clients: vec![client("10.0.0.4", 999), client("10.0.0.5", 42_900)],
            ..Pending::default()
        });
        let hung = format!("{loud}, 10.0.0.5 (nas:/home) STALLED 42 s");
        assert!(told(&window).ends_with(&hung), "{}", told(&window));
    }
}
