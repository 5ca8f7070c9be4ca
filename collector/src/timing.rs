//! What the steps of a start take, for `trackiops doctor --timing`, and what the verifier says of the programs, for `trackiops doctor --loads`.

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
    /// If they are kept.
    verifier_logs: Option<Vec<VerifierLog>>,
}

/// What the kernel's verifier says of a program that it follows instruction by instruction.
#[derive(Debug)]
pub(crate) struct VerifierLog {
    pub program: String,
    pub text: Vec<u8>,
}

impl StartTiming {
    /// The first step begins.
    pub fn begin() -> Self {
        Self {
            steps: Vec::new(),
            wall: Instant::now(),
            cpu: thread_cpu(),
            verifier_logs: None,
        }
    }

    /// The same, where the verifier is asked to log each step for programs whose loads may be plain. Loading takes many times as long then.
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
