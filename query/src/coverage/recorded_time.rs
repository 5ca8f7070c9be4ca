//! For how long of which window each host recorded: what rates divide by.

use std::collections::{BTreeMap, HashMap};

use trackiops_schemas::time::UtcMs;

use crate::coverage::Interval;
use crate::origin::HostIndex;

/// For how long each host recorded.
#[derive(Debug, Default)]
pub struct RecordedTime {
    /// Within windows of the answer, by their start, ms.
    windows: HashMap<(HostIndex, UtcMs), u64, foldhash::fast::RandomState>,
    /// Times that were recorded from beginning to end, which may hold many windows of the answer.
    whole: BTreeMap<HostIndex, Vec<Interval>>,
    /// The latest end of these times and of those before.
    reach: BTreeMap<HostIndex, Vec<UtcMs>>,
}

impl RecordedTime {
    /// Adds so many ms of the window of the answer that starts at `window`.
    pub(crate) fn add(&mut self, host: HostIndex, window: UtcMs, ms: u64) {
        *self.windows.entry((host, window)).or_default() += ms;
    }

    /// Adds a time that was recorded from beginning to end.
    pub(crate) fn add_whole(&mut self, host: HostIndex, time: Interval) {
        self.whole.entry(host).or_default().push(time);
    }

    /// All that is to be added is there.
    pub(crate) fn finish(mut self) -> Self {
        for (host, times) in &mut self.whole {
            times.sort_unstable();
            let reach = times.iter().scan(UtcMs(i64::MIN), |reach, time| {
                *reach = (*reach).max(time.end);
                Some(*reach)
            });
            self.reach.insert(*host, reach.collect());
        }
        self
    }

    /// Whether anything was recorded.
    pub fn is_any(&self) -> bool {
        let mut windows = self.windows.values();
        let mut whole = self.whole.values().flatten();
        windows.any(|ms| *ms > 0) || whole.any(|time| !time.is_empty())
    }

    /// For how long of a window of the answer a host recorded, ms. What several journals have counts several times.
    pub fn ms(&self, host: HostIndex, window: Interval) -> u64 {
        let partly = self.windows.get(&(host, window.start)).copied();
        let whole = self.whole.get(&host).map_or(&[][..], Vec::as_slice);
        let reach = self.reach.get(&host).map_or(&[][..], Vec::as_slice);
        let begun = whole.partition_point(|time| time.start < window.end);
        let times = whole[..begun].iter().zip(reach).rev();
        let overlapping = times.take_while(|(_, reach)| **reach > window.start);
        let whole: u64 = overlapping
            .map(|(time, _)| time.intersect(window).ms())
            .sum();
        partly.unwrap_or(0) + whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_window_has_what_each_time_has_of_it(
            times in prop::collection::vec((0_i64..100, 0_i64..50), 0..8),
            start in 0_i64..120,
            length in 0_i64..60,
        ) {
            let interval = |start, length| Interval::new(UtcMs(start), UtcMs(start + length));
            let window = interval(start, length);
            let mut covered = RecordedTime::default();
            covered.add(1, window.start, 7);
            let mut expected = 7;
            for (start, length) in times {
                covered.add_whole(1, interval(start, length));
                expected += interval(start, length).intersect(window).ms();
            }
            let covered = covered.finish();
            prop_assert_eq!(covered.ms(1, window), expected);
            prop_assert_eq!(covered.ms(0, window), 0);
        }
    }
}
