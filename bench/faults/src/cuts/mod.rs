//! Power cuts: a recorder writes to a disk that logs writes. Then the store is checked as if the power had failed after any entry of the
//! log.

mod disk;
mod log;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{Finding, Writer, check};

use crate::kept::{self, Kind, Wrong};
use crate::mutants::{note_panics, panics};
use crate::recorder::{Pace, Promised, Said, WINDOWS, of_time, record};
use crate::states::{batch, recorded};
use disk::{Logged, Loop, Mounted};
use log::{Cut, Disk, Log};
use trackiops_testkit::generated::{Numbers, THREE};

/// Number of windows that the next recorder appends.
const MORE: usize = 2;
/// The log must fit on a disk of this size.
const LOG_BYTES: u64 = 1 << 30;
const PRINTED: usize = 100;

/// A file system, and how to make and mount it.
struct FileSystem {
    name: &'static str,
    /// mkfs.xfs does not make smaller ones than 300 MiB.
    bytes: u64,
    mkfs: &'static [&'static str],
    options: &'static str,
    /// Unit at which writes are torn, bytes.
    sector: u64,
}

const FILE_SYSTEMS: [FileSystem; 2] = [
    FileSystem {
        name: "ext4",
        bytes: 64 << 20,
        // The same block size as on larger disks.
        mkfs: &[
            "-q",
            "-F",
            "-b",
            "4096",
            "-E",
            "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
        ],
        // By default, ext4 repairs files that are renamed without a sync.
        options: "noauto_da_alloc",
        sector: log::SECTOR_BYTES,
    },
    FileSystem {
        name: "xfs",
        bytes: 320 << 20,
        mkfs: &["-q", "-f", "-K"],
        // Several copies of it are mounted at once.
        options: "nouuid",
        // A write torn within its blocks of 4096 bytes may prevent mounting xfs itself.
        sector: 4096,
    },
];

/// What is done.
#[derive(Clone, clap::Args)]
pub struct Args {
    /// How many power cuts, over all file systems
    #[arg(long, default_value_t = 1000)]
    cuts: usize,
    /// Another seed cuts at other places
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many cuts are looked at at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Where disks and logs are; in memory is quicker
    #[arg(long)]
    dir: PathBuf,
    /// Record alone: the disks and the logs stay
    #[arg(long, conflicts_with = "replay")]
    record: bool,
    /// Record nothing: cut what is in the directory
    #[arg(long)]
    replay: bool,
    /// This file system alone
    #[arg(long)]
    file_system: Option<String>,
}

/// All windows.
fn windows() -> Vec<ClosedWindow> {
    recorded(7, THREE, (WINDOWS + 1 + MORE) as i64)
}

/// Results of the cuts of a file system.
#[derive(Default)]
struct Totals {
    entries: usize,
    cuts: u64,
    /// Number of cuts that lost some unflushed writes.
    partial: u64,
    windows: u64,
    requests: u64,
    /// Number of stores in which `check` found the torn end of a journal.
    torn: u64,
    /// Number of cuts by error.
    kinds: BTreeMap<Kind, u64>,
    wrong: Vec<String>,
}

/// Records, makes cuts, and prints the results.
pub fn cuts(args: &Args) -> Result<()> {
    let began = Instant::now();
    disk::own_mounts()?;
    let chosen = |system: &&FileSystem| {
        let only = args.file_system.as_deref();
        only.is_none_or(|only| only == system.name)
    };
    let systems: Vec<_> = FILE_SYSTEMS.iter().filter(chosen).collect();
    ensure!(!systems.is_empty(), "file systems are ext4 and xfs");
    if !args.replay {
        for system in &systems {
            write(system, &args.dir).with_context(|| format!("recording on {}", system.name))?;
        }
    }
    if args.record {
        return Ok(());
    }
    if !args.replay {
        boot_again(&args.dir)?;
    }
    note_panics();
    let mut all = Vec::new();
    for (place, system) in systems.iter().enumerate() {
        // The first one takes the remainder.
        let count = (args.cuts + systems.len() - 1 - place) / systems.len();
        let totals = replay(system, count, args).with_context(|| system.name.to_owned())?;
        all.push((system.name, totals));
    }
    print(&all, args.seed, began.elapsed());
    let wrong: usize = all.iter().map(|(_, totals)| totals.wrong.len()).sum();
    ensure!(wrong == 0, "{wrong} failures");
    Ok(())
}

/// Makes the kernel report another boot id than in the recording, as after a power cut.
fn boot_again(dir: &Path) -> Result<()> {
    let id = dir.join("boot_id");
    fs::write(&id, "00000000-0000-4000-8000-000000000000\n")?;
    let mounted = Command::new("mount")
        .arg("--bind")
        .arg(&id)
        .arg("/proc/sys/kernel/random/boot_id")
        .status()
        .context("cannot run mount")?;
    ensure!(mounted.success(), "mount fails: {mounted}");
    Ok(())
}

/// A file of these many zeros.
fn zeros(path: &Path, bytes: u64) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    file.set_len(bytes)?;
    Ok(file)
}

/// Records onto a file system and logs its writes. Stores the log, and the disk before the recording, in the directory.
fn write(system: &FileSystem, dir: &Path) -> Result<()> {
    let [before, log, disk, mount] =
        ["before", "log", "disk", "mount"].map(|what| dir.join(format!("{}.{what}", system.name)));
    zeros(&before, system.bytes)?;
    let made = Command::new(format!("mkfs.{}", system.name))
        .args(system.mkfs)
        .arg(&before)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run mkfs")?;
    ensure!(made.success(), "mkfs fails: {made}");
    fs::copy(&before, &disk)?;
    let log = zeros(&log, LOG_BYTES)?;
    let to = Loop::new(&OpenOptions::new().read(true).write(true).open(&disk)?)?;
    let log = Loop::new(&log)?;
    let logged = Logged::new("trackiops-cuts", system.bytes, &to.path, &log.path)?;
    fs::create_dir_all(&mount)?;
    let mounted = Mounted::new(&logged.path, &mount, system.name, system.options)?;
    let mut acknowledged = 0_u64;
    let windows = windows();
    let done = record(
        &mount.join("store"),
        &windows[..WINDOWS],
        Pace::Waiting,
        &mut |said| match said {
            Said::Windows(count) => logged.mark(&format!("windows={count}")),
            Said::Requests(place) => {
                acknowledged |= 1 << place;
                Ok(())
            }
            Said::Durable => logged.mark(&format!("requests={acknowledged}")),
        },
    );
    mounted.unmount()?;
    logged.remove()?;
    fs::remove_file(disk)?;
    done?;
    ensure!(
        acknowledged == (1 << WINDOWS) - 1,
        "single requests were refused"
    );
    Ok(())
}

/// The promises before each entry of a log, and after the last one.
fn promises(log: &Log) -> Result<Vec<Promised>> {
    let mut promised = Promised::default();
    let mut all = vec![promised];
    for entry in &log.entries {
        match entry.mark.as_deref().and_then(|mark| mark.split_once('=')) {
            Some(("windows", count)) => promised.windows = count.parse()?,
            Some(("requests", bits)) => promised.requests = bits.parse()?,
            _ => {}
        }
        all.push(promised);
    }
    ensure!(
        promised.windows == WINDOWS as u64,
        "the log lacks what was acknowledged"
    );
    Ok(all)
}

/// Makes cuts of a recording.
fn replay(system: &FileSystem, count: usize, args: &Args) -> Result<Totals> {
    let path = |what: &str| args.dir.join(format!("{}.{what}", system.name));
    let log = Log::read(File::open(path("log"))?)?;
    let before = File::open(path("before"))?;
    let promised = promises(&log)?;
    let mut numbers = Numbers(args.seed);
    let cuts = log::cuts(&log, count, &mut numbers);
    let jobs = args.jobs.max(1);
    let windows = windows();
    let totals = Mutex::new(Totals {
        entries: log.entries.len(),
        ..Totals::default()
    });
    let next = AtomicUsize::new(0);
    let work = |job: usize| -> Result<()> {
        let mut disk = Disk::new(&log, &before)?;
        let image = path(&format!("image.{job}"));
        let mount = path(&format!("mount.{job}"));
        fs::create_dir_all(&mount)?;
        // In the order of their positions, which each job keeps.
        while let Some(cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
            // After an unmount, the former image may still be in use.
            let _ = fs::remove_file(&image);
            let file = zeros(&image, 0)?;
            disk.cut(cut, system.sector, &file)?;
            let promised = promised[cut.at];
            let judged = judge(system, &file, &mount, promised, &windows);
            let (torn, wrong) = judged.unwrap_or_else(|error| {
                let wrong = Wrong {
                    kind: Kind::Other,
                    why: format!("{error:#}"),
                };
                (false, vec![wrong])
            });
            let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.add(cut, promised, torn, wrong, system.name);
        }
        let _ = fs::remove_file(&image);
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..jobs)
            .map(|job| {
                let work = &work;
                scope.spawn(move || work(job))
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => done?,
                Err(_) => bail!("a thread panicked: {:?}", panics()),
            }
        }
        Ok(())
    })?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    let panics = panics().into_iter().map(|panic| format!("panic: {panic}"));
    totals.wrong.extend(panics);
    Ok(totals)
}

impl Totals {
    fn add(&mut self, cut: &Cut, promised: Promised, torn: bool, wrong: Vec<Wrong>, on: &str) {
        self.cuts += 1;
        self.partial += u64::from(cut.survives != log::Survives::All);
        self.windows += promised.windows;
        self.requests += u64::from(promised.requests.count_ones()) * crate::states::REQUESTS as u64;
        self.torn += u64::from(torn);
        // A cut counts once, by its worst error.
        if let Some(kind) = wrong.iter().map(|wrong| wrong.kind).min() {
            *self.kinds.entry(kind).or_default() += 1;
        }
        let wrong = wrong
            .into_iter()
            .map(|wrong| format!("{on}, {cut:?}: {:?}: {wrong}", wrong.kind));
        self.wrong.extend(wrong);
    }
}

/// Whether the store of a disk has a torn end, and its errors, before and after the next recorder.
fn judge(
    system: &FileSystem,
    image: &File,
    mount: &Path,
    promised: Promised,
    windows: &[ClosedWindow],
) -> Result<(bool, Vec<Wrong>)> {
    let device = Loop::new(image)?;
    let mounted = Mounted::new(&device.path, mount, system.name, system.options)?;
    let judged = judge_store(&mount.join("store"), promised, windows);
    mounted.unmount()?;
    judged
}

fn judge_store(
    store: &Path,
    promised: Promised,
    all: &[ClosedWindow],
) -> Result<(bool, Vec<Wrong>)> {
    let mut wrong = Vec::new();
    let mut torn = false;
    let acknowledged = usize::try_from(promised.windows)?;
    let mut there = acknowledged;
    if acknowledged > 0 || store.join("catalog.db").exists() {
        // The power may fail between a window and its acknowledgement.
        match kept::windows(store, all, acknowledged..=acknowledged + 1) {
            Ok(count) => there = count,
            Err(why) => wrong.push(why),
        }
        wrong.extend(kept::requests(store, all, promised.requests)?);
        let findings = check(store)?.findings;
        torn = findings.iter().any(is_torn);
        let damage = findings
            .iter()
            .filter(|found| !is_torn(found) && !is_unfinished(found));
        wrong.extend(damage.map(found_wrong));
    }
    // The next recorder continues.
    let next = &all[there..there + MORE];
    let mut bits = promised.requests;
    let mut go_on = || {
        let mut writer = Writer::open(store, of_time(there))?;
        let mut requests = writer.requests(64 << 20, |_| {})?;
        for (place, window) in (there..).zip(next) {
            writer.append(window)?;
            requests.append(&batch(window))?;
            bits |= 1 << place;
        }
        requests.finish()?;
        writer.finish()
    };
    if let Err(error) = go_on() {
        wrong.push(Wrong {
            kind: Kind::Refused,
            why: format!("the next recorder fails: {error}"),
        });
        return Ok((torn, wrong));
    }
    let after = kept::windows(store, all, there + MORE..=there + MORE);
    wrong.extend(after.err());
    wrong.extend(kept::requests(store, all, bits)?);
    wrong.extend(check(store)?.findings.iter().map(found_wrong));
    Ok((torn, wrong))
}

/// Whether the finding is the torn end of an append.
fn is_torn(found: &Finding) -> bool {
    found.why.contains("cut off while")
}

/// Whether the finding is a name that does not follow the catalog yet.
fn is_unfinished(found: &Finding) -> bool {
    found
        .next
        .contains("and so does the next `trackiops record`")
}

fn found_wrong(found: &Finding) -> Wrong {
    Wrong {
        kind: Kind::Other,
        why: format!("check finds {}: {}", found.path.display(), found.why),
    }
}

fn print(all: &[(&str, Totals)], seed: u64, took: Duration) {
    let sum = |of: fn(&Totals) -> u64| -> u64 { all.iter().map(|(_, totals)| of(totals)).sum() };
    let failures: usize = all.iter().map(|(_, totals)| totals.wrong.len()).sum();
    println!(
        "{} power cuts from seed {seed} in {} s; {failures} failures\n",
        sum(|totals| totals.cuts),
        took.as_secs()
    );
    println!(
        "| file system | log entries | cuts | with lost writes | acknowledged windows at risk | durable requests at risk | torn ends | \
         lost | doubled | refused | otherwise wrong |"
    );
    println!("|---|{}", "--:|".repeat(10));
    for (name, totals) in all {
        let kinds = [Kind::Lost, Kind::Doubled, Kind::Refused, Kind::Other];
        let kinds = kinds.map(|kind| totals.kinds.get(&kind).copied().unwrap_or_default());
        let numbers = [
            totals.entries as u64,
            totals.cuts,
            totals.partial,
            totals.windows,
            totals.requests,
            totals.torn,
        ];
        let cells = numbers.iter().chain(&kinds).map(u64::to_string);
        println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    let mut wrong = all.iter().flat_map(|(_, totals)| &totals.wrong).peekable();
    if wrong.peek().is_some() {
        println!("\nFailures (file system, cut, what is wrong):\n");
    }
    for wrong in wrong.take(PRINTED) {
        println!("    {}", wrong.replace('\n', " "));
    }
}
