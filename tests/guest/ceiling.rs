//! The limit on tracing overhead: details are shed in their order and come back, and no request is missing.
//!
//! Clocks of an emulated machine say little about costs, so the test does not depend on time.

use std::sync::LazyLock;

use serde_json::Value;

use crate::mountstats::TRANSFERS;
use crate::run::{Run, answers, long, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("ceiling", &[]));

/// In the order in which they are shed.
const SHED: [&str; 6] = [
    "shed_single_calls_ms",
    "shed_call_times_ms",
    "shed_calls_ms",
    "shed_cache_ms",
    "shed_parts_ms",
    "shed_file_ops_ms",
];

/// Skips the test unless time allows: the guest takes minutes.
fn is_left_out() -> bool {
    if !long() {
        println!("there is make test-long for this");
    }
    !long()
}

/// For each whole window: how long each detail was shed, ms.
fn windows() -> Vec<[u64; 6]> {
    let health = RUN.text("health.csv");
    let mut lines = health.lines();
    let columns: Vec<_> = lines.next().expect("a header").split(',').collect();
    let at = |name: &str| columns.iter().position(|column| *column == name);
    let at = |name: &str| at(name).unwrap_or_else(|| panic!("{name} of {columns:?}"));
    let (covered, shed) = (at("covered_ms"), SHED.map(at));
    let numbers = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let number = |words: &[&str], at: usize| words[at].parse::<u64>().unwrap_or_default();
    numbers
        .filter(|words| number(words, covered) >= 990)
        .map(|words| shed.map(|at| number(&words, at)))
        .collect()
}

fn shed_at(name: &str) -> Vec<String> {
    let status = RUN.json(&format!("status.{name}"));
    let shed = status["status"]["own"]["kernel"]["tracing"]["shed"].as_array();
    let shed = shed.unwrap_or_else(|| panic!("{status}")).iter();
    shed.map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_details_are_shed_in_their_order() {
    if is_left_out() {
        return;
    }
    let windows = windows();
    for shed in &windows {
        // Milliseconds are rounded one by one.
        let ordered = shed.windows(2).all(|pair| pair[0] + 1 >= pair[1]);
        assert!(ordered, "{windows:?}");
    }
    assert!(windows.iter().any(|shed| shed[2] > 900), "{windows:?}");
    let while_called = shed_at("calls");
    assert!(
        while_called.contains(&"calls".to_owned()),
        "{while_called:?}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_details_are_taken_up_again() {
    if is_left_out() {
        return;
    }
    let windows = windows();
    let shed = windows.iter().position(|shed| shed[2] > 900);
    let after = &windows[shed.expect("calls are shed")..];
    assert!(after.iter().any(|shed| shed[2] == 0), "{windows:?}");
    let said = RUN.text("record.err");
    assert!(said.contains("not recorded: single calls"), "{said}");
    assert!(said.contains("recorded again: "), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_no_request_is_missing_for_that() {
    if is_left_out() {
        return;
    }
    let truth = RUN.mountstats("before", "after");
    let (_, truth) = &truth.mounts["/mnt/nfs"];
    let rows = answers(&RUN.text("rows.json"));
    let found = TRANSFERS.map(|column| sum(&rows, column));
    assert_eq!(found, truth.transfers());
    assert!(found[0] > 100, "{found:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_answers_of_that_time_say_so() {
    if is_left_out() {
        return;
    }
    let said = RUN.text("noted.err");
    let noted = said.lines().any(|line| {
        line.contains("recorded without") && line.ends_with("tracing had reached --max-overhead")
    });
    assert!(noted, "{said}");
    let status: Value = RUN.json("status.quiet");
    let tracing = &status["status"]["own"]["kernel"]["tracing"];
    assert_eq!(tracing["ceiling_ppm"], 100_000, "{status}");
}
