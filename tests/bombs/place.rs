//! A directory with a store, exports, and forged files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tempfile::TempDir;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_testkit::{forge, generated, stores};

use super::forged::mutants;
use super::summary::{Reader, Summary};

/// Limits of a process: KiB of address space, and seconds.
const LIMITS: &str = "ulimit -v 2097152; exec timeout 30 \"$0\" \"$@\"";
/// Begin of the first window, ms since the epoch.
const START_MS: i64 = 1_764_400_000_000;
/// Threads of all tests together.
const THREADS: usize = 4;
pub const LINES: &str = "\
end_time_ns,op,done_bytes,latency_ns,host,mount,path
1764400000000000000,READ,4096,1000000,web-1,srv:/x,/mnt/x/a
1764400001000000000,WRITE,100,2000000,web-1,srv:/x,\"/mnt/x/b, c\"
";

/// What is done to each forged store.
const OF_A_STORE: [&str; 9] = [
    "query --since 1990-01-01 --store STORE",
    "requests --since 1990-01-01 --store STORE",
    "marks --since 1990-01-01 --store STORE",
    "mark later --store STORE",
    "store check --store STORE",
    "store copy STORE.copy --store STORE",
    "import csv table.csv --store STORE",
    "store rebuild-catalog --store STORE",
    "files --since 1990-01-01 --store STORE",
];

/// A place for forged files, and the results of all commands that ran there.
pub struct Place {
    pub dir: TempDir,
    program: OsString,
    pub summary: Mutex<Summary>,
}

impl Place {
    pub fn new() -> Self {
        Self::of(env!("CARGO_BIN_EXE_trackiops").into())
    }

    /// A place for another build of the program.
    pub fn of(program: OsString) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("table.csv"), LINES).unwrap();
        let place = Self {
            dir,
            program,
            summary: Mutex::default(),
        };
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", LIMITS]).arg(&self.program);
        shell.args(words.split(' ')).current_dir(self.dir.path());
        shell.env_remove("TRACKIOPS_STORE");
        shell.env("TRACKIOPS_CONFIG", "none").env("TZ", "UTC0");
        shell.output().unwrap()
    }

    pub fn succeed(&self, words: &str) {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
    }

    /// Runs a command, which must end by itself. Returns its status and output.
    pub fn end(&self, words: &str) -> (i32, String) {
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
    pub fn fail(&self, words: &str, expected: &str) {
        let (status, said) = self.end(words);
        assert_eq!(status, 2, "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
    }

    /// For mutants of a file in a store: asks, repairs, rebuilds the catalog and asks again.
    pub fn end_each_store(&self, store: &str, file: &Path, count: usize) {
        let content = fs::read(self.path(store).join(file)).unwrap();
        let reader = Reader {
            words: "commands on a store".to_owned(),
            file: kind_in_store(file),
        };
        self.each(&reader, mutants(&content, count), |at, mut mutant| {
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
            let ends = OF_A_STORE.map(|words| self.end(&words.replace("STORE", &forged)).0);
            fs::remove_dir_all(self.path(&forged)).unwrap();
            let _ = fs::remove_dir_all(self.path(&format!("{forged}.copy")));
            ends.to_vec()
        });
    }

    /// Runs a command with mutants of a file in the place of FILE.
    pub fn end_each(&self, words: &str, file: &str, content: &[u8], count: usize) {
        let reader = Reader {
            words: words.to_owned(),
            file: file.to_owned(),
        };
        let end = |name: &str, content: &[u8]| {
            fs::write(self.path(name), content).unwrap();
            // A key that others may read is refused.
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
            let own = words.replace("FILE", name);
            let end = self.end(&own.replace("STORE", &format!("{name}.store")));
            fs::remove_file(self.path(name)).unwrap();
            for made in ["store", "store.messages"] {
                let _ = fs::remove_dir_all(self.path(&format!("{name}.{made}")));
            }
            end
        };
        let (status, said) = end(&format!("whole-{file}"), content);
        assert_ne!(status, 2, "{words}, not forged: {said}");
        self.each(&reader, mutants(content, count), |at, mutant| {
            vec![end(&format!("{at}-{file}"), &mutant).0]
        });
    }

    /// Calls `what` with each mutant and its number, on several threads. It returns the status of each command.
    fn each(
        &self,
        reader: &Reader,
        mutants: impl Iterator<Item = Vec<u8>> + Send,
        what: impl Fn(usize, Vec<u8>) -> Vec<i32> + Sync,
    ) {
        let mutants = Mutex::new(mutants.enumerate());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let next = mutants
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .next();
                        let Some((at, mutant)) = next else { break };
                        let ends = what(at, mutant);
                        self.summary.lock().unwrap().add(reader, &ends);
                    }
                });
            }
        });
    }
}

/// The kind of a file in a store.
fn kind_in_store(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    match (&parts[..], file.extension()) {
        ([dataset, .., _], Some(extension)) if extension == "parquet" => {
            format!("{dataset}/.../*.parquet")
        }
        _ => file.display().to_string(),
    }
}
