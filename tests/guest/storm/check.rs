//! Checks of a storm's results.

use std::collections::BTreeMap;

use crate::audit;
use crate::block::check::Sums;
use crate::mountstats::Mountstats;
use crate::run::{MISSED, Run};
use crate::storm::{Flavour, HOLES, LOCAL};

/// Most memory of a recorder, KiB: its rings, and its state for requests.
const MOST_MEMORY_KIB: u64 = 160 << 10;

/// Results of a storm.
pub struct Outcome {
    pub release: String,
    pub flavour: Flavour,
    pub seconds: u64,
    /// Number of each event, by its name in `storm.sh`.
    pub counts: BTreeMap<String, u64>,
    /// Reads and writes that fio's threads made.
    pub calls: u64,
    /// Pages that the kernel reclaimed, including swapped ones.
    pub reclaimed: u64,
    /// Number of allocations that KFENCE guarded, if it is built in.
    pub guarded: Option<u64>,
    pub memory_kib: u64,
    /// Requests to devices, and over NFS: recorded (including missed ones), and counted by the kernel.
    pub block: [u64; 2],
    pub wire: [u64; 2],
    pub failures: Vec<String>,
}

impl Outcome {
    pub fn of(run: &Run, flavour: Flavour, seconds: u64) -> Self {
        let mut outcome = Self {
            release: run.text("kernel").trim().to_owned(),
            flavour,
            seconds,
            counts: counts(run),
            calls: calls(run),
            reclaimed: vmstat(run, "after") - vmstat(run, "before"),
            guarded: guarded(run),
            memory_kib: 0,
            block: [0; 2],
            wire: [0; 2],
            failures: Vec::new(),
        };
        outcome.check_storm(run);
        outcome.check_memory(run);
        outcome.check_stores(run);
        outcome.check_block(run);
        outcome.check_wire(run);
        outcome
    }

    fn fail(&mut self, why: impl Into<String>) {
        self.failures.push(why.into());
    }

    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Checks that the storm did what it claims.
    fn check_storm(&mut self, run: &Run) {
        for name in ["recorders", "offline", "vfat", "nfs"] {
            if self.count(name) == 0 {
                self.fail(format!("`{name}` never happened"));
            }
        }
        let holes = run.text("sections").lines().count();
        // Sections alternate with holes, except for the first two.
        if holes != HOLES.len() + 2 {
            self.fail(format!("{holes} sections of memory"));
        }
        if self.reclaimed == 0 {
            self.fail("no memory was taken back");
        }
        if self.guarded == Some(0) {
            self.fail("KFENCE guarded nothing");
        }
    }

    fn check_memory(&mut self, run: &Run) {
        for line in run.text("memory").lines() {
            let words: Vec<_> = line.split(' ').collect();
            let kib = words[2].parse().expect("KiB");
            self.memory_kib = self.memory_kib.max(kib);
        }
        if !(1..MOST_MEMORY_KIB).contains(&self.memory_kib) {
            self.fail(format!("a recorder took {} KiB", self.memory_kib));
        }
    }

    fn check_stores(&mut self, run: &Run) {
        let mut checks = 0;
        for entry in run.out.read_dir().expect("results") {
            let name = entry.expect("a result").file_name();
            let name = name.to_string_lossy().into_owned();
            if let Some(store) = name
                .strip_prefix("check.")
                .and_then(|n| n.strip_suffix(".status"))
            {
                checks += 1;
                if run.text(&name).trim() != "0" {
                    let said = run.text(&format!("check.{store}.out"));
                    let error = run.text(&format!("check.{store}.err"));
                    self.fail(format!("store check of {store}: {said}{error}"));
                }
            }
        }
        if checks < 3 {
            self.fail(format!("{checks} stores were checked"));
        }
        for name in ["steady", "wire"] {
            let said = run.text(&format!("{name}.err"));
            if !said.contains(" 0 lost") {
                self.fail(format!("{name} said:\n{said}"));
            }
        }
    }

    fn check_block(&mut self, run: &Run) {
        let store = run.out.join("steady");
        let rows = Run::query_store(&store, &["--step", "all", "--level", "block"]);
        let missed = Sums::of_rows(rows.iter().filter(|row| row["path"] == MISSED));
        self.block[0] = missed.reads + missed.writes;
        for kind in LOCAL {
            let stat = |when: &str| run.text(&format!("stat.{kind}.{when}"));
            let truth = Sums::of_kernel(&stat("before"), &stat("after"));
            let device = run.text(&format!("device.{kind}"));
            let own = rows.iter().filter(|row| row["mount"] == device.trim());
            let found = Sums::of_rows(own);
            if truth.writes == 0 || !found.are_equal_but_for(&missed, &truth) {
                self.fail(format!(
                    "{kind}: recorded {found:?}, kernel {truth:?}, missed {missed:?}"
                ));
            }
            self.block[0] += found.reads + found.writes;
            self.block[1] += truth.reads + truth.writes;
        }
    }

    fn check_wire(&mut self, run: &Run) {
        let mut truth = [0; 4];
        for round in 0..self.count("nfs") {
            let stats = Mountstats::parse(&run.text(&format!("mountstats.{round}")));
            let own = audit::of(&stats, &["/mnt/nfs"]);
            truth = std::array::from_fn(|i| truth[i] + own[i]);
        }
        let found = audit::recorded(&run.out.join("wire"), "127.0.0.1:/exp");
        if truth[0] == 0 || found != truth {
            self.fail(format!(
                "NFS: recorded {found:?}, kernel {truth:?} (bytes and requests, read and written)"
            ));
        }
        self.wire = [found[2] + found[3], truth[2] + truth[3]];
    }
}

/// Lines of `wc -l`.
fn counts(run: &Run) -> BTreeMap<String, u64> {
    let text = run.text("counts");
    let pair = |line: &str| {
        let (count, name) = line.trim().split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Calls of all fio files in the output.
fn calls(run: &Run) -> u64 {
    let entries = run.out.read_dir().expect("results");
    let names = entries.map(|entry| {
        entry
            .expect("a result")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut calls = 0;
    for name in names.filter(|name| name.starts_with("fio.")) {
        for job in run.json(&name)["jobs"].as_array().expect("jobs") {
            calls += ["read", "write"]
                .map(|way| job[way]["total_ios"].as_u64().expect("a count"))
                .iter()
                .sum::<u64>();
        }
    }
    calls
}

fn vmstat(run: &Run, when: &str) -> u64 {
    let text = run.text(&format!("vmstat.{when}"));
    let count = |line: &str| {
        line.split_once(' ')
            .and_then(|(_, count)| count.parse::<u64>().ok())
    };
    text.lines().filter_map(count).sum()
}

fn guarded(run: &Run) -> Option<u64> {
    let text = std::fs::read_to_string(run.out.join("kfence")).ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("total allocations: "));
    total.and_then(|total| total.parse().ok())
}
