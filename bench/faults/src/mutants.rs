//! Makes mutants one after the other, and compares each with the answers of the undamaged store.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use trackiops_query::Range;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Finding, StoreError, check};

use crate::damage::{self, Kind, Mutant};
use crate::oracle::{Said, answers, compare, same_rows};
use crate::scratch;
use crate::states::{self, State, restore};
use trackiops_testkit::generated::THREE;

/// Start and number of the windows that are recorded into a damaged store.
const LATER: i64 = THREE + 2 * 3_600_000;
const LATER_WINDOWS: i64 = 3;
/// Only one of this many mutants is recorded into, because that takes most of the time.
const RECORDED: u64 = 8;
/// Most additional memory for a mutant.
const MOST_MEMORY_KB: u64 = 256 << 10;

/// Panics since the last call of [`panics`], including caught ones.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Counts panics that are caught, and prints nothing.
pub fn note_panics() {
    panic::set_hook(Box::new(|info| {
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        panics.push(info.to_string().replace('\n', " "));
    }));
}

/// The panics since the last call.
pub fn panics() -> Vec<String> {
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *panics)
}

/// Result of a mutant.
struct Outcome {
    mutant: Mutant,
    counts: Vec<&'static str>,
    wrong: Vec<String>,
}

/// The answers of an undamaged store.
struct Before {
    answers: Vec<Said>,
    findings: Vec<Finding>,
    /// After a further recording: answers about the earlier time, and about the new one.
    recorded: [Vec<Said>; 2],
}

/// A directory in which mutants are made.
pub struct Workshop {
    _dir: tempfile::TempDir,
    store: PathBuf,
    outside: PathBuf,
    seed: u64,
    states: Vec<State>,
    before: Vec<Before>,
}

/// Questions whose answers depend only on the range. The list of files also shows when files were seen at other times.
const WINDOWS: &[usize] = &[0, 1, 2, 4, 5];
const REQUESTS: &[usize] = &[6];
const CANARY: &str = "nobody of the store touches this";

fn earlier() -> Range {
    Range {
        since: None,
        until: Some(UtcMs(LATER)),
    }
}

fn later() -> Range {
    Range {
        since: Some(UtcMs(LATER)),
        until: Some(UtcMs(LATER + 1000 * LATER_WINDOWS)),
    }
}

/// Records some windows into a store. Returns the acknowledged windows, and the first error.
fn record(store: &Path) -> ([i64; 2], Result<(), StoreError>) {
    let mut acknowledged = [0; 2];
    let mut run = || {
        let (mut writer, mut requests) = states::open(store, "1h")?;
        let mut first = Ok(());
        for window in states::recorded(9, LATER, LATER_WINDOWS) {
            writer.append(&window)?;
            acknowledged[0] += 1;
            let appended = requests.append(&states::batch(&window));
            acknowledged[1] += i64::from(appended.is_ok());
            first = first.and(appended);
        }
        let requests = requests.finish();
        writer.finish()?;
        first.and(requests)
    };
    let done = run();
    (acknowledged, done)
}

impl Workshop {
    pub fn new(seed: u64) -> Result<Self> {
        let dir = scratch()?;
        let mut workshop = Self {
            store: dir.path().join("store"),
            outside: dir.path().join("outside"),
            _dir: dir,
            seed,
            states: states::all()?,
            before: Vec::new(),
        };
        for place in 0..workshop.states.len() {
            let before = workshop.before(place)?;
            workshop.before.push(before);
        }
        Ok(workshop)
    }

    fn before(&self, place: usize) -> Result<Before> {
        let State { name, image, .. } = &self.states[place];
        restore(image, &self.store)?;
        let answers = self::answers(&self.store, earlier());
        let findings = check(&self.store)?.findings;
        ensure!(
            // Names that do not follow the catalog yet are findings.
            !answers.iter().any(Said::tells) && (findings.is_empty() || *name == "merging"),
            "the store `{name}` is damaged before anything damages it: {findings:?}"
        );
        let (acknowledged, done) = record(&self.store);
        done.with_context(|| format!("recording into the store `{name}`"))?;
        ensure!(acknowledged == [LATER_WINDOWS; 2], "windows are lost");
        Ok(Before {
            answers,
            findings,
            recorded: [earlier(), later()].map(|range| self::answers(&self.store, range)),
        })
    }

    /// Makes one mutant and queries it.
    fn run(&self, number: u64) -> Result<Outcome> {
        if self.outside.exists() {
            fs::remove_dir_all(&self.outside)?;
        }
        fs::create_dir(&self.outside)?;
        let canary = self.outside.join("canary");
        fs::write(&canary, CANARY)?;
        fs::set_permissions(&canary, fs::Permissions::from_mode(0o604))?;
        let mutant = damage::make(&self.states, self.seed, number, &self.store, &self.outside)?;
        let outside = outside(&self.outside)?;
        let before = &self.before[mutant.state];
        let mut outcome = Outcome {
            mutant,
            counts: Vec::new(),
            wrong: Vec::new(),
        };
        drop(panics());
        let judged = panic::catch_unwind(AssertUnwindSafe(|| {
            self.judge(number, before, &mut outcome)
        }));
        if judged.is_err() && PANICS.lock().is_ok_and(|panics| panics.is_empty()) {
            outcome.wrong.push("it unwound".to_owned());
        }
        let panicked = panics().into_iter();
        outcome
            .wrong
            .extend(panicked.map(|panic| format!("panic: {panic}")));
        if self::outside(&self.outside)? != outside {
            outcome.wrong.push("a file outside was touched".to_owned());
        }
        Ok(outcome)
    }

    fn judge(&self, number: u64, before: &Before, outcome: &mut Outcome) {
        // Forged data may contain anything: it must only do no harm.
        let forged = outcome.mutant.kind == Kind::Forged;
        let Outcome { counts, wrong, .. } = outcome;
        let after = answers(&self.store, earlier());
        let compared = compare(&before.answers, &after);
        counts.push(match (compared.refused, compared.noted) {
            (true, _) => "refused",
            (_, true) => "noted",
            _ => "equal",
        });
        let checked = check(&self.store);
        let found = match &checked {
            Ok(report) => report.findings != before.findings,
            Err(_) => true,
        };
        counts.extend(found.then_some("found"));
        if !forged {
            wrong.extend(compared.wrong);
            if compared.differs && !found {
                wrong.push("an answer differs, and check finds nothing".to_owned());
            }
        }
        // A hash, because each process has the numbers of one remainder.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        if !mixed.is_multiple_of(RECORDED) {
            return;
        }
        counts.push("recorded into");
        let (acknowledged, done) = record(&self.store);
        keep_memory();
        if let Err(error) = &done {
            let kind = if acknowledged[0] == 0 {
                "not recorded into"
            } else {
                "recorded with an error"
            };
            counts.push(kind);
            if !forged
                && !error
                    .to_string()
                    .contains(&self.store.display().to_string())
            {
                wrong.push(format!("the recorder's error names no file: {error}"));
            }
        }
        let after = [earlier(), later()].map(|range| answers(&self.store, range));
        if forged {
            return;
        }
        // The list of files also contains the new windows.
        let unchanged = match acknowledged[0] {
            LATER_WINDOWS => &before.recorded[0],
            _ => &before.answers,
        };
        let again = compare(unchanged, &after[0]);
        wrong.extend(
            again
                .wrong
                .into_iter()
                .map(|wrong| format!("after recording, {wrong}")),
        );
        for (kind, questions) in [(0, WINDOWS), (1, REQUESTS)] {
            if acknowledged[kind] == LATER_WINDOWS {
                let lost = same_rows(&before.recorded[1], &after[1], questions);
                wrong.extend(lost.into_iter().map(|lost| format!("new windows, {lost}")));
            }
        }
    }

    /// Makes mutants, and prints the result of each on a line of stdout. Copies failed ones to `keep`, if given.
    pub fn work(&self, numbers: impl Iterator<Item = u64>, keep: Option<&Path>) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let mut counts = BTreeMap::<String, u64>::new();
        let mut most_kb = 0;
        for number in numbers {
            writeln!(out, "at {number}")?;
            out.flush()?;
            let had_kb = reset_peak()?;
            let outcome = self
                .run(number)
                .with_context(|| format!("mutant {number}"))?;
            let took_kb = memory("VmHWM:")?.saturating_sub(had_kb);
            most_kb = most_kb.max(took_kb);
            let Outcome {
                mutant,
                counts: of_it,
                mut wrong,
            } = outcome;
            if took_kb > MOST_MEMORY_KB {
                wrong.push(format!("it took {} MiB", took_kb >> 10));
            }
            let mut count = |what: &str| {
                let of = [("damage", mutant.kind.name()), ("of", mutant.part.name())];
                for (table, name) in of {
                    let cell = format!("{table}\t{name}\t{what}");
                    *counts.entry(cell).or_default() += 1;
                }
            };
            count("all");
            of_it.iter().for_each(|what| count(what));
            let state = self.states[mutant.state].name;
            for wrong in &wrong {
                let wrong = wrong.replace('\n', " ");
                writeln!(out, "wrong {number}\t{state}\t{}\t{wrong}", mutant.what)?;
            }
            if let (false, Some(keep)) = (wrong.is_empty(), keep) {
                damage::make(&self.states, self.seed, number, &self.store, &self.outside)?;
                let kept = keep.join(number.to_string());
                fs::create_dir_all(keep)?;
                let copied = std::process::Command::new("cp")
                    .args(["-a", "--no-target-directory"])
                    .args([&self.store, &kept])
                    .status()?;
                ensure!(copied.success(), "cannot keep {}", kept.display());
            }
        }
        for (what, count) in &counts {
            writeln!(out, "count {count}\t{what}")?;
        }
        writeln!(out, "memory {most_kb}")?;
        Ok(())
    }
}

/// A recorder makes glibc return memory, which makes each later question slow.
fn keep_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call sets parameters of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
    }
}

/// The files outside of the store.
fn outside(dir: &Path) -> Result<Vec<(PathBuf, Vec<u8>, u32)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let mode = path.metadata()?.permissions().mode();
        files.push((path.clone(), fs::read(&path)?, mode));
    }
    files.sort();
    Ok(files)
}

/// Resets the peak of memory. Returns the current memory, KiB.
fn reset_peak() -> Result<u64> {
    fs::write("/proc/self/clear_refs", "5")?;
    memory("VmRSS:")
}

fn memory(what: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let kb = line.and_then(|line| line.split_whitespace().next());
    Ok(kb.context("the kernel tells it")?.parse()?)
}
