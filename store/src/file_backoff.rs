//! Failures with single files. Each is reported once and retried after growing pauses, so that it
//! blocks nothing else.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::warning::Warning;

const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Files with which something failed, by their paths relative to the store.
#[derive(Debug, Default)]
pub(crate) struct FileBackoff {
    failed: HashMap<String, Backoff>,
    warnings: Vec<Warning>,
}

#[derive(Debug)]
struct Backoff {
    pause: Duration,
    again: Instant,
}

impl FileBackoff {
    /// Whether it is too early to try again.
    pub(crate) fn is_pausing(&self, path: &str) -> bool {
        let backoff = self.failed.get(path);
        backoff.is_some_and(|backoff| Instant::now() < backoff.again)
    }

    pub(crate) fn failed(&mut self, path: &str, error: &StoreError) {
        let known = self.failed.get(path);
        let pause = known.map_or(FIRST_PAUSE, |known| (known.pause * 2).min(LONGEST_PAUSE));
        if known.is_none() {
            self.warnings.push(Warning::WillRetry(error.to_string()));
        }
        let again = Instant::now() + pause;
        self.failed
            .insert(path.to_owned(), Backoff { pause, again });
    }

    /// Does something with a file, unless it is pausing. `None` if that was not done or failed.
    pub(crate) fn try_with<T>(
        &mut self,
        path: &str,
        what: impl FnOnce() -> Result<T, StoreError>,
    ) -> Option<T> {
        if self.is_pausing(path) {
            return None;
        }
        match what() {
            Ok(done) => {
                self.overcome(path);
                Some(done)
            }
            Err(error) => {
                self.failed(path, &error);
                None
            }
        }
    }

    /// Forgets earlier failures with a file.
    pub(crate) fn overcome(&mut self, path: &str) {
        self.failed.remove(path);
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_paused_after() {
        let mut backoff = FileBackoff::default();
        for _ in 0..20 {
            backoff.failed("a", &StoreError::WindowTooLarge(1));
        }
        assert_eq!(backoff.take_warnings().len(), 1);
        assert!(backoff.is_pausing("a") && !backoff.is_pausing("b"));
        assert_eq!(backoff.failed["a"].pause, LONGEST_PAUSE);
        backoff.overcome("a");
        assert!(!backoff.is_pausing("a"));
    }
}
