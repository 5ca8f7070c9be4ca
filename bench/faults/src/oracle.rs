//! The required answers of a damaged store: the same as before, or a note or an error that names the damage.

use std::fmt::{Debug, Write as _};
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use trackiops_query::coverage::note::Note;
use trackiops_query::{
    Connections, Outcome, QueryError, Question, Range, Step, ask, ask_files, ask_marks,
    ask_operations,
};
use trackiops_render::{Export, ExportDataset};
use trackiops_schemas::time::Granularity;

use trackiops_testkit::questions::{question, select};

/// An answer in words, without its notes of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    words: String,
    /// Whether it reports damage.
    is_noted: bool,
    /// Whether it is an error.
    is_refused: bool,
    /// Whether the error names no file of the store.
    names_nothing: bool,
}

impl Said {
    /// Whether it reports a problem.
    pub fn tells(&self) -> bool {
        self.is_noted || self.is_refused
    }

    fn error(error: &QueryError, store: &Path) -> Self {
        let words = error.to_string();
        Self {
            names_nothing: !words.contains(&store.display().to_string()),
            words,
            is_noted: false,
            is_refused: true,
        }
    }

    fn of(words: String, notes: Vec<Note>) -> Self {
        let is_damage =
            |note: &Note| matches!(note, Note::Damaged { .. } | Note::MoreDamaged { .. });
        let (damage, others): (Vec<_>, Vec<_>) = notes.into_iter().partition(is_damage);
        Self {
            words: format!("{words} {others:?}"),
            is_noted: !damage.is_empty(),
            is_refused: false,
            names_nothing: false,
        }
    }
}

fn said<R: Debug>(answered: Result<Outcome<R>, QueryError>, store: &Path) -> Said {
    match answered {
        Ok(Outcome::Found(answer)) => {
            Said::of(without_shifts(&format!("{:?}", answer.rows)), answer.notes)
        }
        Ok(Outcome::Nothing { why, notes }) => Said::of(format!("{why:?}"), notes),
        Err(error) => Said::error(&error, store),
    }
}

/// Removes the parts of a histogram's text that depend on the order in which it was filled.
fn without_shifts(text: &str) -> String {
    let mut parts = text.split("shift: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut text, part| {
        text.push_str(part.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()));
        text
    })
}

/// All values of rows. `Debug` omits values in the middle.
fn values(batches: &[RecordBatch]) -> Result<String, ArrowError> {
    let mut text = String::new();
    let options = FormatOptions::new().with_null("null");
    for batch in batches {
        // Names of time zones are not built in.
        let plain = |column: &ArrayRef| match column.data_type() {
            DataType::Timestamp(..) => cast(column, &DataType::Int64),
            _ => Ok(Arc::clone(column)),
        };
        let columns: Result<Vec<_>, _> = batch.columns().iter().map(plain).collect();
        let columns = columns?;
        let columns = columns
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            for column in &columns {
                write!(text, "{} ", column.value(row))
                    .map_err(|e| ArrowError::from_external_error(e.into()))?;
            }
            text.push('\n');
        }
    }
    Ok(text)
}

fn exported(question: Question, table: ExportDataset, store: &Path) -> Said {
    let export = Export {
        question,
        table,
        granularity: None,
    };
    let mut batches = Vec::new();
    let done = export.run::<QueryError>(&mut |batch| {
        batches.push(batch);
        Ok(())
    });
    match done {
        Ok(done) => match values(&batches) {
            Ok(values) => Said::of(format!("{:?} {values}", done.nothing), done.notes),
            Err(error) => Said::error(&QueryError::Rows(io::Error::other(error)), store),
        },
        Err(error) => Said::error(&error, store),
    }
}

/// The questions, in the order of [`answers`].
pub const QUESTIONS: [&str; 8] = [
    "all by second",
    "all by minute",
    "one file",
    "files",
    "operations",
    "health",
    "single requests",
    "marks",
];

/// The answers to all questions about a range.
pub fn answers(store: &Path, range: Range) -> Vec<Said> {
    let by = |granularity: Option<Granularity>| Question {
        range,
        step: Some(granularity.map_or(Step::All, Step::Windows)),
        ..question(store)
    };
    let [second, minute] = [1000, 60_000].map(|ms| Granularity::from_ms(ms).ok());
    let one = Question {
        files: vec![select("/mnt/f2")],
        ..by(None)
    };
    vec![
        said(ask(&by(second)), store),
        said(ask(&by(minute)), store),
        said(ask(&one), store),
        said(ask_files(&by(None)), store),
        said(ask_operations(&by(second), Connections::Together), store),
        exported(by(second), ExportDataset::Health, store),
        exported(by(second), ExportDataset::Requests, store),
        said(ask_marks(&by(None)), store),
    ]
}

/// Comparison of answers with the answers of the undamaged store.
#[derive(Debug, Default)]
pub struct Compared {
    /// An answer is an error.
    pub refused: bool,
    /// An answer has a note of damage.
    pub noted: bool,
    /// An answer differs from the original or has a note.
    pub differs: bool,
    /// Violations.
    pub wrong: Vec<String>,
}

/// Compares answers with the answers of the undamaged store.
pub fn compare(before: &[Said], after: &[Said]) -> Compared {
    let mut compared = Compared::default();
    for ((before, after), question) in before.iter().zip(after).zip(QUESTIONS) {
        compared.refused |= after.is_refused;
        compared.noted |= after.is_noted;
        compared.differs |= before != after;
        if after.names_nothing {
            compared.wrong.push(format!(
                "{question}: an error names no file: {}",
                after.words
            ));
        }
        if before.words != after.words && !after.tells() {
            compared.wrong.push(format!(
                "{question}: another answer without a note: {}",
                difference(&before.words, &after.words)
            ));
        }
    }
    compared
}

/// The first difference of two texts.
fn difference(before: &str, after: &str) -> String {
    let same = before
        .bytes()
        .zip(after.bytes())
        .take_while(|(a, b)| a == b);
    let from = same.count().saturating_sub(60);
    let part = |text: &str| {
        let bytes = text.as_bytes();
        let part = &bytes[from.min(bytes.len())..bytes.len().min(from + 200)];
        String::from_utf8_lossy(part).into_owned()
    };
    format!("`{}` was `{}`", part(after), part(before))
}

/// Compares the rows of answers, whatever their notes. Returns the differences.
pub fn same_rows(before: &[Said], after: &[Said], questions: &[usize]) -> Vec<String> {
    let pairs = questions
        .iter()
        .map(|at| ((&before[*at], &after[*at]), QUESTIONS[*at]));
    pairs
        .filter(|((before, after), _)| before.words != after.words)
        .map(|((before, after), question)| {
            format!("{question}: {}", difference(&before.words, &after.words))
        })
        .collect()
}
