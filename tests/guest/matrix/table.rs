//! The table of results, and the page in `docs/` with the table of the full product.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::matrix::check::{Outcome, Sums};
use crate::matrix::plan::EXCLUDED;

const HEAD: &str = "\
| kernel | NFS | I/O | options | requests: recorded | mountstats | bytes: recorded | mountstats | verdict | note |
|---|---|---|---|---|---|---|---|---|---|
";

fn requests(sums: &Sums) -> String {
    format!("{} + {}", sums.reads, sums.writes)
}

fn bytes(sums: &Sums) -> String {
    format!("{} + {}", sums.read_bytes, sums.written_bytes)
}

/// One line per cell, as a Markdown table. Pairs are reads and writes.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = HEAD.to_owned();
    for o in outcomes {
        let notes: Vec<String> = o
            .notes
            .iter()
            .map(|note| match note.detail.as_str() {
                "" => note.what.to_owned(),
                detail => format!("{}: {detail}", note.what),
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            o.release(),
            o.cell.version,
            o.cell.kind.name(),
            o.cell.options.given,
            requests(&o.recorded),
            requests(&o.counted),
            bytes(&o.recorded),
            bytes(&o.counted),
            match (o.failures.is_empty(), o.recorded == o.counted) {
                (true, true) => "equal",
                (true, false) => "missed",
                (false, _) => "FAILED",
            },
            notes.join("; ")
        );
    }
    text
}

/// Releases and versions in which each kind of note was seen, as a Markdown list.
fn differences(outcomes: &[Outcome]) -> String {
    let mut seen: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for o in outcomes {
        for note in &o.notes {
            let releases = seen.entry(note.what).or_default();
            releases
                .entry(o.release())
                .or_default()
                .insert(o.cell.version);
        }
    }
    let mut text = String::new();
    for (what, releases) in seen {
        let places: Vec<String> = releases
            .into_iter()
            .map(|(release, versions)| {
                let versions: Vec<&str> = versions.into_iter().collect();
                format!("{release} over {}", versions.join(", "))
            })
            .collect();
        let _ = writeln!(text, "* {what}: {}.", places.join("; "));
    }
    text
}

/// Cells whose recorded sums differ between kernels, as a Markdown list.
fn sums_by_kernel(outcomes: &[Outcome]) -> String {
    let mut by_cell: BTreeMap<String, Vec<(&str, Sums)>> = BTreeMap::new();
    for o in outcomes {
        let of_cell = by_cell.entry(o.cell.name()).or_default();
        of_cell.push((o.release(), o.recorded));
    }
    by_cell.retain(|_, sums| sums.len() > 1);
    let several = by_cell.len();
    let mut text = String::new();
    for (name, sums) in by_cell {
        let mut releases: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (release, sums) in sums {
            let [requests, bytes] = [requests(&sums), bytes(&sums)];
            let what = format!("{requests} requests of {bytes} bytes");
            releases.entry(what).or_default().push(release);
        }
        if releases.len() > 1 {
            let each: Vec<String> = releases
                .into_iter()
                .map(|(what, releases)| format!("{what} on {}", releases.join(", ")))
                .collect();
            let _ = writeln!(text, "* {name}: {}.", each.join("; "));
        }
    }
    let differ = text.lines().count();
    format!(
        "Of {several} cells that ran on several kernels, {differ} had other requests or bytes on one than on another.\n\
        \n{text}"
    )
}

/// The page about a run.
pub fn page(outcomes: &[Outcome]) -> String {
    let builds: BTreeSet<&str> = outcomes.iter().map(|o| o.build.as_str()).collect();
    let builds: Vec<String> = builds.iter().map(|build| format!("* {build}")).collect();
    let failed = outcomes.iter().filter(|o| !o.failures.is_empty()).count();
    format!(
        "# Every kernel, NFS version, kind of I/O and mount option\n\n\
        Written by `make matrix`: {} cells, {failed} failed, on\n\n{}\n\n\
        In each cell a program does one kind of I/O on a fresh mount of a real nfsd while one recorder sees all cells\n\
        of a boot. The table holds reads + writes, as recorded (record, store, `trackiops query`) and as\n\
        `/proc/self/mountstats` counted them, attempts repeated after an error taken off. *Equal* means besides: no errors,\n\
        nothing lost, nothing without a latency, each histogram holds every request, the options asked for were in\n\
        force, and the kind of I/O was what it claims to be (`tests/guest/matrix/check.rs`).\n\n\
        Not a cell: {EXCLUDED}.\n\n\
        ## What differs\n\n{}\n{}\n\
        ## Cells\n\n{}",
        outcomes.len(),
        builds.join("\n"),
        differences(outcomes),
        sums_by_kernel(outcomes),
        table(outcomes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::check::Note;
    use crate::matrix::plan;

    fn outcomes() -> Vec<Outcome> {
        let cells = plan::full(&["a".into(), "b".into()]);
        let first = |kernel: &str| cells.iter().find(|c| c.kernel == kernel).cloned();
        let outcome = |kernel: &str, reads| Outcome {
            cell: first(kernel).expect("a cell"),
            build: format!("1.0-{kernel} #1 SMP"),
            recorded: Sums {
                reads,
                ..Sums::default()
            },
            counted: Sums::default(),
            notes: Vec::new(),
            failures: Vec::new(),
        };
        vec![outcome("a", 5), outcome("b", 5)]
    }

    #[test]
    fn what_differs_is_told_with_its_kernel_and_version() {
        let mut outcomes = outcomes();
        assert!(page(&outcomes).contains("Of 1 cells that ran on several kernels, 0 had"));
        outcomes[1].recorded.reads = 6;
        outcomes[1].failures.push("why".into());
        outcomes[1].notes.push(Note {
            what: "READ_PLUS",
            detail: "6 of 6 reads".into(),
        });
        let page = page(&outcomes);
        for words in [
            "2 cells, 1 failed, on\n\n* 1.0-a #1 SMP\n* 1.0-b #1 SMP\n",
            "* READ_PLUS: 1.0-b over 3.",
            "* 3-buffered-default: 5 + 0 requests of 0 + 0 bytes on 1.0-a; 6 + 0 requests",
            "| FAILED | READ_PLUS: 6 of 6 reads |",
        ] {
            assert!(page.contains(words), "`{words}` in:\n{page}");
        }
    }
}
