//! When the screen last read something that it reads rarely.

use trackiops_live::{Moment, Source};
use trackiops_schemas::time::UtcMs;

/// The time of the last read.
#[derive(Debug, Default)]
pub struct LastRead {
    until: Option<UtcMs>,
}

impl LastRead {
    /// The end of the time to read, if what was read is of another moment; on a live screen, if it is `every_ms` old.
    pub fn due(&mut self, source: &Source, moment: Moment, every_ms: i64) -> Option<UtcMs> {
        let until = match moment {
            Moment::Until(until) => until,
            Moment::Live => source.until().ok()?,
        };
        let is_old = |of: UtcMs| match moment {
            Moment::Live => (until.0 - of.0).abs() >= every_ms,
            Moment::Until(_) => until != of,
        };
        let is_due = self.until.is_none_or(is_old);
        is_due.then(|| {
            self.until = Some(until);
            until
        })
    }
}
