//! Runs a script in a guest, once per test run, and reads its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use serde::Deserialize;
use serde_json::Value;

use crate::compare;
use crate::mountstats::{Mountstats, TRANSFERS};
use crate::system;

/// Emulated CPUs at once: two for each of CI, because most guests sleep half of the time.
const AT_ONCE: usize = 4;
/// Scripts that run alone, because they measure times or fill the processors.
const ALONE: [&str; 8] = [
    "hang", "incident", "latency", "many", "overload", "skipped", "soak", "storm",
];
/// Scripts whose two CPUs run at once: threads meet in the kernel, I/O is eight deep, or times are measured. `block` alone counts requests to
/// devices that begin on one CPU while others complete on the other.
const CPUS_AT_ONCE: [&str; 8] = [
    "block",
    "calls_crowd",
    "captured",
    "faults",
    "incident",
    "latency",
    "matrix",
    "overload",
];
/// Scripts whose two CPUs take turns: requests begin on one CPU and complete on the other, in two rings. The others have one CPU, if it is
/// emulated and time is short.
const CPUS_BY_TURNS: [&str; 6] = [
    "calls",
    "copied",
    "names",
    "requests",
    "transports",
    "workloads",
];

/// Requests that the second recorder may miss on the newest kernel beyond those that it reports. Its classic tracepoints are skipped there
/// now and then, and the kernel does not count that.
const UNCOUNTED: u64 = 3;

/// Path of the row for requests that only the kernel counted.
pub const MISSED: &str = "(missed)";

/// Scripts that take longest, or run once for each kernel. They do not wait for others, so that at the end no CPU waits for them.
const FIRST: [&str; 5] = ["block", "confined", "faults", "matrix", "transports"];

/// Which guests run, and which wait.
struct Running {
    /// Emulated CPUs.
    cpus: usize,
    /// Waiting scripts of [`FIRST`].
    first: usize,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { cpus: 0, first: 0 });
static CHANGED: Condvar = Condvar::new();

/// The value of a flag.
fn value<'f>(flags: &[&'f str], of: &str) -> Option<&'f str> {
    let mut flag = flags.iter().skip_while(|flag| **flag != of);
    flag.nth(1).copied()
}

/// How a script's CPUs are emulated, and how many of the host they keep busy.
pub fn emulated(script: &str, flags: &[&str]) -> (&'static [&'static str], usize) {
    let is_said = ["--cpus", "--by-turns", "--icount"]
        .iter()
        .any(|flag| flags.contains(flag));
    if is_said || long() || CPUS_AT_ONCE.contains(&script) {
        let cpus = value(flags, "--cpus").and_then(|cpus| cpus.parse().ok());
        (&[], cpus.unwrap_or(2))
    } else if CPUS_BY_TURNS.contains(&script) {
        (&["--by-turns"], 1)
    } else {
        (&["--emulate-one"], 1)
    }
}

/// The right to run a guest.
pub struct Turn(usize);

impl Turn {
    /// Waits until a script may run that keeps this many CPUs busy.
    pub fn of(script: &str, cpus: usize) -> Self {
        let takes = if ALONE.contains(&script) {
            AT_ONCE
        } else {
            cpus.min(AT_ONCE)
        };
        let is_first = FIRST.contains(&script);
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.first += usize::from(is_first);
        let waits = |running: &mut Running| {
            running.cpus + takes > AT_ONCE || running.first > 0 && !is_first
        };
        let running = CHANGED.wait_while(running, waits);
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        running.first -= usize::from(is_first);
        running.cpus += takes;
        CHANGED.notify_all();
        Self(takes)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.cpus -= self.0;
        CHANGED.notify_all();
    }
}

/// The files that a script wrote to `$OUT`.
pub struct Run {
    pub out: PathBuf,
    kernel: String,
}

/// One JSON object of `trackiops query`.
pub type Answer = serde_json::Map<String, Value>;

impl Run {
    /// Boots the default kernel and runs `scripts/<name>.sh`; panics with the reason if that fails.
    pub fn script(name: &str, flags: &[&str]) -> Self {
        Self::on(&kernel(), name, flags, &[])
    }

    /// Boots `kernel` and runs `scripts/<name>.sh` with `args`; `flags` are `cargo vm run`'s.
    pub fn on(kernel: &str, name: &str, flags: &[&str], args: &[&str]) -> Self {
        match std::env::var_os("TRACKIOPS_TEST_SERVICE") {
            Some(_) => Self::as_service(kernel, name, flags, args),
            None => Self::boot(kernel, name, flags, &format!("{name}.sh"), args),
        }
    }

    /// Like [`Self::on`], with the recorder as a systemd service.
    pub fn as_service(kernel: &str, name: &str, flags: &[&str], args: &[&str]) -> Self {
        Self::on_system(kernel, &[], name, flags, args)
    }

    /// Like [`Self::on`], on a Debian with systemd and further packages.
    pub fn on_system(
        kernel: &str,
        packages: &[&str],
        name: &str,
        flags: &[&str],
        args: &[&str],
    ) -> Self {
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let disk = scratch.path().join("disk");
        let suite = match kernel {
            "6.1" => "bookworm",
            _ => "trixie",
        };
        system::disk(suite, packages, &disk);
        let scripts = scripts();
        let beside = |name: &str| {
            scripts
                .join(name)
                .to_str()
                .expect("a path of this repository")
                .to_owned()
        };
        let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/trackiops.service");
        let (script, lib) = (beside(&format!("{name}.sh")), beside("service.sh"));
        let system = [
            "--no-nfs",
            "--init",
            "--disk",
            disk.to_str().expect("a path"),
        ];
        let add = ["--add", &script, "--add", &lib, "--add", unit];
        let flags = [flags, &system, &add].concat();
        let args = [&[name], args].concat();
        Self::boot(kernel, name, &flags, "as_service.sh", &args)
    }

    fn boot(kernel: &str, name: &str, flags: &[&str], script: &str, args: &[&str]) -> Self {
        let scripts = scripts();
        // Tests run the same script with different parameters of the machine, the kernel or the script.
        let append = value(flags, "--append").unwrap_or_default();
        let mut of_script = DefaultHasher::new();
        (value(flags, "--cpus"), args).hash(&mut of_script);
        let out = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("guest")
            .join(kernel)
            .join(format!("{name}{append}-{:x}", of_script.finish()));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let (emulated, cpus) = emulated(name, flags);
        let turn = Turn::of(name, cpus);
        // Remove the output of an earlier run.
        let _ = fs::remove_dir_all(&out);
        let began = Instant::now();
        let status = Command::new(cargo)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["vm", "run", "--kernel", kernel])
            // A later flag overrides this one.
            .args(["--timeout", "900"])
            .args(emulated)
            .args(flags)
            .arg("--out")
            .arg(&out)
            .arg("--add")
            .arg(scripts.join("lib.sh"))
            .arg(scripts.join(script))
            .args(args)
            .status()
            .expect("cargo vm can be started");
        drop(turn);
        let took = began.elapsed().as_secs();
        eprintln!("guest: {name}.sh on Linux {kernel} took {took} s");
        assert!(
            status.success(),
            "the guest script {name}.sh failed on Linux {kernel}: {status}"
        );
        let kernel = kernel.to_owned();
        Self { out, kernel }
    }

    /// The files of a part of the script, in a directory.
    pub fn part(&self, name: &str) -> Self {
        Self {
            out: self.out.join(name),
            kernel: self.kernel.clone(),
        }
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.out.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn json(&self, name: &str) -> Value {
        let text = self.text(name);
        // fio may write notes before its JSON.
        let start = text.find('{').unwrap_or(0);
        serde_json::from_str(&text[start..]).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The kernel's counts between two snapshots.
    pub fn mountstats(&self, before: &str, after: &str) -> Mountstats {
        let parse = |name: &str| Mountstats::parse(&self.text(&format!("mountstats.{name}")));
        parse(after).since(&parse(before))
    }

    /// Fileid of each file on NFS by its path.
    pub fn files(&self) -> BTreeMap<String, u64> {
        let text = self.text("files");
        let parse = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let fileid = fields.next()?.parse().ok()?;
            Some((fields.nth(1)?.to_owned(), fileid))
        };
        text.lines().filter_map(parse).collect()
    }

    pub fn store(&self) -> PathBuf {
        self.out.join("store")
    }

    /// Answers of `trackiops query` on the host about the store that came back.
    pub fn query(&self, flags: &[&str]) -> Vec<Answer> {
        Self::query_store(&self.store(), flags)
    }

    /// Like [`Self::query`], for another store.
    pub fn query_store(store: &Path, flags: &[&str]) -> Vec<Answer> {
        rows_of(&Self::query_store_output(store, flags))
    }

    /// The single requests from `trackiops requests`.
    pub fn requests(&self, flags: &[&str]) -> Vec<Answer> {
        Self::requests_of(&self.store(), flags)
    }

    /// Like [`Self::requests`], for another store.
    pub fn requests_of(store: &Path, flags: &[&str]) -> Vec<Answer> {
        rows_of(&ask("requests", store, flags))
    }

    /// The slow moments from `trackiops why`, those that lost most first.
    pub fn why(&self) -> Vec<Answer> {
        let output = ask("why", &self.store(), &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(1) && said.contains("nothing was slow") {
            return Vec::new();
        }
        rows_of(&output)
    }

    pub fn query_output(&self, flags: &[&str]) -> Output {
        Self::query_store_output(&self.store(), flags)
    }

    /// Differences between the two recorders that ran side by side (`start_beside`).
    pub fn disagreements(&self) -> Vec<String> {
        let own = self.query(&["--step", "all"]);
        let other = Self::query_store(&self.out.join("beside"), &["--step", "all"]);
        let mut missed = ["record.err", "beside.err"].map(|name| self.missed(name));
        if self.kernel == "newest" {
            missed[1] += UNCOUNTED;
        }
        compare::disagreements(&own, &other, missed)
    }

    /// The bound on missed requests in this standard error of the recorder.
    pub fn missed(&self, stderr: &str) -> u64 {
        let said = self.text(stderr);
        let missed = said.lines().find_map(|line| {
            let (_, missed) = line.strip_prefix("stopped: ")?.split_once("up to ")?;
            missed.split(' ').next()?.parse().ok()
        });
        missed.unwrap_or(0)
    }

    /// Like [`Self::query_output`], for another store.
    pub fn query_store_output(store: &Path, flags: &[&str]) -> Output {
        ask("query", store, flags)
    }
}

/// The program that the host asks: the guests' own, which is optimized, if `make` names it.
pub fn program() -> OsString {
    let named = std::env::var_os("TRACKIOPS_BIN").filter(|path| !path.is_empty());
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_trackiops").into())
}

/// The JSON answer of a command about a store.
fn ask(command: &str, store: &Path, flags: &[&str]) -> Output {
    Command::new(program())
        .args([command, "--format", "json", "--store"])
        .arg(store)
        .args(flags)
        .output()
        .expect("trackiops can be started")
}

fn rows_of(output: &Output) -> Vec<Answer> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    answers(&String::from_utf8_lossy(&output.stdout))
}

/// Where the guests' scripts are.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/scripts")
}

/// The default kernel of tests: 6.12, or the one in the environment.
pub fn kernel() -> String {
    std::env::var("TRACKIOPS_TEST_KERNEL").unwrap_or_else(|_| "6.12".to_owned())
}

/// The kernels of `cargo vm`.
pub const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "newest"];

/// Every kernel, or only the sample if time is short.
pub fn kernels(sample: &'static [&'static str]) -> &'static [&'static str] {
    if long() { &KERNELS } else { sample }
}

/// All pairs; if time is short, the first with the first and so on.
pub fn pairs<A: Copy, B: Copy>(left: &[A], right: &[B]) -> Vec<(A, B)> {
    let of = |&a: &A| right.iter().map(move |&b| (a, b));
    match long() {
        true => left.iter().flat_map(of).collect(),
        false => left.iter().copied().zip(right.iter().copied()).collect(),
    }
}

/// Whether there is time for everything: `make test-long`.
pub fn long() -> bool {
    std::env::var_os("TRACKIOPS_TEST_LONG").is_some()
}

/// Parses one JSON object per line.
pub fn lines<T: for<'l> Deserialize<'l>>(text: &str) -> Vec<T> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    text.lines().map(parse).collect()
}

/// Whether a row's mount is from this `server:/export`. The name may continue with details such as a port.
pub fn is_from(answer: &Answer, source: &str) -> bool {
    let name = answer["mount"].as_str();
    let more = name.and_then(|name| name.strip_prefix(source));
    more.is_some_and(|more| more.is_empty() || more.starts_with(','))
}

/// Like [`lines`], for answers. Identifiers of files become numbers again, as in the scripts' lists.
pub fn answers(text: &str) -> Vec<Answer> {
    let mut answers: Vec<Answer> = lines(text);
    for identifier in ["file_key", "fileid"] {
        for value in answers.iter_mut().filter_map(|a| a.get_mut(identifier)) {
            if let Some(number) = value.as_str().and_then(|text| text.parse().ok()) {
                *value = Value::Number(number);
            }
        }
    }
    answers
}

/// Reads and writes of each file in each window.
pub fn by_window(answers: &[Answer]) -> BTreeMap<String, [u64; 4]> {
    let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for answer in answers {
        let id = ["time", "mount", "fileid"].map(|column| answer[column].to_string());
        let sum = sums.entry(id.join(" ")).or_default();
        for (sum, column) in sum.iter_mut().zip(TRANSFERS) {
            *sum += answer[column].as_u64().expect("a count");
        }
    }
    sums
}

/// The rows of files in a store's Parquet files of the finest granularity, read like by other tools.
pub fn stored_rows<T: for<'l> Deserialize<'l>>(store: &Path, columns: &[&str]) -> Vec<T> {
    let python = std::env::var("TRACKIOPS_PYTHON").expect("make test-guests sets TRACKIOPS_PYTHON");
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/rows.py"))
        .arg(store)
        .args(columns)
        .output()
        .expect("python can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    lines(&String::from_utf8_lossy(&output.stdout))
}

/// The health rows of a store's finest granularity: counts, and `filter` if there was one.
pub fn stored_health(store: &Path) -> Vec<Answer> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("health.csv");
    let output = Command::new(program())
        .args(["export", "--dataset", "health", "--granularity", "1s"])
        .arg("--store")
        .arg(store)
        .arg("--output")
        .arg(&file)
        .output()
        .expect("trackiops can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(file).expect("an export");
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let row = |line: &str| {
        // Only the last columns may contain commas, and they are not counts.
        let counts = columns.iter().zip(line.split(','));
        let counts = counts.filter_map(|(name, value)| {
            Some(((*name).to_owned(), Value::from(value.parse::<u64>().ok()?)))
        });
        let filter = line.rsplit(',').next().filter(|text| !text.is_empty());
        let filter = filter.map(|text| ("filter".to_owned(), Value::from(text)));
        counts.chain(filter).collect()
    };
    lines.map(row).collect()
}

/// A number of an answer; null is 0.
pub fn number(answer: &Answer, key: &str) -> f64 {
    match answer.get(key) {
        Some(Value::Null) => 0.0,
        Some(value) => value
            .as_f64()
            .unwrap_or_else(|| panic!("{key} is no number: {value}")),
        None => panic!("no column {key}"),
    }
}

/// The sum of a column.
pub fn sum(answers: &[Answer], key: &str) -> u64 {
    answers.iter().map(|a| number(a, key) as u64).sum()
}
