//! Sheds details, and resumes them.

use std::time::Duration;

use trackiops_schemas::shed::{Detail, Details};

use crate::ceiling::costs::{Costs, Kind, Load};
use crate::clock::MonotonicNs;

/// Times of the controller.
#[derive(Clone, Copy, Debug)]
pub struct CeilingTimes {
    /// Time between two looks while tracing is near its ceiling or details are shed.
    pub near: Duration,
    /// Time between two looks otherwise.
    pub far: Duration,
    /// How long it must be calm before details are resumed. Longer after details were resumed too early.
    pub calm: Duration,
}

impl Default for CeilingTimes {
    fn default() -> Self {
        Self {
            near: Duration::from_secs(1),
            far: Duration::from_secs(10),
            calm: Duration::from_secs(3),
        }
    }
}

/// Above this part of the ceiling, looks are frequent.
pub const NEAR: f64 = 0.5;
/// Sheds details until at most this part of the ceiling remains, if possible.
const SHED_TO: f64 = 0.9;
/// Resumes details if at most this part of the ceiling is expected with them.
const TAKE_UP_BELOW: f64 = 0.6;
/// Sheds details only if that saves this part of the ceiling: shedding does not help against the cost of requests or of sealing.
const WORTH_SHEDDING: f64 = 0.1;
/// Details that would add at most this part of the ceiling are resumed, whatever the rest costs.
const WORTH_NOTHING: f64 = 0.05;
/// Above this multiple of the ceiling one look suffices; below it, a second one must confirm.
const FAR_BEYOND: f64 = 2.0;
/// Details that are shed within this time after they were resumed were resumed too early.
const TOO_EARLY: Duration = Duration::from_secs(60);
/// The longest calm time.
const CALM_AT_MOST: Duration = Duration::from_secs(300);

/// The ceiling, and the details shed to stay below it.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// CPU time that tracing may take, ns/s.
    ceiling_ns: f64,
    times: CeilingTimes,
    costs: Costs,
    /// The number of shed details.
    shed: usize,
    /// CPU time at the last look, ns/s.
    taken_ns: f64,
    /// Since when it has been calm enough to resume details.
    calm_since: Option<MonotonicNs>,
    taken_up: Option<MonotonicNs>,
    /// How long it must be calm.
    calm: Duration,
    /// Whether the last look was above the ceiling.
    is_beyond: bool,
    /// The number of shed details at the last measurement.
    measured_at: usize,
}

impl Ceiling {
    /// `details` are the recorded ones.
    pub fn new(details: Details, times: CeilingTimes) -> Self {
        Self {
            ceiling_ns: f64::INFINITY,
            times,
            costs: Costs::new(details.iter().collect()),
            shed: 0,
            taken_ns: 0.0,
            calm_since: None,
            taken_up: None,
            calm: times.calm,
            is_beyond: false,
            measured_at: 0,
        }
    }

    /// Sets the ceiling, in ns of CPU time for each second.
    pub fn set(&mut self, ceiling_ns: f64) {
        self.ceiling_ns = ceiling_ns;
    }

    /// The shed details.
    pub fn shed(&self) -> Details {
        self.steps().iter().take(self.shed).copied().collect()
    }

    /// CPU time of tracing at the last look, ns/s.
    #[cfg(test)]
    fn taken_ns(&self) -> f64 {
        self.taken_ns
    }

    /// CPU time of the programs at this load now, ns/s.
    pub fn programs_ns(&self, load: &Load) -> f64 {
        self.costs.programs_ns(load, self.measured_at, self.shed)
    }

    /// Sheds all details. Returns whether the shed details have changed.
    pub fn give_up(&mut self) -> bool {
        let all = self.steps().len();
        self.calm_since = None;
        std::mem::replace(&mut self.shed, all) != all
    }

    /// Whether programs of a kind have no work.
    pub fn is_idle(&self, kind: Kind) -> bool {
        self.costs.is_idle(kind, self.shed)
    }

    fn steps(&self) -> &[Detail] {
        self.costs.steps()
    }

    /// Decides by the measurements until `now`. Returns whether the shed details have changed.
    pub fn look(&mut self, now: MonotonicNs, load: &Load) -> bool {
        self.costs.learn(load, self.shed);
        let before = self.shed;
        self.measured_at = before;
        self.taken_ns = self.predicted(load, before);
        let saved_ns = self.taken_ns - self.predicted(load, self.steps().len());
        if self.taken_ns > self.ceiling_ns && saved_ns >= WORTH_SHEDDING * self.ceiling_ns {
            self.calm_since = None;
            let is_far = self.taken_ns > FAR_BEYOND * self.ceiling_ns;
            if self.is_beyond || is_far {
                self.shed_more(now, load);
            }
            self.is_beyond = true;
        } else {
            self.is_beyond = false;
            self.take_up(now, load);
        }
        self.shed != before
    }

    fn predicted(&self, load: &Load, shed: usize) -> f64 {
        self.costs.predict(load, self.shed, shed)
    }

    fn shed_more(&mut self, now: MonotonicNs, load: &Load) {
        let all = self.steps().len();
        if self.shed == all {
            return;
        }
        let enough = |shed: &usize| self.predicted(load, *shed) <= SHED_TO * self.ceiling_ns;
        let to = (self.shed + 1..all).find(enough).unwrap_or(all);
        let since_taken_up = self.taken_up.take().map(|at| elapsed(at, now));
        match since_taken_up {
            Some(since) if since < TOO_EARLY => self.calm = (2 * self.calm).min(CALM_AT_MOST),
            Some(_) => self.calm = self.times.calm,
            None => {}
        }
        self.shed = to;
    }

    fn take_up(&mut self, now: MonotonicNs, load: &Load) {
        let fits = |shed: &usize| {
            let expected_ns = self.predicted(load, *shed);
            expected_ns <= TAKE_UP_BELOW * self.ceiling_ns
                || expected_ns - self.taken_ns <= WORTH_NOTHING * self.ceiling_ns
        };
        let Some(to) = (0..self.shed).find(fits) else {
            self.calm_since = None;
            return;
        };
        let since = *self.calm_since.get_or_insert(now);
        if elapsed(since, now) >= self.calm {
            self.shed = to;
            self.calm_since = None;
            self.taken_up = Some(now);
        }
    }

    /// Time until the next look, unless the cheaply known events change: `expected_ns` is the CPU time estimated from them.
    pub fn look_after(&self, expected_ns: f64) -> Duration {
        let is_near = expected_ns.max(self.taken_ns) >= NEAR * self.ceiling_ns;
        match is_near || self.shed > 0 {
            true => self.times.near,
            false => self.times.far,
        }
    }
}

fn elapsed(since: MonotonicNs, now: MonotonicNs) -> Duration {
    Duration::from_nanos(now.0.saturating_sub(since.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ceiling::costs::{KINDS, Rate};

    /// 3 % of two CPUs.
    const CEILING_NS: f64 = 0.06e9;

    fn ceiling(details: &[Detail]) -> Ceiling {
        let mut ceiling = Ceiling::new(details.iter().copied().collect(), CeilingTimes::default());
        ceiling.set(CEILING_NS);
        ceiling
    }

    fn at(second: u64) -> MonotonicNs {
        MonotonicNs((1000 + second) * 1_000_000_000)
    }

    /// A machine with a fixed cost in ns for each event of a kind; each detail has a share of it.
    struct Machine {
        events: f64,
        /// Cost of a call: single, timed, counted, left alone.
        ns: [f64; 4],
    }

    impl Machine {
        fn load(&self, shed: Details) -> Load {
            let mut programs = [Rate::default(); KINDS];
            let [single, times, calls, alone] = self.ns;
            let costs = [
                (Detail::SingleCalls, single),
                (Detail::CallTimes, times),
                (Detail::Calls, calls),
            ];
            let kept = costs.iter().filter(|(detail, _)| !shed.has(*detail));
            programs[Kind::Calls as usize] = Rate {
                events: self.events,
                ns: alone + kept.map(|(_, ns)| ns).sum::<f64>(),
            };
            let own = if shed.has(Detail::SingleCalls) {
                1.0
            } else {
                50.0
            };
            Load {
                programs,
                own_ns: 1e6 + own * self.events,
            }
        }

        /// Looks until nothing changes.
        fn run(&self, ceiling: &mut Ceiling, from: u64, seconds: u64) -> Vec<(u64, Details)> {
            let mut changes = Vec::new();
            for second in from..from + seconds {
                if ceiling.look(at(second), &self.load(ceiling.shed())) {
                    changes.push((second - from, ceiling.shed()));
                }
            }
            changes
        }
    }

    const OF_CALLS: [Detail; 4] = [
        Detail::SingleCalls,
        Detail::CallTimes,
        Detail::Calls,
        Detail::FileOperations,
    ];

    fn first(count: usize) -> Details {
        OF_CALLS.into_iter().take(count).collect()
    }

    const STORM: Machine = Machine {
        events: 2e6,
        ns: [500.0, 100.0, 200.0, 30.0],
    };
    const QUIET: Machine = Machine {
        events: 1e3,
        ns: [500.0, 100.0, 200.0, 30.0],
    };

    #[test]
    fn a_storm_sheds_at_once_what_it_takes_and_no_more() {
        let mut ceiling = ceiling(&OF_CALLS);
        let changes = STORM.run(&mut ceiling, 0, 20);
        assert_eq!(changes, [(0, first(3))], "calls, not operations of files");
    }

    #[test]
    fn what_is_enough_stays() {
        // 100,000 calls/s: with all details 88 ms/s, without single calls 33.
        let busy = Machine {
            events: 1e5,
            ..STORM
        };
        let mut ceiling = ceiling(&OF_CALLS);
        let changes = busy.run(&mut ceiling, 0, 600);
        // A single look above the ceiling may be chance.
        assert_eq!(changes, [(1, first(1))]);
        assert!(ceiling.taken_ns() <= CEILING_NS);
    }

    #[test]
    fn an_estimate_that_was_too_good_is_corrected_at_the_next_looks() {
        let odd = Machine {
            events: 2e5,
            ns: [10.0, 10.0, 400.0, 30.0],
        };
        let mut ceiling = ceiling(&OF_CALLS);
        let changes = odd.run(&mut ceiling, 0, 60);
        let last = changes.last().expect("a change");
        assert_eq!(last.1, first(3));
        assert!(last.0 <= 6, "{changes:?}");
    }

    #[test]
    fn details_are_taken_up_once_it_is_calm() {
        let mut ceiling = ceiling(&OF_CALLS);
        STORM.run(&mut ceiling, 0, 10);
        let changes = QUIET.run(&mut ceiling, 10, 60);
        assert_eq!(changes, [(3, Details::NONE)]);
    }

    #[test]
    fn a_load_that_comes_and_goes_is_given_ever_more_time() {
        let mut ceiling = ceiling(&OF_CALLS);
        let mut changes = 0;
        for round in 0..100 {
            changes += STORM.run(&mut ceiling, 20 * round, 5).len();
            changes += QUIET.run(&mut ceiling, 20 * round + 5, 15).len();
        }
        assert!((4..=16).contains(&changes), "{changes}");
    }

    #[test]
    fn requests_are_never_shed() {
        let mut ceiling = ceiling(&[Detail::LatencyParts]);
        let mut load = Load::default();
        load.programs[Kind::Requests as usize] = Rate {
            events: 1e6,
            ns: 1000.0,
        };
        assert!(ceiling.look(at(0), &load));
        assert!(!ceiling.look(at(1), &load));
        assert_eq!(
            ceiling.shed().iter().collect::<Vec<_>>(),
            [Detail::LatencyParts]
        );
    }

    #[test]
    fn what_the_recorder_does_for_other_reasons_sheds_nothing() {
        let mut ceiling = ceiling(&OF_CALLS);
        let sealing = Load {
            own_ns: 1e9,
            ..Load::default()
        };
        assert!((0..60).all(|second| !ceiling.look(at(second), &sealing)));
        // Nor does it keep details from being resumed.
        STORM.run(&mut ceiling, 60, 10);
        assert!(!ceiling.shed().is_empty());
        let looks = (70..90).filter(|second| ceiling.look(at(*second), &sealing));
        assert_eq!((looks.count(), ceiling.shed()), (1, Details::NONE));
    }

    #[test]
    fn without_details_or_load_nothing_happens() {
        let mut none = ceiling(&[]);
        assert!(!none.look(at(0), &STORM.load(Details::NONE)));
        let mut idle = ceiling(&OF_CALLS);
        assert!(!idle.look(at(0), &Load::default()));
        assert_eq!(idle.look_after(0.0), CeilingTimes::default().far);
        assert_eq!(idle.look_after(0.04e9), CeilingTimes::default().near);
    }

    proptest::proptest! {
        #[test]
        fn details_are_shed_in_their_order(
            loads in proptest::collection::vec((0.0..1e7_f64, 0.0..2000.0_f64, 0.0..1e9_f64), 1..50)
        ) {
            let mut ceiling = ceiling(&OF_CALLS);
            for (second, (events, ns, own_ns)) in (0..).zip(loads) {
                let mut load = Load { own_ns, ..Load::default() };
                load.programs[Kind::Calls as usize] = Rate { events, ns };
                let before = ceiling.shed().iter().count();
                let changed = ceiling.look(at(second), &load);
                let shed: Vec<_> = ceiling.shed().iter().collect();
                proptest::prop_assert_eq!(&shed[..], &OF_CALLS[..shed.len()]);
                proptest::prop_assert_eq!(changed, shed.len() != before);
                // Nothing is shed below the ceiling.
                if ceiling.taken_ns() <= CEILING_NS {
                    proptest::prop_assert!(shed.len() <= before);
                }
            }
        }
    }
}
