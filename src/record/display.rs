//! What a person sees of a recording while it runs: the status line, and `--stdout`.

use std::io::{self, IsTerminal, Write};
use std::mem;
use std::sync::Arc;

use tokio::sync::Notify;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::Granularity;

use crate::output::say;
use crate::record::args::StdoutFormat;
use crate::record::{paper, requests, status};

/// What a person sees of the windows.
pub struct RecordingDisplay {
    stdout: Option<StdoutFormat>,
    status: bool,
    granularity: Granularity,
    stop: Arc<Notify>,
    /// Counts of the requests that are kept one by one.
    pub kept: Arc<requests::RequestCounts>,
    left_out_shown: u64,
}

impl RecordingDisplay {
    pub fn new(
        stdout: Option<StdoutFormat>,
        granularity: Granularity,
        stop: Arc<Notify>,
        kept: Arc<requests::RequestCounts>,
    ) -> Self {
        Self {
            stdout,
            status: io::stderr().is_terminal(),
            granularity,
            stop,
            kept,
            left_out_shown: 0,
        }
    }

    /// `waiting` is how many windows before it are not written yet.
    pub fn window(&mut self, window: &ClosedWindow, waiting: usize) -> io::Result<()> {
        if self.status {
            let left_out = self.kept.left_out();
            let new = left_out - mem::replace(&mut self.left_out_shown, left_out);
            let waiting = status::waiting(waiting);
            say(format_args!(
                "{}{}{waiting}",
                status::line(window),
                status::left_out(new)
            ));
        }
        let Some(StdoutFormat::Paper) = self.stdout else {
            return Ok(());
        };
        let mut out = io::stdout().lock();
        let written = out
            .write_all(paper::lines(window, self.granularity).as_bytes())
            .and_then(|()| out.flush());
        match written {
            // The reader is gone: stop as if asked to, and keep what was recorded.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.stdout = None;
                self.stop.notify_one();
                Ok(())
            }
            other => other,
        }
    }
}
