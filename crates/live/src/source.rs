//! The source of `top`'s rows: the last windows of a recorder, or a store.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::slice;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use trackiops_query::{Question, Range, Step};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::{Granularity, GranularityError, UtcMs};
use trackiops_store::live::{Gap, Hello, LiveError, Message, Status};
use trackiops_store::{Snapshot, StoreError};

use crate::follower::{Follower, Heard, SILENCE};
use crate::recent_windows::RecentWindows;

/// Most windows that are kept for courses, and their bytes.
const MOST_WINDOWS: usize = 60;
const MOST_BYTES: usize = 16 << 20;
/// Points of a course.
const COURSE: i64 = 60;
/// Most messages that wait for the screen.
const WAITING: usize = 64;

/// The source of rows.
pub struct Source {
    /// Names the files and the stores.
    about: Question,
    socket: PathBuf,
    live: Option<Live>,
}

/// The messages of a recorder.
pub struct Live {
    messages: Receiver<Heard>,
    /// The recorder.
    pub hello: Option<Hello>,
    /// Its last status.
    pub status: Status,
    mounts: Vec<MountPoint>,
    windows: RecentWindows,
    /// End of the last window.
    until: Option<UtcMs>,
    /// Windows that were missing in the stream.
    pub missing: u64,
    /// Why no messages come.
    pub trouble: Option<String>,
}

/// Why there is no question for the screen.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The store or the recorder's windows cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recorder's windows have an impossible length.
    #[error(transparent)]
    Length(#[from] GranularityError),
}

/// The time that the screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The last closed windows.
    Live,
    /// The time before this point.
    Until(UtcMs),
}

impl Source {
    /// Stores, without a recorder. `about` names the stores and the files.
    pub fn stored(about: Question, socket: &Path) -> Self {
        Self {
            about,
            socket: socket.to_owned(),
            live: None,
        }
    }

    /// Listens to a recorder. Earlier times come from the stores in `about`, or from the recorder's own store if there
    /// are none.
    pub fn listening(about: Question, socket: &Path) -> Result<Self, LiveError> {
        // An error at the start ends the command; a later error is shown.
        let mut follower = Follower::new(socket);
        let hello = *follower.connect()?;
        let (heard, messages) = sync_channel(WAITING);
        thread::spawn(move || while heard.send(follower.next(SILENCE)).is_ok() {});
        let mut source = Self::stored(about, socket);
        if source.about.stores.is_empty() {
            source.about.stores.push(hello.recorder.store.clone());
        }
        source.live = Some(Live {
            messages,
            hello: Some(hello),
            status: Status::default(),
            mounts: Vec::new(),
            windows: RecentWindows::new(MOST_WINDOWS, MOST_BYTES),
            until: None,
            missing: 0,
            trouble: None,
        });
        Ok(source)
    }

    /// The recorder, unless only stores are shown.
    pub fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// Takes the recorder's messages. Returns whether there was anything new.
    pub fn take(&mut self) -> Result<bool, StoreError> {
        let Some(live) = &mut self.live else {
            return Ok(false);
        };
        let mut is_new = false;
        loop {
            match live.messages.try_recv() {
                Ok(heard) => live.hear(heard, &self.socket)?,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(is_new),
            }
            is_new = true;
        }
    }

    /// The end of the known time: of the last window, or of the store.
    pub fn until(&self) -> Result<UtcMs, StoreError> {
        if let Some(until) = self.live.as_ref().and_then(|live| live.until) {
            return Ok(until);
        }
        let span = self.snapshot()?.span();
        Ok(span.map_or_else(UtcMs::now, |(_, end)| end))
    }

    /// Length of the shortest windows.
    fn finest(&self) -> Result<Granularity, SourceError> {
        if let Some(hello) = self.live.as_ref().and_then(|live| live.hello.as_ref()) {
            return Ok(Granularity::from_ms(hello.recorder.granularity_ms)?);
        }
        let finest = self.snapshot()?.granularities().into_iter().min();
        Ok(finest.unwrap_or(Granularity::from_ms(1000)?))
    }

    /// When the stores begin. `None` if they are empty, or cannot be opened: another user may have recorded them.
    fn stored_since(&self) -> Option<UtcMs> {
        self.snapshot().ok()?.span().map(|(begin, _)| begin)
    }

    fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::open_all(self.about.stores.iter().map(PathBuf::as_path))
    }

    /// A question about the `length_ms` before a moment, with one row for all of it. Time before the live time began is not a gap.
    pub fn question(&self, moment: Moment, length_ms: i64) -> Result<Question, StoreError> {
        let (until, view, begin) = match (moment, &self.live) {
            (Moment::Live, Some(live)) => {
                let windows = live.windows.as_slice();
                let view = Snapshot::of_windows(windows, &live.mounts, &self.socket)?;
                let until = live.until.unwrap_or_else(UtcMs::now);
                let heard = view.span().map(|(begin, _)| begin);
                // The store has what was recorded before this program listened.
                let stored = match heard.is_some_and(|begin| begin.0 <= until.0 - length_ms) {
                    true => None,
                    false => self.stored_since(),
                };
                let hello = live.hello.as_ref();
                let started = hello.map(|hello| UtcMs(hello.recorder.started_ms));
                let known = stored.and_then(|since| started.max(Some(since)));
                let begin = known.into_iter().chain(heard).min();
                (until, stored.is_none().then(|| Rc::new(view)), begin)
            }
            (Moment::Live, None) => (self.until()?, None, None),
            (Moment::Until(until), _) => (until, None, None),
        };
        let range = Range {
            since: Some(UtcMs(until.0 - length_ms)).max(begin),
            until: Some(until),
        };
        Ok(Question {
            view,
            range,
            step: Some(Step::All),
            now: UtcMs::now().max(until),
            ..self.about.clone()
        })
    }

    /// The same question about a longer range, for courses.
    pub fn course(&self, question: &Question, length_ms: i64) -> Result<Question, SourceError> {
        let finest = self.finest()?;
        let whole = COURSE * finest.ms().max(length_ms / COURSE);
        let until = question.range.until;
        Ok(Question {
            // For a store, the range determines the length of windows.
            step: question.view.is_some().then_some(Step::Windows(finest)),
            range: Range {
                since: until.map(|until| UtcMs(until.0 - whole)),
                until,
            },
            ..question.clone()
        })
    }
}

impl Live {
    /// Whether any window has come.
    pub fn has_windows(&self) -> bool {
        !self.windows.as_slice().is_empty()
    }

    fn hear(&mut self, heard: Heard, socket: &Path) -> Result<(), StoreError> {
        self.trouble = None;
        let message = match heard {
            Heard::Recorder(hello) => Message::Hello(hello),
            Heard::Message(message) => message,
            Heard::Nothing => {
                self.trouble = Some("the recorder does not answer".to_owned());
                return Ok(());
            }
            Heard::Absent(why) | Heard::Lost(why) => {
                self.trouble = Some(why.to_string());
                return Ok(());
            }
        };
        match message {
            Message::Hello(hello) => self.hello = Some(*hello),
            Message::Mounts(mounts) => self.mounts = mounts,
            Message::Status(status) => self.status = *status,
            Message::Totals(_) => {}
            Message::Gap(Gap { windows, .. }) => self.missing += windows,
            Message::End => self.trouble = Some("the recorder has ended".to_owned()),
            Message::Window(window) => {
                let view = Snapshot::of_windows(slice::from_ref(&window), &[], socket)?;
                self.until = self.until.max(view.span().map(|(_, end)| end));
                self.windows.add(window);
            }
        }
        Ok(())
    }
}
