//! Forged files: each reader ends with an answer or an error, within memory and time of its own.
//!
//! `cargo test --test program bombs:: -- --ignored` tries more of them.

mod forged;

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;
use trackiops_testkit::forge;

use forged::{mutants, table};

/// What a process may take: KiB of addresses, and seconds.
const LIMITS: &str = "ulimit -v 2097152; exec timeout 30 \"$0\" \"$@\"";
/// Threads of all tests together.
const THREADS: usize = 4;
const LINES: &str = "\
end_time_ns,op,done_bytes,latency_ns,host,mount,path
1764400000000000000,READ,4096,1000000,web-1,srv:/x,/mnt/x/a
1764400001000000000,WRITE,100,2000000,web-1,srv:/x,\"/mnt/x/b, c\"
";

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("table.csv"), LINES).unwrap();
        let place = Self { dir };
        place.succeed("import csv table.csv --store store");
        place.succeed("export --since 1990-01-01 --store store --output files.parquet");
        place.succeed(
            "export --since 1990-01-01 --store store --output requests.parquet --requests",
        );
        place.succeed("anonymize-key key");
        for format in ["parquet", "arrow", "csv"] {
            place.succeed(&format!(
                "export --since 1990-01-01 --store store --anonymize key --output hidden.{format}"
            ));
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", LIMITS, env!("CARGO_BIN_EXE_trackiops")]);
        shell.args(words.split(' ')).current_dir(self.dir.path());
        shell.env_remove("TRACKIOPS_STORE");
        shell.env("TRACKIOPS_CONFIG", "none").env("TZ", "UTC0");
        shell.output().unwrap()
    }

    fn succeed(&self, words: &str) {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
    }

    /// Runs a command, which ends by itself. Returns its status, and what it said.
    fn end(&self, words: &str) -> (i32, String) {
        let output = self.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = output.status.code().unwrap_or(-1);
        assert!((0..=3).contains(&status), "{words}: {status}: {said}");
        for failure in ["panicked", "memory allocation"] {
            assert!(!said.contains(failure), "{words}: {said}");
        }
        (status, said)
    }

    /// Runs a command, which ends with an error that has these words.
    fn fail(&self, words: &str, expected: &str) {
        let (status, said) = self.end(words);
        assert_eq!(status, 2, "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
    }

    /// Rebuilds the catalog of stores with mutants of a segment whose checksums match, and asks.
    fn end_each_segment(&self, count: usize) {
        let segment = first_segment(&self.path("store/rollup"));
        let content = fs::read(self.path("store").join(&segment)).unwrap();
        for mut mutant in mutants(&content, count) {
            // A mutant without a footer has no checksums that could match.
            let _ = catch_unwind(AssertUnwindSafe(|| forge::seal(&mut mutant)));
            let copied = Command::new("cp")
                .args(["-r", "store", "forged"])
                .current_dir(self.dir.path())
                .status();
            assert!(copied.unwrap().success());
            fs::write(self.path("forged").join(&segment), mutant).unwrap();
            for words in [
                "query",
                "store check",
                "store rebuild-catalog",
                "query",
                "files",
            ] {
                self.end(&format!("{words} --store forged"));
            }
            fs::remove_dir_all(self.path("forged")).unwrap();
        }
    }

    /// Runs a command with mutants of a file in the place of FILE.
    fn end_each(&self, words: &str, file: &str, content: &[u8], count: usize) {
        let next = AtomicUsize::new(0);
        let mutants: Vec<_> = mutants(content, count).collect();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let at = next.load(Ordering::Relaxed);
                        let name = format!("{at}-{}-{file}", mutant.len());
                        fs::write(self.path(&name), mutant).unwrap();
                        let own = words.replace("FILE", &name);
                        self.end(&own.replace("STORE", &format!("{name}.store")));
                        fs::remove_file(self.path(&name)).unwrap();
                        let _ = fs::remove_dir_all(self.path(&format!("{name}.store")));
                    }
                });
            }
        });
    }
}

/// Every reader of files, with mutants of a file that it reads.
fn end_all(count: usize) {
    let place = Place::new();
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    let files = forged::rewritten(&place.path("files.parquet"));
    let requests = forged::rewritten(&place.path("requests.parquet"));
    let hidden = forged::rewritten(&place.path("hidden.parquet"));
    for command in ["query", "files", "mounts"] {
        let words = format!("{command} --store FILE");
        place.end_each(&words, "files.parquet", &files, count);
    }
    place.end_each("analyze sizes FILE", "requests.parquet", &requests, count);
    let import = "import csv FILE --store STORE";
    place.end_each(import, "requests.parquet", &requests, count);
    place.end_each(import, "table.csv", LINES.as_bytes(), count);
    place.end_each(import, "table.csv.gz", &gzip(LINES.as_bytes()), count);
    let reveal = "deanonymize FILE --key key --output STORE";
    for (name, content) in [
        ("hidden.parquet", hidden),
        ("hidden.arrow", read("hidden.arrow")),
        ("hidden.csv", read("hidden.csv")),
    ] {
        let words = format!("{reveal}.{}", name.rsplit('.').next().unwrap());
        place.end_each(&words, name, &content, count);
    }
    place.end_each_segment(count);
    let capture = crate::import::some_capture();
    place.end_each("import pcap FILE --store STORE", "a.pcap", &capture, count);
    place.end_each(
        "import pcap FILE --store STORE",
        "a.pcap.gz",
        &gzip(&capture),
        count,
    );
    let text = crate::import::some_nfsdump().as_bytes();
    place.end_each("import nfsdump FILE --store STORE", "a.txt", text, count);
    let rules = b"[[tenant]]\nname = \"a\"\npath = \"/mnt/x/*\"\nuid = 1000\n";
    place.end_each(
        "query --store store --tenants FILE",
        "rules.toml",
        rules,
        count,
    );
    place.end_each(
        "config check --config FILE",
        "config.toml",
        b"[record]\nno-ops = true\n",
        count,
    );
}

/// A segment below a directory, relative to the store that this is in.
fn first_segment(dir: &Path) -> PathBuf {
    let mut entries: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    match entries.iter().find(|path| path.is_file()) {
        Some(file) => file
            .components()
            .rev()
            .take(4)
            .collect::<Vec<_>>()
            .iter()
            .rev()
            .collect(),
        None => first_segment(&entries[0]),
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_reader_ends_with_some_forged_files() {
    end_all(4);
}

#[test]
#[ignore = "takes some minutes"]
fn every_reader_ends_with_200_forged_files() {
    end_all(200);
}

#[test]
fn rows_that_are_packed_well_take_no_more_than_the_limit() {
    let place = Place::new();
    let from = place.path("files.parquet");
    let refused = "more than --max-read-memory (64 MiB)";
    let limited = |command: &str, file: &str| {
        format!("{command} --max-read-memory 64MiB --since 1990-01-01 --store {file}")
    };
    // One text in each row: a batch of all rows would take 120 MB.
    table(&from, &place.path("same.parquet"), 2048, 60_000, false);
    // Different texts, all of which are kept.
    table(&from, &place.path("names.parquet"), 512, 60_000, true);
    // Rows of one window, all of which are kept.
    table(&from, &place.path("rows.parquet"), 1 << 16, 10, false);
    for command in ["query", "files"] {
        assert_eq!(place.end(&limited(command, "same.parquet")).0, 0);
        place.fail(&limited(command, "names.parquet"), refused);
        let more = limited(command, "names.parquet").replace("64MiB", "1GiB");
        assert_eq!(place.end(&more).0, 0);
    }
    place.fail(&limited("query", "rows.parquet"), refused);
    assert!(fs::metadata(place.path("rows.parquet")).unwrap().len() < 4 << 20);
}

#[test]
fn csv_of_endless_lines_or_columns_is_refused() {
    let place = Place::new();
    let wide = vec!["path"; 100_000].join(",");
    fs::write(place.path("wide.csv"), format!("{wide}\n{wide}\n")).unwrap();
    place.fail("import csv wide.csv --store s", "names 100000 columns");
    place.fail(
        "deanonymize wide.csv --key key --output o.csv",
        "names columns twice",
    );
    fs::write(
        place.path("quote.csv"),
        LINES.replace("\"/mnt", &format!("\"{}", "x".repeat(32 << 20))),
    )
    .unwrap();
    place.fail("import csv quote.csv --store s", "more than 4 MiB");
    let zeros = File::create(place.path("zeros.csv")).unwrap();
    zeros.set_len(1 << 40).unwrap();
    place.fail("import csv zeros.csv --store s", "more than 4 MiB");
}

#[test]
fn pipes_and_devices_in_the_place_of_files_are_refused_at_once() {
    let place = Place::new();
    mkfifoat(CWD, place.path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let sparse = File::create(place.path("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for (file, why) in [("pipe", "a named pipe"), ("/dev/zero", "a device")] {
        place.fail(&format!("query --store store --tenants {file}"), why);
        place.fail(&format!("query --store {file}"), "not a TrackIOps store");
        place.fail(&format!("deanonymize {file} --key key --output o.csv"), why);
        place.fail(
            &format!("deanonymize hidden.csv --key {file} --output o.csv"),
            why,
        );
        place.fail(&format!("analyze sizes {file}"), why);
    }
    place.fail("import csv /dev/zero --store s", "a device");
    place.fail("query --store store --tenants sparse", "more than 64 MiB");
    place.fail("query --store sparse", "neither a directory nor an export");
    place.fail("files --store sparse", "neither a directory nor an export");
    let deep = format!("a = {}", "[".repeat(1 << 20));
    fs::write(place.path("deep.toml"), deep).unwrap();
    place.fail("query --store store --tenants deep.toml", "deep.toml");
}
