//! Writes the tables of an analysis to a terminal or a file.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use trackiops_analyses::cube::Events;
use trackiops_analyses::sheet::Sheet;
use trackiops_analyses::source::Seen;
use trackiops_process::output::{Output, say};
use trackiops_query::EmptyReason;
use trackiops_query::times::Zone;
use trackiops_render::report::ReportTable;
use trackiops_render::{Curve, PictureFormat, plot_distributions};
use trackiops_reports::report::About;

use super::distribution_flags::DistributionFlags;
use crate::counts::from_one;
use crate::help_headings::OUTPUT;
use crate::report::form::{Form, FormFlags};

/// Facts about an analysis for its HTML page.
#[derive(Clone, Copy)]
pub struct Analysis {
    /// The name in the command line.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// How its numbers are computed, in paragraphs.
    pub method: &'static [&'static str],
}

/// How the tables of an analysis are written.
#[derive(clap::Args)]
pub struct TableFlags {
    /// Only the first N rows of each table [default: all; contention: 20]
    #[arg(long, value_name = "N", value_parser = from_one, help_heading = OUTPUT)]
    top: Option<NonZeroUsize>,
    #[command(flatten)]
    form: FormFlags,
}

/// How tables and pictures are written.
pub struct Forms {
    form: Form,
    top: Option<NonZeroUsize>,
    plot: Option<(Output, PictureFormat)>,
}

impl Forms {
    /// Most rows of a table: `--top`, or `usual` if people read the table, or all.
    pub fn most_rows(&self, usual: usize) -> usize {
        match (self.top, self.form.is_for_people()) {
            (Some(top), _) => top.get(),
            (None, true) => usual,
            (None, false) => usize::MAX,
        }
    }

    /// Only tables.
    pub fn tables(flags: TableFlags, tables: &[&str]) -> anyhow::Result<Self> {
        Ok(Self {
            form: flags.form.choose(tables)?,
            top: flags.top,
            plot: None,
        })
    }

    /// Tables, and pictures of distributions.
    pub fn new(
        flags: TableFlags,
        tables: &[&str],
        distributions: &DistributionFlags,
    ) -> anyhow::Result<Self> {
        let plot = distributions.plot(flags.form.access())?;
        let tables = Self::tables(flags, tables)?;
        Ok(Self { plot, ..tables })
    }
}

/// Writes the tables, or reports why there is nothing to write. Returns the exit status.
pub fn write(
    forms: &Forms,
    analysis: Analysis,
    seen: &Seen,
    none: Option<EmptyReason>,
    remarks: Vec<String>,
    sheets: impl IntoIterator<Item = Sheet>,
) -> anyhow::Result<ExitCode> {
    let nothing = match none {
        Some(why) => Some(
            forms
                .form
                .write_nothing(&(why, seen.notes.clone()), Zone::Local),
        ),
        None if seen.rows == 0 => Some(forms.form.write_no_rows(&seen.notes, Zone::Local)),
        None => None,
    };
    if let Some(status) = nothing {
        let plot = forms.plot.as_ref();
        let note = plot.and_then(|(output, _)| output.unwritten_note());
        note.iter().for_each(say);
        return Ok(status);
    }
    let mut sheets: Vec<_> = sheets.into_iter().collect();
    let mut remarks = [seen.remarks(), remarks].concat();
    for sheet in &mut sheets {
        let (all, most) = (sheet.rows.len(), forms.most_rows(usize::MAX));
        if all > most {
            remarks.push(format!(
                "{}: the first {most} of {all} rows; --top {all} shows all",
                sheet.name
            ));
            sheet.rows.truncate(most);
        }
    }
    let about = About {
        verdict: sheets.first().and_then(Sheet::verdict),
        name: analysis.name,
        title: analysis.title,
        method: analysis.method,
        range: seen.range(),
        notes: seen.notes.clone(),
        remarks,
    };
    if let Some((output, format)) = &forms.plot {
        let curves = sheets.first().map(Sheet::curves).unwrap_or_default();
        let curve = |(measure, name, points)| Curve {
            measure,
            name,
            points,
        };
        let curves: Vec<_> = curves.into_iter().map(curve).collect();
        output.write(|out| plot_distributions(about.title, &curves, *format, out))?;
    }
    let tables: Vec<_> = sheets
        .into_iter()
        .map(|sheet| sheet.into_table(&about))
        .collect();
    let tables: Vec<&dyn ReportTable> = tables
        .iter()
        .map(|table| table as &dyn ReportTable)
        .collect();
    forms.form.write(&about, &tables, Zone::Local)
}

/// Writes tables that were computed from events, like [`write()`].
pub fn write_of_events(
    forms: &Forms,
    analysis: Analysis,
    mut events: Events,
    sheets: impl IntoIterator<Item = Sheet>,
) -> anyhow::Result<ExitCode> {
    let none = events.none.take();
    let remarks = events.remarks();
    write(forms, analysis, events.seen(), none, remarks, sheets)
}
