//! How the tables of an analysis reach a terminal or a file.

use std::process::ExitCode;

use trackiops_analyses::sheet::Sheet;
use trackiops_analyses::source::Seen;
use trackiops_query::EmptyReason;
use trackiops_query::times::Zone;
use trackiops_render::report::ReportTable;
use trackiops_reports::report::About;

use crate::report::form::Form;

/// What an analysis is, for its page.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// As the command names it.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How its numbers are computed, in paragraphs.
    pub method: &'static [&'static str],
}

/// Writes the tables, or says why there is nothing to write. Returns the exit status.
pub fn write(
    form: &Form,
    analysis: Analysis,
    seen: &Seen,
    none: Option<EmptyReason>,
    remarks: Vec<String>,
    sheets: impl IntoIterator<Item = Sheet>,
) -> anyhow::Result<ExitCode> {
    if let Some(why) = none {
        return Ok(form.write_nothing(&(why, seen.notes.clone()), Zone::Local));
    }
    let about = About {
        name: analysis.name,
        title: analysis.title,
        method: analysis.method,
        range: seen.range(),
        notes: seen.notes.clone(),
        remarks: [seen.remarks(), remarks].concat(),
    };
    let tables: Vec<_> = sheets
        .into_iter()
        .map(|sheet| sheet.into_table(&about))
        .collect();
    let tables: Vec<&dyn ReportTable> = tables
        .iter()
        .map(|table| table as &dyn ReportTable)
        .collect();
    form.write(&about, &tables, Zone::Local)
}
