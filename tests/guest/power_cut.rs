//! The guest loses power while it records. After the restart, all closed windows that were reported exist exactly once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::run::{Answer, Turn, emulated, kernel, lines, long, scripts};

/// The smallest size that mkfs.xfs accepts.
const DISK_BYTES: u64 = 320 << 20;
/// Windows younger than this may still get late requests, ms.
const SETTLED_MS: i64 = 4000;

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_nothing_that_was_closed_is_lost_or_doubled_when_the_power_is_cut_on_ext4() {
    cut("ext4", if long() { 12 } else { 1 });
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_nothing_that_was_closed_is_lost_or_doubled_when_the_power_is_cut_on_xfs() {
    cut("xfs", if long() { 12 } else { 1 });
}

fn cut(file_system: &str, times: usize) {
    let disk = empty_disk(file_system);
    let mut known = Rows::default();
    for boot in 0..=times {
        let mut guest = Guest::boot(&disk, file_system, boot > 0);
        if boot > 0 {
            let (kind, recovered) = guest.answer();
            assert_eq!(kind, "recovered");
            recovered.has_all_of(&known);
            known = recovered;
        }
        if boot < times {
            // A random time within 10 s; a sealing happens every 5 s. Windows in the last answer were synced, too.
            let (answers, delay_ms) = (4 + random() % 12, 300 + random() % 1000);
            for _ in 0..answers {
                let (kind, closed) = guest.answer();
                assert_eq!(kind, "closed");
                known.0.extend(closed.0);
            }
            sleep(Duration::from_millis(delay_ms));
            println!(
                "cut {delay_ms} ms after answer {answers}, of {} rows",
                known.0.len()
            );
        }
    }
    assert!(known.0.len() > 10 * times, "{} rows", known.0.len());
}

fn empty_disk(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("power-cut");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{name}.img"));
    File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
    path
}

/// A random number: cuts need not be reproducible.
fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos()) / 1000
}

/// A guest whose power is cut when it is dropped.
struct Guest {
    _turn: Turn,
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Guest {
    fn boot(disk: &Path, file_system: &str, again: bool) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (emulated, cpus) = emulated("power_cut", &[]);
        let turn = Turn::of("power_cut", cpus);
        let mut child = Command::new(cargo)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args([
                "vm",
                "run",
                "--timeout",
                "300",
                "--deb",
                "xfsprogs",
                "--kernel",
            ])
            .arg(kernel())
            .args(emulated)
            .arg("--disk")
            .arg(disk)
            .arg("--add")
            .arg(scripts().join("lib.sh"))
            .arg(scripts().join("power_cut.sh"))
            .args([file_system, if again { "again" } else { "first" }])
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo vm can be started");
        let said = BufReader::new(child.stdout.take().unwrap());
        Self {
            _turn: turn,
            child,
            said,
        }
    }

    /// The next answer and its kind.
    fn answer(&mut self) -> (String, Rows) {
        let mut lines = self.said.by_ref().lines().map(Result::unwrap);
        let kind = lines.next().expect("the guest ended by itself");
        let text: Vec<_> = lines.take_while(|line| line != "end").collect();
        (kind, Rows::parse(&text.join("\n")))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // QEMU dies at once.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of an answer by window and file name.
#[derive(Default)]
struct Rows(BTreeMap<(i64, String), Answer>);

impl Rows {
    fn parse(text: &str) -> Self {
        let row = |mut answer: Answer| {
            // They are computed from sums in ns before sealing, and from sums in us after.
            answer.retain(|column, _| !column.ends_with("_mean") && !column.ends_with("_share"));
            let time = answer["time"].as_str().unwrap();
            let time = chrono::DateTime::parse_from_rfc3339(time).unwrap();
            let file = answer["fileid"].to_string();
            ((time.timestamp_millis(), file), answer)
        };
        Self(lines(text).into_iter().map(row).collect())
    }

    /// Checks that every window of an earlier answer exists, and is unchanged if no late requests were expected.
    fn has_all_of(&self, earlier: &Self) {
        let last = earlier.0.keys().next_back().map_or(0, |(time, _)| *time);
        for (key @ (time, file), was) in &earlier.0 {
            let Some(is) = self.0.get(key) else {
                panic!("file {file} at {time} is gone: {was:?}")
            };
            if last - time >= SETTLED_MS {
                assert_eq!(is, was, "file {file} at {time}");
            }
        }
    }
}
