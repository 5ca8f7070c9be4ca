//! The last work of a recorder: sealing its journals. Users who stop it wait only some seconds for its end.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time limit for sealing. The rest stays in the journals: nothing is lost, and the next recorder seals it.
const MOST: Duration = Duration::from_secs(4);
/// Interval of checks after that time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The end of the time for work.
pub struct LastWork {
    until: Option<Instant>,
}

impl LastWork {
    /// Starts the time. A service manager has no limit, because it hears that the recorder continues.
    pub fn begin(has_manager: bool) -> Self {
        Self::for_at_most((!has_manager).then_some(MOST))
    }

    fn for_at_most(most: Option<Duration>) -> Self {
        Self {
            until: most.map(|most| Instant::now() + most),
        }
    }

    /// The result of `work`, or `None` if it takes too long. While `is_writing`, it is not given up.
    pub fn wait_for<T: Send + 'static>(
        &self,
        is_writing: impl Fn() -> bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let (done, is_done) = channel::<()>();
        let working = Builder::new().name("last work".to_owned()).spawn(move || {
            let _done = done;
            work()
        })?;
        if let Some(until) = self.until {
            let left = until.saturating_duration_since(Instant::now());
            let mut wait = left.max(LOOK_EVERY);
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                if !is_writing() {
                    return Ok(None);
                }
                wait = LOOK_EVERY;
            }
        }
        match working.join() {
            Ok(worked) => Ok(Some(worked)),
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Says that some journals are not sealed, and how to have Parquet files in spite of that.
pub fn unsealed(store: &Path) -> String {
    format!(
        "stopped after {} s, before everything is sealed into Parquet files: nothing is lost, all commands read the rest from journals, and a \
         later `trackiops record` seals it while it records; to have it in Parquet now: trackiops export --store {} --output FILE.parquet",
        MOST.as_secs(),
        store.display()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::sleep;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_takes_too_long_is_given_up_once_all_is_written() {
        let last_work = LastWork::for_at_most(Some(SHORT));
        let is_written = Arc::new(AtomicBool::new(false));
        let written = Arc::clone(&is_written);
        let begun = Instant::now();
        let worked = last_work.wait_for(
            || !is_written.load(Ordering::Relaxed),
            move || {
                sleep(4 * SHORT);
                written.store(true, Ordering::Relaxed);
                sleep(LONG);
            },
        );
        assert_eq!(worked.unwrap(), None);
        assert!(begun.elapsed() >= 4 * SHORT && begun.elapsed() < LONG);
    }

    #[test]
    fn what_is_not_sealed_can_be_had_in_parquet() {
        let said = unsealed(Path::new("/srv/store"));
        let command = "trackiops export --store /srv/store --output FILE.parquet";
        assert!(
            said.contains("nothing is lost") && said.ends_with(command),
            "{said}"
        );
    }

    #[test]
    fn what_is_done_in_time_or_for_a_service_manager_is_waited_for() {
        for (most, takes) in [(Some(LONG), SHORT), (None, 2 * SHORT)] {
            let worked = LastWork::for_at_most(most).wait_for(
                || false,
                move || {
                    sleep(takes);
                    7
                },
            );
            assert_eq!(worked.unwrap(), Some(7));
        }
    }
}
