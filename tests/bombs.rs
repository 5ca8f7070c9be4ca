//! Forged files: each reader returns an answer or an error, within limits of memory and time.
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
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_testkit::{forge, generated, stores};

use forged::{mutants, table};

/// Limits of a process: KiB of address space, and seconds.
const LIMITS: &str = "ulimit -v 2097152; exec timeout 30 \"$0\" \"$@\"";
/// Begin of the first window, ms since the epoch.
const START_MS: i64 = 1_764_400_000_000;
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
        place.succeed("mark begin --store store");
        place.leave_journals();
        place.succeed("anonymize-key key");
        for format in ["parquet", "arrow", "csv"] {
            place.succeed(&format!(
                "export --since 1990-01-01 --store store --anonymize key --output hidden.{format}"
            ));
        }
        place
    }

    /// Makes the store `open`, which has only journals.
    fn leave_journals(&self) {
        let recorded = tempfile::tempdir().unwrap();
        let windows = generated::windows(1, START_MS, 1000, 20, 5);
        let writer = stores::append(recorded.path(), stores::options("h"), &windows);
        let mut requests = writer.requests(1 << 30, |_| ()).unwrap();
        let request = Request {
            end_ns: START_MS * 1_000_000,
            file: 0,
            flags: 0,
            offset: 0,
            asked_bytes: 4096,
            done_bytes: 4096,
            latency_ns: 300_000,
            queue_ns: 1000,
            rtt_ns: 250_000,
            xid: 7,
            retransmissions: 0,
            error: 0,
            pid: 7,
            process: ProcessName::new(b"fio"),
        };
        let batch = RequestBatch {
            files: vec![generated::file(7, Some("/mnt/a"))],
            requests: vec![request; 20],
        };
        requests.append(&batch).unwrap();
        trackiops_store::copy(recorded.path(), &self.path("open")).unwrap();
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

    /// Runs a command, which must end by itself. Returns its status and output.
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

    /// Runs a command, which must fail with this message.
    fn fail(&self, words: &str, expected: &str) {
        let (status, said) = self.end(words);
        assert_eq!(status, 2, "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
    }

    /// For mutants of a file in a store: asks, repairs, rebuilds the catalog and asks again.
    fn end_each_store(&self, store: &str, file: &Path, count: usize) {
        let content = fs::read(self.path(store).join(file)).unwrap();
        self.each(mutants(&content, count), |at, mut mutant| {
            if file.extension().is_some_and(|e| e == "parquet") {
                // Without a footer, a mutant has no checksums to correct.
                let _ = catch_unwind(AssertUnwindSafe(|| forge::seal(&mut mutant)));
            }
            let name = file.file_name().unwrap().to_string_lossy();
            let forged = format!("{at}-{name}.forged");
            let copied = Command::new("cp")
                .args(["-r", store, &forged])
                .current_dir(self.dir.path())
                .status();
            assert!(copied.unwrap().success());
            fs::write(self.path(&forged).join(file), mutant).unwrap();
            for words in [
                "query --since 1990-01-01 --store STORE",
                "requests --since 1990-01-01 --store STORE",
                "marks --since 1990-01-01 --store STORE",
                "mark later --store STORE",
                "store check --store STORE",
                "store copy STORE.copy --store STORE",
                "import csv table.csv --store STORE",
                "store rebuild-catalog --store STORE",
                "files --since 1990-01-01 --store STORE",
            ] {
                self.end(&words.replace("STORE", &forged));
            }
            fs::remove_dir_all(self.path(&forged)).unwrap();
            let _ = fs::remove_dir_all(self.path(&format!("{forged}.copy")));
        });
    }

    /// Calls `what` with each mutant and its number, on several threads.
    fn each(&self, mutants: impl Iterator<Item = Vec<u8>>, what: impl Fn(usize, Vec<u8>) + Sync) {
        let next = AtomicUsize::new(0);
        let mutants: Vec<_> = mutants.collect();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(mutant) = mutants.get(at) else { break };
                        what(at, mutant.clone());
                    }
                });
            }
        });
    }

    /// Runs a command with mutants of a file in the place of FILE.
    fn end_each(&self, words: &str, file: &str, content: &[u8], count: usize) {
        self.each(mutants(content, count), |at, mutant| {
            let name = format!("{at}-{file}");
            fs::write(self.path(&name), mutant).unwrap();
            let own = words.replace("FILE", &name);
            self.end(&own.replace("STORE", &format!("{name}.store")));
            fs::remove_file(self.path(&name)).unwrap();
            for made in ["store", "store.messages"] {
                let _ = fs::remove_dir_all(self.path(&format!("{name}.{made}")));
            }
        });
    }
}

/// Runs every reader with mutants of its files, and with mutants of files in stores.
fn end_all(count: usize, of_stores: usize) {
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
    let of = |dataset: &str| first_segment(&place.path("store").join(dataset));
    let segments = ["rollup", "health", "ops", "requests"].map(of);
    for segment in &segments {
        place.end_each_store("store", segment, of_stores);
    }
    for file in ["catalog.db", "marks.jsonl", "marks.sum"] {
        place.end_each_store("store", Path::new(file), of_stores);
    }
    for file in ["1.tij", "1.end", "requests-1.tij", "requests-1.end"] {
        place.end_each_store("open", &Path::new("journal").join(file), of_stores);
    }
    let capture = crate::import::some_capture();
    for (name, content) in [
        ("a.pcap", capture.clone()),
        ("a.pcapng", forged::pcapng(&capture)),
        ("a.pcap.gz", gzip(&capture)),
    ] {
        let words = "import pcap FILE --store STORE --messages STORE.messages";
        place.end_each(words, name, &content, count);
    }
    place.end_each(
        "compare --pcap FILE --store store",
        "b.pcap",
        &capture,
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
        "tenants test FILE --store store",
        "tenants.toml",
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

/// A segment below a directory of a store, relative to the store.
fn first_segment(dir: &Path) -> PathBuf {
    let mut first = dir.to_owned();
    while first.is_dir() {
        let entries = fs::read_dir(&first).unwrap();
        first = entries.map(|entry| entry.unwrap().path()).min().unwrap();
    }
    first
        .strip_prefix(dir.parent().unwrap())
        .unwrap()
        .to_owned()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_reader_ends_with_some_forged_files() {
    end_all(2, 1);
}

#[test]
#[ignore = "takes an hour"]
fn every_reader_ends_with_200_forged_files() {
    end_all(200, 200);
}

#[test]
fn rows_that_are_packed_well_take_no_more_than_the_limit() {
    let place = Place::new();
    let from = place.path("files.parquet");
    let refused = "more than --max-read-memory (64 MiB)";
    let limited = |command: &str, file: &str| {
        format!("{command} --max-read-memory 64MiB --since 1990-01-01 --store {file}")
    };
    // One text in all rows: a batch of all rows would take 120 MB.
    table(&from, &place.path("same.parquet"), 2048, 60_000, false);
    // Distinct texts, which all stay in memory.
    table(&from, &place.path("names.parquet"), 512, 60_000, true);
    // Rows of one window, which all stay in memory.
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
    let long = "x".repeat(500 << 10);
    for (header, row) in [
        (long.clone(), "1".to_owned()),
        (format!("{long},op,done_bytes"), "1,READ,1".to_owned()),
        (
            "end_time_ns,op,done_bytes".to_owned(),
            format!("{long},READ,1"),
        ),
    ] {
        fs::write(place.path("long.csv"), format!("{header}\n{row}\n")).unwrap();
        let (status, said) = place.end("import csv long.csv --store s");
        assert_eq!(status, 2, "{said}");
        assert!(said.len() < 4096, "{} bytes", said.len());
    }
    for text in [
        format!("a = {}", "[".repeat(1 << 20)),
        format!("{long} = 1"),
    ] {
        fs::write(place.path("long.toml"), text).unwrap();
        for flag in [
            "query --store store --tenants",
            "report billing --store store --prices",
        ] {
            let (status, said) = place.end(&format!("{flag} long.toml"));
            assert_eq!(status, 2, "{said}");
            assert!(said.len() < 4096, "{flag}: {} bytes", said.len());
        }
    }
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
        place.fail(&format!("compare --store store --pcap {file}"), why);
        place.fail(&format!("doctor --btf {file}"), why);
    }
    place.fail("import csv /dev/zero --store s", "a device");
    place.fail("query --store store --tenants sparse", "more than 64 MiB");
    place.fail("query --store sparse", "neither a directory nor an export");
    place.fail("files --store sparse", "neither a directory nor an export");
    let deep = format!("a = {}", "[".repeat(1 << 20));
    fs::write(place.path("deep.toml"), deep).unwrap();
    place.fail("query --store store --tenants deep.toml", "deep.toml");
}
