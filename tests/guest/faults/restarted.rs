//! The server goes away for 2 s while `steady.py` reads and writes.

use super::GUESTS;
use crate::run::{answers, number};

const DOWN: f64 = 2.0; // s

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_io_in_flight_over_a_server_restart_is_counted_once() {
    for guest in GUESTS.iter() {
        let files = answers(&guest.run.text("restarted"));
        assert!(files.len() >= 4);
        for file in &files {
            let path = file["path"].as_str().expect("a path");
            let mut parts = path.split('/').skip(2);
            let version = parts.next().expect("/mnt/VERSION/NAME");
            let direct = parts.next() == Some("direct");
            let (longest, after) = (number(file, "longest"), number(file, "after"));
            assert!(longest >= DOWN, "{path} met the restart: {longest} s");
            assert!(after >= 5.0, "{path} went on: {after} calls");

            let mount = format!("127.0.0.1:/exp/restarted-{version}");
            let mut recorded_longest: f64 = 0.0;
            for (direction, column, size) in [
                ("read", "reads", 4096),
                ("write", "writes", if direct { 4096 } else { 65536 }),
            ] {
                let recorded = guest.recorded(&mount, number(file, "fileid"), direction);
                let calls = number(file, column) as u64;
                let counts =
                    ["requests", "bytes", "errors", "untimed"].map(|column| recorded.count(column));
                assert_eq!(
                    counts,
                    [calls, calls * size, 0, 0],
                    "{} {path}",
                    guest.kernel
                );
                recorded_longest = recorded_longest.max(recorded.longest());
            }
            println!(
                "{} {path}: longest call {longest:.3} s, longest request {recorded_longest:.3} s",
                guest.kernel
            );
            assert!(recorded_longest <= longest);
            // v3 has no state to lose: the attempt that waits for the server succeeds. In v4 it ends in an error (stale state, bad
            // session), and the next attempt is timed.
            if version == "3" {
                assert!(recorded_longest >= DOWN, "{} {path}", guest.kernel);
            }
        }
    }
}
