//! Health of the recorder: how much of a window it has covered, and what it has missed.

use std::mem;

use trackiops_schemas::ebpf::ring::Books;
use trackiops_schemas::row::Health;
use trackiops_schemas::shed::Detail;
use trackiops_schemas::time::UtcMs;

use crate::clock::{ClockSample, MonotonicNs};
use crate::engine::MissedCompletions;
use crate::operations::WindowOps;
use crate::recorder::Recorder;
use crate::rollup::ShedNs;
use crate::stalls::Stall;

impl Recorder {
    /// Accounts for the time since the last sample as covered. Returns whether the clock was set
    /// back.
    pub(super) fn follow_clock(&mut self, sample: ClockSample) -> bool {
        let from_ns = self.clock.utc_ns(self.covered_until);
        let elapsed_ns = sample.now.0.saturating_sub(self.covered_until.0);
        self.covered_until = sample.now;
        let step = self.clock.follow(sample);
        self.engine.set_clock(sample);
        if step.is_some() {
            let window = self.rollup.window(self.clock.utc(sample.now));
            window.health.clock_steps += 1;
            window.cover(elapsed_ns, self.cost.shed());
        } else {
            self.add_coverage(from_ns, self.clock.utc_ns(sample.now));
        }
        step.is_some_and(|step| step < 0)
    }

    /// Spreads the wall time from `from_ns` to `to_ns` over its windows.
    fn add_coverage(&mut self, mut from_ns: i64, to_ns: i64) {
        while from_ns < to_ns {
            let at = UtcMs(from_ns.div_euclid(1_000_000));
            let end = at
                .align(self.rollup.granularity())
                .plus(self.rollup.granularity());
            let until_ns = to_ns.min(end.0.saturating_mul(1_000_000));
            let covered_ns = (until_ns - from_ns).unsigned_abs();
            self.rollup.window(at).cover(covered_ns, self.cost.shed());
            from_ns = until_ns;
        }
    }

    /// Takes over what the lookout saw of pending requests.
    pub(super) fn look_out(&mut self, stalled: &mut impl FnMut(&Stall)) {
        while let Some(look) = self.lookout.next() {
            let Some(pending) = look.pending else {
                continue;
            };
            self.stalls.follow(&pending, stalled);
            let now = self.clock.utc(ClockSample::take().now);
            let known = &mut self.rollup.window(now).health.pending;
            known.get_or_insert_default().merge(&pending);
        }
    }

    /// Counts requests that were lost since the last call.
    pub(super) fn note_lost(&mut self, books: Books, now: UtcMs) {
        let lost = books.lost.saturating_sub(self.lost);
        if lost > 0 {
            self.lost = books.lost;
            self.hasten_audit();
            let health = &mut self.rollup.window(now).health;
            health.lost += lost;
            health.seen += lost;
        }
    }

    /// Counts completions since the last call for which the kernel skipped the programs.
    pub(super) fn note_missed(&mut self, all: MissedCompletions, now: UtcMs) {
        let before = mem::replace(&mut self.missed, all);
        if all != before {
            let health = &mut self.rollup.window(now).health;
            health.missed += all.requests.saturating_sub(before.requests);
            health.ops_missed += all.operations.saturating_sub(before.operations);
            health.app_missed += all.calls.saturating_sub(before.calls);
            self.hasten_audit();
        }
    }

    /// Counts requests that the programs saw, but that were neither read nor folded nor lost. Only
    /// valid after detaching, when the counters are final.
    pub(super) fn note_unaccounted(&mut self, books: Books, now: UtcMs) {
        let unaccounted = books
            .seen
            .saturating_sub(self.read + self.folded + books.lost);
        self.rollup.window(now).health.seen += unaccounted;
    }

    /// Fills in the values that are known only when a window closes.
    pub(super) fn complete_health(
        &self,
        health: &mut Health,
        ops: &WindowOps,
        (covered_ns, shed_ns): (u64, ShedNs),
        now: MonotonicNs,
    ) {
        let rounded_ms = |ns: u64| (ns + 500_000) / 1_000_000;
        health.covered_ms = rounded_ms(covered_ns);
        for (detail, ns) in Detail::ALL.into_iter().zip(shed_ns) {
            *detail.shed_ms_mut(health) = rounded_ms(ns);
        }
        if self.engine.has_operations {
            health.ops_covered_ms = health.covered_ms;
            health.ops_seen = ops.values().map(|sums| sums.requests).sum();
        }
        if self.engine.has_block {
            health.block_covered_ms = health.covered_ms;
        }
        if self.engine.has_calls {
            health.app_covered_ms = health.covered_ms.saturating_sub(health.shed_calls_ms);
        }
        // Windows may be shorter than the time between two looks.
        if health.pending.is_none() && covered_ns > 0 {
            health.pending = self.lookout.recent(now).cloned();
        }
    }
}
