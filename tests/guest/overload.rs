//! More requests than the rings hold, because the reader is stopped; and a recorder that dies.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::run::{Answer, Run, number, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let bursts = crate::run::scripts().join("bursts.py");
    let bursts = bursts.to_str().expect("UTF-8");
    Run::script("overload", &["--add", bursts])
});

/// A file and a cgroup of the same name, the user, and the direction.
const TENANTS: [(&str, u32, &str); 3] = [
    ("ann", 1001, "read"),
    ("bob", 1002, "write"),
    ("cleo", 1003, "write"),
];

/// Requests and bytes by second.
type Seconds = BTreeMap<i64, [u64; 2]>;

/// The workers' counts by second, except for seconds that a call crossed; and those seconds.
fn counted(phase: &str, name: &str) -> (Seconds, Vec<i64>) {
    let mut seconds = Seconds::new();
    let mut over = Vec::new();
    for line in RUN.text(&format!("{phase}.{name}")).lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let second = line["second"].as_i64().expect("a number");
        let count = ["calls", "bytes"].map(|key| line[key].as_u64().expect("a number"));
        if line["over"] == true {
            over.extend([second, second + 1]);
        } else {
            seconds.insert(second, count);
        }
    }
    seconds.retain(|second, _| !over.contains(second));
    (seconds, over)
}

/// The store's counts of a file by second; panics if another user than that tenant used it.
fn recorded(answers: &[Answer], fileid: u64, name: &str, uid: u32, direction: &str) -> Seconds {
    let mut seconds = Seconds::new();
    for answer in answers
        .iter()
        .filter(|a| number(a, "fileid") as u64 == fileid)
    {
        let counts = ["requests", "bytes"]
            .map(|column| number(answer, &format!("{direction}_{column}")) as u64);
        if counts[0] > 0 {
            assert_eq!(answer["uid"], uid, "{answer:?}");
            assert_eq!(answer["cgroup"], format!("/{name}"), "{answer:?}");
            let time = answer["time"].as_str().expect("a time");
            let second = chrono::DateTime::parse_from_rfc3339(time).expect("RFC 3339");
            seconds.insert(second.timestamp(), counts);
        }
    }
    seconds
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_recorder_that_was_stopped_has_every_request_in_its_second_and_with_its_tenant() {
    let answers = RUN.query(&["--by", "file,tenant", "--step", "1s"]);
    let files = RUN.files();
    for (name, uid, direction) in TENANTS {
        let (counted, over) = counted("stopped", name);
        let mut recorded = recorded(
            &answers,
            files[&format!("/mnt/nfs/{name}.bin")],
            name,
            uid,
            direction,
        );
        recorded.retain(|second, _| !over.contains(second));
        assert!(counted.len() >= 15, "{name}: {over:?} ran over");
        if name == "cleo" {
            // The kernel decides how to split the pages of a call into requests.
            let bytes =
                |seconds: &Seconds| seconds.iter().map(|(s, c)| (*s, c[1])).collect::<Vec<_>>();
            assert_eq!(bytes(&recorded), bytes(&counted), "{name}");
        } else {
            assert_eq!(recorded, counted, "{name}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_the_rings_cannot_hold_is_folded_and_nothing_is_lost() {
    let answers = RUN.query(&["--step", "all"]);
    let truth = &RUN.mountstats("before", "after").mounts["/mnt/nfs"].1;
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&answers, column));
    assert_eq!(bytes, [truth.server_read_bytes, truth.server_written_bytes]);
    let folded = sum(&answers, "read_folded") + sum(&answers, "write_folded");
    let requests = sum(&answers, "read_requests") + sum(&answers, "write_requests");
    let said = RUN.text("record.err");
    let stopped = format!(
        "{requests} requests seen, {} recorded, {folded} folded, 0 lost",
        requests - folded
    );
    assert!(
        folded > requests / 2 && said.contains(&stopped),
        "{stopped}: {said}"
    );
    let output = RUN.query_output(&["--step", "all"]);
    let notes = String::from_utf8_lossy(&output.stderr).replace(',', "");
    assert!(
        notes.contains(&format!("{folded} of {requests} requests")),
        "{notes}"
    );
    println!("{folded} of {requests} requests were folded");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_files_for_which_there_is_no_room_are_added_up_by_mount() {
    let answers = Run::query_store(&RUN.out.join("many.store"), &["--step", "all"]);
    let truth = &RUN.mountstats("many.before", "many.after").mounts["/mnt/nfs"].1;
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&answers, column));
    assert_eq!(bytes, [truth.server_read_bytes, truth.server_written_bytes]);
    let said = RUN.text("many.said");
    assert!(said.contains(" folded, 0 lost"), "{said}");
    let others: Vec<_> = answers.iter().filter(|a| a["path"] == "(other)").collect();
    let requests = number(others[0], "read_requests") + number(others[0], "write_requests");
    assert!(others.len() == 1 && requests > 0.0, "{others:?}");
    println!("{requests} requests in (other); {said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_recorder_that_was_killed_misses_its_last_window_and_the_time_until_it_is_back() {
    let store = RUN.out.join("killed.store");
    let answers = Run::query_store(&store, &["--by", "file,tenant", "--step", "1s"]);
    let second = |name: &str| RUN.text(name).trim().parse::<i64>().expect("a number");
    let dead = second("killed")..=second("restarted");
    let files = RUN.files();
    for (name, uid, direction) in TENANTS {
        let (mut counted, over) = counted("killed", name);
        let mut recorded = recorded(
            &answers,
            files[&format!("/mnt/nfs/{name}.bin")],
            name,
            uid,
            direction,
        );
        recorded.retain(|second, _| !over.contains(second) && !dead.contains(second));
        counted.retain(|second, _| !dead.contains(second));
        assert!(counted.keys().any(|s| s < dead.start()) && counted.keys().any(|s| s > dead.end()));
        let bytes = |seconds: &Seconds| seconds.iter().map(|(s, c)| (*s, c[1])).collect::<Vec<_>>();
        assert_eq!(
            bytes(&recorded),
            bytes(&counted),
            "{name}, dead in {dead:?}"
        );
    }
    let output = Run::query_store_output(&store, &[]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("not recorded"), "{notes}");
}
