//! Reports in all formats: tables with any kind of rows, and a page for a browser.

mod format;
mod page;

use std::io::{self, Write};

use trackiops_query::times::Zone;
use trackiops_reports::report::{About, Table};

pub use format::{ReportFormat, ReportFormatError};
pub use page::escaped;

use crate::answer::{Format, write_for_programs};
use crate::selected_columns;
use crate::table;
use crate::terminal_style::Style;
use crate::visible::{visible, wrap};

/// How to see the columns that did not fit.
const ELSEWHERE: &str = "use a wider terminal, --format html or --format csv to see them";

/// A table of a report, with any kind of rows.
pub trait ReportTable {
    /// The word that selects it.
    fn name(&self) -> &'static str;

    /// The meaning of a row.
    fn caption(&self) -> &str;

    /// Whether it has rows.
    fn is_empty(&self) -> bool;

    /// Writes it for programs. Errors are those of `out`.
    fn write(&self, format: Format, style: &Style, out: &mut (dyn Write + Send)) -> io::Result<()>;

    /// The table for people.
    fn for_people(&self, zone: Zone) -> table::Table;
}

impl<R: Sync + 'static> ReportTable for Table<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn caption(&self) -> &str {
        &self.caption
    }

    fn is_empty(&self) -> bool {
        self.answer.rows.is_empty()
    }

    fn write(&self, format: Format, style: &Style, out: &mut (dyn Write + Send)) -> io::Result<()> {
        let columns = match format {
            Format::Csv(_) => self.columns.clone().scalars(),
            _ => self.columns.clone(),
        };
        write_for_programs(&self.answer, &columns, format, style.look, out)
    }

    fn for_people(&self, zone: Zone) -> table::Table {
        selected_columns::table(&self.answer, &self.shown, zone)
    }
}

/// Writes the verdict and all tables of a report for a terminal, or one table for programs.
///
/// Errors are those of `out`.
pub fn write_report(
    about: &About,
    tables: &[&dyn ReportTable],
    format: Format,
    style: &Style,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    if !format.is_table() {
        let mut tables = tables.iter().take(1);
        return tables.try_for_each(|table| table.write(format, style, out));
    }
    if let Some(verdict) = &about.verdict {
        writeln!(out, "{}\n", wrap(&visible(verdict), style.look.width, 0))?;
    }
    for (place, table) in tables.iter().filter(|table| !table.is_empty()).enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        if tables.len() > 1 {
            let caption = format!("{}: {}", table.name(), table.caption());
            writeln!(out, "{}", wrap(&visible(&caption), style.look.width, 0))?;
        }
        let mut drawn = table.for_people(style.zone);
        if place > 0 {
            drawn.title.clear();
        }
        drawn.write(style.look, ELSEWHERE, out)?;
    }
    Ok(())
}

/// Writes a report as a page: all tables, its notes and its method. The page is one file, runs no script and loads nothing.
///
/// Errors are those of `out`.
pub fn write_page(
    about: &About,
    tables: &[&dyn ReportTable],
    zone: Zone,
    version: &str,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    page::write(about, tables, zone, version, out)
}
