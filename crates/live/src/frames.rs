//! `watch --windows`: one JSON object per window, whatever columns its rows have.

use std::collections::BTreeMap;
use std::mem;

use serde_json::json;
use trackiops_query::times::rfc3339;
use trackiops_query::{Answer, Range, Step};
use trackiops_render::Render;
use trackiops_schemas::time::UtcMs;

/// Makes objects of windows. Notes wait for the next object.
#[derive(Debug, Default)]
pub struct Frames {
    notes: Vec<String>,
    /// Whether windows come from the store, which has all rows of each window.
    pub from_store: bool,
}

impl Frames {
    /// Keeps a note for the next window.
    pub fn say(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The windows of a range that have rows, and a single window even without rows. `text` contains the rows as lines of JSON.
    pub fn windows<R: Render>(
        &mut self,
        answer: Option<&Answer<R>>,
        text: &str,
        range: Range,
    ) -> String {
        let mut windows = BTreeMap::<_, Vec<&str>>::new();
        let mut step = Step::All;
        if let Some(answer) = answer {
            step = answer.step;
            for (row, line) in answer.rows.iter().zip(text.lines()) {
                windows.entry(R::time(row)).or_default().push(line);
            }
        }
        if let (
            true,
            Range {
                since,
                until: Some(_),
            },
        ) = (windows.is_empty(), range)
        {
            windows.entry(since).or_default();
        }
        let until = |since: UtcMs| match step {
            Step::Windows(step) => Some(since.plus(step)),
            Step::All => range.until,
        };
        let windows = windows.into_iter().filter_map(|(since, rows)| {
            let since = since.or(range.since)?;
            Some(self.window(since, until(since), &rows))
        });
        windows.collect()
    }

    fn window(&mut self, since: UtcMs, until: Option<UtcMs>, rows: &[&str]) -> String {
        let from = if self.from_store { "store" } else { "recorder" };
        let (since, until) = (rfc3339(since), until.map(rfc3339));
        let about = json!({"since": since, "until": until, "from": from, "notes": mem::take(&mut self.notes)});
        let about = about.to_string();
        let about = about.trim_end_matches('}');
        format!("{about},\"rows\":[{}]}}\n", rows.join(","))
    }

    /// Writes the reason for the end.
    pub fn end(&mut self, why: &str) -> String {
        format!(
            "{}\n",
            json!({"end": why, "notes": mem::take(&mut self.notes)})
        )
    }
}
