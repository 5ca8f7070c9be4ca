//! RPC task ids that repeat: after 65,536 tasks of one client, and on two clients side by side.

use super::{Faults, GUESTS};
use crate::run::number;

/// RPC task ids have 16 bits.
const TASK_IDS: u64 = 1 << 16;
/// Delay that netem adds to the slow mount's round trip, s.
const SLOW: f64 = 0.020;

impl Faults {
    /// From Linux 5.16 on each RPC client counts its own tasks.
    fn counts_tasks_per_client(&self) -> bool {
        self.kernel != "5.10"
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_more_requests_than_task_ids_are_each_counted() {
    for guest in GUESTS.iter() {
        let fileid = guest.run.files()["/exp/wrapped/many"] as f64;
        let jobs = guest.run.json("many.json");
        let jobs = jobs["jobs"].as_array().expect("fio names its jobs");
        let mut requests = 0;
        for direction in ["read", "write"] {
            let of_fio =
                |key: &str| -> u64 { jobs.iter().filter_map(|j| j[direction][key].as_u64()).sum() };
            let recorded = guest.recorded("127.0.0.1:/exp/wrapped", fileid, direction);
            let counts = [recorded.count("requests"), recorded.count("bytes")];
            assert_eq!(
                counts,
                [of_fio("total_ios"), of_fio("io_bytes")],
                "{} {direction}",
                guest.kernel
            );
            requests += counts[0];
        }
        println!("{}: {requests} requests of one client", guest.kernel);
        assert!(requests > TASK_IDS, "the ids went round");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_request_outlives_a_round_of_task_ids() {
    for guest in GUESTS.iter() {
        let held = guest.run.json("held");
        let fileid = held["fileid"].as_f64().expect("a fileid");
        let recorded = guest.recorded("127.0.0.1:/exp/wrapped", fileid, "write");
        let waited = held["seconds"].as_f64().expect("a duration");
        println!(
            "{}: held back {waited:.1} s, recorded {:.1} s",
            guest.kernel,
            recorded.longest()
        );
        let counts =
            ["requests", "bytes", "errors", "untimed"].map(|column| recorded.count(column));
        assert_eq!(counts, [1, 4096, 0, 0], "{}", guest.kernel);
        // At least the last attempt, including its back-off of 5 s (in jiffies).
        assert!(
            (4.5..=waited).contains(&recorded.longest()),
            "{}",
            guest.kernel
        );
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_equal_task_ids_of_two_mounts_are_two_requests() {
    for guest in GUESTS.iter() {
        let result = guest.run.json("aligned");
        let (aligned, of) = (
            result["aligned"].as_u64().expect("a count"),
            result["of"].as_u64().expect("a count"),
        );
        println!(
            "{}: {aligned} of {of} tasks had a twin in flight",
            guest.kernel
        );
        if guest.counts_tasks_per_client() {
            assert!(aligned * 10 >= of * 8 && of >= 300, "{}", guest.kernel);
        } else {
            assert_eq!(
                aligned, 0,
                "{} counts the tasks of all clients together",
                guest.kernel
            );
        }
        for (side, mount) in [
            ("slow", "127.0.0.2:/exp2/slow"),
            ("fast", "127.0.0.1:/exp2/fast"),
        ] {
            let side = result[side].as_object().expect("a side");
            let calls = side["seconds"].as_array().expect("durations");
            let mut calls: Vec<f64> = calls.iter().filter_map(serde_json::Value::as_f64).collect();
            calls.sort_by(f64::total_cmp);
            let mut latencies = Vec::new();
            for (direction, column) in [("read", "reads"), ("write", "writes")] {
                let recorded = guest.recorded(mount, number(side, "fileid"), direction);
                let asked = number(side, column) as u64;
                let counts = [recorded.count("requests"), recorded.count("bytes")];
                assert_eq!(
                    counts,
                    [asked, asked * 4096],
                    "{} {mount} {direction}",
                    guest.kernel
                );
                latencies.extend(recorded.latencies());
            }
            latencies.sort_by(f64::total_cmp);
            // A call is one request and takes no less. So the k-th longest call takes no less than the k-th longest request.
            assert!(
                latencies
                    .iter()
                    .zip(&calls)
                    .all(|(latency, call)| latency <= call),
                "{} {mount}: a latency of the other mount's",
                guest.kernel
            );
            if mount.contains("slow") {
                let least = latencies[0];
                assert!(
                    least >= SLOW * 0.978,
                    "{}: {least} s on {mount}",
                    guest.kernel
                );
            }
        }
    }
}
