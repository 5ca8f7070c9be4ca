//! What the steps of a start take, for `trackiops doctor --timing`.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A step of a start.
#[derive(Clone, Debug)]
pub struct StartStep {
    /// What is done in it.
    pub name: String,
    /// Time that passed.
    pub wall: Duration,
    /// Processor time of the thread that starts, in the kernel and outside of it.
    pub cpu: Duration,
}

/// The steps of a start, in their order.
#[derive(Debug)]
pub struct StartTiming {
    steps: Vec<StartStep>,
    wall: Instant,
    cpu: Duration,
}

impl StartTiming {
    /// The first step begins.
    pub fn begin() -> Self {
        Self {
            steps: Vec::new(),
            wall: Instant::now(),
            cpu: thread_cpu(),
        }
    }

    /// A step ends here, and the next one begins.
    pub fn ended(&mut self, name: impl Into<String>) {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        self.steps.push(StartStep {
            name: name.into(),
            wall: wall.duration_since(self.wall),
            cpu: cpu.saturating_sub(self.cpu),
        });
        (self.wall, self.cpu) = (wall, cpu);
    }

    /// Those that have ended.
    pub fn steps(&self) -> &[StartStep] {
        &self.steps
    }
}

/// Processor time of this thread so far.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}
