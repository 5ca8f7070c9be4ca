//! Durations of the steps of a start, for `trackiops doctor --timing`, and the verifier's logs, for `trackiops doctor --loads`. Ends a start
//! between two steps.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A step of a start.
#[derive(Clone, Debug)]
pub struct StartStep {
    /// Its name.
    pub name: String,
    /// Elapsed time.
    pub wall: Duration,
    /// CPU time of the starting thread, in the kernel and in userspace.
    pub cpu: Duration,
}

/// The steps of a start, in their order.
#[derive(Debug)]
pub struct StartTiming {
    steps: Vec<StartStep>,
    wall: Instant,
    cpu: Duration,
    /// The logs, if they are kept.
    verifier_logs: Option<Vec<VerifierLog>>,
    /// Whether to give up the start before its next step.
    is_over: fn() -> bool,
}

/// The verifier's log of a program, instruction by instruction.
#[derive(Debug)]
pub(crate) struct VerifierLog {
    pub program: String,
    pub text: Vec<u8>,
}

impl StartTiming {
    /// Begins the first step.
    pub fn begin() -> Self {
        Self {
            steps: Vec::new(),
            wall: Instant::now(),
            cpu: thread_cpu(),
            verifier_logs: None,
            is_over: || false,
        }
    }

    /// Gives up the start before its next step if `is_over`, for example after a signal.
    pub fn until(self, is_over: fn() -> bool) -> Self {
        Self { is_over, ..self }
    }

    pub(crate) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// [`Self::begin`], with verifier logs of programs with plain loads. Loading then takes many times as long.
    pub(crate) fn logging() -> Self {
        Self {
            verifier_logs: Some(Vec::new()),
            ..Self::begin()
        }
    }

    /// Room for the verifier's log of a program, if it is kept.
    pub(crate) fn verifier_log(&mut self, program: &str) -> Option<&mut Vec<u8>> {
        let logs = self.verifier_logs.as_mut()?;
        logs.push(VerifierLog {
            program: program.to_owned(),
            text: Vec::new(),
        });
        logs.last_mut().map(|log| &mut log.text)
    }

    /// The logs that were kept.
    pub(crate) fn verifier_logs(&self) -> &[VerifierLog] {
        self.verifier_logs.as_deref().unwrap_or_default()
    }

    /// Ends a step, and begins the next one.
    pub fn ended(&mut self, name: impl Into<String>) {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        self.steps.push(StartStep {
            name: name.into(),
            wall: wall.duration_since(self.wall),
            cpu: cpu.saturating_sub(self.cpu),
        });
        (self.wall, self.cpu) = (wall, cpu);
    }

    /// The steps that have ended.
    pub fn steps(&self) -> &[StartStep] {
        &self.steps
    }
}

/// CPU time of this thread so far.
fn thread_cpu() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}
