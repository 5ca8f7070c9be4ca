//! More threads than CPUs: each CPU has a ring of its own, and a file's requests complete on all of them.

use crate::run::{Run, kernels, number, sum};

const THREADS: usize = 64;
/// Of 4 KiB, in each direction and file.
const REQUESTS: u64 = 64;

#[test]
#[ignore = "boots guests: make test"]
fn guest_sixty_four_threads_are_counted_exactly_and_in_their_order() {
    for cpus in ["2", "4"] {
        for kernel in kernels(&["6.12", "newest"]) {
            let run = Run::on(kernel, "crowd", &["--cpus", cpus], &[]);
            let what = format!("Linux {kernel}, {cpus} CPUs");
            let all = 2 * REQUESTS * THREADS as u64;
            let said = run.text("record.err");
            assert_exact(&run, &what);
            let stopped = format!("stopped: {all} requests seen, {all} recorded, 0 lost");
            assert!(said.contains(&stopped), "{what}: {said}");
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
            // Each continues the one before, but for the first.
            assert_eq!(count("sequential"), REQUESTS - 1, "{what}: {answer:?}");
        }
    }
    let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&answers, column));
    let expected = [truth.server_read_bytes, truth.server_written_bytes];
    assert_eq!(bytes, expected, "{what}");
}
