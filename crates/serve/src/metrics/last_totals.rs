//! Keeps the last totals of a recorder.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trackiops_live::{Follower, Heard, SILENCE};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::StoreError;
use trackiops_store::live::{LiveError, Message, Position, RecorderInfo, Status};

use crate::metrics::exposition::{Exposition, OwnCounts};
use crate::metrics::top_files::{FileSums, TopFiles};

/// The last message of a recorder.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The recorder.
    pub recorder: RecorderInfo,
    /// Its state.
    pub status: Status,
    /// The mounts.
    pub mounts: Vec<MountPoint>,
    /// The sums since the recording began.
    pub totals: ClosedWindow,
}

/// Keeps the last totals of a recorder, for all readers.
#[derive(Clone, Debug)]
pub struct LastTotals {
    socket: PathBuf,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    recording: Option<Recording>,
    /// The sums of files over all windows so far.
    files: Option<TopFiles>,
    /// The sums of files over the windows that `recording` has.
    file_sums: Vec<FileSums>,
    own: OwnCounts,
    /// Counts changes.
    version: u64,
}

impl Known {
    /// Shows the sums of a recording, beside the sums of files as they are now.
    fn show(&mut self, recording: Recording) {
        self.version += 1;
        self.recording = Some(recording);
        self.file_sums = self.files.as_ref().map(TopFiles::now).unwrap_or_default();
    }
}

/// Sums of a recording that wait for the windows they include, so that sums of mounts and of files are of the same
/// windows.
///
/// A recorder sends sums before windows: first the sums up to a position, then the windows up to there that it has not
/// sent yet, then later windows.
#[derive(Debug)]
struct Waiting<S> {
    /// The last window that has come.
    at: Position,
    /// Sums, and the last window in them.
    sums: Option<(Position, S)>,
}

impl<S> Waiting<S> {
    /// After the window at a position.
    fn after(at: Position) -> Self {
        Self { at, sums: None }
    }

    /// Sums have come. Returns earlier sums that are still waiting: windows come too slowly to wait for them any
    /// longer.
    fn put(&mut self, last: Position, sums: S) -> Option<S> {
        self.sums.replace((last, sums)).map(|(_, sums)| sums)
    }

    /// The window at a position has come, or is missing.
    fn reach(&mut self, position: Position) {
        self.at = self.at.max(position);
    }

    /// The sums, once all of their windows have come.
    fn take(&mut self) -> Option<S> {
        self.sums
            .take_if(|(last, _)| *last <= self.at)
            .map(|(_, sums)| sums)
    }
}

impl LastTotals {
    /// The totals of the recorder at `socket`, with separate series for at most `top_files` files.
    pub fn new(socket: &Path, top_files: usize) -> Self {
        let known = Known {
            files: (top_files > 0).then(|| TopFiles::new(top_files)),
            ..Known::default()
        };
        Self {
            socket: socket.to_owned(),
            known: Arc::new(Mutex::new(known)),
        }
    }

    /// Follows one recorder after another. Without a recorder, `say` gets the reason, once for each reason.
    pub fn run(&self, say: impl Fn(&str)) {
        let mut said = String::new();
        let mut recorders = Follower::new(&self.socket);
        loop {
            let why = self.follow_one(&mut recorders, || said.clear());
            self.forget();
            let why = why.to_string();
            if why != said {
                say(&why);
                said = why;
            }
            recorders.leave();
        }
    }

    /// Follows a recorder until the recorder ends. Calls `begun` after its first message.
    fn follow_one(&self, recorders: &mut Follower, mut begun: impl FnMut()) -> FollowError {
        let hello = match recorders.connect() {
            Ok(hello) => hello,
            Err(error) => return error.into(),
        };
        let mut waiting = Waiting::after(hello.position);
        let mut mounts = Vec::new();
        let mut status = Status::default();
        loop {
            if let Some(recording) = waiting.take() {
                self.lock().show(recording);
                begun();
            }
            match recorders.next(SILENCE) {
                Heard::Message(Message::Mounts(there)) => mounts = there,
                Heard::Message(Message::Status(now)) => status = *now,
                Heard::Message(Message::Totals(window)) => match window.decode(&self.socket) {
                    Ok(Some(totals)) => {
                        let recording = Recording {
                            recorder: hello.recorder.clone(),
                            status: mem::take(&mut status),
                            mounts: mounts.clone(),
                            totals,
                        };
                        if let Some(earlier) = waiting.put(window.position, recording) {
                            self.lock().show(earlier);
                            begun();
                        }
                    }
                    Ok(None) => {}
                    Err(error) => return error.into(),
                },
                Heard::Message(Message::Window(window)) => {
                    waiting.reach(window.position);
                    if self.lock().files.is_none() {
                        continue;
                    }
                    match window.decode(&self.socket) {
                        Ok(Some(window)) => {
                            if let Some(files) = &mut self.lock().files {
                                files.add(&window);
                            }
                        }
                        Ok(None) => {}
                        Err(error) => return error.into(),
                    }
                }
                Heard::Message(Message::Gap(gap)) => waiting.reach(gap.until),
                Heard::Recorder(_) | Heard::Message(Message::Hello(_)) => {}
                Heard::Message(Message::End) => return FollowError::Ended,
                Heard::Nothing => return LiveError::Silent(self.socket.clone()).into(),
                Heard::Absent(error) | Heard::Lost(error) => return error.into(),
            }
        }
    }

    fn forget(&self) {
        let mut known = self.lock();
        known.version += 1;
        known.recording = None;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// Passes the current values to `write`.
    pub fn write<T>(&self, write: impl FnOnce(&Exposition<'_>) -> T) -> T {
        let known = self.lock();
        let recording = known.recording.as_ref();
        write(&Exposition::new(recording, &known.file_sums, known.own))
    }

    /// The recorder's host and version, if there is a recorder.
    pub fn recorder(&self) -> Option<RecorderInfo> {
        let known = self.lock();
        known.recording.as_ref().map(|of| of.recorder.clone())
    }

    /// Sets the counts of pushes and failed pushes.
    pub(crate) fn count_pushes(&self, pushes: u64, failures: u64) {
        let mut known = self.lock();
        known.version += 1;
        known.own.pushes = Some((pushes, failures));
    }
}

/// Why the recorder is not followed any more.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("the recorder has ended; waiting for another one")]
    Ended,
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(
        "the recorder sends what this version cannot read: {0}; use the trackiops that records"
    )]
    Foreign(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position { journal: 1, offset }
    }

    #[test]
    fn sums_wait_for_their_windows() {
        let mut waiting = Waiting::after(at(10));
        assert_eq!(waiting.put(at(10), 'a'), None);
        assert_eq!(waiting.take(), Some('a'), "all of them have come");
        assert_eq!(waiting.put(at(30), 'b'), None);
        assert_eq!(waiting.take(), None);
        waiting.reach(at(20));
        assert_eq!(waiting.take(), None);
        waiting.reach(at(30));
        assert_eq!((waiting.take(), waiting.take()), (Some('b'), None));
        // Windows that come too slowly hold up no sums for long.
        assert_eq!(waiting.put(at(40), 'c'), None);
        assert_eq!(waiting.put(at(50), 'd'), Some('c'));
        waiting.reach(at(60));
        assert_eq!(waiting.take(), Some('d'));
    }
}
