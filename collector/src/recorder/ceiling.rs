//! Holds the ceiling of tracing's CPU time: measures it, and sheds or resumes details.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::kernel_usage::{KernelUsage, TracingLoad};
use trackiops_schemas::shed::{Detail, Details};

use crate::ceiling::{Ceiling, CeilingTimes, KINDS, Kind, Load, Rate};
use crate::clock::MonotonicNs;
use crate::engine::Sample;
use crate::plan::{Plan, Programs};
use crate::recorder::Recorder;
use crate::settings::Settings;

/// The recording thread's CPU time is averaged over this time. Closing a window costs as much as several reads of the rings.
const OF_THREAD: Duration = Duration::from_secs(1);
/// The other threads' CPU time is averaged over this time, because they work in batches.
const OF_OTHERS: Duration = Duration::from_secs(10);
/// Cheaply known events are counted over this time.
const EVENTS_OVER: Duration = Duration::from_secs(1);

/// The recorded details, of those that can be shed.
pub fn details(plan: &Plan, settings: &Settings) -> Details {
    let Programs::Direct { offsets, .. } = &plan.programs else {
        return Details::NONE;
    };
    let counts_file_operations = plan.has_operations() && offsets.file_operation.is_known != 0;
    let recorded = [
        (
            Detail::SingleCalls,
            plan.keeps_calls() || !settings.functions.is_empty(),
        ),
        (Detail::CallTimes, plan.times_calls()),
        (Detail::Calls, plan.counts_calls()),
        (Detail::PageCache, plan.levels().cache),
        (
            Detail::LatencyParts,
            plan.levels().wire && settings.latency_parts,
        ),
        (Detail::FileOperations, counts_file_operations),
    ];
    let recorded = recorded.into_iter().filter(|(_, is)| *is);
    recorded.map(|(detail, _)| detail).collect()
}

/// Measurements of the cost of tracing.
pub struct TracingCost {
    ceiling: Ceiling,
    ceiling_ppm: u64,
    cpus: u32,
    own: OwnCpu,
    events: CheapEvents,
    asked: Option<MonotonicNs>,
    /// CPU time of the programs, ns/s, as of the last sample.
    programs_ns: f64,
    /// CPU time of the programs in total, ns; `None` if it cannot be measured.
    run_ns: Option<f64>,
    counted_until: MonotonicNs,
    /// Whether the last sample failed.
    is_blind: bool,
}

impl TracingCost {
    /// For a recording of these details that begins `now`.
    pub fn new(details: Details, ceiling_ppm: u64, now: MonotonicNs) -> Self {
        Self {
            ceiling: Ceiling::new(details, CeilingTimes::default()),
            ceiling_ppm,
            cpus: 1,
            own: OwnCpu::new(now),
            events: CheapEvents::new(now),
            asked: None,
            programs_ns: 0.0,
            run_ns: Some(0.0),
            counted_until: now,
            is_blind: false,
        }
    }

    /// The details that are shed.
    pub fn shed(&self) -> Details {
        self.ceiling.shed()
    }

    /// Counts events of programs of a kind.
    pub fn count(&mut self, kind: Kind, events: u64) {
        self.events.counts[kind as usize] += events;
    }

    fn load(&self) -> TracingLoad {
        let machine_ns = f64::from(self.cpus) * 1e3;
        let ppm = |ns: f64| (ns / machine_ns).round().max(0.0) as u64;
        TracingLoad {
            own_ppm: ppm(self.own.ns()),
            programs_ppm: ppm(self.programs_ns),
            ceiling_ppm: self.ceiling_ppm,
            shed: self.shed(),
        }
    }

    /// Decides by a sample. Returns whether the shed details have changed.
    fn look(&mut self, sample: &Sample, now: MonotonicNs) -> bool {
        self.cpus = sample.cpus.max(1);
        let machine_ns = f64::from(self.cpus) * 1e9;
        self.ceiling.set(self.ceiling_ppm as f64 / 1e6 * machine_ns);
        let programs = sample.programs.unwrap_or_else(|| self.events.rates());
        self.is_blind = sample.programs.is_none();
        if self.is_blind && self.run_ns == Some(0.0) {
            self.run_ns = None;
        }
        let own_ns = self.own.ns();
        let load = Load { programs, own_ns };
        let has_changed = self.ceiling.look(now, &load);
        self.programs_ns = self.ceiling.programs_ns(&load);
        has_changed
    }

    /// The estimated CPU time of tracing, ns/s, from cheaply known events.
    fn expected_ns(&self) -> f64 {
        let rates = self.events.rates();
        self.own.ns() + rates.iter().map(|rate| rate.events * rate.ns).sum::<f64>()
    }

    /// Kinds of programs without work. A kind whose events cannot be measured is not among them.
    fn idle(&self) -> Vec<Kind> {
        let kinds = Kind::ALL.into_iter();
        kinds
            .filter(|kind| !self.is_blind && self.ceiling.is_idle(*kind))
            .collect()
    }
}

impl Recorder {
    /// Measures tracing's CPU time, and sheds or resumes details.
    pub(super) fn hold_ceiling(&mut self, now: MonotonicNs) {
        let cost = &mut self.cost;
        let own_ns = cost.own.follow(now);
        let seconds = (now.0.saturating_sub(cost.counted_until.0)) as f64 / 1e9;
        cost.counted_until = now;
        let programs_ns = cost.programs_ns * seconds;
        if let Some(run_ns) = &mut cost.run_ns {
            *run_ns += programs_ns;
        }
        let window = self.rollup.window(self.clock.utc(now));
        window.health.tracing_ns += own_ns + programs_ns as u64;
        cost.events.follow(now);
        match self.engine.measured() {
            Some(Ok(sample)) if cost.look(&sample, now) => {
                self.engine.shed(cost.shed(), now);
                cost.asked = None;
            }
            // Programs that cannot be attached again see nothing. Shedding the details keeps that from looking like an idle host.
            Some(Err(_)) if cost.ceiling.give_up() => self.engine.shed(cost.shed(), now),
            _ => {}
        }
        let after = cost.ceiling.look_after(cost.expected_ns());
        let is_due = cost
            .asked
            .is_none_or(|asked| now.0.saturating_sub(asked.0) >= after.as_nanos() as u64);
        if is_due && !self.engine.is_measuring() {
            self.engine.measure(cost.idle());
            cost.asked = Some(now);
        }
    }

    /// CPU time of the kernel side and of tracing as a whole.
    pub(super) fn kernel_usage(&mut self) -> KernelUsage {
        let (ring_records, ring_used_max) = self.engine.rings_used();
        KernelUsage {
            run_ns: self.cost.run_ns.map(|ns| ns as u64),
            ring_records,
            ring_used_max,
            tracing: self.cost.load(),
            files_most: self.rollup.most() as u64,
            files_are_full: self.rollup.is_full(),
        }
    }
}

/// CPU time of this process.
struct OwnCpu {
    at: MonotonicNs,
    process: Duration,
    thread: Duration,
    /// Averages, ns/s.
    thread_ns: f64,
    others_ns: f64,
}

impl OwnCpu {
    fn new(now: MonotonicNs) -> Self {
        Self {
            at: now,
            process: cpu_time(ClockId::ProcessCPUTime),
            thread: cpu_time(ClockId::ThreadCPUTime),
            thread_ns: 0.0,
            others_ns: 0.0,
        }
    }

    /// Updates the averages. Returns the CPU time since the last call, ns.
    fn follow(&mut self, now: MonotonicNs) -> u64 {
        let (process, thread) = (
            cpu_time(ClockId::ProcessCPUTime),
            cpu_time(ClockId::ThreadCPUTime),
        );
        let elapsed = Duration::from_nanos(now.0.saturating_sub(self.at.0));
        let of_process = process.saturating_sub(self.process);
        let of_thread = thread.saturating_sub(self.thread);
        let of_others = of_process.saturating_sub(of_thread);
        if !elapsed.is_zero() {
            average(&mut self.thread_ns, of_thread, elapsed, OF_THREAD);
            average(&mut self.others_ns, of_others, elapsed, OF_OTHERS);
        }
        (self.at, self.process, self.thread) = (now, process, thread);
        of_process.as_nanos() as u64
    }

    /// CPU time, ns/s.
    fn ns(&self) -> f64 {
        self.thread_ns + self.others_ns
    }
}

/// Adds to an average in ns/s.
fn average(average: &mut f64, taken: Duration, elapsed: Duration, over: Duration) {
    let rate = taken.as_nanos() as f64 / elapsed.as_secs_f64();
    let weight = (elapsed.as_secs_f64() / over.as_secs_f64()).min(1.0);
    *average += weight * (rate - *average);
}

fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Events that the recorder sees anyway. Events that a filter excludes do not arrive, and are not counted.
struct CheapEvents {
    since: MonotonicNs,
    counts: [u64; KINDS],
    rates: [f64; KINDS],
}

impl CheapEvents {
    /// Assumed cost of an event, ns.
    const NS: f64 = 500.0;

    fn new(now: MonotonicNs) -> Self {
        Self {
            since: now,
            counts: [0; KINDS],
            rates: [0.0; KINDS],
        }
    }

    fn follow(&mut self, now: MonotonicNs) {
        let elapsed = Duration::from_nanos(now.0.saturating_sub(self.since.0));
        if elapsed >= EVENTS_OVER {
            self.since = now;
            let counts = std::mem::take(&mut self.counts);
            self.rates = counts.map(|count| count as f64 / elapsed.as_secs_f64());
        }
    }

    fn rates(&self) -> [Rate; KINDS] {
        self.rates.map(|events| Rate {
            events,
            ns: Self::NS,
        })
    }
}
