//! Processes that make mutants: one that hangs is killed, and the others continue.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A mutant that takes longer hangs. Most take a tenth of a second, but much longer on a busy machine.
const HANGS: Duration = Duration::from_secs(60);
/// Limit for the first mutant, which includes making the stores.
const STARTS: Duration = Duration::from_secs(120);
/// Most failures to print.
const PRINTED: usize = 100;
/// Counters of each kind, by name.
const COLUMNS: [&str; 8] = [
    "all",
    "equal",
    "noted",
    "refused",
    "found",
    "recorded into",
    "recorded with an error",
    "not recorded into",
];

/// Results of mutants.
#[derive(Default)]
struct Totals {
    /// Counters by table and row, then by column.
    counts: BTreeMap<(String, String), BTreeMap<String, u64>>,
    wrong: Vec<String>,
    most_kb: u64,
}

impl Totals {
    fn add(&mut self, other: Self) {
        for (kind, counts) in other.counts {
            let own = self.counts.entry(kind).or_default();
            for (what, count) in counts {
                *own.entry(what).or_default() += count;
            }
        }
        self.wrong.extend(other.wrong);
        self.most_kb = self.most_kb.max(other.most_kb);
    }

    /// Takes a line of a process. Returns the current mutant, if the line names it.
    fn take(&mut self, line: &str) -> Result<Option<u64>> {
        let (word, rest) = line.split_once(' ').context("a line has two words")?;
        match word {
            "at" => return Ok(Some(rest.parse()?)),
            "wrong" => self.wrong.push(rest.to_owned()),
            "memory" => self.most_kb = self.most_kb.max(rest.parse()?),
            "count" => {
                let mut parts = rest.split('\t');
                let mut part = || parts.next().context("a count has four parts");
                let count: u64 = part()?.parse()?;
                let row = (part()?.to_owned(), part()?.to_owned());
                let of_row = self.counts.entry(row).or_default();
                *of_row.entry(part()?.to_owned()).or_default() += count;
            }
            other => bail!("what is {other}?"),
        }
        Ok(None)
    }
}

fn start(numbers: &Range<u64>, step: u64, seed: u64, keep: Option<&Path>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("mutants");
    command.args([numbers.start, numbers.end, step, seed].map(|number| number.to_string()));
    command.args(keep);
    Ok(command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Makes every `step`th mutant.
fn work(mut numbers: Range<u64>, step: u64, seed: u64, keep: Option<&Path>) -> Result<Totals> {
    let mut totals = Totals::default();
    while !numbers.is_empty() {
        let mut child = start(&numbers, step, seed, keep)?;
        let out = child.stdout.take().context("it is piped")?;
        let (send, lines) = channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut at = None;
        let hung = loop {
            let patience = if at.is_some() { HANGS } else { STARTS };
            match lines.recv_timeout(patience) {
                Ok(line) => at = totals.take(&line)?.or(at),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    break true;
                }
                Err(RecvTimeoutError::Disconnected) => break false,
            }
        };
        let status = child.wait()?;
        let _ = reader.join();
        if status.success() {
            break;
        }
        // The counts of a killed process are lost.
        let at = at.context("the stores could not be made")?;
        totals.wrong.push(match hung {
            true => format!("{at}\tit hangs: no end after {HANGS:?}"),
            false => format!("{at}\tthe process ended: {status}"),
        });
        numbers.start = at + step;
    }
    Ok(totals)
}

/// Makes mutants in several processes, and prints the results.
pub fn mutate(numbers: Range<u64>, seed: u64, jobs: u64, keep: Option<&Path>) -> Result<()> {
    let began = Instant::now();
    let jobs = jobs.max(1);
    let parts: Vec<Result<Totals>> = thread::scope(|scope| {
        let parts = (0..jobs).map(|job| {
            let own = numbers.start + job..numbers.end;
            scope.spawn(move || work(own, jobs, seed, keep))
        });
        let parts: Vec<_> = parts.collect();
        let joined = parts.into_iter().map(|part| match part.join() {
            Ok(done) => done,
            Err(_) => bail!("a thread panicked"),
        });
        joined.collect()
    });
    let mut totals = Totals::default();
    for part in parts {
        totals.add(part?);
    }
    print(&totals, seed, began.elapsed());
    match totals.wrong.len() {
        0 => Ok(()),
        wrong => bail!("{wrong} failures; `mutate --seed {seed} --mutant N` makes one again"),
    }
}

/// The tables of the report, each over all mutants: by kind of damage, and by damaged part.
const TABLES: [&str; 2] = ["damage", "of"];

fn print(totals: &Totals, seed: u64, took: Duration) {
    let of = |table: &str, what: &str| -> u64 {
        let rows = totals.counts.iter().filter(|((of, _), _)| of == table);
        rows.filter_map(|(_, counts)| counts.get(what)).sum()
    };
    println!(
        "{} mutants from seed {seed} in {} s; {} failures; at most {} MiB more memory for one",
        of(TABLES[0], COLUMNS[0]),
        took.as_secs(),
        totals.wrong.len(),
        totals.most_kb >> 10
    );
    for table in TABLES {
        println!("\n| {table} | mutants | {} |", COLUMNS[1..].join(" | "));
        println!("|---|{}", "--:|".repeat(COLUMNS.len()));
        for ((_, row), counts) in totals.counts.iter().filter(|((of, _), _)| of == table) {
            let cell = |what: &&str| counts.get(*what).copied().unwrap_or_default().to_string();
            let cells: Vec<_> = COLUMNS.iter().map(cell).collect();
            println!("| {row} | {} |", cells.join(" | "));
        }
        let sums: Vec<_> = COLUMNS
            .iter()
            .map(|what| of(table, what).to_string())
            .collect();
        println!("| all | {} |", sums.join(" | "));
    }
    if !totals.wrong.is_empty() {
        println!("\nFailures (mutant, state, damage, what is wrong):\n");
    }
    for wrong in totals.wrong.iter().take(PRINTED) {
        println!("    {}", wrong.replace('\t', ": "));
    }
}
