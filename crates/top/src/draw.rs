//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use trackiops_live::{Moment, Source};
use trackiops_query::coverage::note::Note;
use trackiops_query::coverage::stalls::Stall;
use trackiops_query::times::{Zone, show, show_length};
use trackiops_render::terminal_style::Look;
use trackiops_render::units::{self, plural};
use trackiops_render::visible::{visible, width, wrap};

use crate::app::{App, LINES_ABOVE, LINES_BELOW, Mode};
use crate::table::{Tab, TableRow};
use crate::view::Band;

/// Least cells of a name, and enough for most.
const LEAST_NAME: usize = 12;
const LONG_NAME: usize = 60;
/// Least and most width of a course, and least width of a screen with courses.
const COURSE: usize = 10;
const LONGEST_COURSE: usize = 60;
const WIDE: usize = 100;

const HELP: &str = "\
Up Down PgUp PgDn Home End   select        1-7 Tab   files, tree, mounts ...
Enter  a file in full, a directory's       S         sort by the next column
Esc    back                                r         smallest first
/      only names with this text           space     pause
[ ]    earlier, later                      { }       much earlier, much later
L      now                                 y         the query for all this
a      requests; calls; times of both      q         quit
?      this
The mouse selects rows and tabs, and scrolls. Requests took the sum of their
latencies, and lost what is beyond their means of the 10 min before. q/n/c and
hit% are percentages: of queue, network and server, completion in it; of bytes
read that the page cache had. amp r/w are bytes requested for each byte that
calls read and wrote. p99 is green below 1 ms, yellow from 10 ms, red from
100 ms. In operations, a shows connections; limited is by the server's window.";

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, source: &Source, look: Look) {
    let area = frame.area();
    let height = area.height.saturating_sub(LINES_ABOVE + LINES_BELOW);
    app.fit(usize::from(height));
    let width = usize::from(area.width);
    let mut lines = vec![
        verdict(app),
        bold(heading(app, source)),
        Line::raw(sums(app, source, width)),
        whole(app, width, look),
        tabs(app),
    ];
    match (&app.detail, app.tab) {
        (Some(detail), _) => {
            lines.push(bold(rule(&detail.name, width, look)));
            let shown = detail.lines.iter().skip(detail.offset);
            lines.extend(shown.map(|line| Line::raw(line.clone())));
        }
        (None, Tab::Stalls) => lines.extend(stalls(app, width, look)),
        (None, _) => {
            lines.push(bold(titles(app, width)));
            let end = app.order.len().min(app.offset + app.height);
            for place in app.offset..end {
                let of = &app.table.rows[app.order[place]];
                let line = row(app, of, width, look);
                lines.push(match place == app.selected {
                    true => line.style(Modifier::REVERSED),
                    false => line,
                });
            }
            if app.order.is_empty() {
                let why = match (&app.table.empty, app.filter.is_empty()) {
                    (_, false) => "no name has this text",
                    (Some(why), _) => why,
                    (None, _) => "nothing yet",
                };
                let why = wrap(&visible(why), Some(width), 0);
                lines.extend(why.lines().map(|line| Line::raw(line.to_owned())));
            }
        }
    }
    lines.truncate(usize::from(area.height.saturating_sub(LINES_BELOW)));
    frame.render_widget(Paragraph::new(lines), area);
    footer(frame, app, source, area);
    if app.mode == Mode::Help {
        help(frame, area);
    }
}

/// The verdict, in the first line.
fn verdict(app: &App) -> Line<'static> {
    let text = visible(&app.verdict.text).into_owned();
    match app.verdict.is_slow {
        true => bold(text),
        false => Line::raw(text),
    }
}

fn bold(text: String) -> Line<'static> {
    Line::styled(text, Style::default().add_modifier(Modifier::BOLD))
}

/// Place and time.
fn heading(app: &App, source: &Source) -> String {
    let live = source.live();
    let host = live.and_then(|live| live.hello.as_ref());
    let host = host.map_or_else(|| "store".to_owned(), |hello| hello.recorder.host.clone());
    let range = match &app.detail {
        Some(detail) => detail.range,
        None => app.table.range,
    };
    // At the start of a recording, the range is shorter than the requested one.
    let length_ms = range.map_or(app.length.ms(), |(since, until)| until.0 - since.0);
    let length_ms = length_ms.cast_unsigned();
    let range = range.map_or_else(String::new, |(since, until)| {
        format!(
            "{} to {}",
            show(since, Zone::Local),
            show(until, Zone::Local)
                .rsplit(' ')
                .next()
                .unwrap_or_default()
        )
    });
    // The last line of the screen says why no windows come.
    let is_silent = live.is_some_and(|live| live.trouble.is_some());
    let mode = match (app.moment, app.is_paused) {
        (_, true) => "PAUSED",
        (Moment::Live, _) if is_silent => "STALE",
        (Moment::Live, _) if live.is_some() => "LIVE",
        (Moment::Live, _) => "LATEST",
        (Moment::Until(_), _) => "PAST",
    };
    let length = show_length(length_ms);
    visible(&format!(
        "trackiops top  {host}  {mode}  {range} ({length})"
    ))
    .into_owned()
}

/// The rows on the screen, unless all are there: `17-32 of `.
fn place(app: &App) -> String {
    let end = app.order.len().min(app.offset + app.height);
    match app.detail.is_none() && end - app.offset.min(end) < app.order.len() {
        true => format!("{}-{end} of ", app.offset + 1),
        false => String::new(),
    }
}

/// Sums of the rows, and problems. Parts that do not fit are left out completely: a number without its last digits would be wrong.
fn sums(app: &App, source: &Source, cells: usize) -> String {
    let sum = |figure: usize| -> f64 {
        let rows = app.order.iter().map(|at| &app.table.rows[*at]);
        // The sum of nothing would be -0.
        rows.filter_map(|row| row.figures[figure])
            .fold(0.0, |sum, value| sum + value)
    };
    let view = app.view();
    let mut parts = vec![place(app), plural(app.order.len() as u64, "row")];
    for (figure, of) in view.sums {
        let sum = view.figures[*figure].show(Some(sum(*figure)));
        parts.push(format!(", {sum}{of}"));
    }
    if let Some(live) = source.live() {
        let waiting = live.status.waiting.saturating_sub(2);
        let troubles = [
            (live.missing, "windows not received"),
            (waiting, "windows wait for the disk"),
        ];
        let troubles = troubles.into_iter().filter(|(count, _)| *count > 0);
        parts.extend(troubles.map(|(count, words)| format!(", {count} {words}")));
        let health = &live.status.total.health;
        parts.push(format!("; in all {} lost", health.lost));
        parts.push(format!(", {} missed", health.missed));
        parts.push(format!(", {} folded", health.folded));
        parts.push(format!(" of {}", health.seen));
    }
    let mut text = String::new();
    for part in parts {
        if width(&text) + width(&part) > cells {
            break;
        }
        text += &part;
    }
    text
}

fn tabs(app: &App) -> Line<'static> {
    let tab = |(at, tab): (usize, &Tab)| {
        let text = format!("{}:{}", at + 1, tab.title());
        let style = match *tab == app.tab {
            true => Style::default().add_modifier(Modifier::REVERSED),
            false => Style::default(),
        };
        [Span::styled(text, style), Span::raw("  ")]
    };
    let mut spans: Vec<Span<'static>> = Tab::ALL.iter().enumerate().flat_map(tab).collect();
    if let Some(dir) = app.dirs.last() {
        spans.push(Span::raw(visible(dir).into_owned()));
    }
    if !app.filter.is_empty() || app.mode == Mode::Filter {
        spans.push(Span::raw(format!("/{}", visible(&app.filter))));
    }
    Line::from(spans)
}

/// The layout of a line: the width of the name, the cells of figures, and the width of the course.
struct Shape {
    name: usize,
    /// Indices in [`View::cells`].
    cells: Vec<usize>,
    /// `None` without room for a course.
    course: Option<usize>,
}

impl Shape {
    /// The layout of a line whose figures have these widths. The figure that rows are sorted by is shown if any is; those that do not fit
    /// give way, the last ones first.
    fn new(taken: &[usize], sorted_by: Option<usize>, width: usize) -> Self {
        let least = LEAST_NAME.max(3 * width / 10);
        let others = (0..taken.len()).filter(|at| Some(*at) != sorted_by);
        let mut rest = width;
        let mut cells = Vec::new();
        for at in sorted_by.into_iter().chain(others) {
            match rest.checked_sub(taken[at] + 1) {
                Some(left) if left >= least => rest = left,
                _ => break,
            }
            cells.push(at);
        }
        cells.sort_unstable();
        let has_course = width >= WIDE && rest > 2 * LEAST_NAME + COURSE;
        // A name stays near its figures: further room is the course's.
        let course = rest.saturating_sub(LONG_NAME + 1);
        let course = has_course.then(|| course.clamp(COURSE, LONGEST_COURSE));
        Self {
            name: rest - course.map_or(0, |course| course + 1),
            cells,
            course,
        }
    }
}

fn titles(app: &App, width: usize) -> String {
    let view = app.view();
    let taken: Vec<_> = view.cells.iter().map(|cell| cell.width).collect();
    let shape = Shape::new(&taken, view.cell_of(app.sort), width);
    let mark = if app.ascending { "<" } else { ">" };
    let mut line = format!("{:<1$}", "name", shape.name);
    for cell in shape.cells.iter().map(|at| &view.cells[*at]) {
        let mark = match cell.figures.contains(&app.sort) {
            true => mark,
            false => "",
        };
        let title = format!("{mark}{}", cell.title);
        line += &format!(" {title:>0$}", cell.width);
    }
    if shape.course.is_some() {
        line += &format!(" {}", view.cells[0].title);
    }
    line
}

fn row(app: &App, row: &TableRow, width: usize, look: Look) -> Line<'static> {
    let view = app.view();
    let shown = view.cells.iter().map(|cell| {
        let text = cell.show(view, row);
        format!("{text:>0$}", cell.width)
    });
    let shown: Vec<_> = shown.collect();
    let taken: Vec<_> = shown.iter().map(|text| self::width(text)).collect();
    let shape = Shape::new(&taken, view.cell_of(app.sort), width);
    let mut line = vec![Span::raw(padded(&visible(&row.name), shape.name, look))];
    for at in shape.cells {
        line.push(Span::raw(" "));
        let band = view.cells[at].band(view, row);
        line.push(coloured(app, shown[at].clone(), band));
    }
    if let Some(course) = shape.course {
        let course = look.sparkline(&row.course, course);
        line.push(Span::raw(format!(" {course}")));
    }
    Line::from(line)
}

fn coloured(app: &App, text: String, band: Option<Band>) -> Span<'static> {
    match band.filter(|_| app.has_colour) {
        Some(band) => Span::styled(text, colour(band)),
        None => Span::raw(text),
    }
}

/// The terminal's own colours, which suit its background.
fn colour(band: Band) -> Color {
    match band {
        Band::Fast => Color::Green,
        Band::Usual => Color::Reset,
        Band::Slow => Color::Yellow,
        Band::Stuck => Color::Red,
    }
}

/// The activity of all rows together over time.
fn whole(app: &App, cells: usize, look: Look) -> Line<'static> {
    let whole = &app.table.whole;
    let room = (cells / 2).saturating_sub(18);
    let mut line = Vec::new();
    for (name, values) in [("IOPS", &whole.iops), ("p99", &whole.p99_us)] {
        let last = values.iter().rev().copied().find(|value| !value.is_nan());
        let Some(last) = last.filter(|_| room > 0) else {
            continue;
        };
        let (text, band) = match name {
            "IOPS" => (units::rate(last), None),
            // Without requests, the latency is meaningless.
            _ if last == 0.0 => ("-".to_owned(), None),
            _ => (units::latency(last), Some(Band::of_us(last))),
        };
        let apart = if line.is_empty() { "" } else { "   " };
        let course = look.sparkline(values, room);
        line.push(Span::raw(format!("{apart}{name} {course} ")));
        line.push(coloured(app, text, band));
    }
    Line::from(line)
}

/// A heading across the whole width.
fn rule(title: &str, cells: usize, look: Look) -> String {
    let line = if look.ascii { "-" } else { "─" };
    let title = look.cut(title, cells.saturating_sub(6));
    let rest = cells.saturating_sub(4 + width(&title));
    format!("{0}{0} {title} {1}", line, line.repeat(rest))
}

/// The end of a name, which distinguishes it, in `cells` cells.
fn padded(name: &str, cells: usize, look: Look) -> String {
    let name = look.cut(name, cells);
    let blank = cells.saturating_sub(width(&name));
    format!("{name}{}", " ".repeat(blank))
}

/// The servers that did not answer, with times; one line for each of their mounts.
fn stalls(app: &App, width: usize, look: Look) -> Vec<Line<'static>> {
    let stalls: Vec<_> = app.table.notes.iter().filter_map(stall).collect();
    if stalls.is_empty() {
        return vec![Line::raw("every server answered")];
    }
    let time = |time| {
        let time = show(time, Zone::Local);
        time.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let cells = |[server, requests, waited, from, to, mounts]: [&str; 6]| {
        format!("{server:<15} {requests:>8} {waited:>8} {from:>8} {to:>8}  {mounts}")
    };
    let line = |cells: String, mount: &str| {
        let mount = visible(mount);
        let rest = width.saturating_sub(self::width(&cells));
        Line::raw(format!("{cells}{}", look.cut(&mount, rest)))
    };
    let head = ["server", "requests", "waited", "from", "to", "mounts"];
    let mut lines = vec![bold(cells(head))];
    for Stall { server, range } in stalls {
        let mut mounts = server.mounts.iter().map(String::as_str);
        let of_server = cells([
            &visible(server.address.as_deref().unwrap_or("(unknown)")),
            &server.requests_max.to_string(),
            &format!("{:.1} s", server.age_ms_max as f64 / 1000.0),
            &time(range.start),
            // The stall may continue.
            &match app.table.range {
                Some((_, until)) if app.moment == Moment::Live && range.end >= until => {
                    "now".to_owned()
                }
                _ => time(range.end),
            },
            "",
        ]);
        lines.push(line(of_server, mounts.next().unwrap_or_default()));
        lines.extend(mounts.map(|mount| line(cells([""; 6]), mount)));
    }
    lines
}

fn stall(note: &Note) -> Option<&Stall> {
    match note {
        Note::Stalled { stall, .. } => Some(stall),
        _ => None,
    }
}

/// Problems, the query for the screen, or the keys.
fn footer(frame: &mut Frame<'_>, app: &App, source: &Source, area: Rect) {
    let trouble = app.trouble.clone();
    let trouble = trouble.or_else(|| source.live().and_then(|live| live.trouble.clone()));
    let is_told = |note: &&Note| {
        note.is_of_the_recording() || matches!(note, Note::Gap { .. } | Note::LeftOut { .. })
    };
    let notes = app.table.notes.iter().filter(is_told);
    let note = notes.map(|note| note.show(Zone::Local)).next();
    let text = match (&app.command, trouble, note) {
        (Some(command), ..) => command.clone(),
        (_, Some(trouble), _) => trouble,
        (.., Some(note)) => note,
        _ if app.mode == Mode::Filter => {
            "type a part of a name; Enter keeps it, Esc drops it".to_owned()
        }
        _ => "?:help  /:filter  S:sort  Enter:in  Esc:out  [ ]:time  L:live  space:pause  y:query  q:quit"
            .to_owned(),
    };
    let text = visible(&text).into_owned();
    // A query is for copying, so show all of it. A long query covers the last rows.
    let needed = match &app.command {
        Some(_) => 1 + width(&text).div_ceil(usize::from(area.width.max(1))) as u16,
        None => LINES_BELOW,
    };
    let lines = area.height.min(needed.max(LINES_BELOW));
    let place = Rect {
        y: area.y + area.height - lines,
        height: lines,
        ..area
    };
    frame.render_widget(Clear, place);
    let text = Paragraph::new(text);
    frame.render_widget(text.wrap(ratatui::widgets::Wrap { trim: true }), place);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.lines().count() as u16 + 2;
    let place = Rect {
        x: area.x,
        y: area.y + LINES_ABOVE.min(area.height),
        width: area.width,
        height: lines.min(area.height.saturating_sub(LINES_ABOVE)),
    };
    frame.render_widget(Clear, place);
    let frame_of_help = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(HELP).block(frame_of_help), place);
}
