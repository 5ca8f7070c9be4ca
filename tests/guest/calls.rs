//! Calls of applications match the kernel's count and the applications' own results, for every kind of call.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::run::{Answer, MISSED, Run, kernel, number, scripts, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let add = |name: &str| {
        let path = scripts().join(name);
        [
            "--add".to_owned(),
            path.to_str().expect("a path").to_owned(),
        ]
    };
    let flags: Vec<String> = ["calls.py", "returned.py", "handed.py"]
        .into_iter()
        .flat_map(add)
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // Counts calls wherever possible. Other tests (matrix, audit) check calls that are counted without times.
    Run::on(&kernel(), "calls", &flags, &["--app-latency"])
});

/// If functions of the NFS client cannot be traced, calls that fail before the page cache are not seen. Neither is the end of direct I/O.
fn is_generic() -> bool {
    kernel() == "5.10"
}

/// Columns in the order of [`MountCounters::application_bytes`](crate::mountstats::MountCounters::application_bytes).
const BYTES: [&str; 4] = [
    "app_read_bytes",
    "app_write_bytes",
    "app_read_direct_bytes",
    "app_write_direct_bytes",
];

fn of_mount(answers: &[Answer], mount: &str) -> Vec<Answer> {
    let own = answers
        .iter()
        .filter(|a| a["mount"].as_str() == Some(mount));
    own.cloned().collect()
}

fn named(answer: &Answer) -> &str {
    answer["path"].as_str().unwrap_or_default()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_bytes_of_calls_equal_mountstats_per_mount() {
    let stats = RUN.mountstats("before", "after");
    assert_eq!(stats.mounts.len(), 2, "both mounts have statistics");
    let files = RUN.query(&["--step", "all"]);
    for (device, truth) in stats.mounts.values() {
        let own = of_mount(&files, device);
        let found = BYTES.map(|key| sum(&own, key));
        println!(
            "{device}: recorded {found:?}, mountstats {:?}",
            truth.application_bytes
        );
        assert!(
            truth.application_bytes.iter().all(|bytes| *bytes > 0),
            "{device} was used"
        );
        assert_eq!(found, truth.application_bytes, "{device}");
        assert!(own.iter().all(|row| named(row) != MISSED), "{device}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_calls_of_a_file_are_those_that_its_application_made() {
    let files = RUN.query(&["--step", "all"]);
    for mount in ["nfs", "nfs3"] {
        let text = RUN.text(&format!("calls.{mount}"));
        for line in text.lines() {
            let (name, numbers) = line.split_once(' ').expect("a name");
            let told: Vec<u64> = numbers
                .split(' ')
                .map(|n| n.parse().expect("a number"))
                .collect();
            let path = format!("/mnt/{mount}/{name}");
            let own: Vec<Answer> = files.iter().filter(|a| named(a) == path).cloned().collect();
            assert!(!own.is_empty(), "{path} has no row");
            let direct = name == "direct";
            let columns = ["read", "write"].map(|of| {
                let count = |what: &str| sum(&own, &format!("app_{of}_{what}"));
                [
                    count("calls"),
                    if direct { 0 } else { count("bytes") },
                    count("errors"),
                ]
            });
            let mut expected = [[told[0], told[1], told[2]], [told[3], told[4], told[5]]];
            if direct {
                expected[0][1] = 0;
                expected[1][1] = 0;
            }
            if is_generic() && name == "failed" {
                continue;
            }
            // The script does not count splices in calls.
            let from = usize::from(told[0] == 0);
            assert_eq!(
                columns[from..],
                expected[from..],
                "{path}: calls, bytes and errors"
            );
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_calls_take_as_long_as_their_application_sees() {
    let files = RUN.query(&["--step", "all"]);
    for mount in ["nfs", "nfs3"] {
        let path = format!("/mnt/{mount}/timed");
        let own: Vec<Answer> = files.iter().filter(|a| named(a) == path).cloned().collect();
        let text = RUN.text(&format!("timed.{mount}"));
        let told: Vec<f64> = text
            .split_whitespace()
            .map(|ns| ns.parse::<f64>().expect("a number") / 1000.0)
            .collect();
        let [sum_us, max_us] = ["app_read_latency_us_sum", "app_read_latency_us_max"]
            .map(|column| sum(&own, column) as f64);
        println!("{path}: {sum_us} us, at most {max_us} us; the application saw {told:?}");
        assert_eq!(sum(&own, "app_read_timed"), 4, "{path}");
        // The application's own part is the overhead of a system call.
        assert!(sum_us <= told[0] && sum_us > 0.9 * told[0], "{path}");
        assert!(max_us <= told[1] && max_us > 0.9 * told[1], "{path}");
        let quantile = number(&own[0], "app_read_latency_us_p999");
        assert!((0.93..1.07).contains(&(quantile / max_us)), "{quantile} us");
    }
    // Also for all other files, except calls whose ends are not traced.
    let [calls, direct, timed] = ["calls", "direct_calls", "timed"].map(|what| {
        let of = |way: &str| sum(&files, &format!("app_{way}_{what}"));
        of("read") + of("write")
    });
    println!("{calls} calls, {direct} of them direct, {timed} timed");
    assert!(timed <= calls && timed >= calls - direct, "{timed}");
    if !is_generic() {
        assert!(timed > calls - direct, "direct ones are timed as well");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_is_read_from_the_cache_again_is_in_calls_and_not_on_the_wire() {
    let files = RUN.query(&["--step", "all"]);
    let again: Vec<Answer> = files
        .iter()
        .filter(|a| named(a).ends_with("/again.bin"))
        .cloned()
        .collect();
    assert_eq!(sum(&again, "app_read_bytes"), 10_000_000);
    assert_eq!(sum(&again, "app_write_bytes"), 1_000_000);
    let wire = sum(&again, "read_bytes");
    assert!(wire <= 1_000_000, "{wire} bytes over the wire");
    assert_eq!(sum(&again, "write_bytes"), 1_000_000);
    let shares: Vec<f64> = again
        .iter()
        .filter_map(|a| a["app_read_hit_share"].as_f64())
        .collect();
    assert!(
        shares.iter().all(|share| *share >= 0.9) && shares.len() == 1,
        "{shares:?}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_bytes_by_tenant_are_those_that_each_called_for() {
    // This one does not lead from a request to its cgroup.
    if is_generic() {
        return;
    }
    let rows = RUN.query(&["--step", "all", "--by", "file,tenant"]);
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|a| named(a).ends_with("/shared.bin") || named(a).ends_with("/handed.bin"))
    {
        let cgroup = row["cgroup"]
            .as_str()
            .unwrap_or("none")
            .trim_start_matches('/');
        let own = found.entry(cgroup.to_owned()).or_default();
        own.0 += number(row, "app_write_bytes") as u64;
        own.1 += number(row, "app_read_bytes") as u64;
    }
    found.retain(|_, bytes| *bytes != (0, 0));
    let text = RUN.text("handed.txt");
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_owned();
        let mut bytes = words.map(|word| word.parse::<u64>().expect("bytes"));
        (
            name,
            (bytes.next().expect("bytes"), bytes.next().expect("bytes")),
        )
    };
    let told: BTreeMap<_, _> = text.lines().map(parse).collect();
    assert_eq!(found, told, "bytes written and read");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_crowd_that_is_preempted_has_all_its_calls() {
    for preemption in ["preempt=lazy", "preempt=full"] {
        crowd(preemption);
    }
}

fn crowd(preemption: &str) {
    let run = Run::on("newest", "calls_crowd", &["--append", preemption], &[]);
    let stats = run.mountstats("before", "after");
    let (device, truth) = &stats.mounts["/mnt/nfs"];
    let own = of_mount(&run.query(&["--step", "all"]), device);
    let found = BYTES.map(|key| sum(&own, key));
    let of_files: Vec<Answer> = own
        .iter()
        .filter(|row| named(row) != MISSED)
        .cloned()
        .collect();
    let of_files = BYTES.map(|key| sum(&of_files, key));
    println!(
        "{preemption}: in all {found:?}, of files {of_files:?}, mountstats {:?}",
        truth.application_bytes
    );
    assert_eq!(found, truth.application_bytes, "with the row {MISSED}");
    for (of_files, all) in of_files.into_iter().zip(found) {
        // While a bpf(2) call on a map is preempted, the kernel skips probes on that CPU. A busier host makes this longer.
        let left_out = all / 50 + 64 * 4096;
        assert!(of_files + left_out >= all, "{of_files} of {all}");
    }
}
