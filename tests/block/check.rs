//! Compares rows of the block level with the kernel's statistics of a device (`/sys/block/*/stat`) and with the sizes of files written
//! exactly once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// I/Os and bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Sums {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

impl Sums {
    /// The kernel's counts between two snapshots (Documentation/block/stat.rst).
    pub fn of_kernel(before: &str, after: &str) -> Self {
        let fields = |text: &str| -> Vec<u64> {
            let words = text.split_whitespace();
            words.map(|word| word.parse().unwrap()).collect()
        };
        let (before, after) = (fields(before), fields(after));
        let between = |place: usize| after[place] - before[place];
        Self {
            reads: between(0),
            read_bytes: 512 * between(2),
            writes: between(4),
            write_bytes: 512 * between(6),
        }
    }

    /// A request that is several rows counts once.
    fn of_requests(requests: &[Map<String, Value>], device: &str) -> Self {
        let sum = |op: &str, of: fn(&Map<String, Value>) -> u64| {
            let own = requests.iter();
            let own = own.filter(|row| row["mount"] == device && row["op"] == op);
            own.map(of).sum()
        };
        let bytes = |row: &Map<String, Value>| row["done_bytes"].as_u64().unwrap();
        let is_whole = |row: &Map<String, Value>| u64::from(row["piece"] == false);
        Self {
            reads: sum("READ", is_whole),
            read_bytes: sum("READ", bytes),
            writes: sum("WRITE", is_whole),
            write_bytes: sum("WRITE", bytes),
        }
    }

    pub fn of_rows<'r>(rows: impl IntoIterator<Item = &'r Map<String, Value>> + Clone) -> Self {
        let sum = |key: &str| {
            let rows = rows.clone().into_iter();
            rows.map(|row| row[key].as_u64().unwrap()).sum()
        };
        Self {
            reads: sum("read_requests"),
            read_bytes: sum("read_bytes"),
            writes: sum("write_requests"),
            write_bytes: sum("write_bytes"),
        }
    }
}

impl Sums {
    /// Whether these lack at most the missed part of the truth.
    pub fn are_equal_but_for(&self, missed: &Self, truth: &Self) -> bool {
        let all = |of: &Self| [of.reads, of.read_bytes, of.writes, of.write_bytes];
        let mut each = all(self).into_iter().zip(all(missed)).zip(all(truth));
        each.all(|((found, missed), truth)| (found..=found + missed).contains(&truth))
    }
}

/// `rows` are one row per file at the block level, `requests` the single requests, `listed` the output of `block_io.sh`. `knows_direct`
/// says that direct I/O is distinguished from the file system's own I/O.
pub fn check(
    rows: &[Map<String, Value>],
    requests: &[Map<String, Value>],
    device: &str,
    stat: (&str, &str),
    listed: &str,
    knows_direct: bool,
) {
    let own: Vec<_> = rows
        .iter()
        .filter(|row| row["mount"].as_str() == Some(device))
        .collect();
    assert!(own.iter().all(|row| row["level"] == "block"), "{own:?}");
    let truth = Sums::of_kernel(stat.0, stat.1);
    let found = Sums::of_rows(own.iter().copied());
    // Requests that the kernel counted but did not report, on all devices: some kernels skip the program for some.
    let missed = Sums::of_rows(rows.iter().filter(|row| row["path"] == "(missed)"));
    println!("{device}: recorded {found:?}, kernel {truth:?}, missed {missed:?}");
    assert!(truth.reads > 0 && truth.writes > 200, "{truth:?}");
    assert!(found.are_equal_but_for(&missed, &truth), "{device}");
    assert_eq!(Sums::of_requests(requests, device), found, "{device}");

    let mut written: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &own {
        let path = row["path"].as_str().unwrap_or("unnamed");
        *written.entry(path).or_default() += row["write_bytes"].as_u64().unwrap();
    }
    assert!(written.contains_key("(filesystem)"), "{written:?}");
    let mapped = written
        .iter()
        .find(|(path, _)| path.ends_with("/mapped.0.0"));
    assert!(
        mapped.is_some_and(|(_, bytes)| *bytes >= 512 << 10),
        "{mapped:?} of {written:?}"
    );
    let files: Vec<_> = listed.lines().filter_map(|l| l.split_once('\t')).collect();
    assert_eq!(files.len(), 2 + 16 + 1 + 1 + 24, "{listed}");
    let is_direct = |path: &str| {
        ["wdirect", "wpsync", "wlarge"]
            .iter()
            .any(|name| path.contains(name))
    };
    for (size, path) in files {
        if !knows_direct && is_direct(path) {
            assert!(!written.contains_key(path), "{path}: {written:?}");
            continue;
        }
        let size: u64 = size.parse().unwrap();
        let found = written.get(path).copied().unwrap_or(0);
        let range = found..=found + missed.write_bytes;
        assert!(range.contains(&size), "{path}: {size} of {written:?}");
    }
}
