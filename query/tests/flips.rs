//! A check finds any changed byte in a store, and reports the time of the damaged part. Queries still answer from the
//! rest.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trackiops_query::{Outcome, Step, ask};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_store::{StoreError, check, rebuild_catalog};
use trackiops_testkit::generated::{Numbers, THREE, file, windows};
use trackiops_testkit::questions::{Key, Sum, question, rows};
use trackiops_testkit::stores::{append, options_of};

/// Two sealed journals and an unsealed one, with operations and single requests.
fn recorded(store: &Path) {
    let mut windows = windows(5, THREE, 1000, 25, 6);
    for window in &mut windows {
        let sums = OperationSums {
            requests: 7,
            ..OperationSums::default()
        };
        let operation = Operation {
            mount: Some("srv:/even".into()),
            op: "GETATTR".into(),
            transport: None,
        };
        window.ops.push(OperationRow { operation, sums });
        window.health.ops_covered_ms = 1000;
        window.health.ops_seen = 7;
    }
    let mut writer = append(store, options_of("a", "1s,1m", "10s"), &[]);
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
        let end_ns = window.start.0 * 1_000_000;
        let batch = RequestBatch {
            files: vec![file(1, Some("/mnt/f1"))],
            requests: vec![Request::new(&RequestRecord::default(), end_ns, 0); 3],
        };
        requests.append(&batch).unwrap();
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn flip(path: &Path, bit: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit / 8).unwrap();
}

/// All answers, at both granularities.
fn answers(store: &Path) -> Result<Vec<BTreeMap<Key, Sum>>, String> {
    let steps = ["1s", "1m"].into_iter();
    let answer = |text: &str| {
        let mut asked = question(store);
        asked.step = Some(text.parse::<Step>().unwrap());
        match ask(&asked) {
            Ok(Outcome::Found(answer)) => Ok(rows(&answer)),
            Ok(Outcome::Nothing { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        }
    };
    steps.map(answer).collect()
}

/// Positions in a file: its ends, and some in between.
fn places(numbers: &mut Numbers, bytes: u64) -> Vec<u64> {
    let mut bits = vec![0, 8 * bytes - 1, 8 * bytes - 40, 4 * 8];
    bits.extend((0..12).map(|_| numbers.below(8 * bytes)));
    bits
}

#[test]
fn a_changed_byte_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let before = answers(dir.path()).unwrap();
    let mut numbers = Numbers(11);
    let mut kinds = BTreeMap::<String, usize>::new();
    for path in files(dir.path()) {
        let name = path
            .strip_prefix(dir.path())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        // A power cut may tear an `.end` file, and a journal without one counts as intact.
        if name.starts_with("catalog.db") || name.ends_with(".end") || name == "lock" {
            continue;
        }
        let bytes = fs::metadata(&path).unwrap().len();
        for bit in places(&mut numbers, bytes) {
            flip(&path, bit);
            let what = format!("{name}, bit {bit} of {}", 8 * bytes);
            match check(dir.path()) {
                Ok(report) => {
                    let found = report.findings.iter().find(|f| f.path == path);
                    let found = found.unwrap_or_else(|| panic!("{what}: {:#?}", report.findings));
                    if !name.starts_with("journal/requests") {
                        assert!(found.covers.is_some(), "{what}: {found:?}");
                    }
                }
                // The version number of another format is not damage.
                Err(StoreError::OtherFormat { .. }) => assert!(bit / 8 < 8, "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            if bit / 8 >= 8 {
                let after = answers(dir.path());
                let after = after.unwrap_or_else(|error| panic!("{what}: {error}"));
                if name.starts_with("requests") || name.starts_with("journal/requests") {
                    assert!(after == before, "{what}");
                }
            }
            flip(&path, bit);
            let kind = name.split('/').next().unwrap();
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let kinds: Vec<_> = kinds.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["health", "journal", "ops", "requests", "rollup"]);
}

/// Queries refuse a damaged catalog, and a rebuilt one answers like the old one.
#[test]
fn a_changed_byte_of_the_catalog_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path());
    let before = answers(dir.path()).unwrap();
    let path = dir.path().join("catalog.db");
    let original = fs::read(&path).unwrap();
    let mut numbers = Numbers(17);
    let mut found = 0;
    let mut bits: Vec<_> = (0..150)
        .map(|_| numbers.below(8 * original.len() as u64))
        .collect();
    // The header, and the start of the page of each table and index.
    bits.extend((0..100).step_by(7).map(|byte| 8 * byte + byte % 8));
    bits.extend(
        (4096..original.len() as u64)
            .step_by(4096)
            .map(|byte| 8 * (byte + 3)),
    );
    for bit in bits {
        flip(&path, bit);
        assert!(!check(dir.path()).unwrap().findings.is_empty(), "bit {bit}");
        let refused = answers(dir.path()).expect_err("it is damaged");
        assert!(
            refused.to_string().contains("rebuild-catalog"),
            "bit {bit}: {refused}"
        );
        found += 1;
        if found % 10 == 0 {
            rebuild_catalog(dir.path()).unwrap();
            assert!(answers(dir.path()).unwrap() == before, "bit {bit}");
            assert_eq!(check(dir.path()).unwrap().findings, [], "bit {bit}");
        }
        fs::write(&path, &original).unwrap();
    }
}
