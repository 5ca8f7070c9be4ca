//! Servers and transports other than nfsd over TCP: the recording matches the kernel's counts.
//!
//! Each case is a workload on a separate mount. All mounts last until the recorder stops, so that its audit compares all of them with the
//! kernel. `TRACKIOPS_WRITE_DOCS=1` rewrites `docs/results/transports.md`.

mod cases;
mod table;

use std::collections::BTreeMap;

use crate::mountstats::{MountCounters, Mountstats, TRANSFERS};
use crate::run::{Answer, MISSED, Run, is_from, long, number, stored_health, sum};
use cases::{BESIDE, CASES, Case, PACKAGES};

/// A mount of a case.
struct Mount {
    case: &'static Case,
    /// `server:/export`.
    name: String,
    at: String,
    counters: MountCounters,
}

impl Mount {
    /// Whether the case works there.
    fn has_data(&self) -> bool {
        self.counters.server_written_bytes > 0
    }
}

/// Results of a run.
struct Outcome {
    run: Run,
    mounts: Vec<Mount>,
    rows: Vec<Answer>,
    operations: Vec<Answer>,
    failures: Vec<String>,
}

impl Outcome {
    fn of(kernel: &str) -> Self {
        let names = CASES.map(|case| case.name);
        let run = Run::on(kernel, "transports", &["--deb", PACKAGES], &names);
        let own = Mountstats::parse(&run.text("mountstats.after"));
        let inside = Mountstats::parse(&run.text("mountstats.inside"));
        let mut failures = Vec::new();
        let mut mounts = Vec::new();
        for line in run.text("mounts").lines() {
            let fields: Vec<_> = line.split('\t').collect();
            let [name, source, at] = fields[..] else {
                panic!("{line}");
            };
            let case = CASES.iter().find(|case| case.name == name);
            let found = [&own, &inside].into_iter().find_map(|s| s.mounts.get(at));
            match found.filter(|(device, _)| device == source) {
                Some((_, counters)) => mounts.push(Mount {
                    case: case.unwrap(),
                    name: source.to_owned(),
                    at: at.to_owned(),
                    counters: counters.clone(),
                }),
                None => failures.push(format!("{name}: mountstats lacks {source} at {at}")),
            }
        }
        let rows = run.query(&["--step", "all"]);
        let operations = run.query(&["--step", "all", "--by", "op"]);
        let mut outcome = Self {
            run,
            mounts,
            rows,
            operations,
            failures,
        };
        for case in &CASES {
            let found = outcome.failures_of(case);
            let told = found.iter().map(|why| format!("{}: {why}", case.name));
            outcome.failures.extend(told);
        }
        let beyond = outcome.failures_of_the_audit();
        outcome.failures.extend(beyond);
        outcome
    }

    fn mounts_of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Mount> {
        let of_case = |mount: &&Mount| mount.case.name == case.name;
        self.mounts.iter().filter(of_case)
    }

    fn failures_of(&self, case: &Case) -> Vec<String> {
        let status = self.run.text(&format!("{}/status", case.name));
        if status.trim() != "0" {
            let log = self.run.text(&format!("{}/log", case.name));
            let end: Vec<&str> = log.lines().rev().take(5).collect();
            return vec![format!("did not work: {end:?}")];
        }
        let mut failures = Vec::new();
        let mut expect = |what: &str, ok: bool, seen: String| {
            if !ok {
                failures.push(format!("{what}: {seen}"));
            }
        };
        let mut names: Vec<&str> = self.mounts_of(case).map(|m| m.name.as_str()).collect();
        names.dedup();
        let with_data: Vec<_> = self.mounts_of(case).filter(|m| m.has_data()).collect();
        expect("data", !with_data.is_empty(), names.join(", "));
        for mount in with_data {
            let options = &mount.counters.options;
            let has = |option: &&str| options.iter().any(|given| given == option);
            let in_force = case.options.iter().all(has);
            expect("options", in_force, options.join(","));
            let connections = mount.counters.sent.len();
            let all = connections == case.connections;
            expect("connections", all, connections.to_string());
        }
        for name in names {
            let recorded = self.recorded(name);
            let mut counted = self.counted(name);
            let seen = format!("{recorded:?}, the kernel {counted:?}");
            if case.layout.is_some() {
                let untimed = self.sums(name, &["read_untimed", "write_untimed"]);
                let is_bare = counted[..2] == [0, 0] && recorded[..2] == untimed && untimed[0] > 0;
                expect("untimed", is_bare, format!("{untimed:?}, {seen}"));
                counted[..2].copy_from_slice(&untimed);
            }
            expect(name, recorded == counted, seen);
            let (recorded, counted) = (self.operations_of(name), self.counted_operations(name));
            let seen = format!("{recorded:?}, the kernel {counted:?}");
            expect("operations", recorded == counted, seen);
            let of_mount = self.operations.iter().filter(|row| is_from(row, name));
            for transport in of_mount.filter_map(|row| row["transport"].as_str()) {
                let own = transport.starts_with(case.transport);
                expect("transport", own, transport.to_owned());
            }
            let (paths, expected) = (self.paths(name), self.expected_paths(name));
            expect("paths", paths == expected, format!("{paths:?}"));
        }
        self.check_evidence(case, &mut expect);
        failures
    }

    /// Checks that the case did what it claims, if options do not show it.
    fn check_evidence(&self, case: &Case, expect: &mut impl FnMut(&str, bool, String)) {
        if let Some(layout) = case.layout {
            let text = self.run.text("mountstats.after");
            expect("layout", text.contains(&format!("pnfs={layout},")), text);
        }
        let of = |at: &str| self.mounts.iter().find(|mount| mount.at == at);
        match case.name {
            "fscache" => {
                let counters = &of("/mnt/fscache").unwrap().counters;
                let [buffered, ..] = counters.application_bytes;
                let read = counters.server_read_bytes;
                let seen = format!("{read} of {buffered} bytes read from the server");
                // The second read through the page cache came from the disk.
                expect("cache", read < buffered, seen);
            }
            "soft" => {
                for mount in self.mounts_of(case) {
                    let errors = self.sums(&mount.name, &["read_errors", "write_errors"]);
                    expect("errors", errors == [1, 0], format!("{errors:?}"));
                }
                // The server is still away, but the client has given up.
                let said = self.run.text("soft/said");
                expect("said", !said.contains("answers"), said.clone());
                for address in ["127.0.1.83", "127.0.1.84"] {
                    let stalled = said.contains(&format!("{address} ({address}:/exp/soft"));
                    expect("stall", stalled && said.contains("STALLED"), said.clone());
                }
            }
            "migration" => {
                // Where the client is connected now.
                let mounts = self.run.text("migration/mounts");
                let to = mounts.contains("addr=10.8.0.2");
                expect("migration", to, mounts);
            }
            "netns" => {
                let own = self.run.text("mountstats.after");
                expect("a namespace", !own.contains(" /mnt/two "), own.clone());
            }
            _ => {}
        }
    }

    fn rows_of<'a>(&'a self, mount: &'a str) -> impl Iterator<Item = &'a Answer> {
        self.rows.iter().filter(move |row| is_from(row, mount))
    }

    fn sums<const N: usize>(&self, mount: &str, columns: &[&str; N]) -> [u64; N] {
        let rows: Vec<Answer> = self.rows_of(mount).cloned().collect();
        columns.map(|column| sum(&rows, column))
    }

    /// Requests that succeeded, and bytes: reads before writes.
    fn recorded(&self, mount: &str) -> [u64; 4] {
        let [reads, writes, read, written] = self.sums(mount, &TRANSFERS);
        let [failed_reads, failed_writes] = self.sums(mount, &["read_errors", "write_errors"]);
        [reads - failed_reads, writes - failed_writes, read, written]
    }

    /// The kernel's counts, over all superblocks of a `server:/export`.
    fn counted(&self, mount: &str) -> [u64; 4] {
        let own = self.mounts.iter().filter(|own| own.name == mount);
        own.fold([0; 4], |sum, own| {
            let [reads, writes, read, written] = own.counters.transfers();
            let failed = |ops: &[&str]| own.counters.failed_attempts(ops);
            let (reads, writes) = (
                reads - failed(&["READ", "READ_PLUS"]),
                writes - failed(&["WRITE"]),
            );
            let more = [reads, writes, read, written];
            std::array::from_fn(|i| sum[i] + more[i])
        })
    }

    /// Requests by operation, without those that the workload did not cause.
    fn operations_of(&self, mount: &str) -> BTreeMap<String, u64> {
        let own = self.operations.iter().filter(|row| is_from(row, mount));
        let mut counts = BTreeMap::new();
        for row in own {
            let op = row["op"].as_str().unwrap().to_owned();
            *counts.entry(op).or_default() += number(row, "requests") as u64;
        }
        counts.retain(|op, _| !BESIDE.contains(&op.as_str()));
        counts
    }

    fn counted_operations(&self, mount: &str) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for own in self.mounts.iter().filter(|own| own.name == mount) {
            for (op, numbers) in &own.counters.ops {
                *counts.entry(op.clone()).or_default() += numbers[0];
            }
        }
        counts.retain(|op, count| *count > 0 && !BESIDE.contains(&op.as_str()));
        counts
    }

    /// Paths of rows, sorted, without `(missed)`.
    fn paths(&self, mount: &str) -> Vec<String> {
        let path = |row: &Answer| row["path"].as_str().unwrap_or("-").to_owned();
        let mut paths: Vec<_> = self.rows_of(mount).map(path).collect();
        paths.sort();
        paths
    }

    /// The two files of the workload, below each mount point of a mount.
    fn expected_paths(&self, mount: &str) -> Vec<String> {
        let own = self.mounts.iter().filter(|own| own.name == mount);
        let mut paths = Vec::new();
        for own in own.filter(|own| own.has_data()) {
            let directory = match own.at.as_str() {
                "/mnt/one" => "/mnt/one/one",
                "/mnt/two" => "/mnt/two/two",
                at => at,
            };
            paths.extend(["buffered", "direct"].map(|file| format!("{directory}/{file}")));
        }
        paths.sort();
        paths
    }

    /// Failures of the audit: it must have compared every mount, without findings.
    fn failures_of_the_audit(&self) -> Vec<String> {
        let health = stored_health(&self.run.store());
        let total = |column: &str| -> u64 {
            let numbers = health.iter().map(|row| number(row, column) as u64);
            numbers.sum()
        };
        let mut names: Vec<&str> = self.mounts.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let of_all = |sums: fn(&Self, &str) -> [u64; 4]| {
            names.iter().fold([0; 2], |[requests, bytes], name| {
                let [reads, writes, read, written] = sums(self, name);
                [requests + reads + writes, bytes + read + written]
            })
        };
        let ([requests, bytes], [row_requests, row_bytes]) =
            (of_all(Self::counted), of_all(Self::recorded));
        let mut failures = Vec::new();
        for (column, expected) in [
            ("audit_alarms", 0),
            ("audit_missed_requests", 0),
            ("audit_missed_bytes", 0),
            ("audit_kernel_requests", requests),
            ("audit_row_requests", row_requests),
            ("audit_kernel_bytes", bytes),
            ("audit_row_bytes", row_bytes),
            ("lost", 0),
            ("missed", 0),
        ] {
            let found = total(column);
            if found != expected {
                failures.push(format!("{column}: {found}, expected {expected}"));
            }
        }
        if self.rows.iter().any(|row| row["path"] == MISSED) {
            failures.push("rows (missed)".to_owned());
        }
        failures
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_server_and_transport_equals_mountstats() {
    let kernels: &[&str] = if long() {
        &["6.12", "newest"]
    } else {
        &["6.12"]
    };
    let (mut table, mut failures) = (table::HEAD.to_owned(), Vec::new());
    for kernel in kernels {
        let outcome = Outcome::of(kernel);
        table.push_str(&table::lines(&outcome));
        let told = outcome
            .failures
            .iter()
            .map(|why| format!("{kernel}: {why}"));
        failures.extend(told);
    }
    print!("{table}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    if std::env::var_os("TRACKIOPS_WRITE_DOCS").is_some() {
        table::write_docs(&table);
    }
}
