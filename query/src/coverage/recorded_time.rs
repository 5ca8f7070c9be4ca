//! Recorded time of each window and host, for rates.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use trackiops_schemas::time::{Granularity, UtcMs};

use crate::interval::Interval;
use crate::origin::HostIndex;

/// Recorded time of all hosts.
#[derive(Debug, Default)]
pub struct RecordedTime {
    /// Recorded time in windows of the answer, by their start, ms.
    windows: HashMap<(HostIndex, UtcMs), u64, foldhash::fast::RandomState>,
    /// Completely recorded times. Each may cover many windows of the answer.
    whole: BTreeMap<HostIndex, Vec<Interval>>,
    /// For each of these times, the latest end so far.
    reach: BTreeMap<HostIndex, Vec<UtcMs>>,
}

impl RecordedTime {
    /// Adds recorded time to the answer's window that starts at `window`.
    pub(crate) fn add(&mut self, host: HostIndex, window: UtcMs, ms: u64) {
        *self.windows.entry((host, window)).or_default() += ms;
    }

    /// Adds a completely recorded time.
    pub(crate) fn add_whole(&mut self, host: HostIndex, time: Interval) {
        self.whole.entry(host).or_default().push(time);
    }

    /// Prepares look-ups, after the last addition.
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

    /// Whether any time was recorded.
    pub fn is_any(&self) -> bool {
        let mut windows = self.windows.values();
        let mut whole = self.whole.values().flatten();
        windows.any(|ms| *ms > 0) || whole.any(|time| !time.is_empty())
    }

    /// Recorded time of a window of the answer, ms. Time in several journals counts several times.
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

/// Recorded time of an answer by the names of hosts, including windows without rows.
#[derive(Default)]
pub struct HostTimes {
    hosts: Vec<Arc<str>>,
    time: RecordedTime,
}

/// In order, so that equal answers print equal texts.
impl fmt::Debug for HostTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows: BTreeMap<_, _> = self.time.windows.iter().collect();
        f.debug_struct("HostTimes")
            .field("hosts", &self.hosts)
            .field("windows", &windows)
            .field("whole", &self.time.whole)
            .finish()
    }
}

impl HostTimes {
    pub(crate) fn new(hosts: &[String], time: RecordedTime) -> Self {
        let hosts = hosts.iter().map(|host| host.as_str().into()).collect();
        Self { hosts, time }
    }

    /// The recorded time of an answer in windows of `step`: host, interval, and recorded time in it, ms. An interval is
    /// one window of the answer or a completely recorded time. Intervals may overlap; their times add up.
    pub fn pieces(&self, step: Granularity) -> impl Iterator<Item = (&str, Interval, u64)> {
        let windows = self.time.windows.iter();
        let windows = windows
            .map(move |((host, start), ms)| (*host, Interval::new(*start, start.plus(step)), *ms));
        let whole = self.time.whole.iter();
        let whole = whole.flat_map(|(host, times)| times.iter().map(|t| (*host, *t, t.ms())));
        let named = |(host, interval, ms): (HostIndex, _, _)| {
            let host = self.hosts.get(host)?;
            Some((&**host, interval, ms))
        };
        windows.chain(whole).filter_map(named)
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
