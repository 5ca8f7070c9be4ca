//! The packages of `make dist` on real Debian systems with systemd: installed from an apt repository, started, rebooted, upgraded, removed and
//! purged.
//!
//! Each guest runs `guest/scripts/packages.sh`; the checks on its output run here. `make packages` runs this.

#[allow(dead_code)] // Other tests use the rest.
#[path = "guest/mountstats.rs"]
mod mountstats;
#[path = "guest/system.rs"]
mod system;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::repositories;
use mountstats::{Mountstats, TRANSFERS};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The files that a guest wrote to `$OUT`.
struct Brought(PathBuf);

impl Brought {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn status(&self, name: &str) -> i32 {
        let said = || self.text(&format!("{name}.err"));
        let status = self.text(&format!("{name}.status"));
        status
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{name}: {}", said()))
    }

    /// Requests of each file in each window of an answer.
    fn windows(&self, name: &str) -> BTreeMap<String, [u64; 4]> {
        let mut windows: BTreeMap<String, [u64; 4]> = BTreeMap::new();
        for line in self.text(&format!("{name}.json")).lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let key = ["time", "mount", "path"].map(|column| row[column].to_string());
            let sum = windows.entry(key.join(" ")).or_default();
            for (sum, column) in sum.iter_mut().zip(TRANSFERS) {
                *sum += row[column].as_u64().unwrap();
            }
        }
        windows
    }

    fn sum(&self, name: &str) -> [u64; 4] {
        let mut sums = [0; 4];
        for counts in self.windows(name).values() {
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
        sums
    }

    /// The kernel's counts between two snapshots.
    fn kernel(&self, before: &str, after: &str) -> [u64; 4] {
        let parse = |name: &str| Mountstats::parse(&self.text(&format!("mountstats.{name}")));
        let counted = parse(after).since(&parse(before));
        counted.mounts["/mnt/nfs"].1.transfers()
    }

    /// New files since before the first package, except records of dpkg and systemd.
    fn left(&self, when: &str) -> Vec<String> {
        let before = self.text("files.before");
        let before: Vec<&str> = before.lines().collect();
        let now = self.text(&format!("files.{when}"));
        let new = now
            .lines()
            .filter(|file| before.binary_search(file).is_err());
        let own = |file: &&str| {
            [
                "/var/lib/apt/",
                "/var/lib/dpkg/",
                "/var/lib/rpm/",
                "/root/.rpmdb",
                "/var/lib/systemd/",
                "/var/tmp/",
                "/etc/.pwd.lock",
            ]
            .iter()
            .any(|others| file.starts_with(others))
                || file.ends_with('-') // backups of /etc/group
        };
        new.filter(|file| !own(file)).map(str::to_owned).collect()
    }
}

/// The only file in target/dist with this ending.
fn package(ending: &str) -> PathBuf {
    let dist = Path::new(ROOT).join("target/dist");
    let files =
        fs::read_dir(&dist).unwrap_or_else(|e| panic!("{}: {e}; run `make dist`", dist.display()));
    let mut found = files.map(|file| file.unwrap().path());
    let found = found.find(|path| path.to_str().unwrap().ends_with(ending));
    found.unwrap_or_else(|| panic!("no *{ending} in target/dist: run `make dist`"))
}

/// Makes two apt repositories below a directory: one with the package, and one with a newer version beside it.
fn make_repositories(out: &Path, scratch: &Path) {
    let [tree, dist, newer, key] = ["tree", "dist", "newer", "key"].map(|name| scratch.join(name));
    let run = |command: &mut Command| assert!(command.status().unwrap().success(), "{command:?}");
    run(Command::new("dpkg-deb")
        .arg("-R")
        .arg(package("_amd64.deb"))
        .arg(&tree));
    let control = fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    let lines = control
        .lines()
        .map(|line| match line.starts_with("Version: ") {
            true => "Version: 99-1\n".to_owned(),
            false => format!("{line}\n"),
        });
    fs::write(tree.join("DEBIAN/control"), lines.collect::<String>()).unwrap();
    for directory in [&dist, &newer] {
        fs::create_dir(directory).unwrap();
    }
    for package in ["_amd64.deb", ".x86_64.rpm"].map(package) {
        fs::copy(&package, dist.join(package.file_name().unwrap())).unwrap();
    }
    let deb = newer.join("trackiops_99-1_amd64.deb");
    let mut build = Command::new("dpkg-deb");
    run(build
        .args(["--root-owner-group", "-Znone", "-b"])
        .arg(&tree)
        .arg(deb));
    repositories::make_key(&key);
    for (name, dists) in [("first", &[&*dist][..]), ("newer", &[&*dist, &*newer][..])] {
        repositories::make(&out.join(name), dists, Some(&key), SERVED);
        // The guest has no dnf.
        fs::remove_dir_all(out.join(name).join("rpm")).unwrap();
    }
}

/// Where `packages.sh` serves a repository.
const SERVED: &str = "http://127.0.0.1:8080";

fn live_on(kernel: &str, suite: &str) -> Brought {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = scratch.path().join("disk");
    system::disk(suite, &[], &disk);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("packages")
        .join(kernel);
    // Remove the output of an earlier run.
    let _ = fs::remove_dir_all(&out);
    let scripts = Path::new(ROOT).join("tests/guest/scripts");
    let mut run = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    run.current_dir(ROOT).args([
        "vm",
        "run",
        "--kernel",
        kernel,
        "--no-nfs",
        "--init",
        "--timeout",
        "3000",
    ]);
    run.arg("--disk")
        .arg(&disk)
        .arg("--out")
        .arg(&out)
        .arg("--add")
        .arg(scripts.join("lib.sh"))
        .arg("--add")
        .arg(scripts.join("service.sh"));
    for (ending, name) in [
        (".x86_64.rpm", "trackiops.rpm"),
        ("-linux-x86_64.tar.gz", "trackiops.tar.gz"),
    ] {
        let named = scratch.path().join(name);
        fs::copy(package(ending), &named).unwrap();
        run.arg("--add").arg(named);
    }
    let repositories = scratch.path().join("repositories");
    make_repositories(&repositories, scratch.path());
    run.arg("--add").arg(&repositories);
    // The packages contain the program.
    run.env("TRACKIOPS_BIN", "/bin/true")
        .arg(scripts.join("packages.sh"));
    assert!(
        run.status().unwrap().success(),
        "packages.sh failed on Linux {kernel}"
    );
    Brought(out)
}

fn lives_well(kernel: &str, suite: &str) {
    let is = live_on(kernel, suite);
    // After the installation, it is not enabled yet.
    assert_eq!((is.status("enabled"), is.status("active")), (1, 3));
    assert_eq!(
        is.sum("first"),
        is.kernel("first", "first_end"),
        "after the installation"
    );
    let rebooted = is.sum("rebooted");
    assert_eq!(
        rebooted[1],
        32 + 16,
        "what was written before the reboot, and after it"
    );

    // All windows closed before the upgrade exist, and nothing is counted twice.
    let (acknowledged, upgraded) = (is.windows("acknowledged"), is.windows("upgraded"));
    assert!(acknowledged.len() > 5, "{acknowledged:?}");
    for (window, counts) in &acknowledged {
        let now = upgraded
            .get(window)
            .unwrap_or_else(|| panic!("{window} is gone"));
        assert!(
            counts.iter().zip(now).all(|(was, is)| was <= is),
            "{window}: {counts:?}, then {now:?}"
        );
    }
    let said = is.text("upgraded.err");
    assert!(said.contains("not recorded"), "{said}");
    let (recorded, counted) = (is.sum("upgraded"), is.kernel("second", "second_end"));
    let first = is.sum("first");
    for column in 0..4 {
        let since_reboot = recorded[column] - first[column];
        assert!(
            since_reboot <= counted[column],
            "{since_reboot} of {} {}",
            counted[column],
            TRANSFERS[column]
        );
    }
    assert!(
        recorded > is.sum("acknowledged"),
        "it records after the upgrade"
    );
    assert_eq!(is.text("store.mode"), is.text("store.expected"));
    assert!(
        is.text("member.out").contains("/mnt/nfs/some.bin"),
        "a member of the group may ask"
    );

    for name in [
        "remove",
        "check",
        "purge",
        "rpm",
        "rpm_removed",
        "archive",
        "archive_removed",
    ] {
        assert_eq!(
            is.status(name),
            0,
            "{name}: {}",
            is.text(&format!("{name}.err"))
        );
    }
    // The data, the configuration, and the state of being enabled.
    let kept = [
        "/var/lib/trackiops",
        "/etc/trackiops",
        "/etc/systemd/system/multi-user.target.wants/trackiops.service",
        "/etc/systemd/system/multi-user.target.wants/trackiops-metrics.service",
    ];
    let removed = is.left("removed");
    let other: Vec<_> = removed
        .iter()
        .filter(|file| !kept.iter().any(|kept| file.starts_with(kept)))
        .collect();
    assert!(other.is_empty(), "left by the removal: {other:?}");
    assert!(
        removed
            .iter()
            .any(|file| file.starts_with("/var/lib/trackiops/")),
        "{removed:?}"
    );
    assert_eq!(is.status("group"), 2, "the group is gone with the store");
    for when in ["purged", "rpm", "archive"] {
        let left = is.left(when);
        assert!(left.is_empty(), "{when}: {left:?}");
    }
    for name in ["metrics_active", "rpm_active", "archive_active"] {
        assert_ne!(is.status(name), 0, "{name}");
    }
}

#[test]
#[ignore = "boots a guest: make packages"]
fn packages_live_on_debian_12_with_linux_6_1() {
    lives_well("6.1", "bookworm");
}

#[test]
#[ignore = "boots a guest: make packages"]
fn packages_live_on_debian_13_with_linux_6_12() {
    lives_well("6.12", "trixie");
}
