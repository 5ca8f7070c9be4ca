//! Waits for the end of a recording, or for a reload: a signal, the end of `--duration`, or a request of the program itself.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::signals;

/// A request to a recorder.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// End the recording.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// The sources of a stop request.
pub struct StopRequest {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// Whether the recorder ends when its terminal is closed.
    ends_with_terminal: bool,
    /// The program itself asks to stop with this.
    pub asked: Arc<Notify>,
}

impl StopRequest {
    /// Handles signals from now on.
    pub fn new(asked: Arc<Notify>) -> io::Result<Self> {
        signals::notice_end();
        // For example by `nohup`.
        let is_kept = signals::is_ignored(libc::SIGHUP);
        let own = Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            ends_with_terminal: !is_kept && has_terminal(),
            asked,
        };
        // A signal may have come before tokio's handlers.
        if signals::was_asked() {
            own.asked.notify_one();
        }
        Ok(own)
    }

    /// Waits for a signal, or until `asked` is notified.
    pub async fn asked_to(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hangup.recv() => match self.ends_with_terminal && !has_terminal() {
                true => Asked::Stop,
                false => Asked::Reload,
            },
            () = self.asked.notified() => Asked::Stop,
        }
    }

    /// Waits for a request to stop, and calls `reload` at each request to reload.
    pub async fn wait(mut self, duration: Option<Duration>, mut reload: impl FnMut()) {
        let elapsed = async {
            match duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(elapsed);
        loop {
            tokio::select! {
                asked = self.asked_to() => match asked {
                    Asked::Stop => return,
                    Asked::Reload => reload(),
                },
                () = &mut elapsed => return,
            }
        }
    }
}

/// Whether the process has a controlling terminal. When a terminal is closed, the kernel detaches it before it sends the signal
/// (`__tty_hangup` in drivers/tty/tty_io.c).
fn has_terminal() -> bool {
    // A serial line without a carrier must not block the recorder.
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open("/dev/tty").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dies_ends_the_recording() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for is_recording in [false, true] {
                let ending = Arc::new(Notify::new());
                let mut stop = StopRequest::new(Arc::clone(&ending)).unwrap();
                // Like the watcher, on the thread that dies.
                let died = std::thread::spawn(move || ending.notify_one());
                let stopped = async {
                    match is_recording {
                        true => stop.wait(None, || ()).await,
                        false => assert_eq!(stop.asked_to().await, Asked::Stop),
                    }
                };
                let waited = tokio::time::timeout(Duration::from_secs(60), stopped).await;
                assert!(waited.is_ok(), "it is asked from within");
                died.join().unwrap();
            }
        });
    }
}
