//! The table of results, and its page in `docs/`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::transports::Outcome;

/// Pairs are reads and writes.
pub const HEAD: &str = "\
| kernel | case | mount | requests: recorded | mountstats | bytes: recorded | mountstats |
|---|---|---|---|---|---|---|
";

/// One line per mount, as a Markdown table.
pub fn lines(outcome: &Outcome) -> String {
    let kernel = outcome.run.text("kernel");
    let release = kernel.split(' ').next().unwrap_or_default();
    let mut text = String::new();
    let mut told = BTreeSet::new();
    for mount in outcome.mounts.iter().filter(|mount| mount.has_data()) {
        if !told.insert(&mount.name) {
            continue;
        }
        let [reads, writes, read, written] = outcome.recorded(&mount.name);
        let [r, w, rb, wb] = outcome.counted(&mount.name);
        let _ = writeln!(
            text,
            "| {release} | {} | {} | {reads} + {writes} | {r} + {w} | {read} + {written} | {rb} + {wb} |",
            mount.case.what, mount.name
        );
    }
    text
}

/// Replaces the table of the page.
pub fn write_docs(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results/transports.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("| kernel |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    std::fs::write(page, format!("{before}{table}\n{after}")).unwrap();
}
