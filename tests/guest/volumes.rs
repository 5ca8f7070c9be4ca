//! Volumes that are directories of one export share a superblock. Each row belongs to the right volume, while others come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::mountstats::Mountstats;
use crate::run::{Answer, Run, kernel, long, number};

const VERSIONS: [&str; 2] = ["3", "4.2"];

/// Number of volumes. The last one has the shortest name.
fn count() -> u64 {
    if long() { 20 } else { 4 }
}

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let count = count().to_string();
    let args = [&[count.as_str()], &VERSIONS[..]].concat();
    Run::on(&kernel(), "volumes", &["--timeout", "900"], &args)
});

/// Fileid, mount, path and volume.
type Place = [String; 4];

/// WRITE requests of each place, from a list of the workload.
fn made(list: &str) -> BTreeMap<Place, u64> {
    let mut made = BTreeMap::new();
    for line in RUN.text(list).lines() {
        let mut fields = line.split('\t').map(str::to_owned);
        let count: u64 = fields.next().and_then(|n| n.parse().ok()).expect("a count");
        let place: Vec<_> = fields.collect();
        let place = Place::try_from(place).unwrap_or_else(|_| panic!("{line}"));
        *made.entry(place).or_default() += count;
    }
    made
}

fn recorded(answers: &[Answer]) -> BTreeMap<Place, u64> {
    let mut recorded = BTreeMap::new();
    for answer in answers {
        let text = |column: &str| answer[column].as_str().unwrap_or("-").to_owned();
        let place = [
            answer["fileid"].to_string(),
            text("mount"),
            text("path"),
            text("volume"),
        ];
        let requests = number(answer, "write_requests") as u64;
        if requests > 0 {
            *recorded.entry(place).or_default() += requests;
        }
    }
    recorded
}

/// The rows of a store about these volumes.
fn ask(store: &str, flags: &[&str]) -> Vec<Answer> {
    let mut answers = Run::query_store(&RUN.out.join(store), flags);
    answers.retain(|answer| number(answer, "write_requests") > 0.0);
    answers
}

fn of_version(made: BTreeMap<Place, u64>, version: &str) -> BTreeMap<Place, u64> {
    let top = format!("127.0.0.1:/exp/{version}/");
    let own = made
        .into_iter()
        .filter(|([_, mount, ..], _)| mount.starts_with(&top));
    own.collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_file_is_on_its_volume_and_one_file_while_others_come_and_go() {
    let answers = ask("all", &["--step", "1s"]);
    let kernel = Mountstats::parse(&RUN.text("mountstats.after"));
    for version in VERSIONS {
        let made = made(&format!("list.{version}"));
        assert_eq!(
            of_version(recorded(&answers), version),
            made,
            "NFS {version}"
        );
        let top = format!("127.0.0.1:/exp/{version}/");
        let counted = kernel
            .mounts
            .values()
            .find(|(source, _)| source.starts_with(&top));
        let (_, counted) = counted.expect("the first volume");
        let all: u64 = made.values().sum();
        assert_eq!(counted.server_written_bytes, all * 4096, "NFS {version}");
    }
    let mut keys: BTreeMap<[String; 2], BTreeSet<i64>> = BTreeMap::new();
    for answer in &answers {
        let key = answer["file_key"].as_i64().expect("a key");
        let file = ["fileid", "path"].map(|column| answer[column].to_string());
        keys.entry(file).or_default().insert(key);
    }
    // And two for mounts that are not volumes.
    assert_eq!(keys.len() as u64, 2 * 2 * count() + 2);
    assert!(keys.values().all(|keys| keys.len() == 1), "{keys:?}");
    let all: BTreeSet<_> = keys.values().flatten().collect();
    assert_eq!(all.len(), keys.len(), "files of their own");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_volume_is_selected_alone_by_each_of_its_names() {
    for version in VERSIONS {
        let made = made(&format!("list.{version}"));
        let sources: BTreeSet<_> = made.keys().map(|[_, source, ..]| source).collect();
        assert_eq!(sources.len() as u64, count());
        for source in sources {
            let own = made.iter().filter(|([_, of, ..], _)| of == source);
            let own: BTreeMap<_, _> = own.map(|(place, n)| (place.clone(), *n)).collect();
            let [_, _, path, volume] = own.keys().next().unwrap();
            let (point, _) = path.rsplit_once('/').unwrap();
            for [flag, value] in [
                ["--mount", source],
                ["--mount", point],
                ["--dir", point],
                ["--volume", volume],
            ] {
                let answers = ask("all", &[flag, value, "--step", "all"]);
                assert_eq!(recorded(&answers), own, "{flag} {value}");
            }
        }
        let mut made = self::made(&format!("one.{version}"));
        made.retain(|[.., volume], _| {
            ["pvc-1-", "pvc-3-"]
                .iter()
                .any(|wanted| volume.starts_with(wanted))
        });
        assert_eq!(made.len(), 2);
        let recorded = recorded(&ask("filtered", &["--step", "all"]));
        assert_eq!(of_version(recorded, version), made, "record --mount");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_volumes_have_sums_and_claims() {
    let mut made: BTreeMap<String, u64> = BTreeMap::new();
    for version in VERSIONS {
        for ([.., volume], requests) in self::made(&format!("list.{version}")) {
            *made.entry(volume).or_default() += requests;
        }
    }
    let mut recorded = BTreeMap::new();
    for answer in ask("all", &["--by", "volume", "--step", "all"]) {
        let Some(volume) = answer["volume"].as_str() else {
            continue;
        };
        let requests = number(&answer, "write_requests") as u64;
        recorded.insert(volume.to_owned(), requests);
        let number = volume.split('-').nth(1).unwrap_or_default();
        // By the directory that the provisioner created; the last one has a different name.
        let claim = match number == count().to_string() {
            true => None,
            false => Some(format!("shop/data-{number}")),
        };
        assert_eq!(answer["claim"].as_str(), claim.as_deref(), "{volume}");
    }
    assert_eq!(recorded, made);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_servers_behind_one_address_are_mounts_of_their_own() {
    let store = RUN.out.join("all");
    let names = ["127.0.0.1:/exp-behind", "127.0.0.1:/exp-behind,port=20049"];
    for (name, point, file, requests) in [
        (names[0], "/mnt/usual", "/mnt/usual/one", 3.0),
        (names[1], "/mnt/tunnel", "/mnt/tunnel/two", 5.0),
    ] {
        for selected in [name, point] {
            let flags = ["--mount", selected, "--step", "all"];
            let answers = Run::query_store(&store, &flags);
            let told = |answer: &Answer| {
                let text = |column: &str| answer[column].as_str().unwrap_or("-").to_owned();
                (
                    text("mount"),
                    text("path"),
                    number(answer, "write_requests"),
                )
            };
            let files: Vec<_> = answers
                .iter()
                .map(told)
                .filter(|(_, _, n)| *n > 0.0)
                .collect();
            assert_eq!(
                files,
                [(name.to_owned(), file.to_owned(), requests)],
                "{selected}"
            );
            let operations = Run::query_store(
                &store,
                &[&flags[..], &["--by", "op", "--op", "WRITE"]].concat(),
            );
            // Without links in sysfs, the client of a sum is unknown.
            match &operations[..] {
                [sum] => assert_eq!(number(sum, "requests"), requests, "{sum:?}"),
                [] => assert!(["5.10", "6.1"].contains(&kernel().as_str())),
                more => panic!("{more:?}"),
            }
        }
    }
}
