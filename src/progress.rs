//! Shows on stderr how far a long query is, if that is a terminal.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use trackiops_query::Explain;

use crate::output::write_stderr;

/// Queries that take less show no progress.
const LONG: Duration = Duration::from_secs(1);
/// How often the progress is updated.
const LOOK: Duration = Duration::from_millis(200);

/// Calls `answer`, and shows how far it is if it takes long.
pub fn with_progress<T>(explain: &Explain, answer: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return answer();
    }
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut wait = LONG;
            let mut said = 0;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = progress_line(explain.progress().part());
                write_stderr(format_args!("\r{line:<said$}"));
                (said, wait) = (line.len(), LOOK);
            }
            if said > 0 {
                write_stderr(format_args!("\r{:said$}\r", ""));
            }
        });
        let answered = answer();
        drop(done);
        answered
    })
}

fn progress_line(part: Option<f64>) -> String {
    match part {
        Some(part) => format!("reading the store: {:.0} %", part * 100.0),
        None => "looking through the store".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_told_as_a_part() {
        assert_eq!(progress_line(None), "looking through the store");
        assert_eq!(progress_line(Some(0.426)), "reading the store: 43 %");
    }
}
