//! Levels of local file systems, on this host: a recorder beside a loop device. If BPF or loop devices are not permitted, the test says so
//! and skips itself.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Map, Value};

mod calls;
mod check;

/// The system's own Python, whose functions the test traces.
const PYTHON: &str = "/usr/bin/python3";
/// Recursion depth of a Python function.
const DEPTH: usize = 40;

/// A mark of this program, like `DTRACE_PROBE(job, NAME)` of `sys/sdt.h`.
macro_rules! mark {
    ($name:literal) => {
        // SAFETY: the instruction does nothing; the rest records its address.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", \"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, 0, 0",
                concat!(".asciz \"job\"\n.asciz \"", $name, "\"\n.asciz \"\""),
                "994: .balign 4",
                ".popsection",
            );
        }
    };
}

/// A file system on a loop device; unmounted and detached on drop.
struct Loop {
    device: String,
    directory: tempfile::TempDir,
}

/// Runs a command. Returns its output, or why it failed.
fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

impl Loop {
    fn new(kind: &str, make: &[&str]) -> Result<Self, String> {
        run("fio", &["--version"])?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (image, mount) = (at("image"), at("mount"));
        run("truncate", &["-s", "400M", &image])?;
        run(&format!("mkfs.{kind}"), &[&["-q", &image], make].concat())?;
        let device = run("losetup", &["--find", "--show", &image])?;
        let this = Self { device, directory };
        fs::create_dir(&mount).map_err(|error| error.to_string())?;
        let mut mounted = vec!["-t", kind, &this.device, &mount];
        if kind == "ext4" {
            // Otherwise a kernel thread reads block bitmaps.
            mounted.extend(["-o", "no_prefetch_block_bitmaps"]);
        }
        run("mount", &mounted)?;
        Ok(this)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn stat(&self) -> String {
        let name = self.device.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap()
    }

    /// Reads the statistics once they no longer change.
    fn quiet_stat(&self) -> String {
        run("sync", &[]).unwrap();
        let mut last = String::new();
        for _ in 0..30 {
            let now = self.stat();
            if now == last {
                return now;
            }
            last = now;
            sleep(Duration::from_millis(1500));
        }
        panic!("{} is never quiet: {last}", self.device);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("umount", &[self.path("mount").to_str().unwrap()]);
        let _ = run("losetup", &["--detach", &self.device]);
    }
}

fn trackiops(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(arguments);
    command
}

/// A running `trackiops record` of the block level; killed on drop.
struct Recorder {
    child: Child,
    /// A file, because nothing reads a pipe meanwhile.
    said: PathBuf,
}

impl Recorder {
    /// Starts to record a level, or returns why that is not permitted here.
    fn start(local: &Loop, level: &str, flags: &[&str]) -> Result<Self, String> {
        let doctor = trackiops(&["doctor", "--json"]).output().unwrap();
        let facts: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let planned = &facts["levels"][level];
        if planned["ok"] != true {
            return Err(planned["state"].to_string());
        }
        let [store, ready, said] = ["store", "ready", "said"].map(|name| local.path(name));
        let mut command = trackiops(&["record", "--levels", level, "--no-live", "--store"]);
        let command = command.arg(store).arg("--ready-file").arg(&ready);
        let command = command.args(flags);
        let child = command.stderr(File::create(&said).unwrap()).spawn();
        let mut this = Self {
            child: child.unwrap(),
            said,
        };
        for _ in 0..1200 {
            if ready.exists() {
                return Ok(this);
            }
            let ended = this.child.try_wait().unwrap();
            assert!(ended.is_none(), "where it is possible: {}", this.said());
            sleep(Duration::from_millis(50));
        }
        panic!("the recorder is not ready: {}", this.said());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    fn stop(mut self) -> String {
        run("kill", &["-INT", &self.child.id().to_string()]).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", self.said());
        self.said()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer of a command about the store.
fn answer(local: &Loop, words: &str) -> Vec<Map<String, Value>> {
    let store = local.path("store");
    let words: Vec<_> = words.split(' ').collect();
    let mut command = trackiops(&words);
    let command = command.arg("--store").arg(store).arg("--json");
    let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let lines = answer.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn script(name: &str) -> String {
    format!("{}/tests/guest/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Prints the reason if the test cannot run.
fn requests_equal_statistics(kind: &str, make: &[&str]) {
    let prepared = Loop::new(kind, make).and_then(|local| {
        let before = local.quiet_stat();
        let recorder = Recorder::start(&local, "block", &["--requests"])?;
        Ok((recorder, local, before))
    });
    // The recorder drops first, so that the device is free.
    let (recorder, local, before) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            println!("SKIPPED: the block level of {kind} cannot be tested on this host: {why}");
            return;
        }
    };
    assert_eq!(local.stat(), before, "nothing happened meanwhile");
    let mount = local.path("mount");
    let listed = run("bash", &[&script("block_io.sh"), mount.to_str().unwrap()]).unwrap();
    let after = local.quiet_stat();
    let said = recorder.stop();
    println!("{said}");
    assert!(said.contains(" 0 lost"), "{said}");

    let rows = answer(&local, "query --step all");
    let requests = answer(&local, "requests --top 1000000");
    check::check(
        &rows,
        &requests,
        &local.device,
        (&before, &after),
        &listed,
        true,
    );
}

#[test]
#[ignore = "make test-levels: needs root, BPF and loop devices"]
fn requests_of_ext4_equal_the_statistics_of_its_device() {
    // Otherwise the kernel continues mkfs in the background after the mount.
    let at_once = "lazy_itable_init=0,lazy_journal_init=0";
    requests_equal_statistics("ext4", &["-F", "-E", at_once]);
}

#[test]
#[ignore = "make test-levels: needs root, BPF and loop devices"]
fn requests_of_xfs_equal_the_statistics_of_its_device() {
    requests_equal_statistics("xfs", &["-f"]);
}

#[test]
#[ignore = "make test-levels: needs root, BPF and loop devices"]
fn requests_of_btrfs_equal_the_statistics_of_its_device() {
    requests_equal_statistics("btrfs", &["-f"]);
}

#[test]
#[ignore = "make test-levels: needs root, BPF and loop devices"]
fn calls_for_local_files_are_those_that_applications_made() {
    let prepared = Loop::new("ext4", &["-F"]).and_then(|local| {
        let library = run(
            "sh",
            &[
                "-c",
                "ldd /usr/bin/python3 | grep -o '/[^ ]*/libc[.]so[.]6'",
            ],
        )?;
        let recursive = format!("{PYTHON}:PyEval_EvalCode");
        let own = std::env::current_exe().unwrap();
        let of = |name: &str| format!("{}:{name}", own.display());
        let (function, span, mark) = (
            format!("{library}:fsync"),
            of("job:begin-end"),
            of("job:end"),
        );
        let flags = [
            "--requests",
            "--user",
            &recursive,
            "--user",
            &function,
            "--user",
            &span,
            "--user",
            &mark,
        ];
        let recorder = Recorder::start(&local, "app", &flags)?;
        Ok((recorder, local))
    });
    let (recorder, local) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            println!("SKIPPED: calls cannot be tested on this host: {why}");
            return;
        }
    };
    let mount = local.path("mount");
    let mount = mount.to_str().unwrap();
    let listed = run("python3", &["-B", &script("local_calls.py"), mount]).unwrap();
    for _ in 0..5 {
        mark!("begin");
        sleep(Duration::from_millis(3));
        mark!("end");
    }
    for (engine, name) in [("libaio", "aio"), ("io_uring", "ring")] {
        let words = format!(
            "--name={name} --ioengine={engine} --directory={mount} --rw=write --bs=4k --size=1m --iodepth=16 --direct=1 \
             --fallocate=none --output=/dev/null"
        );
        run("fio", &words.split(' ').collect::<Vec<_>>()).unwrap();
    }
    // A recursive function, which also evaluates the program.
    let nested = format!(
        "call = lambda n: n and eval(f'call({{n - 1}})')\ncall({})",
        DEPTH - 1
    );
    run(PYTHON, &["-S", "-c", &nested]).unwrap();
    let said = recorder.stop();
    println!("{said}");
    let rows = answer(&local, "query --step all");
    let single = answer(&local, "requests --level app --top 1000000");
    calls::check(&rows, &single, &listed, 0, 0);
    let spans = answer(&local, "requests --level user --top 1000000");
    calls::check_functions(&single, &spans);
    let of = |name: &'static str| {
        let own = spans.iter();
        own.filter(move |span| {
            span["path"]
                .as_str()
                .is_some_and(|path| path.ends_with(name))
        })
    };
    let calls_within = |outer| {
        of(":PyEval_EvalCode")
            .filter(|inner| calls::is_inside(outer, inner))
            .count()
    };
    let deepest = of(":PyEval_EvalCode").map(calls_within).max();
    assert_eq!(deepest, Some(DEPTH), "each call of it, with its own begin");
    let took: Vec<_> = of(":job:begin-end")
        .map(|span| span["latency_ns"].as_u64().unwrap())
        .collect();
    assert!(
        took.len() == 5 && took.iter().all(|ns| *ns >= 3_000_000),
        "{took:?}"
    );
    assert_eq!(
        of(":job:end")
            .filter(|span| span["latency_ns"].is_null())
            .count(),
        5
    );
    let places = |op: &str| {
        let path = format!("{mount}/plain");
        let own = single.iter().filter(|call| call["path"] == path.as_str());
        let own = own.filter(|call| call["op"] == op);
        let mut all: Vec<_> = own.map(|call| call["offset_bytes"].as_u64()).collect();
        all.sort_unstable();
        all
    };
    let written: Vec<_> = (0..300).map(|at| Some(at * 4096)).collect();
    assert_eq!(places("write"), written);
    let read = (0..19).map(|at| Some((at * 70_000).min(300 * 4096)));
    let mut read: Vec<_> = read.chain([Some(10_000_000)]).collect();
    read.sort_unstable();
    let known = places("read").into_iter().filter(Option::is_some);
    assert_eq!(known.collect::<Vec<_>>(), read);
    let took = single.iter().filter(|call| call["latency_ns"].is_null());
    assert_eq!(took.count(), 0, "calls are timed");
    for name in ["aio", "ring"] {
        let path = format!("{mount}/{name}.0.0");
        calls::check_queued(&single, &path, 256);
        let row = rows.iter().find(|row| row["path"] == path.as_str());
        let row = row.unwrap_or_else(|| panic!("{path}"));
        let [calls, bytes] =
            ["calls", "bytes"].map(|what| &row[&format!("app_write_direct_{what}")]);
        assert_eq!((calls, bytes), (&256.into(), &(1 << 20).into()), "{row:?}");
    }
    let plain = rows
        .iter()
        .find(|row| row["path"] == format!("{mount}/plain"));
    let plain = plain.unwrap();
    assert_eq!(
        plain["app_write_timed"], plain["app_write_calls"],
        "{plain:?}"
    );
    assert_eq!(plain["level"], "block");
}
