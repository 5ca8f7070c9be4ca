//! Writes answers in all formats.

use std::io::{self, Write};
use std::str::FromStr;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, MountSeen};

use crate::formats::{Kind, Texts, Writer};
use crate::table::{NONE, Table, right};
use crate::terminal_style::{Look, Style};
use crate::visible::visible;
use crate::{
    captures, events, file_rows, files, json, mounts, operations, processes, requests,
    selected_columns, stalls, units, volume,
};
use trackiops_query::answer::{Answer, AnswerRow};
use trackiops_query::columns::{Column, Columns, Record};
use trackiops_query::files::FileActivity;
use trackiops_query::operations::OperationAnswer;
use trackiops_query::processes::ProcessActivity;
use trackiops_query::question::{READ, WRITE};
use trackiops_query::requests::KeptRequest;
use trackiops_query::stalls::ServerStall;
use trackiops_query::step::Step;
use trackiops_query::times::Zone;
use trackiops_query::volume::Volume;
use trackiops_query::{Event, HostStream};
use trackiops_query::{Figures, Projection};

/// Rows per batch of Arrow: the header of a batch is small beside this many rows.
const BATCH_ROWS: usize = 65_536;
/// Most windows that a sparkline sums up.
const MAX_COURSE: usize = 1_000_000;

/// How to see the columns that did not fit, for rows whose columns can be chosen.
const CHOOSES_COLUMNS: &str =
    "use a wider terminal, --columns NAME,... or --format csv to see them";

/// Output format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table for people.
    Table(Figures),
    /// CSV: a header and one line per row.
    Csv(Texts),
    /// JSON: one object per line.
    Json,
    /// Parquet.
    Parquet,
    /// An Arrow IPC file, also known as Feather 2.
    Arrow,
}

impl Format {
    /// Stored columns that it needs.
    pub fn projection(self) -> Projection {
        match self {
            Self::Table(figures) => Projection::table(figures),
            Self::Csv(_) => self.columns::<AnswerRow>().needs().only_transfers(true),
            Self::Json | Self::Parquet | Self::Arrow => Projection::all().only_transfers(true),
        }
    }

    /// Its default columns. CSV has no lists by default, because the lists of a row are longer than all its other values.
    pub fn columns<R: Record>(self) -> Columns<R> {
        match self {
            Self::Csv(_) => Columns::usual().scalars(),
            _ => Columns::usual(),
        }
    }

    /// Name in `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table(_) => "table",
            Self::Csv(_) => "csv",
            Self::Json => "json",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// Whether it is for people.
    pub fn is_table(self) -> bool {
        matches!(self, Self::Table(_))
    }

    /// Whether it is binary, and so must not go to a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}

/// The text of `--format` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format: write table, csv, json, parquet or arrow")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "table" => Ok(Self::Table(Figures::Rates)),
            "csv" => Ok(Self::Csv(Texts::AsTheyAre)),
            "json" => Ok(Self::Json),
            "parquet" => Ok(Self::Parquet),
            "arrow" => Ok(Self::Arrow),
            _ => Err(FormatError(text.into())),
        }
    }
}

/// Writes an answer with its default columns. Tables follow `style`; times in other formats are always UTC.
///
/// Errors are those of `out`.
pub fn write<R: Render>(
    answer: &Answer<R>,
    format: Format,
    style: impl Into<Style>,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let style = style.into();
    match format {
        Format::Table(figures) => {
            let mut table = R::table(answer, figures, style.zone);
            add_sorted(&mut table, answer, &style);
            draw(table, answer, &style).write(style.look, R::ELSEWHERE, out)
        }
        _ => write_columns(answer, &format.columns(), format, style, out),
    }
}

/// Writes the given columns of an answer. Errors are those of `out`.
pub fn write_columns<R: Render>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    format: Format,
    style: impl Into<Style>,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let style = style.into();
    match format {
        Format::Table(_) => {
            let table = selected_columns::table(answer, columns, style.zone);
            draw(table, answer, &style).write(style.look, R::ELSEWHERE, out)
        }
        _ => write_for_programs(answer, columns, format, style.look, out),
    }
}

/// Writes columns in any format but a table, which is written as CSV. Errors are those of `out`.
pub(crate) fn write_for_programs<R: Sync + 'static>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    format: Format,
    look: Look,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let texts = match format {
        Format::Csv(texts) => texts,
        _ => Texts::AsTheyAre,
    };
    match format {
        Format::Json => json::write(answer, columns, out),
        Format::Table(_) | Format::Csv(_) if look.is_terminal => {
            let columns = columns.map_texts(|text| visible(text).into_owned());
            file(answer, &columns, Kind::Csv(texts), out)
        }
        Format::Table(_) | Format::Csv(_) => file(answer, columns, Kind::Csv(texts), out),
        Format::Parquet => file(answer, columns, Kind::Parquet, out),
        Format::Arrow => file(answer, columns, Kind::Arrow, out),
    }
}

fn file<R: Sync + 'static>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    kind: Kind,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let mut file = Writer::new(kind, &columns.schema(), out)?;
    for rows in answer.rows.chunks(BATCH_ROWS) {
        file.write_rows(columns, rows)?;
    }
    file.finish()?.out.flush()
}

/// Value of a column; `None` if the row has no such requests, because a 0 would look like an instant one.
pub(crate) fn done<R: Render>(row: &R, column: &Column<R>) -> Option<f64> {
    let number = column.value(row).number();
    number.filter(|_| row.has(&column.name))
}

/// Adds the column that rows are sorted by, if the table lacks it. Without it, readers could not see the order.
fn add_sorted<R: Render>(table: &mut Table, answer: &Answer<R>, style: &Style) {
    let column = |name: &str| Columns::<R>::number(name).ok();
    let Some(sorted) = style.sorted_by.as_deref().and_then(column) else {
        return;
    };
    let is_sorted = |column: Column<R>| column.name == sorted.name;
    if table.figures().filter_map(column).any(is_sorted) {
        return;
    }
    let cell = |row: &R| match done(row, &sorted) {
        Some(number) => right(units::show(sorted.unit, number)),
        None => right(NONE),
    };
    table.add_figure(&sorted.shown_name(), answer.rows.iter().map(cell).collect());
}

/// On a terminal, adds bars to a table, and a sparkline above a table of windows. Gives the sorted column priority.
fn draw<R: Render>(mut table: Table, answer: &Answer<R>, style: &Style) -> Table {
    let look = style.look;
    let column = |name: &str| Columns::<R>::number(name).ok();
    if let Some(sorted) = style.sorted_by.as_deref().and_then(column) {
        let sides = [READ, WRITE].map(|side| format!("{}_{}", side.to_lowercase(), sorted.name));
        table.sorted_by(|header| {
            column(header).is_some_and(|c| c.name == sorted.name || sides.contains(&c.name))
        });
    }
    let drawn = style.sorted_by.as_deref().or(R::BARS).and_then(column);
    let (true, Some(column)) = (look.is_terminal, drawn) else {
        return table;
    };
    let value = |row: &R| column.value(row).number();
    let name = column.shown_name();
    if let Some(course) = course(answer, value) {
        let room = look.width.unwrap_or(usize::MAX);
        let course = look.sparkline(&course, room.saturating_sub(name.len() + 1));
        table.title.push(format!("{name} {course}"));
    }
    let values: Vec<_> = answer.rows.iter().map(value).collect();
    table.add_bars(&name, &values, look);
    table
}

/// The sum of each window from the first to the last, including windows without rows.
fn course<R: Render>(answer: &Answer<R>, value: impl Fn(&R) -> Option<f64>) -> Option<Vec<f64>> {
    let Step::Windows(step) = answer.step else {
        return None;
    };
    let time = |row: &R| R::time(row).map(|time| time.0);
    let first = answer.rows.iter().filter_map(time).min()?;
    let last = answer.rows.iter().filter_map(time).max()?;
    let place = |time: i64| usize::try_from((time - first) / step.ms()).ok();
    let mut course = vec![0.0; place(last)?.min(MAX_COURSE) + 1];
    for row in &answer.rows {
        if let Some(sum) = course.get_mut(place(time(row)?)?) {
            *sum += value(row).unwrap_or(0.0);
        }
    }
    (course.len() > 1).then_some(course)
}

/// Lists the columns of a kind of row: names, short names, units.
pub fn list_columns<R: Record>(look: Look, out: &mut dyn Write) -> io::Result<()> {
    selected_columns::list::<R>().write(look, "use a wider terminal to see it", out)
}

/// A kind of row that can be written.
pub trait Render: Record + Sized {
    /// The column for bars, if there is one.
    const BARS: Option<&'static str> = None;
    /// How to see the columns that did not fit into a table.
    const ELSEWHERE: &'static str = "use a wider terminal or --format csv to see all";

    /// Whether the row has requests of the kind that a column describes.
    fn has(&self, column: &str) -> bool {
        let _ = column;
        true
    }

    /// Start of the row's window, if it has one.
    fn time(_: &Self) -> Option<UtcMs> {
        None
    }

    /// The table for people. Only rows of files and groups of files use `figures`.
    fn table(answer: &Answer<Self>, figures: Figures, zone: Zone) -> Table;
}

impl Render for AnswerRow {
    const BARS: Option<&'static str> = Some("bytes");
    const ELSEWHERE: &'static str = CHOOSES_COLUMNS;

    fn has(&self, column: &str) -> bool {
        match column.split_once('_') {
            Some(("read", _)) => self.sum.read().requests > 0,
            Some(("write", _)) => self.sum.write().requests > 0,
            _ => true,
        }
    }

    fn time(row: &Self) -> Option<UtcMs> {
        Some(row.time)
    }

    fn table(answer: &Answer, figures: Figures, zone: Zone) -> Table {
        file_rows::table(answer, figures, zone)
    }
}

impl Render for FileActivity {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        files::table(answer, zone)
    }
}

impl Render for KeptRequest {
    const ELSEWHERE: &'static str = CHOOSES_COLUMNS;

    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        requests::table(answer, zone)
    }
}

impl Render for ProcessActivity {
    const BARS: Option<&'static str> = Some("requests");

    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        processes::table(answer, zone)
    }
}

impl Render for ServerStall {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        stalls::table(answer, zone)
    }
}

impl Render for HostStream {
    fn table(answer: &Answer<Self>, _: Figures, _: Zone) -> Table {
        captures::table(answer)
    }
}

impl Render for Mark {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        events::marks(answer, zone)
    }
}

impl Render for Event {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        events::events(answer, zone)
    }
}

impl Render for MountSeen {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        mounts::table(answer, zone)
    }
}

impl Render for OperationAnswer {
    const BARS: Option<&'static str> = Some("requests");
    const ELSEWHERE: &'static str = CHOOSES_COLUMNS;

    fn time(row: &Self) -> Option<UtcMs> {
        Some(row.time)
    }

    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        operations::table(answer, zone)
    }
}

impl Render for Volume {
    fn table(answer: &Answer<Self>, _: Figures, _: Zone) -> Table {
        volume::table(answer)
    }
}
