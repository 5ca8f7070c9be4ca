//! What ends a recording: a signal, the end of `--duration`, or the program itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// When to stop.
pub struct StopRequest {
    interrupt: Signal,
    terminate: Signal,
    /// By this the program itself asks to stop.
    pub asked: Arc<Notify>,
}

impl StopRequest {
    pub fn new(asked: Arc<Notify>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            asked,
        })
    }

    /// Waits for a signal, or until `asked` is notified.
    pub async fn asked_to(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = self.asked.notified() => {}
        }
    }

    pub async fn wait(mut self, duration: Option<Duration>) {
        let elapsed = async {
            match duration {
                Some(duration) => tokio::time::sleep(duration).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.asked_to() => {}
            () = elapsed => {}
        }
    }
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
                // As the watcher does, on the thread that dies.
                let died = std::thread::spawn(move || ending.notify_one());
                let stopped = async {
                    match is_recording {
                        true => stop.wait(None).await,
                        false => stop.asked_to().await,
                    }
                };
                let waited = tokio::time::timeout(Duration::from_secs(60), stopped).await;
                assert!(waited.is_ok(), "it is asked from within");
                died.join().unwrap();
            }
        });
    }
}
