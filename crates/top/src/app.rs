//! The state of the screen, and its changes by keys and mouse.

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};
use trackiops_live::{Moment, Source};
use trackiops_query::coverage::note::Note;
use trackiops_query::times::rfc3339;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::baseline::Baseline;
use crate::detail::Detail;
use crate::table::{Tab, Table, TableRow, Target, Wanted};
use crate::verdict::Verdict;
use crate::view::{Of, View};

/// Lines above and below the rows.
pub const LINES_ABOVE: u16 = 6;
pub const LINES_BELOW: u16 = 2;
/// Steps of `{` and `}`, in steps of `[` and `]`.
const FAR: i64 = 10;
/// Courses are only fetched for the first rows.
const COURSES: usize = 200;

/// The state of the screen.
pub struct App {
    pub(crate) tab: Tab,
    pub(crate) of: Of,
    pub(crate) moment: Moment,
    /// Whether the screen is frozen.
    pub(crate) is_paused: bool,
    /// The time that a row sums up.
    pub(crate) length: Granularity,
    /// Index of the figure to sort by, and whether the smallest come first.
    pub(crate) sort: usize,
    pub(crate) ascending: bool,
    /// A part of the rows' names.
    pub(crate) filter: String,
    /// Directories that the user entered.
    pub(crate) dirs: Vec<String>,
    pub(crate) mode: Mode,
    pub(crate) table: Table,
    pub(crate) verdict: Verdict,
    baseline: Baseline,
    /// Indices of matching rows, in order.
    pub(crate) order: Vec<usize>,
    /// Index in `order`, and index of the first row on the screen.
    pub(crate) selected: usize,
    pub(crate) offset: usize,
    pub(crate) detail: Option<Detail>,
    /// The `query` that gives the content of the screen.
    pub command: Option<String>,
    /// The last error.
    pub trouble: Option<String>,
    /// Rows that fit on the screen.
    pub(crate) height: usize,
    /// Whether figures are coloured.
    pub has_colour: bool,
}

/// What keys control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Rows,
    Filter,
    Help,
}

/// What to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Draw again.
    Draw,
    /// Ask again, then draw.
    Ask,
    /// Stop the process, as Ctrl-Z does.
    Stop,
    Quit,
}

impl App {
    /// Shows files at a moment. A row sums up `length`.
    pub fn new(moment: Moment, length: Granularity) -> Self {
        Self {
            tab: Tab::Files,
            of: Of::Wire,
            moment,
            is_paused: false,
            length,
            sort: Of::Wire.view(Tab::Files).sort,
            ascending: false,
            filter: String::new(),
            dirs: Vec::new(),
            mode: Mode::Rows,
            table: Table::default(),
            verdict: Verdict::default(),
            baseline: Baseline::default(),
            order: Vec::new(),
            selected: 0,
            offset: 0,
            detail: None,
            command: None,
            trouble: None,
            height: 20,
            has_colour: false,
        }
    }

    /// Number of rows, whether they fit on the screen or not.
    pub fn row_count(&self) -> usize {
        self.table.rows.len()
    }

    /// Notes on the rows.
    pub fn notes(&self) -> &[Note] {
        &self.table.notes
    }

    /// Fetches the content of the screen.
    pub(crate) fn ask(&mut self, source: &Source) {
        self.verdict.ask(source, self.moment);
        let asked = match &mut self.detail {
            Some(detail) => detail.ask(source, self.moment, self.length),
            None => self.ask_rows(source),
        };
        self.trouble = asked.err().map(|error| format!("{error:#}"));
    }

    fn ask_rows(&mut self, source: &Source) -> anyhow::Result<()> {
        let id = self.row().map(|row| row.id.clone());
        let usual = self.view().has_lost().then(|| {
            let length_ms = self.length.ms();
            self.baseline.of(source, self.moment, length_ms)
        });
        self.table = Table::ask(
            source,
            &Wanted {
                tab: self.tab,
                view: self.view(),
                dir: self.dirs.last().map(String::as_str),
                moment: self.moment,
                length: self.length,
                sort: self.sort,
                courses: COURSES,
                usual,
            },
        )?;
        self.arrange(id.as_deref());
        Ok(())
    }

    /// The figures of the rows.
    pub(crate) fn view(&self) -> &'static View {
        self.of.view(self.tab)
    }

    /// The selected row.
    pub(crate) fn row(&self) -> Option<&TableRow> {
        self.table.rows.get(*self.order.get(self.selected)?)
    }

    /// Filters and sorts. The row with this id stays selected.
    fn arrange(&mut self, id: Option<&str>) {
        let filter = self.filter.to_lowercase();
        let rows = &self.table.rows;
        let mut order: Vec<usize> = (0..rows.len())
            .filter(|at| filter.is_empty() || rows[*at].name.to_lowercase().contains(&filter))
            .collect();
        let value = |at: &usize| rows[*at].figures[self.sort].unwrap_or(f64::NEG_INFINITY);
        order.sort_by(|a, b| {
            let by_value = value(a).total_cmp(&value(b));
            let by_value = match self.ascending {
                true => by_value,
                false => by_value.reverse(),
            };
            by_value.then_with(|| rows[*a].name.cmp(&rows[*b].name))
        });
        let place = id.and_then(|id| order.iter().position(|at| rows[*at].id == id));
        // Without a selection by hand, the first row stays selected.
        self.selected = match self.selected {
            0 => 0,
            at => place.unwrap_or(at).min(order.len().saturating_sub(1)),
        };
        self.order = order;
        self.scroll();
    }

    fn arrange_again(&mut self) {
        let id = self.row().map(|row| row.id.clone());
        self.arrange(id.as_deref());
    }

    fn scroll(&mut self) {
        let height = self.height.max(1);
        let last = self.order.len().saturating_sub(height);
        self.offset = self.offset.min(self.selected).min(last);
        if self.selected >= self.offset + height {
            self.offset = self.selected + 1 - height;
        }
    }

    /// Sets the number of lines for rows.
    pub(crate) fn fit(&mut self, height: usize) {
        self.height = height;
        self.scroll();
    }

    /// Handles an event.
    pub(crate) fn on(&mut self, event: &Event, source: &Source) -> Next {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(*key, source),
            Event::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollDown => self.go(3),
                MouseEventKind::ScrollUp => self.go(-3),
                MouseEventKind::Down(MouseButton::Left) => self.click(mouse.row, mouse.column),
                _ => Next::Draw,
            },
            // The lines of a file are as wide as the screen.
            Event::Resize(..) if self.detail.is_some() => Next::Ask,
            _ => Next::Draw,
        }
    }

    fn on_key(&mut self, key: KeyEvent, source: &Source) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Next::Quit,
                KeyCode::Char('z') => return Next::Stop,
                _ => {}
            }
        }
        match self.mode {
            Mode::Help => {
                self.mode = Mode::Rows;
                Next::Draw
            }
            Mode::Filter => self.on_filter_key(key.code),
            Mode::Rows => self.on_row_key(key.code, source),
        }
    }

    fn on_filter_key(&mut self, key: KeyCode) -> Next {
        match key {
            KeyCode::Enter => self.mode = Mode::Rows,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Rows;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.arrange_again();
        Next::Draw
    }

    fn on_row_key(&mut self, key: KeyCode, source: &Source) -> Next {
        self.command = None;
        let page = i64::try_from(self.height.max(2) - 1).unwrap_or(1);
        match key {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('/') if self.detail.is_none() => self.mode = Mode::Filter,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('L') => {
                self.is_paused = false;
                if source.live().is_some() {
                    self.moment = Moment::Live;
                }
                return Next::Ask;
            }
            KeyCode::Char('[') => return self.step(source, -1),
            KeyCode::Char(']') => return self.step(source, 1),
            KeyCode::Char('{') => return self.step(source, -FAR),
            KeyCode::Char('}') => return self.step(source, FAR),
            KeyCode::Char('S') => {
                return self.sort_by((self.sort + 1) % self.view().figures.len());
            }
            KeyCode::Char('a') => {
                let before = self.view();
                self.of = self.of.next(self.tab);
                return self.change_view(before);
            }
            KeyCode::Char('r') => {
                self.ascending = !self.ascending;
                self.arrange_again();
            }
            KeyCode::Char('y') => self.command = Some(self.query()),
            KeyCode::Char(c @ '1'..='7') => {
                return self.show(Tab::ALL[c as usize - '1' as usize]);
            }
            KeyCode::Tab | KeyCode::BackTab => {
                let at = Tab::ALL
                    .iter()
                    .position(|tab| *tab == self.tab)
                    .unwrap_or(0);
                let by = if key == KeyCode::Tab {
                    1
                } else {
                    Tab::ALL.len() - 1
                };
                return self.show(Tab::ALL[(at + by) % Tab::ALL.len()]);
            }
            KeyCode::Down | KeyCode::Char('j') => return self.go(1),
            KeyCode::Up | KeyCode::Char('k') => return self.go(-1),
            KeyCode::PageDown => return self.go(page),
            KeyCode::PageUp => return self.go(-page),
            KeyCode::Home | KeyCode::Char('g') => return self.go(i64::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => return self.go(i64::MAX / 2),
            KeyCode::Enter | KeyCode::Right => return self.enter(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => return self.leave(),
            _ => {}
        }
        Next::Draw
    }

    /// Moves the selection, or scrolls the text of a file.
    fn go(&mut self, by: i64) -> Next {
        let last = |length: usize| i64::try_from(length).unwrap_or(i64::MAX) - 1;
        let moved = |from: usize, length: usize| {
            let from = i64::try_from(from).unwrap_or(0);
            usize::try_from((from + by).clamp(0, last(length).max(0))).unwrap_or(0)
        };
        match &mut self.detail {
            Some(detail) => detail.offset = moved(detail.offset, detail.lines.len()),
            None => {
                self.selected = moved(self.selected, self.order.len());
                self.scroll();
            }
        }
        Next::Draw
    }

    fn click(&mut self, line: u16, column: u16) -> Next {
        if line == LINES_ABOVE - 2 && self.detail.is_none() {
            let mut at = 0;
            for tab in Tab::ALL {
                at += tab.title().len() as u16 + 4;
                if column < at {
                    return self.show(tab);
                }
            }
            return Next::Draw;
        }
        let Some(row) = line.checked_sub(LINES_ABOVE) else {
            return Next::Draw;
        };
        let at = self.offset + usize::from(row);
        if self.detail.is_some() || usize::from(row) >= self.height || at >= self.order.len() {
            return Next::Draw;
        }
        if at == self.selected {
            return self.enter();
        }
        self.selected = at;
        Next::Draw
    }

    /// Sorts a new view by the same figure as before, or else by its default one.
    fn change_view(&mut self, before: &View) -> Next {
        let column = before.figures[self.sort].column;
        let view = self.view();
        let same = view.figures.iter().position(|of| of.column == column);
        self.sort = same.unwrap_or(view.sort);
        self.table = Table::default();
        Next::Ask
    }

    fn show(&mut self, tab: Tab) -> Next {
        let before = self.view();
        self.tab = tab;
        if !std::ptr::eq(before, self.view()) {
            self.change_view(before);
        }
        self.detail = None;
        self.table = Table::default();
        (self.selected, self.offset) = (0, 0);
        if tab != Tab::Tree && tab != Tab::Files {
            self.dirs.clear();
        }
        Next::Ask
    }

    fn sort_by(&mut self, figure: usize) -> Next {
        self.sort = figure;
        self.arrange_again();
        // Other rows come first, and need courses.
        Next::Ask
    }

    fn step(&mut self, source: &Source, steps: i64) -> Next {
        let from = match (self.moment, self.table.range) {
            (Moment::Until(until), _) => until,
            (Moment::Live, Some((_, until))) => until,
            (Moment::Live, None) => match source.until() {
                Ok(until) => until,
                Err(error) => {
                    self.trouble = Some(format!("{error:#}"));
                    return Next::Draw;
                }
            },
        };
        self.moment = Moment::Until(UtcMs(from.0 + steps * self.length.ms()));
        Next::Ask
    }

    fn enter(&mut self) -> Next {
        if self.detail.is_some() {
            return Next::Draw;
        }
        let Some(row) = self.row().cloned() else {
            return Next::Draw;
        };
        match row.target {
            Target::File(file) => self.detail = Some(Detail::new(file, row.name)),
            Target::Dir(dir) if self.dirs.last() != Some(&dir) => {
                self.dirs.push(dir);
                (self.selected, self.offset) = (0, 0);
            }
            Target::Dir(_) => return self.show_files_of(),
            Target::Nothing => return Next::Draw,
        }
        Next::Ask
    }

    /// Shows the files of a directory without subdirectories.
    fn show_files_of(&mut self) -> Next {
        let dirs = std::mem::take(&mut self.dirs);
        let next = self.show(Tab::Files);
        self.dirs = dirs;
        next
    }

    fn leave(&mut self) -> Next {
        if self.detail.take().is_none() && self.dirs.pop().is_none() {
            if self.filter.is_empty() {
                return Next::Draw;
            }
            self.filter.clear();
            self.arrange_again();
        }
        Next::Ask
    }

    /// The `query` that gives the content of the screen.
    fn query(&self) -> String {
        let mut words = vec!["trackiops query".to_owned()];
        let range = match &self.detail {
            Some(detail) => detail.range,
            None => self.table.range,
        };
        if let Some((since, until)) = range {
            words.push(format!(
                "--since {} --until {}",
                rfc3339(since),
                rfc3339(until)
            ));
        }
        match &self.detail {
            Some(detail) => words.push(format!("--file {} --step all", detail.file)),
            None => {
                if let Some(dir) = self.dirs.last() {
                    words.push(format!("--dir {}", quoted(dir)));
                }
                if !self.filter.is_empty() && self.tab == Tab::Files {
                    words.push(format!(
                        "--file {}",
                        quoted(&format!("**/*{}*", self.filter))
                    ));
                }
                let is_of_connections = self.view().is_of_connections;
                let by = match is_of_connections {
                    true => "transport",
                    false => self.tab.by(),
                };
                words.push(format!("--by {by}"));
                let order = if self.ascending { ":asc" } else { "" };
                words.push(format!(
                    "--sort {}{order}",
                    self.view().figures[self.sort].column
                ));
                let named = match self.tab {
                    Tab::Files | Tab::Tree => "path,",
                    Tab::Mounts | Tab::Stalls => "mount,",
                    Tab::Volumes => "volume,claim,",
                    Tab::Tenants => "tenant,",
                    Tab::Operations if is_of_connections => "transport,mount,op,",
                    Tab::Operations => "op,mount,",
                };
                words.push(format!("--columns {named}{}", self.view().names()));
            }
        }
        words.join(" ")
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
