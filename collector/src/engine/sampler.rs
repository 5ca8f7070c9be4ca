//! Measures the programs' CPU time, by short samples of the kernel's own run times.
//!
//! A separate thread waits for each sample: it alone keeps the capability that measuring needs. It also holds the links of programs that
//! have no work while details are shed. Such a program is attached only during samples, because even a program that returns at once
//! costs an event some tens of ns.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::ceiling::{KINDS, Kind, Rate};
use crate::engine::bpf_calls::{measure_run_times, program_counters};
use crate::engine::btf_tracepoints;

/// How long a sample takes.
const SAMPLE: Duration = Duration::from_millis(25);
const STACK_BYTES: usize = 128 << 10;

/// The kernel's cost of an event around the program, which run times do not include, ns.
///
/// Measured on Linux 6.18 (x86-64, 2 CPUs) as the time added by a program that returns at once: `docs/internals/collector.md` has the
/// figures, and how to measure them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surroundings {
    /// A tracepoint.
    Tracepoint = 30,
    /// A tracepoint of all system calls, which makes every call take the kernel's slow path.
    SystemCall = 60,
    /// A function's begin or end, by a trampoline.
    Trampoline = 50,
    /// A function's begin or end, by a probe.
    Probe = 150,
    /// A function of a program: a breakpoint.
    Breakpoint = 1500,
}

/// A program that is measured.
pub struct MeasuredProgram {
    name: &'static str,
    program: OwnedFd,
    /// Its link, if it may be detached.
    link: Option<DetachableLink>,
}

/// A link to a tracepoint that can be detached and attached again.
struct DetachableLink {
    /// The tracepoint, if the program was loaded for any.
    event: Option<&'static str>,
    link: Option<OwnedFd>,
}

impl MeasuredProgram {
    /// A program that stays attached.
    pub fn new(name: &'static str, program: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            name,
            program: program.try_clone()?,
            link: None,
        })
    }

    /// A program that is detached while it has no work.
    pub fn detachable(
        name: &'static str,
        program: &OwnedFd,
        event: Option<&'static str>,
        link: OwnedFd,
    ) -> io::Result<Self> {
        let link = Some(DetachableLink {
            event,
            link: Some(link),
        });
        Ok(Self {
            link,
            ..Self::new(name, program)?
        })
    }

    /// Its name in the object.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> Kind {
        let name = self.name;
        match name {
            "app_syscall_begin" | "app_ring_begin" | "app_begin" => Kind::CallBegins,
            _ if name.starts_with("app_probed") && name.ends_with("begin") => Kind::CallBegins,
            _ if name.starts_with("app_") => Kind::Calls,
            _ if name.starts_with("pages_") => Kind::Pages,
            _ if name.starts_with("span_") => Kind::Functions,
            _ if name.contains("operation") => Kind::Operations,
            _ => Kind::Requests,
        }
    }

    fn surroundings(&self) -> Surroundings {
        let name = self.name;
        match self.kind() {
            Kind::Functions => Surroundings::Breakpoint,
            Kind::Calls | Kind::CallBegins if name.starts_with("app_syscall") => {
                Surroundings::SystemCall
            }
            Kind::Calls | Kind::CallBegins if name.starts_with("app_ring") => {
                Surroundings::Tracepoint
            }
            Kind::Calls | Kind::CallBegins if name.starts_with("app_probed") => Surroundings::Probe,
            Kind::Calls | Kind::CallBegins => Surroundings::Trampoline,
            _ => Surroundings::Tracepoint,
        }
    }

    fn attach(&mut self) -> io::Result<()> {
        if let Some(DetachableLink { event, link }) = &mut self.link
            && link.is_none()
        {
            *link = Some(btf_tracepoints::attach(self.program.as_fd(), *event)?);
        }
        Ok(())
    }

    fn detach(&mut self) {
        if let Some(link) = &mut self.link {
            link.link = None;
        }
    }
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// By [`Kind`]; `None` if the kernel does not allow measuring.
    pub programs: Option<[Rate; KINDS]>,
    /// CPUs of the machine.
    pub cpus: u32,
}

/// A request to the thread.
struct Order {
    /// Programs to detach after the sample.
    idle: Vec<Kind>,
}

/// The measuring thread. Dropping it detaches the programs that it holds.
pub struct Sampler {
    orders: Option<SyncSender<Order>>,
    samples: Receiver<io::Result<Sample>>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts the thread.
    pub fn start(programs: Vec<MeasuredProgram>) -> io::Result<Self> {
        let (orders, ordered) = sync_channel(1);
        let (sampled, samples) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("trackiops-cost".to_owned())
            .stack_size(STACK_BYTES);
        let thread = trackiops_threads::spawn_measurer(thread, move || {
            measure(programs, &ordered, &sampled);
        })?;
        Ok(Self {
            orders: Some(orders),
            samples,
            is_busy: false,
            thread: Some(thread),
        })
    }

    /// Whether a requested sample is still pending.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Requests a sample, unless one is pending. Afterwards programs of these kinds are detached, and all others attached.
    pub fn ask(&mut self, idle: Vec<Kind>) {
        if !self.is_busy
            && let Some(orders) = &self.orders
        {
            self.is_busy = orders.try_send(Order { idle }).is_ok();
        }
    }

    /// Takes the requested sample, once it is ready.
    pub fn sample(&mut self) -> Option<io::Result<Sample>> {
        let sample = self.samples.try_recv().ok()?;
        self.is_busy = false;
        Some(sample)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was already reported.
            let _ = thread.join();
        }
    }
}

fn measure(
    mut programs: Vec<MeasuredProgram>,
    orders: &Receiver<Order>,
    samples: &SyncSender<io::Result<Sample>>,
) {
    while let Ok(Order { idle }) = orders.recv() {
        let sample = sample(&mut programs);
        for program in &mut programs {
            if idle.contains(&program.kind()) {
                program.detach();
            }
        }
        if samples.send(sample).is_err() {
            return;
        }
    }
}

fn sample(programs: &mut [MeasuredProgram]) -> io::Result<Sample> {
    for program in &mut *programs {
        program.attach()?;
    }
    let cpus = aya::util::online_cpus().map_err(|(_, error)| error)?.len() as u32;
    let counters = |programs: &[MeasuredProgram]| {
        let counters = programs.iter();
        let counters = counters.map(|one| program_counters(one.program.as_fd()));
        counters.collect::<io::Result<Vec<_>>>()
    };
    // Fails for a recorder with fewer capabilities. Measurement may still be enabled permanently by others.
    let Ok(measuring) = measure_run_times() else {
        return Ok(Sample {
            programs: None,
            cpus,
        });
    };
    let (before, began) = (counters(programs)?, Instant::now());
    thread::sleep(SAMPLE);
    let (after, seconds) = (counters(programs)?, began.elapsed().as_secs_f64());
    drop(measuring);
    let mut rates = [Rate::default(); KINDS];
    for ((program, before), after) in programs.iter().zip(before).zip(after) {
        let runs = after.runs.wrapping_sub(before.runs) as f64;
        let run_ns = after.run_ns.wrapping_sub(before.run_ns) as f64;
        let rate = &mut rates[program.kind() as usize];
        // `ns` holds the sum for now.
        rate.events += runs / seconds;
        rate.ns += (run_ns + runs * f64::from(program.surroundings() as u16)) / seconds;
    }
    for rate in &mut rates {
        rate.ns /= rate.events.max(1.0);
    }
    Ok(Sample {
        programs: Some(rates),
        cpus,
    })
}
