//! Counts how commands with forged files ended.

use std::collections::BTreeMap;
use std::fmt;

/// A command, and the file that is forged for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    pub words: String,
    pub file: String,
}

/// Number of forged files, and of commands by status.
#[derive(Default)]
struct Count {
    files: u64,
    by_status: [u64; 4],
}

/// Results of all readers. It displays as a table in Markdown.
#[derive(Default)]
pub struct Summary(BTreeMap<Reader, Count>);

impl Summary {
    /// Adds the statuses of the commands that ran with one forged file.
    pub fn add(&mut self, reader: &Reader, ends: &[i32]) {
        let count = self.0.entry(reader.clone()).or_default();
        count.files += 1;
        for end in ends {
            count.by_status[usize::try_from(*end).unwrap()] += 1;
        }
    }

    pub fn files(&self) -> u64 {
        self.0.values().map(|count| count.files).sum()
    }

    pub fn commands(&self) -> u64 {
        self.0.values().flat_map(|count| count.by_status).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| reader | forged | files | 0 | 1 | 2 | 3 |")?;
        writeln!(f, "|---|---|--:|--:|--:|--:|--:|")?;
        for (Reader { words, file }, count) in &self.0 {
            let by_status = count.by_status.map(|count| count.to_string()).join(" | ");
            writeln!(f, "| {words} | `{file}` | {} | {by_status} |", count.files)?;
        }
        Ok(())
    }
}
