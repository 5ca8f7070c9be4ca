//! Tables for people: readable units, local time, no colours. Bars and sparklines appear only on a terminal with room for them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::{self, Write};
use std::iter;

use crate::terminal_style::{BAR_WIDTH, Look};
use crate::visible::{self, visible};
use trackiops_query::answer::Answer;
use trackiops_query::step::Step;
use trackiops_query::times::{Zone, show, show_offset, show_range};
use trackiops_schemas::time::UtcMs;

/// Gap between two columns.
const GAP: &str = "  ";
/// Cell for an unknown value, or for a figure without requests.
pub(super) const NONE: &str = "-";

/// A truncated text keeps at least this many cells.
const LEAST_WIDTH: usize = 10;
/// Columns below [`ESSENTIAL`] are dropped before texts become narrower than this.
const GOOD_WIDTH: usize = 24;

/// Importance of a column. If a line has too little room, the columns with the smallest weight are dropped first. Columns of
/// equal weight, such as those of reads and writes, stay or go together.
pub(super) type Weight = u8;
/// Weight of the name of a row.
pub(super) const NAME: Weight = Weight::MAX;
/// Weight of the column that rows are sorted by.
const SORTED: Weight = 250;
/// Least weight of a column that distinguishes rows of the same name.
pub(super) const KEY: Weight = 200;
/// From this weight on, texts are truncated before the column is dropped.
pub(super) const ESSENTIAL: Weight = 100;

/// A table, ready to be written.
pub struct Table {
    /// Facts that all rows share.
    pub(super) title: Vec<String>,
    pub(super) header: Vec<Cell>,
    pub(super) lines: Vec<Vec<Cell>>,
    /// Whether the user chose the columns. Then columns are dropped from the right, whatever their weight.
    pub(super) is_chosen: bool,
}

/// A cell. The cell of the header has the column's weight.
pub(super) struct Cell {
    text: String,
    kind: Kind,
    weight: Weight,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Aligned to the left; may be truncated on the left.
    Text,
    /// Aligned to the left.
    Whole,
    /// Aligned to the right.
    Figure,
    /// A bar, which repeats a figure.
    Bar,
}

/// A text that may be truncated.
pub(super) fn left<'t>(text: impl Into<Cow<'t, str>>) -> Cell {
    cell(text.into(), Kind::Text)
}

/// A text that is truncated only if no other text can shrink.
pub(super) fn whole<'t>(text: impl Into<Cow<'t, str>>) -> Cell {
    cell(text.into(), Kind::Whole)
}

pub(super) fn right<'t>(text: impl Into<Cow<'t, str>>) -> Cell {
    cell(text.into(), Kind::Figure)
}

fn cell(text: Cow<'_, str>, kind: Kind) -> Cell {
    let text = match visible(&text) {
        Cow::Owned(escaped) => escaped,
        // Most texts are made for one cell, so this rarely copies.
        Cow::Borrowed(_) => text.into_owned(),
    };
    Cell {
        text,
        kind,
        weight: ESSENTIAL,
    }
}

impl Cell {
    fn parts(&self) -> (bool, &str) {
        (self.kind == Kind::Figure, &self.text)
    }

    /// Sets the column's weight; only for headers.
    pub(super) fn weighs(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// Appends the cell to a line, `width` cells wide.
    fn show(&self, width: usize, look: Look, line: &mut String) {
        let text = look.cut(&self.text, width);
        let blanks = iter::repeat_n(' ', width.saturating_sub(visible::width(&text)));
        match self.kind {
            Kind::Figure => {
                line.extend(blanks);
                line.push_str(&text);
            }
            _ => {
                line.push_str(&text);
                line.extend(blanks);
            }
        }
    }
}

/// A column while the table is fitted to the terminal.
struct Fitted<'t> {
    header: &'t Cell,
    place: usize,
    width: usize,
}

impl Fitted<'_> {
    /// Least width of the column beside columns of this weight.
    fn least(&self, weight: Weight) -> usize {
        match (self.header.kind, weight >= ESSENTIAL) {
            (Kind::Text, true) => self.width.min(LEAST_WIDTH),
            (Kind::Text, false) => self.width.min(GOOD_WIDTH),
            _ => self.width,
        }
    }
}

impl Table {
    /// Headers of the columns of figures.
    pub(super) fn figures(&self) -> impl Iterator<Item = &str> {
        let figures = self.header.iter().filter(|cell| cell.kind == Kind::Figure);
        figures.map(|cell| cell.text.as_str())
    }

    /// The header: whether a column is of figures, and its name.
    pub(super) fn header_cells(&self) -> impl Iterator<Item = (bool, &str)> {
        self.header.iter().map(Cell::parts)
    }

    /// The cells of each line, in the form of [`Self::header_cells`].
    pub(super) fn line_cells(&self) -> impl Iterator<Item = impl Iterator<Item = (bool, &str)>> {
        self.lines.iter().map(|line| line.iter().map(Cell::parts))
    }

    /// Index after the last column of figures, where the final texts begin.
    fn end_of_figures(&self) -> usize {
        let is_figure = |cell: &Cell| cell.kind == Kind::Figure;
        let last = self.header.iter().rposition(is_figure);
        last.map_or(0, |at| at + 1)
    }

    /// Adds a column of figures after the others, with one cell per line.
    pub(super) fn add_figure(&mut self, name: &str, cells: Vec<Cell>) {
        let end = self.end_of_figures();
        self.header.insert(end, right(name));
        for (line, cell) in self.lines.iter_mut().zip(cells) {
            line.insert(end, cell);
        }
    }

    /// Adds a column of bars before the final texts, with one bar per line.
    pub(super) fn add_bars(&mut self, name: &str, values: &[Option<f64>], look: Look) {
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        if values.len() != self.lines.len() || most <= 0.0 {
            return;
        }
        let place = self.end_of_figures();
        let name: String = name.chars().take(2 * BAR_WIDTH).collect();
        self.header
            .insert(place, cell(name.into(), Kind::Bar).weighs(0));
        for (line, value) in self.lines.iter_mut().zip(values) {
            let bar = value.map_or_else(String::new, |value| look.bar(value / most));
            line.insert(place, cell(bar.into(), Kind::Bar));
        }
    }

    /// Raises the weight of the columns that rows are sorted by.
    pub(super) fn sorted_by(&mut self, is_sorted: impl Fn(&str) -> bool) {
        let sorted = self.header.iter_mut().filter(|cell| is_sorted(&cell.text));
        sorted.for_each(|cell| cell.weight = cell.weight.max(SORTED));
    }

    fn columns(&self) -> Vec<Fitted<'_>> {
        let headers = self.header.iter().enumerate();
        let mut columns: Vec<_> = headers
            .map(|(place, header)| Fitted {
                header,
                place,
                width: visible::width(&header.text),
            })
            .collect();
        for line in &self.lines {
            for (column, cell) in columns.iter_mut().zip(line) {
                column.width = column.width.max(visible::width(&cell.text));
            }
        }
        columns
    }

    /// Splits the columns into those that fit and those that do not, each in order.
    fn fit(&self, room: usize) -> (Vec<Fitted<'_>>, Vec<&Cell>) {
        let mut order = self.columns();
        let weight = |column: &Fitted<'_>| match (self.is_chosen, column.header.kind) {
            (true, Kind::Bar) => (0, 0),
            (true, _) => (ESSENTIAL, usize::MAX - column.place),
            (false, _) => (column.header.weight, 0),
        };
        order.sort_by_key(|column| Reverse(weight(column)));
        let (mut kept, mut left_out): (Vec<Fitted<'_>>, Vec<Fitted<'_>>) = Default::default();
        while let Some(heaviest) = order.first() {
            let same = weight(heaviest);
            let next = order.split_off(order.partition_point(|column| weight(column) == same));
            let together = kept.iter().chain(&order);
            let needed: usize = together.map(|c| c.least(same.0) + GAP.len()).sum();
            let is_bar = same.0 == 0;
            let is_beyond = (self.is_chosen || is_bar) && !left_out.is_empty();
            match kept.is_empty() || needed <= room.saturating_add(GAP.len()) && !is_beyond {
                true => kept.append(&mut order),
                false => left_out.append(&mut order),
            }
            order = next;
        }
        kept.sort_by_key(|column| column.place);
        left_out.sort_by_key(|column| column.place);
        shrink(&mut kept, room);
        let left_out = left_out.into_iter().map(|column| column.header);
        (
            kept,
            left_out.filter(|cell| cell.kind != Kind::Bar).collect(),
        )
    }

    /// Writes the table. `elsewhere` says how to see the columns that did not fit.
    pub(super) fn write(&self, look: Look, elsewhere: &str, out: &mut dyn Write) -> io::Result<()> {
        for line in self.title(look) {
            writeln!(out, "{line}")?;
        }
        let (columns, left_out) = self.fit(look.width.unwrap_or(usize::MAX));
        let mut text = String::new();
        for line in iter::once(&self.header).chain(&self.lines) {
            text.clear();
            for (i, column) in columns.iter().enumerate() {
                text.push_str(if i == 0 { "" } else { GAP });
                line[column.place].show(column.width, look, &mut text);
            }
            writeln!(out, "{}", text.trim_end_matches(' '))?;
        }
        if !left_out.is_empty() {
            let names: Vec<_> = left_out.iter().map(|cell| &*cell.text).collect();
            let note = format!("no room for {}; {elsewhere}", names.join(", "));
            writeln!(out, "{}", visible::wrap(&note, look.width, 0))?;
        }
        Ok(())
    }

    /// The parts of the title, in as few lines as possible. They are never truncated.
    fn title(&self, look: Look) -> Vec<String> {
        let room = look.width.unwrap_or(usize::MAX);
        let mut lines: Vec<String> = Vec::new();
        for part in &self.title {
            let part = visible(part);
            let fits = |line: &&mut String| {
                visible::width(line) + GAP.len() + visible::width(&part) <= room
            };
            match lines.last_mut().filter(fits) {
                Some(line) => line.extend([GAP, &part]),
                None => lines.extend(
                    visible::wrap(&part, look.width, 0)
                        .lines()
                        .map(str::to_owned),
                ),
            }
        }
        lines
    }
}

/// Narrows columns until a line fits: the widest text first, figures only if nothing else is left.
fn shrink(columns: &mut [Fitted<'_>], room: usize) {
    for (kinds, least) in [
        (&[Kind::Text][..], LEAST_WIDTH),
        (&[Kind::Text, Kind::Whole, Kind::Figure, Kind::Bar], 1),
    ] {
        let gaps = GAP.len() * columns.len().saturating_sub(1);
        let mut excess =
            (columns.iter().map(|c| c.width).sum::<usize>() + gaps).saturating_sub(room);
        while excess > 0 {
            let fits = |c: &&mut Fitted<'_>| kinds.contains(&c.header.kind) && c.width > least;
            let Some(widest) = columns.iter_mut().filter(fits).max_by_key(|c| c.width) else {
                break;
            };
            (widest.width, excess) = (widest.width - 1, excess - 1);
        }
    }
}

/// How a table shows times.
pub(super) struct Times {
    /// Whether each row has a time.
    pub(super) shown: bool,
    /// Local time has two offsets in the range, so each time shows its own.
    offsets: bool,
    zone: Zone,
}

impl Times {
    /// Compares the offsets of the first and the last row.
    pub(super) fn of<R>(answer: &Answer<R>, zone: Zone, time: impl Fn(&R) -> UtcMs) -> Self {
        let rows = &answer.rows;
        let shown = answer.step != Step::All;
        let offset = |row: Option<&R>| row.map(|row| show_offset(time(row), zone));
        Self {
            shown,
            offsets: shown && offset(rows.first()) != offset(rows.last()),
            zone,
        }
    }

    /// The range, for the title of a table whose rows have no times; `None` if the answer has no range.
    pub(super) fn title<R>(&self, answer: &Answer<R>) -> Option<String> {
        let (start, end) = (answer.range.start, answer.range.end);
        let offset = show_offset(start, self.zone);
        let is_title = !self.shown && !answer.range.is_empty();
        is_title.then(|| format!("{} ({offset})", show_range(start, end, self.zone)))
    }

    /// Header of the time column, if there is one; `first` is the time of the first row.
    pub(super) fn header(&self, first: UtcMs) -> Option<Cell> {
        self.shown.then(|| {
            whole(match self.offsets {
                true => "time".into(),
                false => format!("time ({})", show_offset(first, self.zone)),
            })
            .weighs(KEY + 9)
        })
    }

    /// Cell of a row's time, if the table has a time column.
    pub(super) fn cell(&self, time: UtcMs) -> Option<Cell> {
        self.shown.then(|| {
            let mut text = show(time, self.zone);
            if self.offsets {
                text.push_str(&show_offset(time, self.zone));
            }
            whole(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let figures = ["4 KiB", "1 KiB"];
        let names = ["/mnt/home/db/資料/orders.db", "/a\u{202e}"];
        let lines = figures.iter().zip(names);
        Table {
            title: vec!["title".into(), "/資料\u{7}".into()],
            header: vec![
                whole("time").weighs(KEY),
                right("bytes").weighs(ESSENTIAL),
                right("iops").weighs(20),
                right("mean").weighs(30),
                left("file").weighs(NAME),
            ],
            lines: lines
                .map(|(bytes, file)| {
                    vec![
                        whole("03:10"),
                        right(*bytes),
                        right("1.00"),
                        right("12.0"),
                        left(file),
                    ]
                })
                .collect(),
            is_chosen: false,
        }
    }

    fn shown(table: &Table, width: Option<usize>) -> String {
        let look = Look {
            width,
            ..Look::default()
        };
        let mut out = Vec::new();
        table.write(look, "ask", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_all_of_it_by_the_widths_of_characters() {
        let expected = "title  /資料\\u{7}\n\
             time   bytes  iops  mean  file\n\
             03:10  4 KiB  1.00  12.0  /mnt/home/db/資料/orders.db\n\
             03:10  1 KiB  1.00  12.0  /a\\u{202e}\n";
        assert_eq!(shown(&table(), None), expected);
    }

    #[test]
    fn what_tells_least_is_left_out_first_and_the_name_is_cut() {
        let line = |width| {
            shown(&table(), Some(width))
                .lines()
                .nth(2)
                .unwrap()
                .to_owned()
        };
        for (width, expected) in [
            (53, "03:10  4 KiB  1.00  12.0  /mnt/home/db/資料/orders.db"),
            (50, "03:10  4 KiB  1.00  12.0  …/home/db/資料/orders.db"),
            (49, "03:10  4 KiB  12.0  /mnt/home/db/資料/orders.db"),
            (43, "03:10  4 KiB  /mnt/home/db/資料/orders.db"),
            (24, "03:10  4 KiB  …orders.db"),
            (23, "03:10  …/資料/orders.db"),
            (17, "03:10  …orders.db"),
        ] {
            assert_eq!(line(width), expected);
        }
    }

    #[test]
    fn what_is_left_out_is_named_and_no_line_is_wider_than_there_is_room() {
        for width in 12..80 {
            let text = shown(&table(), Some(width));
            let is_whole = ["iops", "mean", "bytes", "time"]
                .iter()
                .all(|name| text.matches(name).count() == 1);
            assert!(is_whole, "{width}: {text}");
            assert_eq!(text.contains("no room"), width < 50, "{width}: {text}");
            let widest = text.lines().map(visible::width).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
    }

    #[test]
    fn what_is_sorted_by_stays() {
        let mut table = table();
        table.sorted_by(|name| name == "iops");
        let text = shown(&table, Some(22));
        assert_eq!(text.lines().nth(1), Some("iops  file"), "{text}");
    }

    #[test]
    fn chosen_columns_go_from_the_right() {
        let mut table = table();
        table.is_chosen = true;
        let text = shown(&table, Some(26));
        assert!(text.contains("\ntime   bytes  iops  mean\n"), "{text}");
        assert!(text.ends_with("no room for file; ask\n"), "{text}");
        let text = shown(&table, Some(17));
        assert!(text.contains("\ntime   bytes\n"), "{text}");
    }

    #[test]
    fn bars_are_there_where_there_is_room() {
        let mut table = table();
        let look = Look {
            width: None,
            ascii: false,
            is_terminal: true,
        };
        table.add_bars("bytes", &[Some(4.0), Some(1.0)], look);
        let line = |width| {
            shown(&table, Some(width))
                .lines()
                .nth(2)
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            line(80),
            "03:10  4 KiB  1.00  12.0  ████████  /mnt/home/db/資料/orders.db"
        );
        assert!(!line(50).contains('█') && !shown(&table, Some(50)).contains("no room"));
        // A bar must not take the room of a column that did not fit.
        table.header[2] = right("throughput in all").weighs(20);
        assert!(!shown(&table, Some(56)).contains('█'));
    }
}
