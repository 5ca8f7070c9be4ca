//! A day of several tenants at one server, by simulation of a queue. Latency results from waiting; it is not drawn from a distribution.
//!
//! The server is a first-come-first-served queue with several workers (G/G/k). Tenants are open (arrivals do not wait for replies) or
//! closed (workers that wait for the reply, then think). Their load depends on the time of day, and has separate bursts and common peaks.
//!
//! Every day also contains traps that must not count as a noisy neighbour. One tenant fills a private resource by its own load, and at
//! times the server is slow or stops without a cause by a tenant. A planted neighbour is an additional tenant with bursts that take a large
//! part of the server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::row::{ClosedWindow, Row};

use crate::generated::Numbers;
use crate::windows::{file, used_by, window};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: f64 = 86_400.0;
/// Workers of the server.
const WORKERS: usize = 4;
/// Mean service time of a small request, ns; larger requests take longer.
const SERVICE_NS: f64 = 60e6;
/// Interval between changes of rates, s.
const RATE_STEP_S: usize = 5;

/// A simulated day.
#[derive(Clone, Copy, Debug)]
pub struct Day {
    pub seed: u64,
    /// Whether a noisy neighbour is planted.
    pub neighbour: bool,
    pub seconds: u64,
}

/// A request that completed.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    pub tenant: usize,
    pub end_ns: u64,
    pub latency_ns: u64,
    /// Part of the latency in the client before it is sent.
    pub queue_ns: u64,
    /// Part of the latency at the server.
    pub rtt_ns: u64,
    pub bytes: u64,
    pub write: bool,
}

/// The ground truth of a day.
#[derive(Clone, Debug)]
pub struct Truth {
    pub tenants: usize,
    /// The planted neighbour.
    pub neighbour: Option<usize>,
    /// The tenant whose own load causes its latency.
    pub victim_of_itself: usize,
}

impl Numbers {
    /// Uniform in (0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.below(1 << 30) as f64 + 0.5) / (1_u64 << 30) as f64
    }

    /// Uniform in a range.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Exponential.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Normal, by twelve uniforms.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

struct Tenant {
    /// Factor of the rate, every [`RATE_STEP_S`].
    course: Vec<f64>,
    /// Arrivals/s of an open tenant at course 1.
    rate: f64,
    /// Workers of a closed tenant, and their think time at course 1, s.
    closed: Option<(usize, f64)>,
    bytes: f64,
    write_share: f64,
    /// RPC slots of its client. Requests wait in the client for a free slot.
    slots: usize,
    in_flight: usize,
    /// Arrival times of requests that wait for a slot.
    waiting: VecDeque<u64>,
    /// Mean service time of a private resource behind the server, ns.
    own_ns: Option<f64>,
    own_free_ns: u64,
}

/// Common peaks of all tenants: (start s, length s, factor).
fn common_peaks(numbers: &mut Numbers) -> Vec<(f64, f64, f64)> {
    let mut peaks = vec![
        (
            9.0 * 3600.0,
            numbers.between(1200.0, 2700.0),
            numbers.between(1.3, 1.6),
        ),
        (
            13.5 * 3600.0,
            numbers.between(600.0, 1800.0),
            numbers.between(1.2, 1.5),
        ),
    ];
    for _ in 0..numbers.below(12) {
        peaks.push((
            numbers.between(0.0, DAY_S),
            numbers.between(60.0, 600.0),
            numbers.between(1.2, 1.5),
        ));
    }
    peaks
}

/// Random times: (start s, length s, factor).
fn bursts(
    numbers: &mut Numbers,
    count: u64,
    lengths: (f64, f64),
    factors: (f64, f64),
) -> Vec<(f64, f64, f64)> {
    (0..count)
        .map(|_| {
            (
                numbers.between(0.0, DAY_S),
                numbers.between(lengths.0, lengths.1),
                numbers.between(factors.0, factors.1),
            )
        })
        .collect()
}

fn raise(course: &mut [f64], peaks: &[(f64, f64, f64)]) {
    for (start, length, factor) in peaks {
        let first = (*start as usize / RATE_STEP_S).min(course.len());
        let end = ((start + length) as usize / RATE_STEP_S).min(course.len());
        course[first..end].iter_mut().for_each(|of| *of *= factor);
    }
}

fn diurnal(numbers: &mut Numbers, steps: usize) -> Vec<f64> {
    let amplitude = numbers.between(0.1, 0.5);
    let peak_s = numbers.between(10.0, 17.0) * 3600.0;
    // Plus a slow random drift.
    let mut wander = 0.0;
    (0..steps)
        .map(|step| {
            wander += -0.01 * wander + 0.015 * numbers.normal();
            let phase = ((step * RATE_STEP_S) as f64 - peak_s) / DAY_S;
            (1.0 + amplitude * (std::f64::consts::TAU * phase).cos()) * f64::exp(wander)
        })
        .collect()
}

/// The tenants of a day, and the ground truth.
fn tenants(day: &Day, numbers: &mut Numbers) -> (Vec<Tenant>, Truth) {
    let steps = (day.seconds as usize).div_ceil(RATE_STEP_S);
    let capacity = WORKERS as f64 / (SERVICE_NS / 1e9);
    let count = 5 + numbers.below(5) as usize;
    let utilisation = numbers.between(0.2, 0.35);
    let weights: Vec<f64> = (0..count)
        .map(|_| f64::exp(0.6 * numbers.normal()))
        .collect();
    let total: f64 = weights.iter().sum();
    let peaks = common_peaks(numbers);
    let victim_of_itself = numbers.below(count as u64) as usize;
    let mut tenants = Vec::new();
    for (place, weight) in weights.iter().enumerate() {
        // No tenant has more than a fifth of the load.
        let share = (weight / total).min(0.2);
        let bytes = 4096.0 * f64::exp(numbers.between(0.0, 3.0));
        let rate = capacity * utilisation * share / size_factor(bytes);
        let mut course = diurnal(numbers, steps);
        raise(&mut course, &peaks);
        let count = 5 + numbers.below(25);
        raise(
            &mut course,
            &bursts(numbers, count, (30.0, 900.0), (1.3, 1.8)),
        );
        let own_ns = (place == victim_of_itself).then(|| 0.35e9 / rate);
        // A worker's cycle is its think time plus a latency.
        let closed = (own_ns.is_none() && numbers.below(3) == 0).then(|| {
            let workers = 2 + numbers.below(6) as usize;
            let think = workers as f64 / rate - SERVICE_NS / 1e9;
            (workers, think.max(0.02))
        });
        tenants.push(Tenant {
            course,
            rate,
            closed,
            bytes,
            write_share: numbers.between(0.1, 0.6),
            slots: 8 + numbers.below(24) as usize,
            in_flight: 0,
            waiting: VecDeque::new(),
            own_ns,
            own_free_ns: 0,
        });
    }
    let neighbour = day.neighbour.then(|| {
        // In its bursts, the server is about fully loaded. Some neighbours send many small requests, some a few large ones.
        let taken = numbers.between(0.75, 1.05) - utilisation;
        let large = numbers.below(2) == 0;
        let mut course = vec![0.03; steps];
        let count = 8 + numbers.below(20);
        let on = bursts(numbers, count, (60.0, 900.0), (1.0, 1.0));
        for (start, length, _) in on {
            let first = (start as usize / RATE_STEP_S).min(steps);
            let end = ((start + length) as usize / RATE_STEP_S).min(steps);
            let height = numbers.between(0.8, 1.2);
            course[first..end].iter_mut().for_each(|of| *of = height);
        }
        let bytes = if large { 256.0 * 1024.0 } else { 8192.0 };
        tenants.push(Tenant {
            course,
            rate: capacity * taken / size_factor(bytes),
            closed: None,
            bytes,
            write_share: numbers.between(0.0, 1.0),
            slots: 64,
            in_flight: 0,
            waiting: VecDeque::new(),
            own_ns: None,
            own_free_ns: 0,
        });
        tenants.len() - 1
    });
    let truth = Truth {
        tenants: tenants.len(),
        neighbour,
        victim_of_itself,
    };
    (tenants, truth)
}

/// Factor of the service time for a request of this size.
fn size_factor(bytes: f64) -> f64 {
    1.0 + bytes / 131_072.0
}

/// Times in which the server is slow without a cause by a tenant: (start ns, end ns, factor of service times). A factor of 0 is a stop.
fn hiccups(numbers: &mut Numbers) -> Vec<(u64, u64, f64)> {
    let slow = 1 + numbers.below(4);
    let stops = numbers.below(4);
    let time = |numbers: &mut Numbers, length: f64, factor| {
        let start = numbers.between(0.0, DAY_S) * 1e9;
        (start as u64, (start + length * 1e9) as u64, factor)
    };
    let mut all = Vec::new();
    for _ in 0..slow {
        let (length, factor) = (numbers.between(30.0, 900.0), numbers.between(1.5, 3.0));
        all.push(time(numbers, length, factor));
    }
    for _ in 0..stops {
        let length = numbers.between(5.0, 45.0);
        all.push(time(numbers, length, 0.0));
    }
    all
}

/// The next event. At the same time, events happen in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request of a tenant gets its reply.
    Reply,
    /// A request of a tenant arrives at its client.
    Arrival,
    /// A tenant's rate is updated; exponential times have no memory.
    Draw,
}

/// The server, and its state.
struct Simulation<'d> {
    numbers: Numbers,
    tenants: Vec<Tenant>,
    hiccups: Vec<(u64, u64, f64)>,
    free_ns: [u64; WORKERS],
    events: BinaryHeap<Reverse<(u64, Event, usize)>>,
    done: &'d mut dyn FnMut(Completed),
}

/// Simulates a day. `done` gets each request, in the order in which the server starts them.
pub fn simulate(day: Day, mut done: impl FnMut(Completed)) -> Truth {
    let mut numbers = Numbers(day.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D);
    // The first numbers of similar seeds are similar.
    for _ in 0..16 {
        numbers.below(2);
    }
    let (tenants, truth) = tenants(&day, &mut numbers);
    let hiccups = hiccups(&mut numbers);
    let mut events = BinaryHeap::new();
    for (place, tenant) in tenants.iter().enumerate() {
        let (event, count) = match tenant.closed {
            Some((workers, _)) => (Event::Arrival, workers),
            None => (Event::Draw, 1),
        };
        (0..count).for_each(|_| events.push(Reverse((numbers.below(SECOND_NS), event, place))));
    }
    let mut simulation = Simulation {
        numbers,
        tenants,
        hiccups,
        free_ns: [0; WORKERS],
        events,
        done: &mut done,
    };
    let end_ns = day.seconds * SECOND_NS;
    while let Some(Reverse((now, event, place))) = simulation.events.pop() {
        if now < end_ns {
            simulation.happens(now, event, place);
        }
    }
    truth
}

impl Simulation<'_> {
    fn happens(&mut self, now: u64, event: Event, place: usize) {
        let tenant = &mut self.tenants[place];
        if event == Event::Reply {
            tenant.in_flight -= 1;
        }
        if event == Event::Arrival {
            tenant.waiting.push_back(now);
        }
        if event != Event::Reply && tenant.closed.is_none() {
            let course = tenant.course[(now / SECOND_NS) as usize / RATE_STEP_S];
            let gap_s = self.numbers.exponential(1.0 / (tenant.rate * course));
            let next = match gap_s < RATE_STEP_S as f64 {
                true => (now + (gap_s * 1e9) as u64, Event::Arrival, place),
                false => (now + RATE_STEP_S as u64 * SECOND_NS, Event::Draw, place),
            };
            self.events.push(Reverse(next));
        }
        while tenant.in_flight < tenant.slots
            && let Some(arrived) = tenant.waiting.pop_front()
        {
            tenant.in_flight += 1;
            let bytes = tenant.bytes * f64::exp(0.5 * self.numbers.normal());
            let bytes = bytes.clamp(512.0, 1_048_576.0);
            // First come, first served.
            let worker = least(&self.free_ns);
            let mut start = now.max(self.free_ns[worker]);
            let mut mean = SERVICE_NS * size_factor(bytes);
            for (from, to, slower) in &self.hiccups {
                if (*from..*to).contains(&start) {
                    match *slower == 0.0 {
                        true => start = *to,
                        false => mean *= slower,
                    }
                }
            }
            // Half of it is constant.
            let service = 0.5 * mean + self.numbers.exponential(0.5 * mean);
            let mut end = start + service as u64;
            self.free_ns[worker] = end;
            if let Some(own) = tenant.own_ns {
                end = end.max(tenant.own_free_ns) + self.numbers.exponential(own) as u64;
                tenant.own_free_ns = end;
            }
            self.events.push(Reverse((end, Event::Reply, place)));
            if let Some((_, think)) = tenant.closed {
                let course = tenant.course[(now / SECOND_NS) as usize / RATE_STEP_S];
                let think_ns = self.numbers.exponential(think / course.max(0.05)) * 1e9;
                self.events
                    .push(Reverse((end + think_ns as u64, Event::Arrival, place)));
            }
            (self.done)(Completed {
                tenant: place,
                end_ns: end,
                latency_ns: end - arrived,
                queue_ns: now - arrived,
                rtt_ns: end - now,
                bytes: bytes as u64,
                write: self.numbers.unit() < tenant.write_share,
            });
        }
    }
}

fn least(free_ns: &[u64]) -> usize {
    let earliest = free_ns.iter().enumerate().min_by_key(|(_, free)| **free);
    earliest.map_or(0, |(place, _)| place)
}

/// The windows of a recorder during a day that begins at `start_ms`. Each has `length_ms`, and each tenant has a separate file.
pub fn windows(day: Day, start_ms: i64, length_ms: u64) -> (Vec<ClosedWindow>, Truth) {
    let count = (day.seconds * 1000 / length_ms) as usize;
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); count];
    let truth = simulate(day, |done| {
        let window = (done.end_ns / 1_000_000 / length_ms) as usize;
        // Omit requests that end after the day.
        let Some(of_window) = rows.get_mut(window) else {
            return;
        };
        if of_window.len() <= done.tenant {
            of_window.resize(done.tenant + 1, Row::default());
        }
        let row = &mut of_window[done.tenant];
        let direction = match done.write {
            true => &mut row.write,
            false => &mut row.read,
        };
        direction.requests += 1;
        direction.bytes += done.bytes;
        direction.latency_ns_sum += done.latency_ns;
        direction.latency_ns_max = direction.latency_ns_max.max(done.latency_ns);
        direction.queue_ns_sum += done.queue_ns;
        direction.rtt_ns_sum += done.rtt_ns;
        direction.latency.record(done.latency_ns);
    });
    let files: Vec<_> = (0..truth.tenants).map(file_of).collect();
    let window = |(place, rows): (usize, Vec<Row>)| {
        let rows = rows.into_iter().enumerate();
        let rows = rows.filter(|(_, row)| row.is_transfer());
        let rows = rows.map(|(tenant, row)| (Arc::clone(&files[tenant]), row));
        let start = start_ms + (place as u64 * length_ms).cast_signed();
        let mut window = window(start, rows.collect());
        window.health.covered_ms = length_ms;
        window
    };
    (rows.into_iter().enumerate().map(window).collect(), truth)
}

/// The file of a tenant; the tenant's uid is 1000 plus its number.
pub fn file_of(tenant: usize) -> Arc<FileAttributes> {
    let file = file(tenant as u64 + 1, 49, Some(&format!("/mnt/t{tenant}/data")));
    used_by(&file, &format!("{}:/t{tenant}.slice", 1000 + tenant))
}
