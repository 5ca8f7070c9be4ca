//! `trackiops top`: shows activity on a screen, now or at any time.

mod app;
mod detail;
mod draw;
mod source;
mod table;
mod verdict;
mod view;

use std::io::{self, IsTerminal};
use std::mem::{self, ManuallyDrop};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{LeaveAlternateScreen, disable_raw_mode};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use trackiops_query::times::Zone;
use trackiops_render::terminal_style::Look;
use trackiops_render::visible::width;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::help_headings::{OUTPUT, WHAT, WHEN};
use crate::lifeline;
use crate::live_socket::SocketFlag;
use crate::outcome;
use crate::output::Output;
use crate::question_flags::{FileFlags, since_of};
use crate::signals;
use crate::store_flag::StoreFlags;
use crate::terminal;
use crate::top::app::{App, Next};
use crate::top::source::{Moment, Source};

const EXAMPLES: &str = "\
Examples:
  trackiops top                          the busiest files, live
  trackiops top --since 03:10            what the store has of ten seconds from 03:10
  trackiops top --once --step 1m > file  a frame, for a ticket";

/// Interval of checks for keys and windows.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long `--once` waits for windows.
const ONCE: Duration = Duration::from_secs(5);

/// What `trackiops top` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    socket: SocketFlag,
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    files: FileFlags,
    /// Begin at this time of the store: 10m (ago), 03:10 ... [default: now, live]
    ///
    /// Takes what `query --since` takes.
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    since: Option<String>,
    /// Time that a row adds up [default: 10s]
    #[arg(long, value_name = "LENGTH", help_heading = WHEN)]
    step: Option<Granularity>,
    /// Print one frame, and end
    #[arg(long, help_heading = OUTPUT)]
    once: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let length = args.step.map_or_else(|| Granularity::from_ms(10_000), Ok)?;
    let mut look = terminal::stdout_look();
    look.is_terminal = true;
    let is_stored = args.since.is_some();
    let moment = match &args.since {
        None => Moment::Live,
        Some(text) => Moment::Until(since_of(text, UtcMs::now(), Zone::Local)?.plus(length)),
    };
    let socket = args.socket.path().to_owned();
    let mut source = match is_stored {
        true => Source::stored(args.files, args.stores.existing()?, &socket),
        false => {
            let stores = args.stores.named();
            let way = match stores.is_empty() {
                true => "",
                false => "; --since TIME shows what the store has",
            };
            Source::listening(args.files, stores, &socket)
                .map_err(|error| anyhow!("{error}{way}"))?
        }
    };
    let mut app = App::new(moment, length);
    if args.once {
        lifeline::end_with_reader();
        return once(&mut app, &mut source, look);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("stdin and stdout are no terminal; print a frame with --once");
    }
    // https://no-color.org
    app.has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let command = {
        let mut screen = Screen::open()?;
        show(&mut app, &mut source, look, &mut screen.terminal)?;
        app.command
    };
    if let Some(command) = command {
        Output::Stdout.write(|out| writeln!(out, "{command}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the screen until the user ends it.
fn show(
    app: &mut App,
    source: &mut Source,
    look: Look,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    let mut next = Next::Ask;
    loop {
        if next == Next::Ask {
            if let Some(detail) = &mut app.detail {
                detail.look = look;
                detail.look.width = Some(usize::from(terminal.size()?.width));
            }
            app.ask(source);
        }
        terminal.draw(|frame| draw::draw(frame, app, source, look))?;
        let is_new = loop {
            if event::poll(LOOK_EVERY)? {
                break None;
            }
            if source.take()? && !app.is_paused {
                break Some(match app.moment {
                    Moment::Live => Next::Ask,
                    Moment::Until(_) => Next::Draw,
                });
            }
        };
        next = match is_new {
            Some(next) => next,
            None => app.on(&event::read()?, source),
        };
        if next == Next::Quit {
            return Ok(());
        }
    }
}

/// Prints a frame. Status 0: it is live, or has rows; 1: it has none; 3: a part is damaged.
fn once(app: &mut App, source: &mut Source, look: Look) -> anyhow::Result<ExitCode> {
    /// The smallest size of a terminal.
    const SIZE: (u16, u16) = (80, 24);
    let begun = Instant::now();
    while source.live().is_some_and(|live| !live.has_windows()) && begun.elapsed() < ONCE {
        source.take()?;
        std::thread::sleep(LOOK_EVERY);
    }
    app.ask(source);
    let columns = look.width.and_then(|width| u16::try_from(width).ok());
    let backend = TestBackend::new(columns.unwrap_or(SIZE.0), SIZE.1);
    let mut terminal = Terminal::new(backend)?;
    terminal.draw(|frame| draw::draw(frame, app, source, look))?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            // Skip the blank cell after a wide character: it belongs to that character.
            x += u16::try_from(width(symbol)).unwrap_or(1).max(1);
        }
        let line = line.trim_end();
        // On a screen, blank lines keep the footer at the bottom. One is enough to set it apart.
        if line.is_empty() && text.ends_with("\n\n") {
            continue;
        }
        text += line;
        text.push('\n');
    }
    Output::Stdout.write(|out| writeln!(out, "{}", text.trim_end()))?;
    if let Some(trouble) = app.trouble.take() {
        bail!(trouble);
    }
    // A live frame without rows is a success: it shows that nothing happens now.
    let found = match source.live() {
        Some(_) => 1,
        None => app.table.rows.len(),
    };
    Ok(outcome::status_of_rows(found, &app.table.notes))
}

/// The terminal while it shows the screen. Every way to end restores it.
struct Screen {
    /// Not dropped: its drop would panic if it cannot show the cursor, because the terminal is gone. [`restore`] shows the cursor.
    terminal: ManuallyDrop<ratatui::DefaultTerminal>,
}

impl Screen {
    fn open() -> anyhow::Result<Self> {
        // From here on, the process restores the terminal however it ends.
        lifeline::end_with_terminal(restore).context("cannot start a thread")?;
        // Its panic hook restores the terminal before the message.
        let terminal = ratatui::try_init().context("cannot use the terminal")?;
        let terminal = ManuallyDrop::new(terminal);
        execute!(io::stdout(), EnableMouseCapture).context("cannot use the mouse")?;
        Ok(Self { terminal })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, even while another thread draws. That thread cannot draw any more then.
fn restore() {
    // In the background, writing would otherwise stop the process.
    signals::ignore_background_output();
    // If a shell already has the terminal, its modes apply. Set modes before writing, because a write may block.
    let is_ours = tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp());
    if is_ours {
        let _ = disable_raw_mode();
    }
    let mut out = io::stdout().lock();
    let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
    mem::forget(out);
}
