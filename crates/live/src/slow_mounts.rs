//! Finds slow mounts from the last windows of a recorder.

use std::path::Path;
use std::rc::Rc;

use trackiops_query::{Question, Range};
use trackiops_reports::why::{Confidence, Moment, make};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::UtcMs;
use trackiops_store::live::LiveWindow;
use trackiops_store::{Snapshot, StoreError};

use crate::recent_windows::RecentWindows;

/// Most windows that are kept, and their bytes.
const MOST_WINDOWS: usize = 900;
const MOST_BYTES: usize = 32 << 20;
/// Interval between judgements, ms.
const EVERY_MS: i64 = 10_000;
/// The range to judge, ms. Older windows are the baseline.
const RANGE_MS: i64 = 300_000;
/// A slow moment that ended longer ago is over, ms.
const OVER_MS: i64 = 20_000;

/// Judges the last windows of a recorder.
#[derive(Debug)]
pub struct SlowMounts {
    windows: RecentWindows,
    judged: Option<UtcMs>,
}

impl Default for SlowMounts {
    fn default() -> Self {
        Self {
            windows: RecentWindows::new(MOST_WINDOWS, MOST_BYTES),
            judged: None,
        }
    }
}

impl SlowMounts {
    /// Keeps a window.
    pub fn add(&mut self, window: LiveWindow) {
        self.windows.add(window);
    }

    /// Slow moments at `until`, the end of the last window. `None` if they were judged recently, or cannot be judged.
    pub fn slow(
        &mut self,
        question: &Question,
        until: UtcMs,
        mounts: &[MountPoint],
        socket: &Path,
    ) -> Result<Option<Vec<Moment>>, StoreError> {
        let is_due = |judged: UtcMs| (until.0 - judged.0).abs() >= EVERY_MS;
        if !self.judged.is_none_or(is_due) {
            return Ok(None);
        }
        self.judged = Some(until);
        let view = Snapshot::of_windows(self.windows.as_slice(), mounts, socket)?;
        let question = Question {
            view: Some(Rc::new(view)),
            range: Range {
                since: Some(UtcMs(until.0 - RANGE_MS)),
                until: Some(until),
            },
            conditions: Vec::new(),
            ops: Vec::new(),
            sort: None,
            top: None,
            now: question.now.max(until),
            ..question.clone()
        };
        let Ok(Ok(why)) = make(&question) else {
            return Ok(None);
        };
        let mut moments = why.moments;
        moments.retain(|of| of.confidence > Confidence::Low && of.time.end.0 >= until.0 - OVER_MS);
        Ok(Some(moments))
    }
}
