//! Follows recorders: writes their windows, and reads from the store what the stream does not have.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use trackiops_live::{Follower, Heard, SILENCE, SlowMounts, StepRows, Steps};
use trackiops_process::output::say;
use trackiops_query::times::{rfc3339, show};
use trackiops_query::{QueryError, Range};
use trackiops_render::units::plural;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Snapshot;
use trackiops_store::live::{Gap, Hello, LiveError, LiveWindow, Message, Position};

use crate::watch::args::Args;
use crate::watch::writer::Writer;

/// Interval of checks for `--duration`.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The message about a silent recorder.
pub const SILENT: &str = "the recorder does not answer: it may be stopped";
/// Attempts to read a store whose segments are being merged.
const ATTEMPTS: u32 = 8;

/// Why following a recorder ends without an error.
pub enum End {
    /// `--duration` is over, or stdout has lost its reader.
    Over,
    /// The recorder ended after this window.
    Recorder(Position),
    /// The connection broke after this window: the recorder was killed, or ended before everything was read.
    Broken(Position),
    /// The recorder does not answer, and `--windows` then ends.
    Silent,
}

/// Writes what one recorder after the other sends.
pub struct Watch {
    pub writer: Writer,
    socket: PathBuf,
    asked_step: Option<Granularity>,
    /// Of `--step`, or else of the length of the recorder's windows.
    steps: Steps,
    slow: SlowMounts,
}

impl Watch {
    /// `None` if the columns were to be listed, which is then done.
    pub fn new(args: Args) -> anyhow::Result<Option<Self>> {
        let (socket, asked_step) = (args.socket.path().to_owned(), args.step);
        let Some(writer) = Writer::new(args)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            writer,
            // Replaced with the recorder's length, which is unknown here.
            steps: Steps::new(&socket, Granularity::from_ms(1000)?),
            socket,
            asked_step,
            slow: SlowMounts::default(),
        }))
    }

    /// Begins to follow a recorder.
    pub fn begin(&mut self, hello: &Hello) -> anyhow::Result<()> {
        let finest = Granularity::from_ms(hello.recorder.granularity_ms)?;
        let step = self.asked_step.unwrap_or(finest);
        self.steps.set_length(step);
        if !step.is_multiple_of(finest) {
            bail!("--step {step}: the recorder has windows of {finest}; name a multiple of that");
        }
        self.writer.begin(hello)
    }

    /// Writes the store's windows since a time. Returns the position of their end; `None` if stdout has lost its reader.
    pub fn history(&mut self, store: &Path, since: UtcMs) -> anyhow::Result<Option<Position>> {
        self.writer.set_from_store(true);
        let written = self.stored(store, since);
        self.writer.set_from_store(false);
        written
    }

    fn stored(&mut self, store: &Path, since: UtcMs) -> anyhow::Result<Option<Position>> {
        let mut left_out = HashSet::new();
        let mut attempts = 0;
        let mut step = Some(self.steps.length());
        loop {
            let view = Snapshot::open(store)?.without(&left_out);
            let position = view.position();
            self.steps.set_end(view.span().map(|(_, end)| end));
            let range = Range {
                since: Some(since),
                until: None,
            };
            let error = match self.writer.write(view, range, step) {
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
                    self.writer.note(format!("{error}; the rest follows"));
                }
                _ => return Err(error),
            }
        }
    }

    /// Writes windows until the stream ends. Skips windows up to the position `after` at the beginning of the stream, because they were
    /// already written.
    pub fn follow(
        &mut self,
        recorders: &mut Follower,
        store: &Path,
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
            let heard = recorders.next(LOOK_EVERY);
            if !matches!(heard, Heard::Nothing) {
                silent_since = Some(Instant::now());
            } else if silent_since.is_some_and(|since| since.elapsed() > SILENCE) {
                if self.writer.is_of_windows() {
                    return Ok(End::Silent);
                }
                silent_since = None;
                say(SILENT);
            }
            let goes_on = match heard {
                Heard::Nothing | Heard::Recorder(_) => true,
                Heard::Message(Message::Window(window))
                    if !has_begun && window.position <= after =>
                {
                    true
                }
                Heard::Message(Message::Window(window)) => {
                    // In a store that was deleted and created again, positions start again.
                    has_begun = true;
                    last = window.position;
                    self.remember(&window);
                    self.add(window)? && self.tell_slow()?
                }
                Heard::Message(Message::Mounts(mounts)) => {
                    self.steps.set_mounts(mounts);
                    true
                }
                Heard::Message(Message::Gap(gap)) if self.writer.is_of_windows() => {
                    let flushed = self.flush()?;
                    match self.history(store, UtcMs(gap.since_ms))? {
                        Some(position) if flushed => {
                            (after, last, has_begun) = (position, position, false);
                            true
                        }
                        _ => false,
                    }
                }
                Heard::Message(Message::Gap(gap)) => {
                    last = gap.until;
                    let goes_on = self.flush()?;
                    self.tell_gap(&gap);
                    goes_on
                }
                Heard::Message(Message::Status(status)) => self.writer.see_status(&status)?,
                Heard::Message(Message::Totals(_) | Message::Hello(_)) => true,
                Heard::Message(Message::End) => {
                    return Ok(match self.flush()? {
                        true => End::Recorder(last),
                        false => End::Over,
                    });
                }
                Heard::Lost(LiveError::Broken { .. }) => {
                    return Ok(match self.flush()? {
                        true => End::Broken(last),
                        false => End::Over,
                    });
                }
                Heard::Lost(error) | Heard::Absent(error) => return Err(error.into()),
            };
            if !goes_on {
                return Ok(End::Over);
            }
        }
    }

    /// Adds a window, and writes the steps that have ended. Returns whether stdout still has a reader.
    fn add(&mut self, window: LiveWindow) -> anyhow::Result<bool> {
        let mut goes_on = true;
        for step in self.steps.add(window)? {
            goes_on &= self.write(step)?;
        }
        Ok(goes_on)
    }

    /// Writes the pending windows. Returns whether stdout still has a reader.
    fn flush(&mut self) -> anyhow::Result<bool> {
        match self.steps.flush()? {
            Some(step) => self.write(step),
            None => Ok(true),
        }
    }

    fn write(&mut self, StepRows { view, range, step }: StepRows) -> anyhow::Result<bool> {
        self.writer.write(view, range, Some(step))
    }

    /// Keeps a window for verdicts.
    fn remember(&mut self, window: &LiveWindow) {
        if self.writer.is_of_events() {
            self.slow.add(window.clone());
        }
    }

    /// Writes events about mounts that became slow, or are no longer slow.
    fn tell_slow(&mut self) -> anyhow::Result<bool> {
        let (true, Some(until)) = (self.writer.is_of_events(), self.steps.end()) else {
            return Ok(true);
        };
        let question = self.writer.question();
        let mounts = self.steps.mounts();
        match self.slow.slow(question, until, mounts, &self.socket)? {
            None => Ok(true),
            Some(moments) => self.writer.tell_slow(&moments),
        }
    }

    /// Says that the store has windows that were not received.
    pub fn tell_missed(&self, last: Position, position: Position) {
        if let (true, Some(end)) = (position > last, self.steps.end()) {
            say(format_args!(
                "windows since {} are in the store alone: trackiops query --since '{}'",
                show(end, self.writer.question().zone),
                rfc3339(end)
            ));
        }
    }

    /// Says that the store may have windows that were not received.
    pub fn tell_broken(&mut self) -> anyhow::Result<()> {
        self.writer.tell_broken(self.steps.end())
    }

    fn tell_gap(&mut self, gap: &Gap) {
        let [since, until] = [gap.since_ms, gap.until_ms].map(UtcMs);
        self.steps.set_end(Some(until));
        say(format_args!(
            "{} missing, not read in time or too large for the stream; the store has them: trackiops query --since '{}' --until '{}'",
            plural(gap.windows, "window"),
            rfc3339(since),
            rfc3339(until)
        ));
    }
}
