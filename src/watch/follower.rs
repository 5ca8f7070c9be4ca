//! Follows a recorder: adds its windows up to steps, and reads from the store what the stream does not have.

use std::collections::HashSet;
use std::mem;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::{Duration, Instant};

use anyhow::bail;
use trackiops_query::times::{rfc3339, show};
use trackiops_query::{QueryError, Range};
use trackiops_render::units::plural;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::Snapshot;
use trackiops_store::live::{Gap, Hello, LiveError, LiveWindow, Message, Position, Subscription};

use crate::output::say;
use crate::watch::args::Args;
use crate::watch::recent::Recent;
use crate::watch::writer::Writer;

/// Interval of checks for `--duration`.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The recorder sends a message each second.
const SILENCE: Duration = Duration::from_secs(5);
/// The message about a silent recorder.
pub const SILENT: &str = "the recorder does not answer: it may be stopped";
/// Most pending windows of a step before they are summed.
const MOST_PENDING: usize = 64;
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

/// Follows one recorder after the other, with the pending windows of the current step.
pub struct Follower {
    pub writer: Writer,
    socket: PathBuf,
    asked_step: Option<Granularity>,
    /// `--step`, or else the length of the recorder's windows.
    step: Granularity,
    mounts: Vec<MountPoint>,
    pending: Vec<LiveWindow>,
    /// Start of the step of `pending`.
    start: UtcMs,
    /// End of the last window.
    end: Option<UtcMs>,
    recent: Recent,
}

impl Follower {
    /// `None` if the columns were to be listed, which is then done.
    pub fn new(args: Args) -> anyhow::Result<Option<Self>> {
        let (socket, asked_step) = (args.socket.path().to_owned(), args.step);
        let Some(writer) = Writer::new(args)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            writer,
            socket,
            asked_step,
            // Replaced with the recorder's length, which is unknown here.
            step: Granularity::from_ms(1000)?,
            mounts: Vec::new(),
            pending: Vec::new(),
            start: UtcMs(0),
            end: None,
            recent: Recent::default(),
        }))
    }

    /// Begins to follow a recorder.
    pub fn begin(&mut self, hello: &Hello) -> anyhow::Result<()> {
        let finest = Granularity::from_ms(hello.recorder.granularity_ms)?;
        self.step = self.asked_step.unwrap_or(finest);
        if !self.step.is_multiple_of(finest) {
            bail!(
                "--step {}: the recorder has windows of {finest}; name a multiple of that",
                self.step
            );
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
        let mut step = Some(self.step);
        loop {
            let view = Snapshot::open(store)?.without(&left_out);
            let position = view.position();
            self.end = view.span().map(|(_, end)| end);
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
                if self.writer.is_of_windows() {
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
                Ok(Some(Message::Gap(gap))) if self.writer.is_of_windows() => {
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
                Ok(Some(Message::Status(status))) => self.writer.see_status(&status)?,
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
        self.writer.write(view, range, Some(step))
    }

    /// Keeps a window for verdicts.
    fn remember(&mut self, window: &LiveWindow) {
        if self.writer.is_of_events() {
            self.recent.add(window.clone());
        }
    }

    /// Writes events about mounts that became slow, or are no longer slow.
    fn tell_slow(&mut self) -> anyhow::Result<bool> {
        let (true, Some(until)) = (self.writer.is_of_events(), self.end) else {
            return Ok(true);
        };
        let question = self.writer.question();
        match self
            .recent
            .slow(question, until, &self.mounts, &self.socket)?
        {
            None => Ok(true),
            Some(moments) => self.writer.tell_slow(&moments),
        }
    }

    /// Says that the store has windows that were not received.
    pub fn tell_missed(&self, last: Position, position: Position) {
        if let (true, Some(end)) = (position > last, self.end) {
            say(format_args!(
                "windows since {} are in the store alone: trackiops query --since '{}'",
                show(end, self.writer.question().zone),
                rfc3339(end)
            ));
        }
    }

    /// Says that the store may have windows that were not received.
    pub fn tell_broken(&mut self) -> anyhow::Result<()> {
        self.writer.tell_broken(self.end)
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
}
