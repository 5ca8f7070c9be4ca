//! More threads than CPUs: each CPU has its own ring, and the requests of a file complete on all CPUs.

use std::sync::LazyLock;

use crate::run::{Run, kernels, number, pairs, sum};

const THREADS: usize = 64;
/// Of 4 KiB, in each direction and file.
const REQUESTS: u64 = 64;
const LISTENERS: usize = 20;
/// Most memory that listeners may cost the recorder, KiB: queued data, a stack and a chunk for each.
const LISTENERS_KIB: u64 = 20 << 10;

/// Without listeners, on 6.12 with two CPUs.
static ALONE: LazyLock<Run> = LazyLock::new(|| crowd("6.12", "2", &[]));

fn crowd(kernel: &str, cpus: &str, listeners: &[&str]) -> Run {
    Run::on(kernel, "crowd", &["--cpus", cpus], listeners)
}

#[test]
#[ignore = "boots guests: make test"]
fn guest_sixty_four_threads_are_counted_exactly_and_in_their_order() {
    for (kernel, cpus) in pairs(kernels(&["6.12", "newest"]), &["2", "4"]) {
        let own;
        let run = match (kernel, cpus) {
            ("6.12", "2") => &*ALONE,
            _ => {
                own = crowd(kernel, cpus, &[]);
                &own
            }
        };
        let what = format!("Linux {kernel}, {cpus} CPUs");
        let all = 2 * REQUESTS * THREADS as u64;
        let said = run.text("record.err");
        println!("{what}: {} at most", run.text("memory").trim());
        assert_exact(run, &what);
        let stopped = format!("stopped: {all} requests seen, {all} recorded, 0 lost");
        assert!(said.contains(&stopped), "{what}: {said}");
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn guest_listeners_change_no_count_and_hear_each_request() {
    let listeners = LISTENERS.to_string();
    let run = crowd("6.12", "2", &[&listeners]);
    let [alone, memory] = [&*ALONE, &run].map(|run| {
        let memory = run.text("memory");
        let kib = memory.split_whitespace().nth(1).expect("a number");
        kib.parse::<u64>().expect("KiB")
    });
    println!("{memory} KiB at most with {LISTENERS} listeners, {alone} without");
    assert_exact(&run, "with listeners");
    assert!(
        memory <= alone + LISTENERS_KIB,
        "{memory} KiB, {alone} without"
    );
    for listener in 4..=LISTENERS {
        let heard = run.text(&format!("heard-{listener}"));
        let rows: Vec<Vec<&str>> = heard.lines().map(|row| row.split(',').collect()).collect();
        let (header, rows) = rows.split_first().expect("a header");
        for name in ["read_requests", "write_requests"] {
            let at = header.iter().position(|column| *column == name);
            let at = at.expect("a column");
            let sum: u64 = rows.iter().map(|row| row[at].parse::<u64>().unwrap()).sum();
            assert_eq!(sum, REQUESTS * THREADS as u64, "{name}: {heard}");
        }
    }
}

fn assert_exact(run: &Run, what: &str) {
    let answers = run.query(&["--step", "all"]);
    assert_eq!(answers.len(), THREADS, "{what}");
    for answer in &answers {
        for direction in ["read", "write"] {
            let count = |column: &str| number(answer, &format!("{direction}_{column}")) as u64;
            assert_eq!(count("requests"), REQUESTS, "{what}: {answer:?}");
            // Each request continues the one before, except for the first.
            assert_eq!(count("sequential"), REQUESTS - 1, "{what}: {answer:?}");
        }
    }
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&answers, column));
    let expected = [truth.server_read_bytes, truth.server_written_bytes];
    assert_eq!(bytes, expected, "{what}");
}
