//! Format and destination of a report: tables for people and programs, or a page.

use std::process::ExitCode;

use anyhow::bail;
use trackiops_process::output::{Output, say};
use trackiops_query::coverage::note::Note;
use trackiops_query::file_rows::Nothing;
use trackiops_query::times::Zone;
use trackiops_render::report::{ReportFormat, ReportTable, write_page, write_report};
use trackiops_render::suffix;
use trackiops_render::terminal_style::Style;
use trackiops_reports::report::About;

use crate::help_headings::OUTPUT;
use crate::output_flags::{FormatFlag, OutputFlag};
use crate::umask_flag::UmaskFlag;
use crate::{notes, outcome};

/// How the report is written, and where to.
#[derive(clap::Args)]
pub struct FormFlags {
    #[command(flatten)]
    format: FormatFlag<ReportFormat>,
    /// Which table of the report to write [default: all, or the first]
    ///
    /// Formats for programs hold one table: without --table that is the first.
    #[arg(long, value_name = "NAME", help_heading = OUTPUT)]
    table: Option<String>,
    #[command(flatten)]
    output: OutputFlag<ReportFormat>,
}

/// The chosen format and destination.
pub struct Form {
    format: ReportFormat,
    table: Option<String>,
    output: Output,
}

impl FormFlags {
    /// Who may read the output.
    pub fn access(&self) -> UmaskFlag {
        self.output.access
    }

    /// The requested table.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Checks that the flags suit each other, and a report with these tables.
    pub fn choose(self, tables: &[&str]) -> anyhow::Result<Form> {
        let (format, output) = self.format.choose(&self.output)?;
        if let Some(table) = self.table.as_deref().filter(|name| !tables.contains(name)) {
            let known = suffix::list_with_or(tables.iter().map(|name| (*name).to_owned()));
            bail!("--table: this report has no table `{table}`; write {known}");
        }
        Ok(Form {
            format,
            table: self.table,
            output,
        })
    }
}

impl Form {
    /// Whether it is for people: a table or a page.
    pub fn is_for_people(&self) -> bool {
        match self.format {
            ReportFormat::Rows(format) => format.is_table(),
            ReportFormat::Html => true,
        }
    }

    /// Writes a report. Returns the exit status.
    pub fn write(
        &self,
        about: &About,
        tables: &[&dyn ReportTable],
        zone: Zone,
    ) -> anyhow::Result<ExitCode> {
        about.remarks.iter().for_each(say);
        notes::say_notes(&about.notes, zone);
        let is_asked = |table: &&&dyn ReportTable| {
            let asked = self.table.as_deref();
            asked.is_none_or(|name| name == table.name())
        };
        let tables: Vec<_> = tables.iter().filter(is_asked).copied().collect();
        let style = Style {
            look: self.output.look(),
            ..zone.into()
        };
        self.output.write(|out| match self.format {
            ReportFormat::Rows(format) => write_report(about, &tables, format, &style, out),
            ReportFormat::Html => write_page(about, &tables, zone, env!("CARGO_PKG_VERSION"), out),
        })?;
        Ok(outcome::exit_status(&about.notes))
    }

    /// Reports that a source has no rows of this range and kind. Returns the exit status.
    pub fn write_no_rows(&self, notes: &[Note], zone: Zone) -> ExitCode {
        let status = outcome::say_no_rows(notes, zone);
        self.output.unwritten_note().iter().for_each(say);
        status
    }

    /// Reports why there is no report. Returns the exit status.
    pub fn write_nothing(&self, (why, notes): &Nothing, zone: Zone) -> ExitCode {
        let status = outcome::say_nothing_found(why, notes, zone);
        self.output.unwritten_note().iter().for_each(say);
        status
    }
}
