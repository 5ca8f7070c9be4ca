//! An hour of full load with a rotation every 10 s: memory and open files stay constant.

use crate::run::{Run, answers, long, sum};

/// The first quarter, in which caches fill, is not checked.
const MINUTES: &str = "60";

#[test]
#[ignore = "boots a guest: make test-long"]
fn guest_memory_and_open_files_stay_flat_under_load() {
    let minutes = std::env::var("TRACKIOPS_SOAK_MINUTES");
    if !long() && minutes.is_err() {
        println!("for as long as this there is make test-long");
        return;
    }
    let minutes = minutes.unwrap_or_else(|_| MINUTES.to_owned());
    let run = Run::on(
        &crate::run::kernel(),
        "soak",
        &["--timeout", "7200"],
        &[&minutes],
    );
    let samples: Vec<[u64; 2]> = run
        .text("samples")
        .lines()
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
            [numbers.next().unwrap(), numbers.next().unwrap()]
        })
        .collect();
    let quarter = samples.len() / 4;
    let most = |samples: &[[u64; 2]], i: usize| samples.iter().map(|s| s[i]).max().unwrap();
    let (second, last) = (&samples[quarter..2 * quarter], &samples[3 * quarter..]);
    for (i, what) in ["KiB resident", "open files"].into_iter().enumerate() {
        let (before, after) = (most(second, i), most(last, i));
        println!(
            "{what}: {before} in the second quarter, {after} in the last of {minutes} minutes"
        );
        assert!(
            after <= before + before / 20 + 4,
            "{what}: {before} -> {after}"
        );
    }
    let truth = run.mountstats("before", "after");
    let truth = &truth.mounts["/mnt/nfs"].1;
    let all = answers(&run.text("answer"));
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&all, column));
    assert_eq!(bytes, [truth.server_read_bytes, truth.server_written_bytes]);
}
