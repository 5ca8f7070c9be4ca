//! More threads than CPUs: each CPU has a ring of its own, and a file's requests complete on all of them.

use crate::run::{Run, kernels, number, sum};

const THREADS: usize = 64;
/// Of 4 KiB, in each direction and file.
const REQUESTS: u64 = 64;

#[test]
#[ignore = "boots guests: make test"]
fn guest_sixty_four_threads_are_counted_exactly_and_in_their_order() {
    for kernel in kernels(&["6.12", "newest"]) {
        for cpus in ["2", "4"] {
            let run = Run::on(kernel, "crowd", &["--cpus", cpus], &[]);
            let what = format!("Linux {kernel}, {cpus} CPUs");
            let answers = run.query(&["--step", "all"]);
            assert_eq!(answers.len(), THREADS, "{what}");
            for answer in &answers {
                for direction in ["read", "write"] {
                    let count =
                        |column: &str| number(answer, &format!("{direction}_{column}")) as u64;
                    assert_eq!(count("requests"), REQUESTS, "{what}: {answer:?}");
                    // Each continues the one before, but for the first.
                    assert_eq!(count("sequential"), REQUESTS - 1, "{what}: {answer:?}");
                }
            }
            let truth = &run.mountstats("before", "after").mounts["/mnt/nfs"].1;
            let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&answers, column));
            assert_eq!(
                bytes,
                [truth.server_read_bytes, truth.server_written_bytes],
                "{what}"
            );
            let all = 2 * REQUESTS * THREADS as u64;
            let said = run.text("record.err");
            let stopped = format!("stopped: {all} requests seen, {all} recorded, 0 lost");
            assert!(said.contains(&stopped), "{what}: {said}");
        }
    }
}
