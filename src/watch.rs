//! `trackiops watch`: writes the windows of a running recorder as they close.

mod args;
mod commands;
mod events;
mod follower;
mod frames;
mod recent;
mod writer;

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use trackiops_query::Range;
use trackiops_query::times::Zone;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;
use trackiops_store::live::{LiveError, Position, Subscription};

use crate::lifeline;
use crate::question_flags::since_of;
pub use crate::watch::args::Args;
use crate::watch::follower::{End, Follower, SILENT};

/// Interval of attempts to find a recorder again.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let socket = args.socket.path().to_owned();
    let mut may_wait = args.wait;
    let mut since = match &args.since {
        Some(text) => Some(since_of(text, UtcMs::now(), Zone::Local)?),
        None => None,
    };
    let Some(mut follower) = Follower::new(args)? else {
        return Ok(ExitCode::SUCCESS);
    };
    // Reject a question without an answer before the first window.
    follower
        .writer
        .write(Snapshot::default(), Range::default(), None)?;
    lifeline::end_with_reader();
    let mut last = None;
    loop {
        let mut subscription = match Subscription::connect(&socket) {
            Err(LiveError::NoRecorder(_) | LiveError::Closed(_) | LiveError::Silent(_))
                if may_wait =>
            {
                if is_over() {
                    return Ok(ExitCode::SUCCESS);
                }
                sleep(RETRY_EVERY);
                continue;
            }
            connected => connected?,
        };
        may_wait = true;
        follower.begin(subscription.hello())?;
        let recorder = &subscription.hello().recorder;
        let after = match (since.take(), last) {
            (Some(since), _) => follower.history(&recorder.store, since)?,
            (None, Some(last)) => {
                follower.tell_missed(last, subscription.hello().position);
                Some(Position::default())
            }
            (None, None) => Some(Position::default()),
        };
        let Some(after) = after else {
            return Ok(ExitCode::SUCCESS);
        };
        match follower.follow(&mut subscription, after, is_over)? {
            End::Over => return Ok(ExitCode::SUCCESS),
            End::Recorder(_) if follower.writer.is_of_windows() => {
                return follower.writer.end_windows("the recorder has ended");
            }
            End::Broken(_) if follower.writer.is_of_windows() => {
                return follower
                    .writer
                    .end_windows("the recorder has ended without a word");
            }
            End::Silent => return follower.writer.end_windows(SILENT),
            End::Recorder(position) => {
                last = Some(position.max(subscription.hello().position));
                follower.writer.tell_ended()?;
            }
            End::Broken(position) => {
                last = Some(position.max(subscription.hello().position));
                follower.tell_broken()?;
            }
        }
    }
}
