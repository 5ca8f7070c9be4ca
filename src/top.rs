//! `trackiops top`: shows activity on a screen, now or at any time.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use trackiops_live::{Moment, Source};
use trackiops_process::lifeline;
use trackiops_process::output::Output;
use trackiops_process::signals;
use trackiops_process::terminal;
use trackiops_query::Range;
use trackiops_query::ask::check_range;
use trackiops_query::times::Zone;
use trackiops_render::terminal_style::Look;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_top::{App, Screen, frame};

use crate::help_headings::{OUTPUT, WHAT, WHEN};
use crate::live_socket::SocketFlag;
use crate::outcome;
use crate::question_flags::{FileFlags, since_of};
use crate::store_flag::StoreFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops top                          the busiest files, live
  trackiops top --since 03:10            what the store has of ten seconds from 03:10
  trackiops top --once --step 1m > file  a frame, for a ticket";

/// Interval of checks for windows.
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
    let now = UtcMs::now();
    let moment = match &args.since {
        None => Moment::Live,
        Some(text) => {
            let since = since_of(text, now, Zone::Local)?;
            let range = Range {
                since: Some(since),
                until: None,
            };
            check_range(range, now, Zone::Local)?;
            Moment::Until(since.plus(length))
        }
    };
    let is_stored = args.since.is_some();
    let stores = match is_stored {
        true => args.stores.existing()?,
        false => args.stores.named(),
    };
    let way = match stores.is_empty() {
        true => "",
        false => "; --since TIME shows what the store has",
    };
    let about = args
        .files
        .question(stores, Range::default(), (Zone::Local, now))?;
    let socket = args.socket.path();
    let mut source = match is_stored {
        true => Source::stored(about, socket),
        false => Source::listening(about, socket).map_err(|error| anyhow!("{error}{way}"))?,
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
        // From here on, the process restores the terminal however it ends.
        lifeline::end_with_terminal(restore).context("cannot start a thread")?;
        signals::notice_stops();
        let mut screen = Screen::open(restore, stop)?;
        screen.show(&mut app, &mut source, look)?;
        app.command
    };
    if let Some(command) = command {
        Output::Stdout.write(|out| writeln!(out, "{command}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Restores the terminal, also from the background, where writing would otherwise stop the process.
fn restore() {
    signals::ignore_background_output();
    trackiops_top::restore();
}

/// Gives the terminal back and stops the process, if `is_asked` or a signal asks for it. Returns whether it was stopped.
fn stop(is_asked: bool) -> bool {
    signals::stop_if_asked(is_asked, trackiops_top::restore)
}

/// Prints a frame. Status 0: it is live, or has rows; 1: it has none; 3: a part is damaged.
fn once(app: &mut App, source: &mut Source, look: Look) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    while source.live().is_some_and(|live| !live.has_windows()) && begun.elapsed() < ONCE {
        source.take()?;
        std::thread::sleep(LOOK_EVERY);
    }
    let text = frame(app, source, look)?;
    Output::Stdout.write(|out| writeln!(out, "{}", text.trim_end()))?;
    if let Some(trouble) = app.trouble.take() {
        bail!(trouble);
    }
    // A live frame without rows is a success: it shows that nothing happens now.
    let found = match source.live() {
        Some(_) => 1,
        None => app.row_count(),
    };
    Ok(outcome::status_of_rows(found, app.notes()))
}
