//! One line per window for a person at a terminal.

use trackiops_collector::{Stall, StallChange};
use trackiops_query::coverage::stalls::stalled;
use trackiops_query::times::Zone;
use trackiops_render::units;
use trackiops_schemas::pending::{Pending, StalledServer};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health};

/// Requests/s, bytes/s, files, lost, folded and missed requests of a window, and servers that did
/// not answer.
pub fn line(window: &ClosedWindow) -> String {
    let sum = |of: fn(&trackiops_schemas::row::Row) -> u64| {
        window.rows.iter().map(|r| of(&r.row)).sum::<u64>()
    };
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

/// Says that a server has stopped answering, or that nothing waits for it any more.
pub fn stall(Stall { change, server }: &Stall) -> String {
    let requests = match server.requests_max {
        1 => "1 request".to_owned(),
        n => format!("{n} requests"),
    };
    match change {
        StallChange::Stalled => format!(
            "{server} {}: {requests} pending",
            stalled(server.age_ms_max)
        ),
        StallChange::Over => format!(
            "{server} no longer stalled: {requests} had waited for up to {} s",
            server.age_ms_max / 1000
        ),
    }
}

/// Says how many requests were folded, if any.
pub fn folded(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} folded"),
    }
}

/// Says how many requests may have been missed, if any.
pub fn missed(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", up to {some} missed"),
    }
}

/// Says how many requests were found in the kernel's counters alone, if any.
pub fn booked(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} in rows (missed)"),
    }
}

/// Says that rows and the kernel's counters differ for no known reason, if they do.
pub fn alarm(health: &Health) -> Option<String> {
    let missing = health.audit_missed_requests;
    (health.audit_alarms > 0).then(|| {
        format!(
            "warning: the rows and the kernel's counters of a mount (/proc/self/mountstats) differ for no known reason; {missing} requests \
             were added as rows (missed); please report this with `trackiops doctor`"
        )
    })
}

/// Says how many requests are not kept one by one although that was asked for, if any.
pub fn left_out(requests: u64) -> String {
    match requests {
        0 => String::new(),
        some => format!(", {some} not kept one by one"),
    }
}

/// Says how many windows wait for the disk, if more than the few that are normal.
pub fn waiting(windows: usize) -> String {
    match windows {
        0..=2 => String::new(),
        some => format!(", {some} windows wait for the disk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
    use trackiops_schemas::pending::PendingClient;
    use trackiops_schemas::row::Row;
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
            line(window)
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
        assert_eq!(alarm(&window.health), None);
        window.health.audit_alarms = 1;
        let said = alarm(&window.health).unwrap();
        assert!(said.contains("; 2 requests were added"), "{said}");
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

    #[test]
    fn a_stall_is_told_when_it_begins_and_when_it_is_over() {
        let mut told = Stall {
            change: StallChange::Stalled,
            server: StalledServer {
                address: Some("10.0.0.5".to_owned()),
                mounts: Vec::new(),
                requests_max: 1,
                age_ms_max: 1400,
            },
        };
        assert_eq!(stall(&told), "10.0.0.5 STALLED 1 s: 1 request pending");
        told.change = StallChange::Over;
        (told.server.requests_max, told.server.age_ms_max) = (17, 42_900);
        assert_eq!(
            stall(&told),
            "10.0.0.5 no longer stalled: 17 requests had waited for up to 42 s"
        );
    }
}
