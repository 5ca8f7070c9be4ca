//! Normal days, and what goes wrong in them from [`BEGIN`] to [`END`].

use std::sync::Arc;

use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;

use super::{BEGIN, END, SECONDS, Second, at, is_planted, local, nfs, recorded, usual};
use crate::windows::{connection, stalled};

/// A normal day of a database and other files on an NFS server.
pub fn office(second: &mut Second, times: f64) {
    office_of(second, "nas:/data", times);
}

/// The same for a given mount.
pub fn office_of(second: &mut Second, mount: &str, times: f64) {
    let orders = nfs(mount, "/srv/db/orders.db", "1000:/db.service");
    second.reads(&orders, usual(40.0, 8192, 400.0).slower(times));
    second.writes(&orders, usual(15.0, 8192, 700.0).slower(times));
    for number in 0..10 {
        let file = nfs(
            mount,
            &format!("/srv/web/page{number}"),
            "1001:/web.service",
        );
        second.reads(&file, usual(3.0, 16_384, 500.0).slower(times));
        second.operations(&file, "GETATTR", usual(2.0, 0, 150.0).slower(times));
    }
}

/// The office, and from [`BEGIN`] to [`END`] a backup that makes it slow.
pub fn noisy_neighbour() -> Vec<ClosedWindow> {
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    recorded(1, SECONDS, |number, second| {
        let is_on = is_planted(number);
        office(second, if is_on { 10.0 } else { 1.0 });
        if is_on {
            second.writes(&backup, usual(400.0, 1 << 20, 9000.0));
        }
    })
}

/// The same after a minute in which the server was slower for all.
pub fn noisy_neighbour_after_a_slow_minute() -> Vec<ClosedWindow> {
    let mut windows = recorded(41, BEGIN, |number, second| {
        let is_slow = (200..260).contains(&number);
        office(second, if is_slow { 3.0 } else { 1.0 });
    });
    windows.extend(noisy_neighbour().split_off(BEGIN as usize));
    windows
}

/// Single writes of that backup: one in ten by another process than its own.
pub fn backup_requests() -> RequestBatch {
    let backup = nfs("nas:/data", "/srv/scratch/backup.tar", "0:/backup.service");
    let write = |number: i64| {
        let (pid, process) = match number % 10 {
            0 => (4712, ProcessName::new(b"cp")),
            _ => (4711, ProcessName::new(b"tar")),
        };
        Request {
            end_ns: (at(BEGIN).0 + 100 * number) * 1_000_000,
            file: 0,
            flags: flags::WRITE,
            offset: number.cast_unsigned() << 20,
            asked_bytes: 1 << 20,
            done_bytes: 1 << 20,
            latency_ns: 9_000_000,
            queue_ns: 0,
            rtt_ns: 8_000_000,
            xid: number as u32,
            retransmissions: 0,
            error: 0,
            pid,
            process,
        }
    };
    RequestBatch {
        files: vec![backup],
        requests: (0..600).map(write).collect(),
    }
}

/// The office, `times` as slow in the planted time. `ops` has the operations and connections of a second, within the planted time or not.
pub fn office_over(times: f64, ops: impl Fn(bool) -> Vec<OperationRow>) -> Vec<ClosedWindow> {
    let mut windows = recorded(40, SECONDS, |number, second| {
        office(second, if is_planted(number) { times } else { 1.0 });
    });
    for (number, window) in (0..).zip(&mut windows) {
        window.health.ops_covered_ms = window.health.covered_ms;
        window.ops = ops(is_planted(number));
    }
    windows
}

/// The WRITEs of a mount over a connection in a second.
pub fn written_over(transport: &str, mount: &str, us: u64) -> OperationRow {
    let mut sums = OperationSums {
        requests: 15,
        sent_bytes: 15 * 8192,
        received_bytes: 15 * 200,
        rtt_ns_sum: 15 * us * 900,
        execute_ns_sum: 15 * us * 1000,
        execute_ns_max: us * 1000,
        ..OperationSums::default()
    };
    (0..15).for_each(|_| sums.execute.record(us * 1000));
    OperationRow {
        operation: Operation {
            mount: Some(mount.to_owned()),
            op: "WRITE".to_owned(),
            transport: Some(transport.to_owned()),
        },
        sums,
    }
}

/// The office over a network that delays and loses segments from [`BEGIN`] to [`END`].
pub fn slow_network() -> Vec<ClosedWindow> {
    office_over(100.0, |is_on| {
        let (us, rtt_us, retrans) = if is_on {
            (70_000, 41_000, 31)
        } else {
            (700, 400, 0)
        };
        vec![
            written_over("tcp-0", "nas:/data", us),
            connection("tcp-0", rtt_us, retrans, 1000),
        ]
    })
}

/// The load of a device: a database and other files.
pub fn disk(second: &mut Second, times: f64) {
    let orders = local("/dev/sdb1", "/data/db/orders.db", "/db.service");
    second.reads(&orders, usual(60.0, 8192, 250.0).slower(times));
    second.writes(&orders, usual(20.0, 8192, 400.0).slower(times));
    for number in 0..6 {
        let file = local(
            "/dev/sdb1",
            &format!("/data/web/{number}.html"),
            "/web.service",
        );
        second.reads(&file, usual(5.0, 16_384, 300.0).slower(times));
    }
}

/// The device, and a backup that makes it slow.
pub fn noisy_neighbour_on_a_device() -> Vec<ClosedWindow> {
    let backup = local("/dev/sdb1", "/data/scratch/backup.tar", "/backup.service");
    recorded(2, SECONDS, |number, second| {
        disk(second, if is_planted(number) { 8.0 } else { 1.0 });
        if is_planted(number) {
            second.writes(&backup, usual(900.0, 1 << 20, 20_000.0));
        }
    })
}

/// The office on a server that is slower for all.
pub fn slower_server() -> Vec<ClosedWindow> {
    recorded(3, SECONDS, |number, second| {
        office(second, if is_planted(number) { 3.0 } else { 1.0 });
    })
}

/// The office on a server that does not answer, and returns.
pub fn stall() -> Vec<ClosedWindow> {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    let mut windows = recorded(6, SECONDS, |number, second| match number {
        BEGIN..END => {}
        END => second.reads(&orders, usual(30.0, 8192, 60e6).held_up()),
        _ => office(second, 1.0),
    });
    for (number, window) in (BEGIN + 1..END).zip(&mut windows[BEGIN as usize + 1..]) {
        let age_ms = 1000 * (number - BEGIN).cast_unsigned();
        window.health.pending = Some(stalled("10.0.0.5", "nas:/data", age_ms, 30));
    }
    windows
}

/// A database whose requests are sent again.
pub fn retransmissions() -> Vec<ClosedWindow> {
    let orders = nfs("nas:/data", "/srv/db/orders.db", "1000:/db.service");
    recorded(8, SECONDS, |number, second| {
        let usual = usual(50.0, 8192, 400.0);
        match is_planted(number) {
            true => second.faulty(&orders, usual.slower(20.0), 0, 6),
            false => second.faulty(&orders, usual, 0, 0),
        }
    })
}

/// An index of files that is no longer in the page cache.
pub fn cold_cache() -> Vec<ClosedWindow> {
    recorded(10, SECONDS, |number, second| {
        let hit = if is_planted(number) { 0.1 } else { 0.97 };
        for name in ["a", "b", "c"] {
            let file = local(
                "/dev/sdb1",
                &format!("/data/index/{name}"),
                "/search.service",
            );
            second.calls(&file, usual(80.0, 65_536, 12.0), hit, 900.0);
        }
    })
}

/// The office, and a build that opens and renames many files.
pub fn metadata_storm() -> Vec<ClosedWindow> {
    recorded(11, SECONDS, |number, second| {
        office(second, if is_planted(number) { 5.0 } else { 1.0 });
        if is_planted(number) {
            for file in 0..200 {
                let path = format!("/srv/build/out/{}/{file}.o", number % 60);
                let file = nfs("nas:/data", &path, "1002:/ci.service");
                second.operations(&file, "OPEN", usual(2.0, 0, 300.0));
                second.operations(&file, "RENAME", usual(1.0, 0, 300.0));
            }
        }
    })
}

/// The device, and a queue that syncs.
pub fn sync_storm() -> Vec<ClosedWindow> {
    recorded(12, SECONDS, |number, second| {
        disk(second, if is_planted(number) { 6.0 } else { 1.0 });
        let log = local("/dev/sdb1", "/data/queue/log", "/queue.service");
        let rate = if is_planted(number) { 150.0 } else { 1.0 };
        let us = if is_planted(number) { 9000.0 } else { 2500.0 };
        second.operations(&log, "fsync", usual(rate, 0, us));
    })
}

/// Ten thousand files; one of them is slow.
pub fn one_slow_file() -> Vec<ClosedWindow> {
    let files: Vec<Arc<FileAttributes>> = (0..10_000)
        .map(|number| {
            nfs(
                "nas:/data",
                &format!("/srv/img/{}/{number}", number % 100),
                "7:/w",
            )
        })
        .collect();
    recorded(13, SECONDS, |number, second| {
        for (place, file) in files.iter().enumerate() {
            let slow = place == 4711;
            if slow || (place as i64 + number) % 100 == 0 {
                let times = if slow && is_planted(number) {
                    400.0
                } else {
                    1.0
                };
                second.reads(file, usual(1.5, 16_384, 600.0).slower(times));
            }
        }
    })
}

/// The office, and a tenant that grows slowly until the end.
pub fn growing_tenant() -> Vec<ClosedWindow> {
    let crawl = nfs("nas:/data", "/srv/crawl/segment", "1003:/crawl.service");
    recorded(14, SECONDS, |number, second| {
        let grown = (number as f64 / SECONDS as f64).powi(2);
        office(second, 1.0 + 6.0 * grown);
        second.reads(
            &crawl,
            usual(10.0 + 400.0 * grown, 131_072, 900.0 + 5400.0 * grown),
        );
    })
}

/// A quiet day of the office.
pub fn nothing() -> Vec<ClosedWindow> {
    recorded(20, SECONDS, |_, second| office(second, 1.0))
}

/// The office on a server that is slow 20 times. Its connection has this RTT at that time, us.
pub fn slow_server(rtt_us: u64) -> Vec<ClosedWindow> {
    office_over(20.0, move |is_on| {
        let (us, rtt_us) = if is_on { (14_000, rtt_us) } else { (700, 400) };
        vec![
            written_over("tcp-0", "nas:/data", us),
            connection("tcp-0", rtt_us, 0, 1000),
        ]
    })
}
