//! The page of `trackiops serve` in a browser: `make browser`. `browser/check.mjs` drives the browser.

use std::env;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trackiops_query::times::rfc3339;
use trackiops_schemas::ops::{Operation, OperationRow};
use trackiops_schemas::row::{ClosedWindow, Direction, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{Numbers, THREE, operation_sums, windows};
use trackiops_testkit::incidents::planted::{PLANTED, Planted};
use trackiops_testkit::recording::Recording;
use trackiops_testkit::stores::{copy, options_of, record};
use trackiops_testkit::windows::{connection, file, named, used_by, window};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// User of the program if the test runs as root.
const NOBODY: u32 = 65_534;
const SECOND: i64 = 1000;
/// Windows of the recording so far, with a gap in their middle.
const BEFORE: i64 = 420;
const GAP: std::ops::Range<i64> = 200..230;

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests whose latencies are spread over two octaves, and a few slow ones.
fn direction(numbers: &mut Numbers, requests: u64, usual_us: u64) -> Direction {
    let mut direction = Direction::default();
    for _ in 0..requests {
        let slow = if numbers.below(60) == 0 { 20 } else { 1 };
        let queue_ns = 1000 * (1 + numbers.below(40));
        let rtt_ns = 1000 * slow * (usual_us + numbers.below(3 * usual_us));
        let latency_ns = queue_ns + rtt_ns + 9000;
        direction.requests += 1;
        direction.bytes += 65_536;
        direction.latency.record(latency_ns);
        direction.latency_ns_sum += latency_ns;
        direction.latency_ns_max = direction.latency_ns_max.max(latency_ns);
        direction.queue_ns_sum += queue_ns;
        direction.rtt_ns_sum += rtt_ns;
    }
    direction
}

/// A window of four files and two users. One file is renamed, one is idle at times, and one becomes slower.
fn of_time(start_ms: i64, i: i64) -> ClosedWindow {
    let mut numbers = Numbers(i.cast_unsigned());
    let orders = if i < BEFORE / 2 {
        "/mnt/nfs/db/orders.new"
    } else {
        "/mnt/nfs/db/orders.db"
    };
    let files = [
        (file(2, 49, Some(orders)), "1000:/user.slice", 40, 300),
        (
            file(4, 49, Some("/mnt/nfs/logs/app log's.txt")),
            "0:/system.slice",
            12,
            900,
        ),
        (
            file(6, 49, Some("/mnt/nfs/scratch/<b>bold[\u{202e}.tmp")),
            "1000:/user.slice",
            6,
            100,
        ),
        (
            file(8, 49, None),
            "0:/system.slice",
            3,
            200 + i.cast_unsigned() * 4,
        ),
    ];
    let rows = files
        .into_iter()
        .enumerate()
        .filter(|(n, _)| *n != 2 || i / 30 % 2 == 0);
    let rows = rows.map(|(_, (file, tenant, requests, usual_us))| {
        let row = Row {
            read: direction(&mut numbers, requests, usual_us),
            write: direction(&mut numbers, requests / 3, 2 * usual_us),
            ..Row::default()
        };
        (named(&used_by(&file, tenant), "somebody"), row)
    });
    let mut window = window(start_ms, rows.collect());
    for op in ["ACCESS", "COMMIT", "GETATTR", "READ"] {
        let sums = operation_sums(&mut numbers, 5, 90_050);
        if sums.requests > 0 {
            window.health.ops_seen += sums.requests;
            let operation = Operation {
                mount: Some("srv:/export".into()),
                op: op.into(),
                transport: Some("tcp-1".into()),
            };
            window.ops.push(OperationRow { operation, sums });
        }
    }
    window.ops.push(connection("tcp-1", 300, 0, 100));
    window.ops.push(connection("tcp-2", 41_000, 1, 100));
    window.health.ops_covered_ms = window.health.covered_ms;
    window
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// A copy of the program in a directory that all users may enter.
fn program_in(dir: &Path) -> PathBuf {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    let program = dir.join("trackiops");
    fs::copy(env!("CARGO_BIN_EXE_trackiops"), &program).unwrap();
    program
}

/// `trackiops serve` as a user other than root, and the address that it prints.
fn serve(store: &Path, socket: &Path, program: &Path) -> (Running, String) {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]);
    command.arg(store).arg("--socket").arg(socket);
    command.env("TZ", "UTC0").stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(rustix::process::getegid().as_raw());
    }
    let mut child = command.spawn().unwrap();
    let said = child.stderr.take().unwrap();
    let running = Running(child);
    (running, printed_address(said).unwrap())
}

/// The address that `trackiops serve` prints.
fn printed_address(said: impl Read + Send + 'static) -> Option<String> {
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let address = lines.find_map(|line| Some(line.strip_prefix("serving at ")?.to_owned()));
    // Keep reading, so that later output does not block.
    thread::spawn(move || lines.for_each(|line| eprintln!("serve: {line}")));
    address
}

/// A script of `browser/` with this address and store.
fn browser_script(name: &str, address: &str, program: &Path, store: &Path) -> Command {
    let mut command = Command::new("node");
    command
        .arg(Path::new(ROOT).join("tests/browser").join(name))
        .env("ADDRESS", address)
        .env("TRACKIOPS", program)
        .env("STORE", store)
        .env("TZ", "UTC0");
    command
}

/// The browser checks; `known` names the known content of the store.
fn checks(address: &str, program: &Path, store: &Path, known: &str) -> Command {
    let mut command = browser_script("check.mjs", address, program, store);
    command.env("KNOWN", known);
    command
}

#[test]
#[ignore = "needs Node and Chromium: `make browser`"]
fn a_browser_shows_what_the_command_answers() {
    let recording = Recording::begin();
    let begin = (now_ms() - BEFORE * SECOND) / SECOND * SECOND;
    let past: Vec<_> = (0..BEFORE - 5)
        .filter(|i| !GAP.contains(i))
        .map(|i| of_time(begin + i * SECOND, i))
        .collect();
    recording.put(&past);
    let program = program_in(recording.dir());
    let (_serve, address) = serve(&recording.store(), &recording.socket(), &program);
    let ended = AtomicBool::new(false);
    let status = thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = BEFORE - 5;
            while !ended.load(Ordering::Relaxed) {
                // Like a recorder: soon after the window's end.
                while begin + (next + 1) * SECOND <= now_ms() {
                    recording.close(&of_time(begin + next * SECOND, next));
                    next += 1;
                }
                sleep(Duration::from_millis(50));
            }
        });
        let status = checks(&address, &program, &recording.store(), "all")
            .env("SINCE", rfc3339(UtcMs(begin + 20 * SECOND)))
            .env("UNTIL", rfc3339(UtcMs(begin + 320 * SECOND)))
            .status();
        ended.store(true, Ordering::Relaxed);
        status
    });
    assert!(status.expect("cannot run node").success());
}

/// Checks the page over a store of unknown content.
fn is_shown(store: &Path, dir: &Path) {
    let program = program_in(dir);
    let (_serve, address) = serve(store, &dir.join("no-recorder"), &program);
    let status = checks(&address, &program, store, "nothing").status();
    assert!(
        status.expect("cannot run node").success(),
        "{}",
        store.display()
    );
}

#[test]
#[ignore = "needs Node and Chromium: `make browser`"]
fn a_browser_shows_a_day_of_100_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let day = windows(1, THREE, 60_000, 24 * 60, 100);
    record(&store, options_of("a", "1m,1h", "24h"), &day);
    is_shown(&store, dir.path());
}

/// `ONLY` is a part of names of incidents. Writes the pictures of the documentation if `TRACKIOPS_WRITE_DOCS` is set.
#[test]
#[ignore = "needs Node and Chromium: `make browser`"]
fn a_browser_leads_to_culprit_and_victim_without_a_click() {
    let only = env::var("ONLY").unwrap_or_default();
    let failed: Vec<_> = PLANTED
        .iter()
        .filter(|of| of.name.contains(&only) && !is_shown_in_full(of))
        .map(|of| of.name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Whether the page shows cause, culprit and victim of a planted incident.
fn is_shown_in_full(of: &Planted) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    record(
        &store,
        options_of("web-1", "1s,10s,1m", "1h"),
        &(of.windows)(),
    );
    let program = program_in(dir.path());
    let (_serve, address) = serve(&store, &dir.path().join("no-recorder"), &program);
    let mut command = browser_script("incident.mjs", &address, &program, &store);
    command
        .env("CAUSE", of.cause)
        .env("CULPRIT", of.culprit)
        .env("VICTIM", of.victim)
        .env("SLOW", if of.is_slow() { "1" } else { "" })
        .env("TRANSFERS", if of.transfers { "1" } else { "" });
    if of.name == PLANTED[0].name {
        command.env("EVERY", "1");
        if env::var_os("TRACKIOPS_WRITE_DOCS").is_some() {
            command.env("PICTURES", Path::new(ROOT).join("docs/guide/pictures"));
        }
    }
    println!("{}:", of.name);
    command.status().expect("cannot run node").success()
}

/// Needs the recording of `make demo-nfs` in a guest. Without it, `make browser` skips this and says so.
#[test]
#[ignore = "needs Node and Chromium, and what `make demo-nfs` records: `make browser`"]
fn a_browser_shows_what_the_demo_recorded() {
    let recorded = Path::new(ROOT).join("demo/out/store");
    assert!(
        recorded.exists(),
        "there is no demo/out/store; `make demo-nfs` records one"
    );
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    copy(&recorded, &store);
    is_shown(&store, dir.path());
}

/// Two ports of this machine that were free at the time of the call.
fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A guest that records, serves the recording at `port`, and answers at `answers`; and the address that `serve` prints there.
fn guest(port: u16, answers: u16) -> (Running, String) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(ROOT).args(["vm", "run"]);
    for port in [port, answers] {
        command.arg("--forward").arg(format!("{port}:{port}"));
    }
    command
        .args(["--timeout", "1800"])
        .args(["--add", "tests/guest/scripts/lib.sh"])
        .args(["--add", "tests/browser/answer.py"])
        .arg("tests/browser/recording.sh")
        .args([port, answers].map(|port| port.to_string()))
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("cargo vm can be started");
    let said = child.stdout.take().unwrap();
    let running = Running(child);
    let address = printed_address(said);
    (running, address.expect("the guest ended by itself"))
}

#[test]
#[ignore = "boots a guest, needs Node and Chromium: `make browser`"]
fn a_browser_shows_a_recorder_that_runs_in_a_guest() {
    let [port, answers] = free_ports();
    let (_guest, address) = guest(port, answers);
    let program = Path::new(ROOT).join("tests/browser/in_guest.mjs");
    let store = Path::new("/var/tmp/store");
    let status = checks(&address, &program, store, "files")
        .env("REACHED", "127.0.0.1")
        .env("ANSWERS", format!("http://127.0.0.1:{answers}"))
        .status();
    assert!(status.expect("cannot run node").success());
}
