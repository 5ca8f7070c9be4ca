//! Measures what the programs take, by short samples of the kernel's own run times.
//!
//! A thread of its own waits for that: it alone keeps the capability that measuring needs. It also holds the links of the programs that have
//! nothing to do while details are shed. Those programs are attached for samples alone then, since even a program that returns at once costs an
//! event some tens of ns.

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

/// What the kernel does for an event besides running the program, which its run time does not have, ns.
///
/// Measured on Linux 6.18 (x86-64, 2 CPUs) as the time that a program adds which returns at once: `docs/internals/collector.md` has the
/// figures, and how to measure them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surroundings {
    /// A tracepoint.
    Tracepoint = 30,
    /// A tracepoint of all system calls: they all leave the kernel's short way.
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
    /// What keeps it attached, if it may be detached.
    link: Option<DetachableLink>,
}

/// Keeps a program attached to a tracepoint, or no longer.
struct DetachableLink {
    /// Its name, if the program was loaded for any.
    event: Option<&'static str>,
    link: Option<OwnedFd>,
}

impl MeasuredProgram {
    /// One that stays attached.
    pub fn new(name: &'static str, program: &OwnedFd) -> io::Result<Self> {
        Ok(Self {
            name,
            program: program.try_clone()?,
            link: None,
        })
    }

    /// One that is detached while it has nothing to do.
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

/// What a sample showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// By [`Kind`]; `None` if the kernel does not let the recorder measure.
    pub programs: Option<[Rate; KINDS]>,
    /// CPUs of the machine.
    pub cpus: u32,
}

/// What the thread is asked for.
struct Order {
    /// Programs that are to be detached after the sample.
    idle: Vec<Kind>,
}

/// The thread that measures. Dropping it detaches what it holds.
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

    /// Whether a sample that was asked for was not taken yet.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Asks for a sample, unless it is busy. Afterwards programs of these kinds are detached, and all others attached.
    pub fn ask(&mut self, idle: Vec<Kind>) {
        if !self.is_busy
            && let Some(orders) = &self.orders
        {
            self.is_busy = orders.try_send(Order { idle }).is_ok();
        }
    }

    /// Takes the sample that was asked for, once it is there.
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
            // Its panic was reported.
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
    // Forbidden to a recorder with fewer capabilities. Others may have switched it on for good.
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
        // In `ns` the sum for now.
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
