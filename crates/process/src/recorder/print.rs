//! Prints windows on standard output during a recording. The recording never waits for the reader.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::Builder;
use std::time::Duration;

use trackiops_render::paper;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::Granularity;

use crate::output::say;

/// Most windows that wait. Beyond that, the newest are not printed.
const MOST_WAITING: usize = 64;
/// Time limit for the last windows.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Prints the paper's lines from a separate thread.
pub struct PaperLines {
    lines: SyncSender<String>,
    ended: Receiver<()>,
    length: Granularity,
    /// Windows that were not printed.
    dropped: u64,
}

impl PaperLines {
    /// Prints the header. `length` is the length of the windows.
    pub fn begin(length: Granularity) -> io::Result<Self> {
        let (lines, waiting) = mpsc::sync_channel::<String>(MOST_WAITING);
        let (ending, ended) = mpsc::channel::<()>();
        lines.try_send(paper::HEADER.to_owned()).ok();
        let builder = Builder::new().name("stdout".to_owned());
        trackiops_threads::spawn(builder, move || {
            let _ending = ending;
            let mut out = io::stdout().lock();
            for lines in waiting {
                let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
                if let Err(error) = written {
                    say(format_args!(
                        "standard output: {error}; recording goes on without printing"
                    ));
                    return;
                }
            }
        })?;
        Ok(Self {
            lines,
            ended,
            length,
            dropped: 0,
        })
    }

    /// Prints the lines of a window, if there is room.
    pub fn window(&mut self, window: &ClosedWindow) {
        let lines = paper::lines_of_window(window, self.length);
        if let Err(TrySendError::Full(_)) = self.lines.try_send(lines) {
            self.dropped += 1;
        }
    }

    /// Waits briefly until everything is printed.
    pub fn finish(self) {
        drop(self.lines);
        let _ = self.ended.recv_timeout(LAST_LINES);
        if self.dropped > 0 {
            say(format_args!(
                "--paper: {} windows were not printed, as standard output was read too slowly; the store has them",
                self.dropped
            ));
        }
    }
}
