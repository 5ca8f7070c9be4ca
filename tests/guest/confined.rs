//! The restrictions of the systemd unit, and that recording works with them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::mountstats::{Mountstats, TRANSFERS};
use crate::run::{Run, answers, kernel, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let flags = ["--timeout", "2400"];
    Run::as_service(&kernel(), "confined", &flags, &[])
});

/// `CAP_DAC_READ_SEARCH`, `CAP_SYS_PTRACE` and `CAP_BPF` as bits (include/uapi/linux/capability.h).
const DAC_READ_SEARCH: u64 = 1 << 2;
const SYS_PTRACE: u64 = 1 << 19;
const BPF: u64 = 1 << 39;
/// `CAP_SYS_ADMIN`, which the thread that measures the programs needs.
const SYS_ADMIN: u64 = 1 << 21;

/// The lines of `/proc` for each thread of the recorder, by name.
fn threads(name: &str) -> Vec<BTreeMap<String, String>> {
    let mut threads: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for line in RUN.text(&format!("{name}.threads")).lines() {
        let mut words = line.splitn(3, ':');
        let mut next = || words.next().expect("a word").trim().to_owned();
        let (thread, key, value) = (next(), next(), next());
        threads.entry(thread).or_default().insert(key, value);
    }
    threads.into_values().collect()
}

/// How often the kernel's counters of a mount were compared with rows.
fn comparisons(name: &str) -> u64 {
    let health = RUN.text(&format!("{name}.csv"));
    let mut lines = health.lines();
    let columns = lines.next().expect("a header").split(',');
    let at = columns
        .into_iter()
        .position(|name| name == "audit_comparisons");
    let count = |line: &str| line.split(',').nth(at?)?.parse::<u64>().ok();
    lines.filter_map(count).sum()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_threads_keep_the_capabilities_that_they_need() {
    let threads = threads("whole");
    assert!(threads.len() > 4, "{threads:?}");
    for thread in threads {
        let expected = match thread["Name"].as_str() {
            "trackiops" => DAC_READ_SEARCH | SYS_PTRACE | BPF,
            "trackiops-look" | "trackiops-maps" => DAC_READ_SEARCH | SYS_PTRACE,
            "trackiops-cost" => SYS_ADMIN | BPF,
            // The unit forbids to enter network namespaces.
            "trackiops-tcp" => 0,
            _ => DAC_READ_SEARCH,
        };
        for set in ["CapPrm", "CapEff"] {
            assert_eq!(
                u64::from_str_radix(&thread[set], 16),
                Ok(expected),
                "{thread:?}"
            );
        }
        assert_eq!(thread["Seccomp"], "2", "{thread:?}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_nothing_is_amiss_for_what_is_forbidden() {
    let rows = answers(&RUN.text("whole.json"));
    let truth = Mountstats::parse(&RUN.text("mountstats.whole"));
    let (_, truth) = &truth.mounts["/mnt/inside"];
    let found = TRANSFERS.map(|column| sum(&rows, column));
    assert_eq!(found, truth.transfers());
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["path"], "/mnt/inside/whole");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_each_capability_is_needed() {
    let said = RUN.text("CAP_SYS_ADMIN.said");
    assert!(said.contains("recording needs root"), "{said}");
    let rows = answers(&RUN.text("CAP_SYS_PTRACE.json"));
    assert_eq!(rows[0]["path"], Value::Null, "{rows:?}");
    let (whole, blind) = (comparisons("whole"), comparisons("CAP_DAC_READ_SEARCH"));
    assert!(
        blind < whole,
        "{blind} comparisons, {whole} with the capability"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_store_where_the_unit_forbids_it_is_an_error() {
    assert_eq!(RUN.text("elsewhere.status").trim(), "1");
    let said = RUN.text("elsewhere.said");
    assert!(
        said.contains("/home/store: Read-only file system"),
        "{said}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_server_that_hangs_does_not_hold_up_the_start() {
    // The script has waited for this.
    let said = RUN.text("record.err");
    assert!(said.contains("recording\n127.0.0.1"), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_unit_is_rated_ok() {
    let said = RUN.text("security");
    let rated = said.split("Overall exposure level for trackiops.service: ");
    let rated: f64 = rated
        .last()
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap();
    assert!(rated <= 2.6, "{rated}");
}
