//! A recorder whose system calls and allocations fail or kill it, one after the other, and which runs into limits of `ulimit`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use trackiops_store::{Writer, check};

use crate::kept::{self, Wrong};
use crate::mutants::panics;
use crate::recorder::{ACKNOWLEDGED_BYTES, FAILS_AT, Promised, of_time, windows};
use crate::scratch;
use trackiops_testkit::generated::Numbers;

const CALLS: &str = "openat,openat2,write,pwrite64,read,pread64,fsync,fdatasync,?rename,?renameat,renameat2,?unlink,unlinkat,\
                     ?mkdir,mkdirat,ftruncate,fallocate,flock,fstat,?newfstatat,statx,getdents64,close,getrandom,mmap";
const ERRORS: [&str; 5] = ["EIO", "ENOSPC", "EMFILE", "EINTR", "ENOMEM"];
/// A recorder that takes longer is killed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limits by their `ulimit` flags: blocks of 512 bytes, descriptors, KiB of address space.
const LIMITS: [(&str, &[u64]); 3] = [
    ("f", &[0, 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256]),
    (
        "n",
        &[4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 32],
    ),
    (
        "v",
        &[
            30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000,
        ],
    ),
];
const PRINTED: usize = 100;

#[derive(clap::Args)]
pub struct Args {
    /// At how many places of each call it fails with each error
    #[arg(long, default_value_t = 6)]
    places: u64,
    /// At how many places of each call it is killed
    #[arg(long, default_value_t = 40)]
    kills: u64,
    /// How many of its allocations fail
    #[arg(long, default_value_t = 1000)]
    allocations: u64,
    /// How often the calls are gone through: its threads are elsewhere each time
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// No more recorders than that, chosen from all
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    most: usize,
    /// Only this fault, once each round: what `strace --inject` takes
    #[arg(long)]
    inject: Option<String>,
    /// Another seed chooses other places
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many recorders there are at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// A fault of a recorder.
#[derive(Clone, Debug)]
enum Fault {
    /// `strace --inject`.
    Inject(String),
    /// `ulimit`.
    Limit(&'static str, u64),
    /// The allocation with this number fails.
    Allocation(u64),
}

#[derive(Default)]
struct Totals {
    /// By fault: number of recorders, of bad ends, of killed ones, and of acknowledged windows.
    counts: BTreeMap<String, [u64; 4]>,
    panics: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

fn recorder(dir: &Path, fault: Option<&Fault>) -> Result<Child> {
    fs::write(dir.join("acknowledged"), [0; ACKNOWLEDGED_BYTES])?;
    let own = std::env::current_exe()?;
    let mut command = match fault {
        Some(Fault::Limit(kind, limit)) => {
            let mut command = Command::new("sh");
            command.args([
                "-c",
                &format!("ulimit -c 0; ulimit -{kind} {limit}; exec \"$0\" \"$@\""),
            ]);
            command.arg(own);
            command
        }
        _ => Command::new(own),
    };
    if let Some(Fault::Allocation(number)) = fault {
        command.env(FAILS_AT, number.to_string());
    }
    command.arg("record").arg(dir).stdin(Stdio::piped());
    command
        .stdout(Stdio::null())
        .stderr(File::create(dir.join("stderr"))?);
    Ok(command.env("RUST_BACKTRACE", "0").spawn()?)
}

/// Attaches to a recorder that waits for a line.
fn attach(recorder: &Child, args: &[String]) -> Result<Child> {
    let mut strace = Command::new("strace")
        .args(["-f", "-p", &recorder.id().to_string()])
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("strace cannot be run")?;
    let mut said = BufReader::new(strace.stderr.take().context("it is piped")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    ensure!(line.contains("attached"), "strace says: {line}");
    // Drain it, so that it does not block.
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Ok(strace)
}

/// Lets a recorder begin, and waits for its end. Returns whether it was killed after the timeout.
fn wait(mut recorder: Child) -> Result<(ExitStatus, bool)> {
    let mut line = recorder.stdin.take().context("it is piped")?;
    // It may have ended already.
    let _ = line.write_all(b"\n");
    drop(line);
    let began = Instant::now();
    loop {
        if let Some(status) = recorder.try_wait()? {
            return Ok((status, false));
        }
        if began.elapsed() > PATIENCE {
            recorder.kill()?;
            return Ok((recorder.wait()?, true));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Number of memory allocations of an undisturbed recorder.
fn allocations() -> Result<u64> {
    let dir = scratch()?;
    let (status, _) = wait(recorder(dir.path(), Some(&Fault::Allocation(0)))?)?;
    ensure!(
        status.success(),
        "a recorder fails that nobody disturbs: {status}"
    );
    Ok(Promised::read(&dir.path().join("acknowledged"))?.allocations)
}

/// Number of calls by the thread that makes each call most often: strace counts calls by thread.
fn profile() -> Result<BTreeMap<String, u64>> {
    let dir = scratch()?;
    let log = dir.path().join("strace");
    let recorder = recorder(dir.path(), None)?;
    let args = [
        "-o",
        &log.display().to_string(),
        "-e",
        &format!("trace={CALLS}"),
    ];
    let mut strace = attach(&recorder, &args.map(str::to_owned))?;
    let (status, _) = wait(recorder)?;
    strace.wait()?;
    ensure!(
        status.success(),
        "a recorder fails that nobody disturbs: {status}"
    );
    let whole = judge(dir.path())?;
    ensure!(
        whole.is_empty(),
        "what nobody disturbed is wrong: {whole:?}"
    );
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in fs::read_to_string(log)?.lines() {
        let Some((thread, call)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let Some((call, _)) = call.trim_start().split_once('(') else {
            continue;
        };
        // The end of a call that another thread's call interrupted, or the end of the thread.
        if call.starts_with(['<', '+', '-']) {
            continue;
        }
        *counts
            .entry((thread.to_owned(), call.to_owned()))
            .or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in counts {
        let known: &mut u64 = most.entry(call).or_default();
        *known = count.max(*known);
    }
    Ok(most)
}

/// Up to `most` numbers from 1 to `last`.
fn some(numbers: &mut Numbers, last: u64, most: u64) -> BTreeSet<u64> {
    if last <= most {
        return (1..=last).collect();
    }
    let mut chosen = BTreeSet::new();
    while (chosen.len() as u64) < most {
        chosen.insert(1 + numbers.below(last));
    }
    chosen
}

/// All faults, in order.
fn faults(calls: &BTreeMap<String, u64>, allocations: u64, args: &Args) -> Vec<(String, Fault)> {
    if let Some(inject) = &args.inject {
        let fault = ("injected".to_owned(), Fault::Inject(inject.clone()));
        return vec![fault; usize::try_from(args.rounds).unwrap_or(usize::MAX)];
    }
    let mut numbers = Numbers(args.seed);
    let mut faults = Vec::new();
    for (call, last) in (0..args.rounds).flat_map(|_| calls) {
        for at in some(&mut numbers, *last, args.kills) {
            let inject = Fault::Inject(format!("{call}:signal=KILL:when={at}"));
            faults.push(("killed".to_owned(), inject));
        }
        for error in ERRORS {
            for at in some(&mut numbers, *last, args.places) {
                let once = format!("{call}:error={error}:when={at}");
                faults.push((format!("{error} once"), Fault::Inject(once)));
                // An interrupted call is retried, possibly forever.
                let last = if error == "EINTR" {
                    format!("..{}", at + 20)
                } else {
                    "+".into()
                };
                let for_good = format!("{call}:error={error}:when={at}{last}");
                let name = if error == "EINTR" {
                    "21 times"
                } else {
                    "for good"
                };
                faults.push((format!("{error} {name}"), Fault::Inject(for_good)));
            }
        }
    }
    for number in some(&mut numbers, allocations, args.allocations) {
        faults.push((
            "ENOMEM of an allocation".to_owned(),
            Fault::Allocation(number),
        ));
    }
    for (kind, limits) in LIMITS {
        let step = if args.places > 1 { 1 } else { 4 };
        for limit in limits.iter().step_by(step) {
            faults.push((format!("ulimit -{kind}"), Fault::Limit(kind, *limit)));
        }
    }
    faults
}

/// The errors in a recorder's store, before and after the next recorder.
fn judge(dir: &Path) -> Result<Vec<String>> {
    let store = dir.join("store");
    let said = Promised::read(&dir.join("acknowledged"))?;
    let all = windows();
    let acknowledged = usize::try_from(said.windows)?;
    // One more window may have become durable.
    let counts = acknowledged..=(acknowledged + 1).min(all.len());
    let mut wrong = Vec::new();
    let content = |when: &str| {
        let found = kept::windows(&store, &all, counts.clone());
        found.err().map(|why| format!("{when}: {why}"))
    };
    if store.join("catalog.db").exists() || acknowledged > 0 {
        wrong.extend(content("at once"));
    }
    let next = Writer::open(&store, of_time(acknowledged)).and_then(|writer| {
        let requests = writer.requests(64 << 20, |_| {})?;
        requests.finish()?;
        writer.finish()
    });
    if let Err(error) = next {
        wrong.push(format!("the next recorder fails: {error}"));
        return Ok(wrong);
    }
    wrong.extend(content("after the next recorder"));
    let requests = kept::requests(&store, &all, said.requests)?;
    wrong.extend(requests.iter().map(Wrong::to_string));
    let findings = check(&store)?.findings;
    wrong.extend(
        findings
            .into_iter()
            .map(|found| format!("check finds {}: {}", found.path.display(), found.why)),
    );
    Ok(wrong)
}

/// Runs a recorder with one fault.
fn run(what: &str, fault: &Fault, totals: &Mutex<Totals>) -> Result<()> {
    let dir = scratch()?;
    let recorder = recorder(dir.path(), Some(fault))?;
    let strace = match fault {
        Fault::Inject(inject) => {
            let call = inject.split(':').next().unwrap_or_default();
            let args = [
                "-o".to_owned(),
                "/dev/null".to_owned(),
                format!("--trace={call}"),
                format!("--inject={inject}"),
            ];
            Some(attach(&recorder, &args)?)
        }
        Fault::Limit(..) | Fault::Allocation(_) => None,
    };
    let (status, was_killed) = wait(recorder)?;
    if let Some(mut strace) = strace {
        strace.wait()?;
    }
    let acknowledged = Promised::read(&dir.path().join("acknowledged"))?.windows;
    let wrong = judge(dir.path()).unwrap_or_else(|error| vec![format!("{error:#}")]);
    let said = fs::read_to_string(dir.path().join("stderr")).unwrap_or_default();
    let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = totals.counts.entry(what.to_owned()).or_default();
    counts[0] += 1;
    counts[1] += u64::from(!status.success());
    counts[2] += u64::from(was_killed);
    counts[3] += acknowledged;
    let panics = said
        .lines()
        .filter_map(|line| line.split_once("panicked at "));
    for (_, place) in panics {
        // Without the directory in which this machine keeps crates.
        let in_crate = place
            .split_once("/registry/src/")
            .and_then(|(_, crates)| crates.split_once('/'));
        let place = in_crate.map_or(place, |(_, place)| place);
        *totals.panics.entry(place.to_owned()).or_default() += 1;
    }
    totals
        .wrong
        .extend(wrong.into_iter().map(|wrong| format!("{fault:?}: {wrong}")));
    Ok(())
}

/// Fails and kills recorders, and prints the results.
pub fn calls(args: &Args) -> Result<()> {
    let began = Instant::now();
    let calls = profile()?;
    let allocations = allocations()?;
    let mut faults = faults(&calls, allocations, args);
    let mut numbers = Numbers(args.seed);
    while faults.len() > args.most {
        faults.swap_remove(numbers.below(faults.len() as u64) as usize);
    }
    let (next, totals) = (AtomicUsize::new(0), Mutex::new(Totals::default()));
    let work = || -> Result<()> {
        while let Some((what, fault)) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(what, fault, &totals).with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..args.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(_) => bail!("a thread panicked: {:?}", panics()),
            }
        }
        Ok(())
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.wrong.extend(
        panics()
            .into_iter()
            .map(|panic| format!("the next recorder: {panic}")),
    );
    print(&totals, &calls, allocations, args.seed, began.elapsed());
    ensure!(totals.wrong.is_empty(), "{} failures", totals.wrong.len());
    Ok(())
}

fn print(
    totals: &Totals,
    calls: &BTreeMap<String, u64>,
    allocations: u64,
    seed: u64,
    took: Duration,
) {
    let runs: u64 = totals.counts.values().map(|counts| counts[0]).sum();
    println!(
        "{runs} recorders from seed {seed} in {} s, {} system calls with {} errors each; {} failures\n",
        took.as_secs(),
        calls.len(),
        ERRORS.len(),
        totals.wrong.len()
    );
    println!(
        "| fault | recorders | did not end well | ended after {PATIENCE:?} | windows acknowledged |"
    );
    println!("|---|--:|--:|--:|--:|");
    for (what, counts) in &totals.counts {
        println!(
            "| {what} | {} |",
            counts.map(|count| count.to_string()).join(" | ")
        );
    }
    let calls: Vec<_> = calls
        .iter()
        .map(|(call, most)| format!("{call} {most}"))
        .collect();
    println!(
        "\nCalls, and how many of each one thread makes: {}. Allocations: {allocations}.",
        calls.join(", ")
    );
    if !totals.panics.is_empty() {
        println!("\nPanics of the recorder, after which nothing acknowledged was missing:\n");
    }
    for (place, count) in &totals.panics {
        println!("    {count} at {place}");
    }
    if !totals.wrong.is_empty() {
        println!("\nFailures:\n");
    }
    for wrong in totals.wrong.iter().take(PRINTED) {
        println!("    {wrong}");
    }
}
