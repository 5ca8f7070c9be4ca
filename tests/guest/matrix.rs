//! Every kernel, NFS version, kind of I/O and mount option: the recording matches the kernel's counts.
//!
//! `make test-guests` runs a set of cells that covers every pair; `TRACKIOPS_TEST_LONG=1` runs all cells. `TRACKIOPS_TEST_KERNEL` selects
//! other kernels than the usual four. `TRACKIOPS_WRITE_DOCS=1` rewrites `docs/results/matrix.md`.

mod check;
mod evidence;
mod pairwise;
mod plan;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::run::{Answer, KERNELS, MISSED, Run, long, number, sum};
use check::Outcome;
use evidence::Evidence;
use plan::Cell;

/// Runs all cells of a kernel, in one boot with one recorder. Returns failures beyond single cells, too.
fn run(kernel: &str, cells: Vec<Cell>) -> (Vec<Outcome>, Vec<String>) {
    let mut words = Vec::new();
    for cell in &cells {
        let name = cell.name();
        words
            .extend([&name, cell.version, cell.kind.name(), cell.options.given].map(str::to_owned));
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/scripts/matrix_io.py");
    // A cell takes 2 s on an idle machine.
    let timeout = (120 + 15 * cells.len()).to_string();
    let flags = ["--timeout", &timeout, "--add", &helper.to_string_lossy()];
    let run = Run::on(kernel, "matrix", &flags, &words);

    let build = run.text("kernel").trim().to_owned();
    let mut by_fileid: BTreeMap<u64, Vec<Answer>> = BTreeMap::new();
    let mut answers = run.query(&["--step", "all"]);
    // Cells are checked by their files; `missed` says how many requests these may lack.
    answers.retain(|answer| answer["path"] != MISSED);
    for answer in answers {
        let fileid = number(&answer, "fileid") as u64;
        by_fileid.entry(fileid).or_default().push(answer);
    }
    let mut missed = run.missed("record.err");
    let mut outcomes = Vec::new();
    for cell in cells {
        outcomes.push(match Evidence::read(&run.out, &cell) {
            Ok(evidence) => {
                // All exports are directories of one file system, so file numbers are unique.
                let rows = |fileid| by_fileid.remove(fileid).unwrap_or_default();
                let answers: Vec<Answer> = evidence.files.values().flat_map(rows).collect();
                check::outcome(cell, &build, &evidence, &answers, &mut missed)
            }
            Err(why) => Outcome {
                cell,
                build: build.clone(),
                recorded: Default::default(),
                counted: Default::default(),
                notes: Vec::new(),
                failures: vec![why],
            },
        });
    }
    let failures = beyond_cells(&run, &outcomes, &by_fileid);
    (outcomes, failures)
}

/// Checks that every request is in exactly one cell, by the recorder's own counts.
fn beyond_cells(
    run: &Run,
    outcomes: &[Outcome],
    left_over: &BTreeMap<u64, Vec<Answer>>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let in_cells: u64 = outcomes
        .iter()
        .map(|o| o.recorded.reads + o.recorded.writes)
        .sum();
    let disagreements = run.disagreements();
    failures.extend(
        disagreements
            .iter()
            .map(|d| format!("the engines disagree: {d}")),
    );
    let expected = format!("stopped: {in_cells} requests seen, {in_cells} recorded, 0 lost");
    let said = run.text("record.err");
    if !said.contains(&expected) {
        failures.push(format!("`{expected}` in:\n{said}"));
    }
    for (fileid, answers) in left_over {
        let requests = sum(answers, "read_requests") + sum(answers, "write_requests");
        let mounts: BTreeSet<String> = answers.iter().map(|a| a["mount"].to_string()).collect();
        failures.push(format!(
            "{requests} requests of the file {fileid} of {mounts:?} belong to no cell"
        ));
    }
    failures
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_cell_of_the_matrix_equals_mountstats() {
    let kernels: Vec<String> = match std::env::var("TRACKIOPS_TEST_KERNEL") {
        Ok(names) => names.split(',').map(str::to_owned).collect(),
        Err(_) => KERNELS.map(str::to_owned).to_vec(),
    };
    let cells = if long() {
        plan::full(&kernels)
    } else {
        plan::pairwise(&kernels)
    };
    println!("{} cells on {}", cells.len(), kernels.join(", "));
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    for kernel in &kernels {
        let own = cells.iter().filter(|c| c.kernel == *kernel).cloned();
        let own: Vec<Cell> = own.collect();
        // If a kernel fails to finish, the others are still checked.
        match std::panic::catch_unwind(|| run(kernel, own)) {
            Ok((mut of_kernel, beyond)) => {
                print!("{}", table::table(&of_kernel));
                for outcome in of_kernel.iter().filter(|o| !o.failures.is_empty()) {
                    let name = outcome.cell.name();
                    failures.push(format!(
                        "{kernel} {name}: {}",
                        outcome.failures.join("\n    ")
                    ));
                }
                failures.extend(beyond.into_iter().map(|why| format!("{kernel}: {why}")));
                outcomes.append(&mut of_kernel);
            }
            Err(_) => failures.push(format!("{kernel}: the guest failed, as said above")),
        }
    }
    let page = table::page(&outcomes);
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest/matrix");
    let name = if long() { "full.md" } else { "pairwise.md" };
    fs::create_dir_all(&kept).expect("a directory for the table");
    fs::write(kept.join(name), &page).expect("the table can be written");
    println!("the table is kept in {}", kept.join(name).display());
    if std::env::var_os("TRACKIOPS_WRITE_DOCS").is_some() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results/matrix.md");
        fs::write(docs, &page).expect("docs/results/matrix.md can be written");
    }
    assert!(
        failures.is_empty(),
        "{} failures; the evidence is in {}/guest/<kernel>/matrix:\n{}",
        failures.len(),
        env!("CARGO_TARGET_TMPDIR"),
        failures.join("\n")
    );
}
