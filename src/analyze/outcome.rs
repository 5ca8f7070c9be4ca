//! How the tables of an analysis reach a terminal or a file.

use std::process::ExitCode;

use trackiops_analyses::cube::Events;
use trackiops_analyses::sheet::Sheet;
use trackiops_analyses::source::Seen;
use trackiops_query::EmptyReason;
use trackiops_query::times::Zone;
use trackiops_render::report::ReportTable;
use trackiops_render::{Curve, plot_distributions};
use trackiops_reports::report::About;

use super::distribution_flags::DistributionFlags;
use crate::output::{Output, say};
use crate::report::form::{Form, FormFlags};

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

/// How tables and pictures are written.
pub struct Forms {
    form: Form,
    plot: Option<Output>,
}

impl Forms {
    /// Whether people read it: a table or a page.
    pub fn is_for_people(&self) -> bool {
        self.form.is_for_people()
    }

    /// Tables alone.
    pub fn tables(form: FormFlags, tables: &[&str]) -> anyhow::Result<Self> {
        let form = form.choose(tables)?;
        Ok(Self { form, plot: None })
    }

    /// Tables, and pictures of distributions.
    pub fn new(
        form: FormFlags,
        tables: &[&str],
        distributions: &DistributionFlags,
    ) -> anyhow::Result<Self> {
        let plot = distributions.plot(form.access())?;
        let form = form.choose(tables)?;
        Ok(Self { form, plot })
    }
}

/// Writes the tables, or says why there is nothing to write. Returns the exit status.
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
        plot.and_then(Output::unwritten_note).iter().for_each(say);
        return Ok(status);
    }
    let about = About {
        name: analysis.name,
        title: analysis.title,
        method: analysis.method,
        range: seen.range(),
        notes: seen.notes.clone(),
        remarks: [seen.remarks(), remarks].concat(),
    };
    let sheets: Vec<_> = sheets.into_iter().collect();
    if let Some(plot) = &forms.plot {
        let curves = sheets.first().map(Sheet::curves).unwrap_or_default();
        let curve = |(name, points)| Curve { name, points };
        let curves: Vec<_> = curves.into_iter().map(curve).collect();
        plot.write(|out| plot_distributions(&curves, out))?;
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

/// Writes the tables of what was computed from events, as [`write()`] does.
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
