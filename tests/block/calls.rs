//! Compares calls in rows of local files with the calls that an application made, as `local_calls.py` prints them.

use serde_json::{Map, Value};

const COLUMNS: [&str; 2] = ["app_read", "app_write"];
const OPERATIONS: [&str; 2] = ["open", "fsync"];

/// Checks calls of C library functions by this process: as many `fsync` as `local_calls.py` makes, each around the system call of that
/// name.
pub fn check_functions(single: &[Map<String, Value>], spans: &[Map<String, Value>]) {
    let plain = single.iter().find(|call| {
        let path = call["path"].as_str();
        path.is_some_and(|path| path.ends_with("/plain")) && call["op"] == "write"
    });
    let pid = &plain.unwrap()["pid"];
    let of = |name: &str| -> Vec<_> {
        let own = spans.iter().filter(|span| span["pid"] == *pid);
        let is_it = |span: &&Map<String, Value>| {
            let path = span["path"].as_str();
            path.is_some_and(|path| path.ends_with(name))
        };
        own.filter(is_it).collect()
    };
    let functions = of(":fsync");
    assert_eq!(functions.len(), 20, "{spans:?}");
    for function in functions {
        let inside = single
            .iter()
            .filter(|call| call["op"] == "fsync" && is_inside(function, call));
        assert_eq!(inside.count(), 1, "{function:?}");
    }
}

/// Whether `inner` was called while `outer` was under way, on the same thread.
pub fn is_inside(outer: &Map<String, Value>, inner: &Map<String, Value>) -> bool {
    let ns = |row: &Map<String, Value>, column: &str| row[column].as_i64().unwrap();
    let begin = |row| ns(row, "end_time_ns") - ns(row, "latency_ns");
    outer["tid"] == inner["tid"]
        && begin(outer) <= begin(inner)
        && ns(inner, "end_time_ns") <= ns(outer, "end_time_ns")
}

/// Checks `number` requests of 4 KiB by io_uring or libaio that wrote a file from its begin to its end.
pub fn check_queued(single: &[Map<String, Value>], path: &str, number: u64) {
    let own = single.iter().filter(|call| call["path"] == path);
    let own: Vec<_> = own.filter(|call| call["op"] == "write").collect();
    let mut places: Vec<_> = own
        .iter()
        .map(|call| call["offset_bytes"].as_u64().unwrap())
        .collect();
    places.sort_unstable();
    assert_eq!(places, (0..number).map(|at| at * 4096).collect::<Vec<_>>());
    for call in own {
        assert_eq!(call["done_bytes"], 4096, "{call:?}");
        assert!(call["latency_ns"].as_u64() > Some(0), "{call:?}");
    }
}

/// Checks each listed file, and the kernel's counts of the process, in which `again` bytes count twice. Up to `missed` calls may lack rows,
/// and may lack `single` rows.
pub fn check(
    rows: &[Map<String, Value>],
    single: &[Map<String, Value>],
    listed: &str,
    missed: u64,
    again: u64,
) {
    let mut left = missed;
    let mut files = 0;
    for line in listed.lines() {
        let (name, numbers) = line.split_once(' ').unwrap();
        let numbers = numbers.split(' ').map(|number| number.parse().unwrap());
        let numbers: Vec<u64> = numbers.collect();
        match (name, numbers.as_slice()) {
            ("counted", counted) => {
                let kernel = listed.lines().find_map(|line| line.strip_prefix("proc "));
                let counted: Vec<_> = counted.iter().map(|n| (n + again).to_string()).collect();
                assert_eq!(kernel.unwrap(), counted.join(" "), "rchar and wchar");
            }
            ("proc", _) => {}
            (path, told) => {
                let own: Vec<_> = rows.iter().filter(|row| row["path"] == path).collect();
                let sum = |column: &str| -> u64 {
                    own.iter().filter_map(|row| row[column].as_u64()).sum()
                };
                let calls = COLUMNS.map(|direction| {
                    let of = |what: &str| sum(&format!("{direction}_{what}"));
                    [of("calls"), of("bytes") + of("direct_bytes"), of("errors")]
                });
                let operations = OPERATIONS.map(|op| {
                    let all = own.iter().filter_map(|row| row["ops"].as_array());
                    let those = all.flatten().filter(|own| own["op"] == op);
                    let sum = |what: &str| those.clone().filter_map(|own| own[what].as_u64()).sum();
                    [sum("requests"), 0, sum("errors")]
                });
                let [transfers @ .., opened, synced, failed] = told else {
                    panic!("{line}");
                };
                let told = transfers.iter().copied();
                let told = told.chain([*opened, 0, 0, *synced, 0, *failed]);
                let told: Vec<_> = told.collect();
                let kept = ["read", "write", "open", "fsync"].map(|op| {
                    let those = single.iter().filter(|call| call["path"] == path);
                    let those = those.filter(|call| call["op"] == op && !call["tid"].is_null());
                    let bytes = those.clone().filter_map(|call| call["done_bytes"].as_u64());
                    let failed = those.clone().filter(|call| !call["errno"].is_null());
                    [those.count() as u64, bytes.sum(), failed.count() as u64]
                });
                let all = calls.into_iter().chain(operations).zip(kept);
                for ((seen, kept), told) in all.zip(told.chunks(3)) {
                    if left == 0 {
                        assert_eq!(seen, told, "{path}: {own:?}");
                        assert_eq!(kept, told, "{path}, one by one");
                    } else {
                        assert!(seen.iter().zip(told).all(|(seen, told)| seen <= told));
                        left = left
                            .checked_sub(told[0] - seen[0])
                            .expect("more than are missed");
                    }
                }
                files += 1;
            }
        }
    }
    assert!(files >= 15, "{listed}");
}
