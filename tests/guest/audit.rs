//! The audit: the recorder compares its rows with the kernel's own counters.

use std::path::Path;
use std::sync::LazyLock;

use crate::mountstats::{MountCounters, Mountstats};
use crate::run::{Answer, MISSED, Run, is_from, number, stored_health, sum};

const SUMS: [&str; 4] = [
    "read_bytes",
    "write_bytes",
    "read_requests",
    "write_requests",
];

/// The newest kernel skips programs if the script provokes it.
static RUN: LazyLock<Run> = LazyLock::new(|| {
    let scripts = crate::run::scripts();
    let hammer = scripts.join("hammer.py");
    let add = ["--cpus", "2", "--add", hammer.to_str().expect("a path")];
    Run::on("newest", "audit", &add, &[])
});

/// The counters of a mount's statistics that rows have as well.
fn truth(counters: &MountCounters) -> [u64; 4] {
    let failed = |ops: &[&str]| counters.failed_attempts(ops);
    [
        counters.server_read_bytes,
        counters.server_written_bytes,
        counters.reads() - failed(&["READ", "READ_PLUS"]),
        counters.writes() - failed(&["WRITE"]),
    ]
}

/// Sums over the rows of a mount in a store, including `(missed)`.
pub fn recorded(store: &Path, mount: &str) -> [u64; 4] {
    let answers = Run::query_store(store, &["--step", "all"]);
    let own = |answer: &&Answer| is_from(answer, mount);
    let own: Vec<_> = answers.iter().filter(own).cloned().collect();
    assert_eq!(
        sum(&own, "read_errors") + sum(&own, "write_errors"),
        0,
        "requests and attempts differ by errors"
    );
    SUMS.map(|column| sum(&own, column))
}

/// The counters of several mounts, added up.
pub fn of(stats: &Mountstats, mount_points: &[&str]) -> [u64; 4] {
    let each = mount_points.iter().map(|at| truth(&stats.mounts[*at].1));
    each.fold([0; 4], |sum, more| {
        std::array::from_fn(|i| sum[i] + more[i])
    })
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_kind_of_mount_is_compared_and_equal() {
    let stats = RUN.mountstats("before", "after");
    let store = RUN.store();
    // The second superblock of an export has separate counters.
    let exp = of(&stats, &["/mnt/nfs", "/mnt/own"]);
    assert_eq!(recorded(&store, "127.0.0.1:/exp"), exp);
    let a = of(&stats, &["/mnt/a"]);
    assert_eq!(recorded(&store, "127.0.0.1:/exp-a"), a);
    let inside = Mountstats::parse(&RUN.text("mountstats.inside"));
    let c = of(&inside, &["/mnt/inside"]);
    assert_eq!(recorded(&store, "127.0.0.1:/exp-c"), c);

    let health = stored_health(&store);
    let total = |column: &str| {
        health
            .iter()
            .map(|row| number(row, column) as u64)
            .sum::<u64>()
    };
    println!(
        "{} comparisons, {} requests and {} bytes of the kernel",
        total("audit_comparisons"),
        total("audit_kernel_requests"),
        total("audit_kernel_bytes")
    );
    assert_eq!(total("audit_alarms"), 0);
    assert_eq!(
        total("audit_kernel_requests"),
        total("audit_row_requests") + total("audit_missed_requests")
    );
    assert_eq!(
        total("audit_kernel_bytes"),
        total("audit_row_bytes") + total("audit_missed_bytes")
    );
    // At least the requests present at the end: how often an audit sees the others depends on its speed.
    let [_, _, reads, writes] = std::array::from_fn(|i| exp[i] + a[i]);
    let compared = total("audit_kernel_requests");
    assert!(
        compared >= reads + writes,
        "{compared} of {reads} + {writes}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_with_a_filter_what_it_leaves_out_is_compared() {
    let health = stored_health(&RUN.out.join("filtered"));
    assert!(health.iter().all(|row| row["filter"].is_string()));
    let total = |column: &str| sum(&health, column);
    let stats = RUN.mountstats("filtered.before", "filtered.after");
    let [_, _, reads, writes] = of(&stats, &["/mnt/nfs"]);
    let compared = total("audit_kernel_requests");
    assert!(compared >= reads + writes && writes > 0, "{compared}");
    assert_eq!(total("audit_row_requests"), compared);
    assert_eq!(total("audit_missed_requests"), 0);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_with_a_filter_what_skipped_programs_lack_is_added_and_nothing_else() {
    let store = RUN.out.join("skipped_filtered");
    let health = stored_health(&store);
    let total = |column: &str| sum(&health, column);
    let missed = total("audit_missed_requests");
    println!("{missed} requests in rows (missed)");
    assert!(missed > 0, "the kernel skipped no program");
    let [kernel, rows] = ["audit_kernel_requests", "audit_row_requests"].map(total);
    assert_eq!(kernel, rows + missed);
    let [_, _, reads, writes] = recorded(&store, "127.0.0.1:/exp");
    assert_eq!(reads + writes, missed, "nothing else was recorded");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_skipped_programs_lack_is_added_and_reported() {
    let stats = RUN.mountstats("skipped.before", "skipped.after");
    let store = RUN.out.join("skipped");
    assert_eq!(
        recorded(&store, "127.0.0.1:/exp"),
        of(&stats, &["/mnt/nfs"])
    );
    let mut answers = Run::query_store(&store, &["--step", "all"]);
    answers.retain(|answer| answer["path"] == MISSED);
    let missed = sum(&answers, "read_requests") + sum(&answers, "write_requests");
    assert!(missed > 0, "the kernel skipped no program");
    println!("{missed} requests in rows (missed)");
    let said = RUN.text("record.err");
    assert!(said.contains("differ for no known reason"), "{said}");
    assert!(
        said.contains(&format!("{missed} in rows (missed)")),
        "{said}"
    );
    let output = Run::query_store_output(&store, &["--step", "all"]);
    let notes = String::from_utf8_lossy(&output.stderr);
    assert!(notes.contains("rows `(missed)`"), "{notes}");
    assert!(notes.contains("differed for no known reason"), "{notes}");
}

/// Most CPU time that the audit of a hundred mounts takes, as a share, at one instruction per ns.
const MOST_OF_A_CPU: f64 = 0.0005;
/// Sleep in `audit_cost.sh`, ns.
const MEASURED_NS: f64 = 120e9;

#[test]
#[ignore = "boots guests: make test-long"]
fn guest_the_audit_of_a_hundred_mounts_takes_next_to_nothing() {
    if !crate::run::long() {
        println!("there is make test-long for this");
        return;
    }
    let [few, many] = ["1", "100"].map(|mounts| {
        let flags = ["--icount", "--timeout", "1200"];
        let run = Run::on(&crate::run::kernel(), "audit_cost", &flags, &[mounts]);
        let compared = sum(&stored_health(&run.store()), "audit_comparisons");
        assert!(compared >= 2 * mounts.parse::<u64>().expect("a number"));
        // The rollup thread also takes part in the audit.
        ["trackiops", "trackiops-look"].map(|thread| {
            let ns = |name: &str| -> f64 {
                let text = run.text(name);
                let line = text
                    .lines()
                    .find_map(|line| line.strip_prefix(thread)?.strip_prefix(' '));
                line.expect("the thread").parse().expect("ns")
            };
            (ns("cpu.after") - ns("cpu.before")) / MEASURED_NS
        })
    });
    println!(
        "idle with 1 mount and with 100, of a CPU: rollups and audit {:.4} % and {:.4} %, looks at what is pending {:.4} % and {:.4} %",
        100.0 * few[0],
        100.0 * many[0],
        100.0 * few[1],
        100.0 * many[1]
    );
    assert!(many[0] - few[0] < MOST_OF_A_CPU);
}
