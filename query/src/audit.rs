//! Results of the recorder's comparisons with the kernel's counters, over a whole store.

use std::path::Path;

use trackiops_schemas::row::Health;
use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

use crate::error::QueryError;
use crate::explain::Explain;
use crate::interval::Interval;
use crate::scan;

/// All comparisons in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Sums over all windows.
    pub health: Health,
    /// From the first to the last window with an alarm.
    pub alarms: Option<Interval>,
}

impl Audited {
    fn add(&mut self, window: Interval, health: &Health) {
        self.health.merge(health);
        if health.audit_alarms > 0 {
            self.alarms = Some(self.alarms.map_or(window, |range| range.hull(window)));
        }
    }
}

/// Adds up the longest windows of a store, and its unsealed journals.
pub fn ask_audited(store: &Path) -> Result<Audited, QueryError> {
    let snapshot = Snapshot::open(store)?;
    let segments = snapshot.segments(Dataset::Health, None)?;
    let longest = segments.iter().map(|segment| segment.granularity).max();
    let mut audited = Audited::default();
    for segment in &segments {
        if Some(segment.granularity) == longest {
            for (time, health) in scan::health(segment, |_| true, &Explain::default())? {
                let window = |length: Granularity| Interval::new(time, time.plus(length));
                audited.add(window(segment.granularity), &health);
            }
        }
    }
    for tail in snapshot.tails() {
        let length = tail.granularity();
        tail.windows(&mut |window| {
            let range = Interval::new(window.start, window.start.plus(length));
            audited.add(range, &window.health);
        })?;
    }
    Ok(audited)
}
