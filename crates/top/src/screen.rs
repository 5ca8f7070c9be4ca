//! The terminal, and a frame as text.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::time::Duration;

use anyhow::Context;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use trackiops_live::{Moment, Source};
use trackiops_render::terminal_style::Look;
use trackiops_render::visible::width;

use crate::app::{App, Next};
use crate::draw::draw;

/// Interval of checks for keys and windows.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The terminal while it shows the screen. Dropping it restores the terminal.
pub struct Screen {
    /// Not dropped: its drop would panic if it cannot show the cursor, because the terminal is gone. [`restore`] shows the cursor.
    terminal: ManuallyDrop<ratatui::DefaultTerminal>,
    restore: fn(),
    stop: fn(bool) -> bool,
}

impl Screen {
    /// Takes the terminal. At the end, it calls `restore`, which calls [`restore`](fn@restore). `stop` calls it as well and stops the process, if
    /// its parameter or a signal asks for that. It returns whether the process was stopped.
    pub fn open(restore: fn(), stop: fn(bool) -> bool) -> anyhow::Result<Self> {
        // Its panic hook restores the terminal before the message.
        let terminal = ratatui::try_init().context("cannot use the terminal")?;
        let terminal = ManuallyDrop::new(terminal);
        execute!(io::stdout(), EnableMouseCapture).context("cannot use the mouse")?;
        Ok(Self {
            terminal,
            restore,
            stop,
        })
    }

    /// Takes the terminal again after a shell had it. In the background, this stops the process until it has the terminal.
    fn take_again(&mut self) -> anyhow::Result<()> {
        // Without this, crossterm does not set modes that it has set before.
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        Ok(self.terminal.clear()?)
    }

    /// Shows the screen until the user ends it.
    pub fn show(&mut self, app: &mut App, source: &mut Source, look: Look) -> anyhow::Result<()> {
        let mut next = Next::Ask;
        loop {
            if next == Next::Stop && (self.stop)(true) {
                self.take_again()?;
            }
            if next == Next::Ask {
                if let Some(detail) = &mut app.detail {
                    detail.look = look;
                    detail.look.width = Some(usize::from(self.terminal.size()?.width));
                }
                app.ask(source);
            }
            self.terminal.draw(|frame| draw(frame, app, source, look))?;
            let is_new = loop {
                if (self.stop)(false) {
                    self.take_again()?;
                    break Some(Next::Draw);
                }
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
}

impl Drop for Screen {
    fn drop(&mut self) {
        (self.restore)();
    }
}

/// Restores the terminal, even while another thread draws. That thread cannot draw any more then.
pub fn restore() {
    // If a shell already has the terminal, its modes apply. Set modes before writing, because a write may block.
    let is_ours = tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp());
    if is_ours {
        let _ = disable_raw_mode();
    }
    let mut out = io::stdout().lock();
    let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
    mem::forget(out);
}

/// Asks, and draws a frame as text.
pub fn frame(app: &mut App, source: &Source, look: Look) -> anyhow::Result<String> {
    /// The smallest size of a terminal.
    const SIZE: (u16, u16) = (80, 24);
    app.ask(source);
    let columns = look.width.and_then(|width| u16::try_from(width).ok());
    let backend = TestBackend::new(columns.unwrap_or(SIZE.0), SIZE.1);
    let mut terminal = Terminal::new(backend)?;
    terminal.draw(|frame| draw(frame, app, source, look))?;
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
    Ok(text)
}
