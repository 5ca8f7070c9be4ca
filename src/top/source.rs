//! The source of `top`'s rows: the last windows of a recorder, or a store.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use trackiops_query::times::Zone;
use trackiops_query::{Question, Range, Step};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::live::{Gap, Hello, LiveError, LiveWindow, Message, Status, Subscription};
use trackiops_store::{Snapshot, StoreError};

use crate::question_flags::FileFlags;

/// Most windows that are kept for courses, and their bytes.
const MOST_WINDOWS: usize = 60;
const MOST_BYTES: usize = 16 << 20;
/// Points of a course.
const COURSE: i64 = 60;
/// The recorder sends a message each second.
const SILENCE: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// Most messages that wait for the screen.
const WAITING: usize = 64;

/// The source of rows.
pub struct Source {
    files: FileFlags,
    stores: Vec<PathBuf>,
    socket: PathBuf,
    live: Option<Live>,
}

/// The messages of a recorder.
pub struct Live {
    messages: Receiver<Heard>,
    pub hello: Option<Hello>,
    pub status: Status,
    mounts: Vec<MountPoint>,
    windows: VecDeque<LiveWindow>,
    bytes: usize,
    /// End of the last window.
    until: Option<UtcMs>,
    /// Windows that were missing in the stream.
    pub missing: u64,
    /// Why no messages come.
    pub trouble: Option<String>,
}

/// From the thread that listens.
enum Heard {
    Message(Message),
    Trouble(String),
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
    /// A store, without a recorder.
    pub fn stored(files: FileFlags, stores: Vec<PathBuf>, socket: &Path) -> Self {
        Self {
            files,
            stores,
            socket: socket.to_owned(),
            live: None,
        }
    }

    /// Listens to a recorder. Earlier times come from `stores`, or if it is empty, from the recorder's own store.
    pub fn listening(
        files: FileFlags,
        stores: Vec<PathBuf>,
        socket: &Path,
    ) -> Result<Self, LiveError> {
        // An error at the start ends the command; a later error is shown.
        let subscription = Subscription::connect(socket)?;
        let (heard, messages) = sync_channel(WAITING);
        let hello = subscription.hello().clone();
        let path = socket.to_owned();
        thread::spawn(move || listen(subscription, &path, &heard));
        let mut source = Self::stored(files, stores, socket);
        if source.stores.is_empty() {
            source.stores.push(hello.recorder.store.clone());
        }
        source.live = Some(Live {
            messages,
            hello: Some(hello),
            status: Status::default(),
            mounts: Vec::new(),
            windows: VecDeque::new(),
            bytes: 0,
            until: None,
            missing: 0,
            trouble: None,
        });
        Ok(source)
    }

    pub fn live(&self) -> Option<&Live> {
        self.live.as_ref()
    }

    /// Takes the recorder's messages. Returns whether there was anything new.
    pub fn take(&mut self) -> anyhow::Result<bool> {
        let Some(live) = &mut self.live else {
            return Ok(false);
        };
        let mut is_new = false;
        loop {
            match live.messages.try_recv() {
                Ok(Heard::Message(message)) => live.hear(message, &self.socket)?,
                Ok(Heard::Trouble(why)) => live.trouble = Some(why),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(is_new),
            }
            is_new = true;
        }
    }

    /// The end of the known time: of the last window, or of the store.
    pub fn until(&self) -> anyhow::Result<UtcMs> {
        if let Some(until) = self.live.as_ref().and_then(|live| live.until) {
            return Ok(until);
        }
        let span = self.snapshot()?.span();
        Ok(span.map_or_else(UtcMs::now, |(_, end)| end))
    }

    /// Length of the shortest windows.
    pub fn finest(&self) -> anyhow::Result<Granularity> {
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
        Snapshot::open_all(self.stores.iter().map(PathBuf::as_path))
    }

    /// A question about the `length_ms` before a moment, with one row for all of it. Time before the live time began is not a gap.
    pub fn question(&self, moment: Moment, length_ms: i64) -> anyhow::Result<Question> {
        let (until, view, begin) = match (moment, &self.live) {
            (Moment::Live, Some(live)) => {
                let view =
                    Snapshot::of_windows(live.windows.as_slices().0, &live.mounts, &self.socket)?;
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
        let files = self.files.clone();
        let question = files.question(
            self.stores.clone(),
            range,
            (Zone::Local, UtcMs::now().max(until)),
        )?;
        Ok(Question {
            view,
            step: Some(Step::All),
            ..question
        })
    }

    /// The same question about a longer range, for courses.
    pub fn course(&self, question: &Question, length_ms: i64) -> anyhow::Result<Question> {
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
    pub fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    fn hear(&mut self, message: Message, socket: &Path) -> anyhow::Result<()> {
        self.trouble = None;
        match message {
            Message::Hello(hello) => self.hello = Some(*hello),
            Message::Mounts(mounts) => self.mounts = mounts,
            Message::Status(status) => self.status = *status,
            Message::Totals(_) => {}
            Message::Gap(Gap { windows, .. }) => self.missing += windows,
            Message::End => self.trouble = Some("the recorder has ended".to_owned()),
            Message::Window(window) => {
                let view = Snapshot::of_windows(std::slice::from_ref(&window), &[], socket)?;
                self.until = self.until.max(view.span().map(|(_, end)| end));
                self.bytes += window.bytes();
                self.windows.push_back(window);
                while self.windows.len() > MOST_WINDOWS || self.bytes > MOST_BYTES {
                    let dropped = self.windows.pop_front();
                    self.bytes -= dropped.map_or(0, |window| window.bytes());
                }
                self.windows.make_contiguous();
            }
        }
        Ok(())
    }
}

/// Passes on a recorder's messages, and looks for the next recorder when it ends.
fn listen(mut subscription: Subscription, socket: &Path, heard: &SyncSender<Heard>) {
    let told = |trouble: LiveError| heard.send(Heard::Trouble(trouble.to_string()));
    loop {
        let sent = match subscription.next(SILENCE) {
            Ok(Some(message)) => heard.send(Heard::Message(message)),
            Ok(None) => heard.send(Heard::Trouble("the recorder does not answer".to_owned())),
            Err(trouble) => {
                if told(trouble).is_err() {
                    return;
                }
                subscription = loop {
                    match Subscription::connect(socket) {
                        Ok(subscription) => break subscription,
                        Err(trouble) => {
                            if told(trouble).is_err() {
                                return;
                            }
                            thread::sleep(RETRY_EVERY);
                        }
                    }
                };
                let hello = Box::new(subscription.hello().clone());
                heard.send(Heard::Message(Message::Hello(hello)))
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
