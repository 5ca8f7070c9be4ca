//! Where the kernel skips a program because another request interrupts it, the requests are recorded all the same.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::mountstats::{MountCounters, TRANSFERS};
use crate::run::{MISSED, Run, long, number, pairs, sum};

const THREADS: &str = "64";
/// Requests of 4 KiB, over all threads: half a minute, and an hour.
const REQUESTS: &str = "6400";
const MANY_REQUESTS: &str = "1000000";
const CPUS: [&str; 2] = ["2", "4"];

/// Preempted at the next tick, or at once.
const PREEMPTIONS: [&str; 2] = ["preempt=lazy", "preempt=full"];

/// The first of each, with recovery and then without.
static FIRST: LazyLock<Run> = LazyLock::new(|| {
    run(
        PREEMPTIONS[0],
        CPUS[0],
        &[THREADS, &requests(), "blind", REQUESTS],
    )
});

fn requests() -> String {
    std::env::var("TRACKIOPS_SKIPPED_REQUESTS").unwrap_or_else(|_| {
        let many = if long() { MANY_REQUESTS } else { REQUESTS };
        many.to_owned()
    })
}

#[test]
#[ignore = "boots guests: make test-guests"]
fn guest_what_programs_are_skipped_for_is_recorded_all_the_same() {
    let mut skipped = Skipped::default();
    for (preemption, cpus) in pairs(&PREEMPTIONS, &CPUS) {
        let own;
        let run = if (preemption, cpus) == (PREEMPTIONS[0], CPUS[0]) {
            &*FIRST
        } else {
            own = run(preemption, cpus, &[THREADS, &requests()]);
            &own
        };
        skipped.add(check(run, &format!("{preemption}, {cpus} CPUs")));
    }
    skipped.assert_any();
}

/// Its releases have a separate tracepoint (`xprt_release_cong`).
#[test]
#[ignore = "boots guests: make test-long"]
fn guest_what_programs_are_skipped_for_is_recorded_over_rdma_as_well() {
    if !long() {
        println!("for this there is make test-long");
        return;
    }
    let mut skipped = Skipped::default();
    for preemption in PREEMPTIONS {
        let run = run(preemption, "2", &[THREADS, REQUESTS, "rdma"]);
        let connections = run.text("mountstats.after");
        assert!(connections.contains("xprt:\trdma "), "{connections}");
        skipped.add(check(&run, &format!("RDMA, {preemption}, 2 CPUs")));
    }
    skipped.assert_any();
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_is_not_recovered_is_in_the_row_of_its_mount() {
    let run = FIRST.part("blind");
    let programs = run.json("skipped");
    let missed = run.missed("record.err");
    assert_eq!(missed, skipped_requests(&programs), "{programs}");
    println!("without recovery {missed} missed: {programs}");
    assert!(missed > 0, "no program was skipped: {programs}");
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    assert_requests_equal(&run, truth, "without recovery");
    assert_eq!(added(&run), missed);
    let said = run.text("record.err");
    assert!(!said.contains("differ for no known reason"), "{said}");
}

/// How often programs were skipped.
#[derive(Debug, Default)]
struct Skipped {
    requests: u64,
    operations: u64,
}

impl Skipped {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.operations += other.operations;
    }

    /// Fails if nothing was skipped, because then the test shows nothing. In one guest, programs on operations may never be skipped.
    fn assert_any(&self) {
        assert!(self.requests > 0 && self.operations > 0, "{self:?}");
    }
}

/// Requests in the `(missed)` rows.
fn added(run: &Run) -> u64 {
    let mut answers = run.query(&["--step", "all"]);
    answers.retain(|answer| answer["path"] == MISSED);
    sum(&answers, "read_requests") + sum(&answers, "write_requests")
}

fn run(preemption: &str, cpus: &str, args: &[&str]) -> Run {
    // A guest that hangs must not use up the time of the others.
    let timeout = if long() { "14400" } else { "900" };
    let flags = [
        "--cpus",
        cpus,
        "--append",
        preemption,
        "--timeout",
        timeout,
        "--add",
        "tests/guest/scripts/skipped.py",
    ];
    Run::on("newest", "skipped", &flags, args)
}

/// How often the programs on completed requests were skipped.
fn skipped_requests(programs: &Value) -> u64 {
    skipped(programs, "marked_read_don") + skipped(programs, "marked_write_do")
}

/// How often a program was skipped, by the truncated name that the kernel keeps.
fn skipped(programs: &Value, name: &str) -> u64 {
    programs["skipped"][name].as_u64().unwrap()
}

fn check(run: &Run, what: &str) -> Skipped {
    let programs = run.json("skipped");
    println!("{what}: {programs}");
    let said = run.text("record.err");
    println!("{what}: {said}");
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    assert_requests_equal(run, truth, what);
    assert_operations_equal(run, truth, what);
    assert_eq!(
        [run.missed("record.err"), added(run)],
        [0, 0],
        "{what}: {said}"
    );
    let requests = skipped_requests(&programs);
    let operations = skipped(&programs, "marked_operatio");
    let recovered = |name: &str| programs["recovered"][name].as_u64().unwrap();
    assert_eq!(
        [recovered("requests"), recovered("operations")],
        [
            requests + recovered("requests_left"),
            operations + recovered("operations_left")
        ],
        "{what}: {programs}"
    );
    // Under a spin lock, no program is interrupted.
    assert_eq!(
        skipped(&programs, "released_by_cas"),
        0,
        "{what}: {programs}"
    );
    Skipped {
        requests,
        operations,
    }
}

fn assert_requests_equal(run: &Run, truth: &MountCounters, what: &str) {
    let answers = run.query(&["--step", "all"]);
    let recorded = TRANSFERS.map(|column| sum(&answers, column));
    assert_eq!(recorded, truth.transfers(), "{what}");
}

fn assert_operations_equal(run: &Run, truth: &MountCounters, what: &str) {
    let answers = run.query(&["--by", "op", "--step", "all"]);
    let recorded: BTreeMap<&str, u64> = answers
        .iter()
        // The only export, at any address of the server.
        .filter(|answer| {
            answer["mount"]
                .as_str()
                .is_some_and(|mount| mount.ends_with(":/exp"))
        })
        .map(|answer| {
            let name = answer["op"].as_str().unwrap();
            (name, number(answer, "requests") as u64)
        })
        .collect();
    // Over RDMA, the client does not use READ_PLUS.
    for name in [
        "READ",
        "READ_PLUS",
        "WRITE",
        "SETATTR",
        "REMOVE",
        "OPEN",
        "CLOSE",
    ] {
        let own = recorded.get(name).copied().unwrap_or(0);
        assert_eq!(own, truth.count(name), "{what}: {name}: {recorded:?}");
    }
}
