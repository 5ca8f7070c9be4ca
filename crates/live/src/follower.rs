//! Follows the recorders at a socket, one after another.

use std::mem;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use trackiops_store::live::{Hello, LiveError, Message, Subscription};

/// A recorder sends a message each second. After this time without one, it is stopped or gone.
pub const SILENCE: Duration = Duration::from_secs(5);
/// Pause between attempts to find a recorder.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Follows the recorders at a socket.
#[derive(Debug)]
pub struct Follower {
    socket: PathBuf,
    recorder: Option<Subscription>,
    /// Whether the next attempt to connect begins with a pause.
    pauses: bool,
}

/// The result of [`Follower::next`].
#[derive(Debug)]
pub enum Heard {
    /// A recorder answers, with its first message.
    Recorder(Box<Hello>),
    /// A message of the recorder. After [`Message::End`], the next call looks for another recorder.
    Message(Message),
    /// No message came in time.
    Nothing,
    /// There is no recorder to follow. The next call pauses, and tries again.
    Absent(LiveError),
    /// The connection to the recorder is lost. The next call connects again.
    Lost(LiveError),
}

impl Follower {
    /// A follower that is not connected yet.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            recorder: None,
            pauses: false,
        }
    }

    /// Connects to a recorder, and returns its first message. After a failed attempt or [`Self::leave`], it pauses first.
    pub fn connect(&mut self) -> Result<Box<Hello>, LiveError> {
        if mem::replace(&mut self.pauses, true) {
            sleep(RETRY_EVERY);
        }
        let recorder = Subscription::connect(&self.socket)?;
        self.pauses = false;
        let hello = Box::new(recorder.hello().clone());
        self.recorder = Some(recorder);
        Ok(hello)
    }

    /// Waits for the next message, at most for `most`. Without a connection, it tries to connect.
    pub fn next(&mut self, most: Duration) -> Heard {
        let Some(recorder) = &mut self.recorder else {
            return match self.connect() {
                Ok(hello) => Heard::Recorder(hello),
                Err(error) => Heard::Absent(error),
            };
        };
        match recorder.next(most) {
            Ok(Some(Message::End)) => {
                self.recorder = None;
                Heard::Message(Message::End)
            }
            Ok(Some(message)) => Heard::Message(message),
            Ok(None) => Heard::Nothing,
            Err(error) => {
                self.recorder = None;
                Heard::Lost(error)
            }
        }
    }

    /// Ends the connection. The next attempt to connect begins with a pause.
    pub fn leave(&mut self) {
        self.recorder = None;
        self.pauses = true;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use trackiops_testkit::recording::Recording;

    use super::*;

    fn is_recorder(heard: &Heard) -> bool {
        matches!(heard, Heard::Recorder(hello) if hello.recorder.host == "h")
    }

    #[test]
    fn one_recorder_after_another_is_followed() {
        let mut recording = Recording::begin();
        let mut follower = Follower::new(&recording.socket());
        assert!(is_recorder(&follower.next(SILENCE)));
        recording.end();
        let mut has_ended = false;
        let absent = loop {
            match follower.next(SILENCE) {
                Heard::Message(message) => has_ended |= matches!(message, Message::End),
                other => break other,
            }
        };
        assert!(has_ended, "{absent:?}");
        assert!(matches!(absent, Heard::Absent(_)), "{absent:?}");
        recording.resume();
        let begun = Instant::now();
        assert!(is_recorder(&follower.next(SILENCE)));
        assert!(begun.elapsed() >= RETRY_EVERY, "a failed attempt");
        follower.leave();
        let begun = Instant::now();
        assert!(follower.connect().is_ok());
        assert!(begun.elapsed() >= RETRY_EVERY, "the follower had left");
    }
}
