//! `trackiops watch`: writes the windows of a running recorder as they close.

mod commands;
mod events;
mod frames;
mod recent;

use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::slice;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use trackiops_query::coverage::note::Note;
use trackiops_query::times::{Zone, rfc3339, show};
use trackiops_query::{
    Answer, AnswerRow, Columns, Figures, GroupBy, OperationAnswer, Outcome, Projection, QueryError,
    Question, Range, Step, Subject, ask, ask_operations, ask_operations_by,
};
use trackiops_render::formats::Texts;
use trackiops_render::terminal_style::Style;
use trackiops_render::visible::visible;
use trackiops_render::{Format, Render};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::{Granularity, UtcMs, parse_duration_ms};
use trackiops_store::Snapshot;
use trackiops_store::live::{
    Gap, Hello, LiveError, LiveWindow, Message, Position, RecorderInfo, Status, Subscription,
};

use crate::help_headings::{EVENTS, OUTPUT, WHEN};
use crate::lifeline;
use crate::live_socket::SocketFlag;
use crate::notes::say_notes;
use crate::output::{Output, plural, say};
use crate::paper;
use crate::query::{SubjectFlags, columns_of_files, style, with_parts};
use crate::question_flags::{ColumnsFlag, FileFlags, RowFlags, now, since_of};
use crate::watch::commands::{Commands, OnEvent};
use crate::watch::events::{Event, Events};
use crate::watch::frames::Frames;
use crate::watch::recent::Recent;

const EXAMPLES: &str = "\
Examples:
  trackiops watch                                    each second, the busiest 20 files
  trackiops watch --by tenant --step 10s --sort p99  who is slow, every 10 seconds
  trackiops watch --on stall='/bin/page storage'     run a program when a server does not answer";

/// Most rows of a table without --top.
const MOST_ROWS: NonZeroUsize = NonZeroUsize::new(20).unwrap();
/// Most rows of a window that alerts consider.
const MOST_ALERTS: NonZeroUsize = NonZeroUsize::new(100).unwrap();
/// Interval of checks for `--duration`.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The recorder sends a message each second.
const SILENCE: Duration = Duration::from_secs(5);
/// The message about a silent recorder.
const SILENT: &str = "the recorder does not answer: it may be stopped";
/// Most pending windows of a step before they are summed.
const MOST_PENDING: usize = 64;
/// Interval of attempts to find a recorder again.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// Attempts to read a store whose segments are being merged.
const ATTEMPTS: u32 = 8;

/// What `trackiops watch` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    socket: SocketFlag,
    #[command(flatten)]
    files: FileFlags,
    /// First what the store has from this time on: 10m (ago), 03:10 ...
    ///
    /// Takes what `query --since` takes. Each window comes once, from the store or from the recorder; the step in which the two
    /// meet has rows of both.
    #[arg(long, value_name = "TIME", help_heading = WHEN)]
    since: Option<String>,
    /// A row per window of this length [default: the shortest recorded]
    #[arg(long, value_name = "LENGTH", help_heading = WHEN)]
    step: Option<Granularity>,
    /// Stop after this time: 90s, 2h ... [default: until stopped]
    #[arg(long, value_name = "TIME", value_parser = parse_time, help_heading = WHEN)]
    duration: Option<Duration>,
    /// Wait for a recorder, instead of failing without one
    #[arg(long, help_heading = WHEN)]
    wait: bool,
    #[command(flatten)]
    about: SubjectFlags,
    #[command(flatten)]
    rows: RowFlags,
    /// In tables: the parts of latencies: queue, network, completion
    #[arg(long, help_heading = OUTPUT)]
    parts: bool,
    /// One JSON object per row
    #[arg(long, group = "form", help_heading = OUTPUT)]
    json: bool,
    /// One JSON object per window, until the recorder ends
    ///
    /// {"since", "until", "from", "notes", "rows"}, also for windows without rows. A window from the `store` replaces an earlier one with
    /// the same start; one from the `recorder` adds to it. The last object is {"end", "notes"}: it says why there are no more.
    #[arg(long, group = "form", help_heading = OUTPUT)]
    windows: bool,
    /// CSV, with one header
    #[arg(long, group = "form", help_heading = OUTPUT)]
    csv: bool,
    /// The lines of the CHEOPS'24 paper, one per file and window
    ///
    /// [Timestamp], File ID, r-iops, r-throughput, r-latency, w-iops, w-throughput, w-latency: requests/s, bytes/s and ns.
    #[arg(long, group = "form", help_heading = OUTPUT)]
    paper: bool,
    /// Events, not windows: a server stalls, requests are lost ...
    ///
    /// A line per event, or with --json an object. `slow` and `slow-end`: requests take longer than usual, with the verdict of
    /// `trackiops why`; they do not any more. `stall` and `stall-end`: a server does not answer; nothing waits for it any more.
    /// `alert` and `alert-end`: a row matches --where; it does not any more. `lost`: requests were lost. `audit`: rows and the kernel's
    /// counters differ for no known reason. `store-failing` and `store-written`: the store cannot be written; it can again. `budget`:
    /// the store has used 90 % of --store-size. `recorder-ended` and `recorder-started`.
    #[arg(long, conflicts_with_all = ["csv", "paper", "windows", "since"], help_heading = EVENTS)]
    events: bool,
    /// Run a program at such an event; repeatable
    ///
    /// Implies --events. The program runs without a shell, as `nobody` if you are root, with the event as JSON on its standard input.
    #[arg(long, value_name = "EVENT=COMMAND", conflicts_with_all = ["csv", "paper", "windows", "since"], help_heading = EVENTS)]
    on: Vec<OnEvent>,
    /// How often --on may run a program for the same event
    ///
    /// The same event is one of the same kind about the same server, mount, file ...
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1m", help_heading = EVENTS)]
    on_every: Duration,
    /// For an alert, windows in a row that match --where
    #[arg(long = "for", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value = "1", help_heading = EVENTS)]
    matching: u32,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).and_then(|ms| u64::try_from(ms).ok());
    ms.map(Duration::from_millis)
        .ok_or_else(|| "write a number and a unit, such as 90s, 15m or 2h".to_owned())
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let socket = args.socket.path().to_owned();
    let mut may_wait = args.wait;
    let mut since = match &args.since {
        Some(text) => Some(since_of(text, now(), Zone::Local)?),
        None => None,
    };
    let Some(mut watch) = Watch::new(args)? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Reject a question without an answer before the first window.
    watch.write(Snapshot::default(), Range::default(), None)?;
    lifeline::end_with_reader();
    let mut last = None;
    loop {
        let mut subscription = match Subscription::connect(&socket) {
            Err(LiveError::NoRecorder(_) | LiveError::Closed(_) | LiveError::Silent(_))
                if may_wait =>
            {
                if is_over() {
                    return Ok(ExitCode::SUCCESS);
                }
                sleep(RETRY_EVERY);
                continue;
            }
            connected => connected?,
        };
        may_wait = true;
        watch.begin(subscription.hello())?;
        let recorder = &subscription.hello().recorder;
        let after = match (since.take(), last) {
            (Some(since), _) => watch.history(&recorder.store, since)?,
            (None, Some(last)) => {
                watch.tell_missed(last, subscription.hello().position);
                Some(Position::default())
            }
            (None, None) => Some(Position::default()),
        };
        let Some(after) = after else {
            return Ok(ExitCode::SUCCESS);
        };
        match watch.follow(&mut subscription, after, is_over)? {
            End::Over => return Ok(ExitCode::SUCCESS),
            End::Recorder(_) if watch.is_of_windows() => {
                return watch.end_windows("the recorder has ended");
            }
            End::Broken(_) if watch.is_of_windows() => {
                return watch.end_windows("the recorder has ended without a word");
            }
            End::Silent => return watch.end_windows(SILENT),
            End::Recorder(position) => {
                last = Some(position.max(subscription.hello().position));
                watch.tell_ended()?;
            }
            End::Broken(position) => {
                last = Some(position.max(subscription.hello().position));
                watch.tell_broken()?;
            }
        }
    }
}

/// Why following a recorder ends without an error.
enum End {
    /// `--duration` is over, or stdout has lost its reader.
    Over,
    /// The recorder ended after this window.
    Recorder(Position),
    /// The connection broke after this window: the recorder was killed, or ended before everything was read.
    Broken(Position),
    /// The recorder does not answer, and `--windows` then ends.
    Silent,
}

/// The output format.
#[derive(Clone, Copy)]
enum Form {
    Answer(Format),
    Paper,
    /// One object per window.
    Windows,
    /// Events, as JSON or as lines for people.
    Events {
        json: bool,
    },
}

impl Form {
    /// How rows are written.
    fn format(self) -> Format {
        match self {
            Self::Answer(format) => format,
            Self::Paper | Self::Windows | Self::Events { .. } => Format::Json,
        }
    }
}

/// The state of the command: the question for each window, and the pending windows of the current step.
struct Watch {
    socket: PathBuf,
    question: Question,
    subject: Subject,
    rows: RowFlags,
    form: Form,
    columns: Option<Columns<AnswerRow>>,
    /// Whether the header was written.
    has_header: bool,
    asked_step: Option<Granularity>,
    /// `--step`, or else the length of the recorder's windows.
    step: Granularity,
    mounts: Vec<MountPoint>,
    pending: Vec<LiveWindow>,
    /// Start of the step of `pending`.
    start: UtcMs,
    /// End of the last window.
    end: Option<UtcMs>,
    events: Events,
    frames: Frames,
    commands: Commands,
    recorder: Option<RecorderInfo>,
    recent: Recent,
}

impl Watch {
    /// `None` if the columns were to be listed, which is then done.
    fn new(args: Args) -> anyhow::Result<Option<Self>> {
        let form = match (args.json, args.csv, args.paper, args.windows) {
            (json, ..) if args.events || !args.on.is_empty() => Form::Events { json },
            (true, ..) => Form::Answer(Format::Json),
            (_, true, ..) => Form::Answer(Format::Csv(Texts::AsTheyAre)),
            (_, _, true, _) => Form::Paper,
            (.., true) => Form::Windows,
            _ => Form::Answer(with_parts(Format::Table(Figures::Rates), args.parts)),
        };
        let (subject, form) = match (args.about.subject(), form) {
            (Subject::Files(by), form) => (Subject::Files(by), form),
            (_, Form::Paper) => bail!("--paper has a line per file; leave out --by op and --op"),
            (_, Form::Events { .. }) => {
                bail!("alerts are about files, mounts and tenants; leave out --by op and --op")
            }
            other => other,
        };
        let by = match subject {
            Subject::Files(by) | Subject::OperationsBy(by) => by,
            Subject::Operations(_) => GroupBy::MOUNT,
        };
        if matches!(form, Form::Paper) && by != GroupBy::FILE {
            bail!("--paper has a line per file; leave out --by");
        }
        let question = args
            .files
            .question(Vec::new(), Range::default(), (Zone::Local, now()))?;
        let question = args.about.add_to(by, question)?;
        let mut question = args.rows.clone().add_to(question);
        if matches!(form, Form::Events { .. }) {
            question.top.get_or_insert(MOST_ALERTS);
        }
        if let Form::Answer(Format::Table(_)) = form {
            question.top.get_or_insert(MOST_ROWS);
        }
        let columns = match (subject, form) {
            (Subject::Files(_), Form::Answer(_) | Form::Windows) => match args.rows.columns()? {
                ColumnsFlag::List => return Ok(None),
                ColumnsFlag::Rows(columns) => {
                    columns_of_files(columns, &mut question, form.format())?
                }
            },
            (Subject::Files(_), Form::Paper | Form::Events { .. }) => {
                question.projection = Projection::all();
                None
            }
            _ => match args.rows.columns::<OperationAnswer>()? {
                ColumnsFlag::List => return Ok(None),
                ColumnsFlag::Rows(_) => None,
            },
        };
        Ok(Some(Self {
            socket: args.socket.path().to_owned(),
            question,
            subject,
            rows: args.rows,
            form,
            columns,
            has_header: false,
            asked_step: args.step,
            // Replaced with the recorder's length, which is unknown here.
            step: Granularity::from_ms(1000)?,
            mounts: Vec::new(),
            pending: Vec::new(),
            start: UtcMs(0),
            end: None,
            events: Events::new(args.matching),
            frames: Frames::default(),
            commands: Commands::new(args.on, args.on_every)?,
            recorder: None,
            recent: Recent::default(),
        }))
    }

    /// Begins to follow a recorder.
    fn begin(&mut self, hello: &Hello) -> anyhow::Result<()> {
        let finest = Granularity::from_ms(hello.recorder.granularity_ms)?;
        self.step = self.asked_step.unwrap_or(finest);
        if !self.step.is_multiple_of(finest) {
            bail!(
                "--step {}: the recorder has windows of {finest}; name a multiple of that",
                self.step
            );
        }
        self.recorder = Some(hello.recorder.clone());
        let begun = self.events.began(hello);
        self.tell(begun)?;
        Ok(())
    }

    /// Reports that the recorder has ended.
    fn tell_ended(&mut self) -> anyhow::Result<()> {
        match self.form {
            Form::Events { .. } => {
                let ended = self.events.ended(true);
                self.tell([ended])?;
            }
            _ => say("the recorder has ended; waiting for another one"),
        }
        Ok(())
    }

    /// Derives events from a status. Returns whether stdout still has a reader.
    fn see_status(&mut self, status: &Status) -> anyhow::Result<bool> {
        let Form::Events { .. } = self.form else {
            return Ok(true);
        };
        self.commands.reap();
        let room = self
            .recorder
            .as_ref()
            .and_then(|recorder| recorder.store_size);
        let events = self.events.status(status, room);
        self.tell(events)
    }

    /// Writes events, and runs their programs. Returns whether stdout still has a reader.
    fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> anyhow::Result<bool> {
        let Form::Events { json: as_json } = self.form else {
            return Ok(true);
        };
        let mut goes_on = true;
        for event in events {
            let at = now();
            let host = self.recorder.as_ref().map(|recorder| &recorder.host);
            let json = |left_out: u64| {
                let mut object = json!({
                    "time": rfc3339(at),
                    "event": event.kind,
                    "host": host,
                    "text": event.text,
                });
                if let Some(object) = object.as_object_mut() {
                    object.extend(event.fields.clone());
                    if left_out > 0 {
                        object.insert("left_out".to_owned(), left_out.into());
                    }
                }
                format!("{object}\n")
            };
            let line = match as_json {
                true => json(0),
                false => format!(
                    "{}  {:<16} {}\n",
                    show(at, self.question.zone),
                    event.kind,
                    visible(&event.text)
                ),
            };
            goes_on &= emit(line.as_bytes())?;
            self.commands.run(&event, json);
        }
        Ok(goes_on)
    }

    /// Writes the alerts of a window: rows that match, or no longer match.
    fn alerts(&mut self, question: &Question) -> anyhow::Result<bool> {
        // A view without windows only checks the question.
        let is_window = question.step.is_some();
        let mut rows = BTreeMap::new();
        if let Some(answer) = self.answer(ask(question)?) {
            let mut text = Vec::new();
            trackiops_render::write(&answer, Format::Json, style(question), &mut text)?;
            let objects = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
            for (row, object) in answer.rows.iter().zip(objects) {
                rows.insert(row.name(), object?);
            }
        }
        if question.conditions.is_empty() || !is_window {
            return Ok(true);
        }
        let events = self.events.rows(&rows);
        self.tell(events)
    }

    /// Keeps a window for verdicts.
    fn remember(&mut self, window: &LiveWindow) {
        if let Form::Events { .. } = self.form {
            self.recent.add(window.clone());
        }
    }

    /// Writes events about mounts that became slow, or are no longer slow.
    fn tell_slow(&mut self) -> anyhow::Result<bool> {
        let (Form::Events { .. }, Some(until)) = (self.form, self.end) else {
            return Ok(true);
        };
        let (question, zone) = (&self.question, self.question.zone);
        match self
            .recent
            .slow(question, until, &self.mounts, &self.socket)?
        {
            None => Ok(true),
            Some(moments) => {
                let events = self.events.slow(&moments, zone);
                self.tell(events)
            }
        }
    }

    /// Writes the store's windows since a time. Returns the position of their end; `None` if stdout has lost its reader.
    fn history(&mut self, store: &Path, since: UtcMs) -> anyhow::Result<Option<Position>> {
        self.frames.from_store = true;
        let written = self.stored(store, since);
        self.frames.from_store = false;
        written
    }

    fn stored(&mut self, store: &Path, since: UtcMs) -> anyhow::Result<Option<Position>> {
        let mut left_out = HashSet::new();
        let mut attempts = 0;
        let mut step = Some(self.step);
        loop {
            let view = Snapshot::open(store)?.without(&left_out);
            let position = view.position();
            self.end = view.span().map(|(_, end)| end);
            let range = Range {
                since: Some(since),
                until: None,
            };
            let error = match self.write(view, range, step) {
                Ok(is_read) => return Ok(is_read.then_some(position)),
                Err(error) => error,
            };
            attempts += 1;
            match error.downcast_ref() {
                // Short windows have expired.
                Some(QueryError::StepNotRecorded { .. })
                    if self.asked_step.is_none() && step.take().is_some() => {}
                // A segment has been merged.
                Some(QueryError::Vanished(_)) if attempts < ATTEMPTS => {}
                Some(QueryError::Vanished(path) | QueryError::Damaged { path, .. })
                    if left_out.insert(path.clone()) =>
                {
                    self.note(format!("{error}; the rest follows"));
                }
                _ => return Err(error),
            }
        }
    }

    /// Says that the store has windows that were not received.
    fn tell_missed(&self, last: Position, position: Position) {
        if let (true, Some(end)) = (position > last, self.end) {
            say(format_args!(
                "windows since {} are in the store alone: trackiops query --since '{}'",
                show(end, self.question.zone),
                rfc3339(end)
            ));
        }
    }

    /// Writes windows until the stream ends. Skips windows up to the position `after` at the beginning of the stream, because they were
    /// already written.
    fn follow(
        &mut self,
        subscription: &mut Subscription,
        mut after: Position,
        is_over: impl Fn() -> bool,
    ) -> anyhow::Result<End> {
        let mut last = after;
        let mut has_begun = false;
        let mut silent_since = Some(Instant::now());
        loop {
            if is_over() {
                self.flush()?;
                return Ok(End::Over);
            }
            let heard = subscription.next(LOOK_EVERY);
            if !matches!(heard, Ok(None)) {
                silent_since = Some(Instant::now());
            } else if silent_since.is_some_and(|since| since.elapsed() > SILENCE) {
                if self.is_of_windows() {
                    return Ok(End::Silent);
                }
                silent_since = None;
                say(SILENT);
            }
            let goes_on = match heard {
                Ok(None) => true,
                Ok(Some(Message::Window(window))) if !has_begun && window.position <= after => true,
                Ok(Some(Message::Window(window))) => {
                    // In a store that was deleted and created again, positions start again.
                    has_begun = true;
                    last = window.position;
                    self.remember(&window);
                    self.add(window)? && self.tell_slow()?
                }
                Ok(Some(Message::Mounts(mounts))) => {
                    // Rows may still come from mounts that are gone.
                    let known = mem::take(&mut self.mounts);
                    self.mounts = mounts;
                    let is_gone = |mount: &MountPoint| !self.mounts.contains(mount);
                    let gone: Vec<_> = known.into_iter().filter(is_gone).collect();
                    self.mounts.extend(gone);
                    true
                }
                Ok(Some(Message::Gap(gap))) if self.is_of_windows() => {
                    let flushed = self.flush()?;
                    let store = &subscription.hello().recorder.store;
                    match self.history(store, UtcMs(gap.since_ms))? {
                        Some(position) if flushed => {
                            (after, last, has_begun) = (position, position, false);
                            true
                        }
                        _ => false,
                    }
                }
                Ok(Some(Message::Gap(gap))) => {
                    last = gap.until;
                    let goes_on = self.flush()?;
                    self.tell_gap(&gap);
                    goes_on
                }
                Ok(Some(Message::Status(status))) => self.see_status(&status)?,
                Ok(Some(Message::Totals(_) | Message::Hello(_))) => true,
                Ok(Some(Message::End)) => {
                    return Ok(match self.flush()? {
                        true => End::Recorder(last),
                        false => End::Over,
                    });
                }
                Err(LiveError::Broken { .. }) => {
                    return Ok(match self.flush()? {
                        true => End::Broken(last),
                        false => End::Over,
                    });
                }
                Err(error) => return Err(error.into()),
            };
            if !goes_on {
                return Ok(End::Over);
            }
        }
    }

    fn is_of_windows(&self) -> bool {
        matches!(self.form, Form::Windows)
    }

    /// Writes why there are no more windows.
    fn end_windows(&mut self, why: &str) -> anyhow::Result<ExitCode> {
        emit(self.frames.end(why).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Adds a note about the rows.
    fn note(&mut self, note: String) {
        match self.is_of_windows() {
            true => self.frames.say(note),
            false => say(note),
        }
    }

    /// Says that the store may have windows that were not received.
    fn tell_broken(&mut self) -> anyhow::Result<()> {
        if let Form::Events { .. } = self.form {
            let ended = self.events.ended(false);
            self.tell([ended])?;
            return Ok(());
        }
        let since = self.end.map_or(String::new(), |end| {
            format!(
                "; windows since {} may be in the store alone: trackiops query --since '{}'",
                show(end, self.question.zone),
                rfc3339(end)
            )
        });
        say(format_args!(
            "the recorder has ended without a word{since}; waiting for another one"
        ));
        Ok(())
    }

    fn tell_gap(&mut self, gap: &Gap) {
        let [since, until] = [gap.since_ms, gap.until_ms].map(UtcMs);
        self.end = Some(until);
        say(format_args!(
            "{} missing, not read in time or too large for the stream; the store has them: trackiops query --since '{}' --until '{}'",
            plural(gap.windows, "window"),
            rfc3339(since),
            rfc3339(until)
        ));
    }

    /// Adds a window, and writes its step if the window is the last one of the step. Returns whether stdout still has a reader.
    fn add(&mut self, window: LiveWindow) -> anyhow::Result<bool> {
        let view = Snapshot::of_windows(slice::from_ref(&window), &[], &self.socket)?;
        let Some((start, end)) = view.span() else {
            return Ok(true);
        };
        let of_step = start.align(self.step);
        self.end = Some(end);
        let mut goes_on = true;
        if of_step < self.start && !self.pending.is_empty() {
            // Late requests of an earlier step.
            return self.write_windows(slice::from_ref(&window), of_step);
        }
        if of_step != self.start {
            goes_on = self.flush()?;
        }
        self.start = of_step;
        self.pending.push(window);
        if self.pending.len() >= MOST_PENDING {
            let sum = LiveWindow::sum(&self.pending, self.step, &self.socket)?;
            self.pending = sum.into_iter().collect();
        }
        if end >= of_step.plus(self.step) {
            goes_on &= self.flush()?;
        }
        Ok(goes_on)
    }

    /// Writes the pending windows. Returns whether stdout still has a reader.
    fn flush(&mut self) -> anyhow::Result<bool> {
        let windows = mem::take(&mut self.pending);
        self.write_windows(&windows, self.start)
    }

    /// Writes windows of the step that begins at `start`.
    fn write_windows(&mut self, windows: &[LiveWindow], start: UtcMs) -> anyhow::Result<bool> {
        if windows.is_empty() {
            return Ok(true);
        }
        let view = Snapshot::of_windows(windows, &self.mounts, &self.socket)?;
        // While the store cannot be written, windows become longer.
        let longer = view.granularities().into_iter().max();
        let longer = longer.filter(|longer| !self.step.is_multiple_of(*longer));
        let step = longer.unwrap_or(self.step);
        let range = Range {
            since: Some(start.align(step)),
            until: Some(start.align(step).plus(step)),
        };
        self.write(view, range, Some(step))
    }

    /// Writes the rows of a view in a range. Returns whether stdout still has a reader.
    fn write(
        &mut self,
        view: Snapshot,
        range: Range,
        step: Option<Granularity>,
    ) -> anyhow::Result<bool> {
        let question = Question {
            view: Some(Rc::new(view)),
            range,
            step: step.map(Step::Windows),
            // A window may end after the present wall-clock time, if the clock was set.
            now: now().max(range.since.unwrap_or(UtcMs(0))),
            ..self.question.clone()
        };
        match (self.subject, self.form) {
            (Subject::Files(_), Form::Paper) => {
                let answer = self.answer(ask(&question)?);
                let lines = answer.map(|answer| paper::lines(&answer));
                let header = match mem::replace(&mut self.has_header, true) {
                    true => "",
                    false => paper::HEADER,
                };
                emit([header, &lines.unwrap_or_default()].concat().as_bytes())
            }
            (_, Form::Events { .. }) => self.alerts(&question),
            (_, Form::Paper) => Ok(true),
            (Subject::Files(_), _) => {
                let columns = self.columns.clone();
                self.put(ask(&question)?, columns, &question)
            }
            (Subject::Operations(connections), _) => {
                let outcome = ask_operations(&question, connections)?;
                self.put(outcome, self.rows.columns()?.of_rows(), &question)
            }
            (Subject::OperationsBy(by), _) => {
                let outcome = ask_operations_by(&question, by)?;
                self.put(outcome, self.rows.columns()?.of_rows(), &question)
            }
        }
    }

    fn put<R: Render>(
        &mut self,
        outcome: Outcome<R>,
        columns: Option<Columns<R>>,
        question: &Question,
    ) -> anyhow::Result<bool> {
        let format = self.form.format();
        let Some(answer) = self.answer(outcome) else {
            return match self.is_of_windows() && question.step.is_some() {
                true => emit(
                    self.frames
                        .windows::<R>(None, "", question.range)
                        .as_bytes(),
                ),
                false => Ok(true),
            };
        };
        let style = Style {
            look: Output::Stdout.look(),
            ..style(question)
        };
        let mut text = Vec::new();
        match columns {
            None => trackiops_render::write(&answer, format, style, &mut text)?,
            Some(columns) => {
                trackiops_render::write_columns(&answer, &columns, format, style, &mut text)?;
            }
        }
        if self.is_of_windows() {
            let text = String::from_utf8_lossy(&text);
            let windows = self.frames.windows(Some(&answer), &text, question.range);
            return emit(windows.as_bytes());
        }
        if matches!(format, Format::Csv(_)) && mem::replace(&mut self.has_header, true) {
            let header = text.iter().position(|byte| *byte == b'\n');
            text.drain(..=header.unwrap_or(0));
        }
        emit(&text)
    }

    /// The answer, if there is one. Reports its gaps.
    fn answer<R>(&mut self, outcome: Outcome<R>) -> Option<Answer<R>> {
        let (answer, mut notes) = match outcome {
            Outcome::Found(mut answer) => {
                let notes = mem::take(&mut answer.notes);
                (Some(answer), notes)
            }
            Outcome::Nothing { notes, .. } => (None, notes),
        };
        notes.retain(Note::is_of_the_recording);
        match self.is_of_windows() {
            true => notes
                .iter()
                .for_each(|note| self.frames.say(note.show(Zone::utc()))),
            false => say_notes(&notes, self.question.zone),
        }
        answer
    }
}

/// Writes to stdout. Returns whether stdout still has a reader.
fn emit(text: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => {
            written.context("cannot write to stdout")?;
            Ok(true)
        }
    }
}
