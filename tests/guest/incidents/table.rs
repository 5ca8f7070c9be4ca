//! The table of results, and its page in `docs/`.

use std::fmt::Write as _;
use std::path::Path;

use crate::incidents::{Outcome, culprit, text, victims};
use crate::run::number;

const HEAD: &str = "\
| incident | on | cause | confidence | begin, s | end, s | lost, s | who did it | who suffered most | named |
|---|---|---|---|--:|--:|--:|---|---|---|
";

/// One line per incident, as a Markdown table.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut table = HEAD.to_owned();
    for outcome in outcomes {
        let (what, at) = (outcome.incident.what, outcome.incident.victim_at);
        let lacks = outcome.lacks();
        let named = match lacks.is_empty() {
            true => "yes".to_owned(),
            false => format!("without {}", lacks.join(", ")),
        };
        let found = match outcome.moments.first() {
            Some(first) => {
                let [begin, end] = outcome.off_s(first);
                format!(
                    "{} | {} | {begin:+.1} | {end:+.1} | {:.1} | {} | {}",
                    text(first, "cause"),
                    text(first, "confidence"),
                    number(first, "lost_s"),
                    name(culprit(first)),
                    name(victims(first).first().copied().unwrap_or_default()),
                )
            }
            None => "nothing | | | | | |".to_owned(),
        };
        let _ = writeln!(table, "| {what} | {at} | {found} | {named} |");
    }
    table
}

fn name(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!("`{path}`"),
    }
}

/// Replaces the table of the page.
pub fn write_docs(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results/incidents.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("| incident |").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
    std::fs::write(page, format!("{before}{table}\n{after}")).unwrap();
}
