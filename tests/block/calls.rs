//! Holds the calls in rows of local files against what an application was told, as `local_calls.py` prints it.

use serde_json::{Map, Value};

const COLUMNS: [&str; 2] = ["app_read", "app_write"];
const OPERATIONS: [&str; 2] = ["open", "fsync"];

/// Each file that the application has listed, and what the kernel counted of the process, `again` bytes of them twice. `missed` calls may be in no
/// row.
pub fn check(rows: &[Map<String, Value>], listed: &str, missed: u64, again: u64) {
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
                for (seen, told) in calls.into_iter().chain(operations).zip(told.chunks(3)) {
                    if left == 0 {
                        assert_eq!(seen, told, "{path}: {own:?}");
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
