//! `trackiops watch`: writes the windows of a running recorder as they close.

mod args;
mod follow;
mod writer;

use std::process::ExitCode;
use std::time::Instant;

use trackiops_live::Follower;
use trackiops_process::lifeline;
use trackiops_query::Range;
use trackiops_query::times::Zone;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;
use trackiops_store::live::{LiveError, Position};

use crate::question_flags::since_of;
pub use crate::watch::args::Args;
use crate::watch::follow::{End, SILENT, Watch};

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut recorders = Follower::new(args.socket.path());
    let mut may_wait = args.wait;
    let mut since = match &args.since {
        Some(text) => Some(since_of(text, UtcMs::now(), Zone::Local)?),
        None => None,
    };
    let Some(mut watch) = Watch::new(args)? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Reject a question without an answer before the first window.
    watch
        .writer
        .write(Snapshot::default(), Range::default(), None)?;
    lifeline::end_with_reader();
    let mut last = None;
    loop {
        let hello = match recorders.connect() {
            Err(LiveError::NoRecorder(_) | LiveError::Closed(_) | LiveError::Silent(_))
                if may_wait =>
            {
                if is_over() {
                    return Ok(ExitCode::SUCCESS);
                }
                continue;
            }
            connected => connected?,
        };
        may_wait = true;
        watch.begin(&hello)?;
        let after = match (since.take(), last) {
            (Some(since), _) => watch.history(&hello.recorder.store, since)?,
            (None, Some(last)) => {
                watch.tell_missed(last, hello.position);
                Some(Position::default())
            }
            (None, None) => Some(Position::default()),
        };
        let Some(after) = after else {
            return Ok(ExitCode::SUCCESS);
        };
        match watch.follow(&mut recorders, &hello.recorder.store, after, is_over)? {
            End::Over => return Ok(ExitCode::SUCCESS),
            End::Recorder(_) if watch.writer.is_of_windows() => {
                return watch.writer.end_windows("the recorder has ended");
            }
            End::Broken(_) if watch.writer.is_of_windows() => {
                return watch
                    .writer
                    .end_windows("the recorder has ended without a word");
            }
            End::Silent => return watch.writer.end_windows(SILENT),
            End::Recorder(position) => {
                last = Some(position.max(hello.position));
                watch.writer.tell_ended()?;
            }
            End::Broken(position) => {
                last = Some(position.max(hello.position));
                watch.tell_broken()?;
            }
        }
    }
}
