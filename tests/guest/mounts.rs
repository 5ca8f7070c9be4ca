//! Each file's mount and mount point, while mounts come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::run::{Answer, Run, lines, number, program};

const VERSIONS: [&str; 2] = ["3", "4.2"];

static RUN: LazyLock<Run> =
    LazyLock::new(|| Run::on(&crate::run::kernel(), "mounts", &[], &VERSIONS));

/// Device, fileid, mount and path.
type Place = [String; 4];

/// WRITE requests of each place, by the workload.
fn made(version: &str) -> BTreeMap<Place, u64> {
    let mut made = BTreeMap::new();
    for line in RUN.text(&format!("list.{version}")).lines() {
        let mut fields = line.split('\t').map(str::to_owned);
        let count: u64 = fields.next().and_then(|n| n.parse().ok()).expect("a count");
        let place: Vec<_> = fields.collect();
        let place = Place::try_from(place).unwrap_or_else(|_| panic!("{line}"));
        *made.entry(place).or_default() += count;
    }
    assert!(made.len() > 10, "{made:?}");
    made
}

fn answers(version: &str) -> Vec<Answer> {
    Run::query_store(&RUN.out.join(format!("store-{version}")), &["--step", "1s"])
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_file_is_on_its_mount_and_told_by_a_path_that_was_there() {
    for version in VERSIONS {
        let mut recorded: BTreeMap<Place, u64> = BTreeMap::new();
        for answer in answers(version) {
            let text = |column: &str| answer[column].as_str().unwrap_or("-").to_owned();
            let fileid = answer["fileid"].to_string();
            let place = [text("dev"), fileid, text("mount"), text("path")];
            *recorded.entry(place).or_default() += number(&answer, "write_requests") as u64;
        }
        let made = made(version);
        let only = |a: &BTreeMap<Place, u64>, b: &BTreeMap<Place, u64>| -> Vec<String> {
            let differs = |(place, n): &(&Place, &u64)| b.get(*place) != Some(*n);
            let own = a.iter().filter(differs);
            own.map(|(place, n)| format!("{n} {}", place.join(" ")))
                .collect()
        };
        let (missing, wrong) = (only(&made, &recorded), only(&recorded, &made));
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "NFS {version}, not as they were made: {missing:#?}, recorded: {wrong:#?}"
        );
        println!(
            "NFS {version}: {} files in {} places",
            files(&made),
            made.len()
        );
    }
}

/// Files of different exports differ, although they have the same device and inode number. Files of one export are equal, although they
/// have different devices.
fn files(places: &BTreeMap<Place, u64>) -> usize {
    let file = |[_, fileid, mount, _]: &Place| (fileid.clone(), mount.clone());
    places.keys().map(file).collect::<BTreeSet<_>>().len()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_file_is_one_file_by_whichever_mount_and_another_one_after_its_device_number_was_used_again()
 {
    for version in VERSIONS {
        let devices = RUN.text(&format!("devices.{version}"));
        for numbers in devices.lines() {
            let numbers: BTreeSet<_> = numbers.split(' ').collect();
            assert_eq!(
                numbers.len(),
                1,
                "NFS {version}: one number for all: {devices}"
            );
        }
        let mut keys: BTreeMap<[String; 2], BTreeSet<i64>> = BTreeMap::new();
        for answer in answers(version) {
            let file = ["fileid", "mount"].map(|column| answer[column].to_string());
            let key = answer["file_key"].as_i64().expect("a key");
            keys.entry(file).or_default().insert(key);
        }
        let distinct: BTreeSet<_> = keys.values().flatten().collect();
        assert!(keys.values().all(|keys| keys.len() == 1), "{keys:?}");
        assert_eq!(distinct.len(), keys.len(), "{keys:?}");
        assert_eq!(keys.len(), files(&made(version)));
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_catalog_tells_what_was_mounted_where_with_which_options_and_when() {
    for version in VERSIONS {
        let output = Command::new(program())
            .args(["mounts", "--format", "json", "--store"])
            .arg(RUN.out.join(format!("store-{version}")))
            .output()
            .expect("trackiops can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let mounts: Vec<Mounted> = lines(&String::from_utf8_lossy(&output.stdout));
        let told = |path: &str| -> Vec<[&str; 3]> {
            let at = mounts.iter().filter(|mount| mount.path == path);
            at.map(Mounted::told).collect()
        };
        let own = |export: &'static str| [export, export, "rw"];
        assert_eq!(told("/mnt/a"), [own("/exp-a")]);
        assert_eq!(told("/mnt/again"), [own("/exp-a")]);
        assert_eq!(told("/mnt/bound"), [own("/exp-a/dir")]);
        assert_eq!(told("/mnt/nest/sub"), [own("/exp/sub")]);
        // A mount that replaces a similar one between two looks counts as the same.
        let mut turns = told("/mnt/turns");
        turns.dedup();
        assert_eq!(turns, ["/exp-c", "/exp-d", "/exp-e", "/exp-f"].map(own));
        let [ro, rw] = ["ro", "rw"].map(|flag| ["/exp-d", "/exp-d", flag]);
        assert_eq!(told("/mnt/d"), [rw, ro, rw]);
        assert_eq!(told("/mnt/inside"), [own("/exp-c")]);
        assert_eq!(told("/mnt/inside-too"), ["/exp-f", "/exp-g"].map(own));
        for mount in &mounts {
            assert_eq!(mount.version.as_deref(), Some(version), "{mount:?}");
            let is_foreign = mount.path.starts_with("/mnt/inside");
            assert_eq!(mount.foreign_namespace, is_foreign, "{mount:?}");
            assert!(mount.first_seen < mount.last_seen, "{mount:?}");
        }
        let turns: Vec<_> = mounts
            .iter()
            .filter(|mount| mount.path == "/mnt/turns")
            .collect();
        let in_turn = |pair: &[&Mounted]| pair[0].last_seen <= pair[1].first_seen;
        assert!(turns.windows(2).all(in_turn), "{turns:?}");
    }
}

/// A line of `trackiops mounts`.
#[derive(Debug, Deserialize)]
struct Mounted {
    mount: String,
    source: String,
    path: String,
    version: Option<String>,
    options: String,
    foreign_namespace: bool,
    /// In RFC 3339, UTC.
    first_seen: String,
    last_seen: String,
}

impl Mounted {
    /// The exports of its mount and its source, and whether it is writable.
    fn told(&self) -> [&str; 3] {
        let [mount, source] = [&self.mount, &self.source].map(|name| {
            let export = name.strip_prefix("127.0.0.1:");
            export.unwrap_or_else(|| panic!("{self:?}"))
        });
        let is_read_only = self.options.split(',').next() == Some("ro");
        [mount, source, if is_read_only { "ro" } else { "rw" }]
    }
}
