//! Exit statuses of commands, for scripts: docs/reference/exit-status.md.

use std::process::ExitCode;

/// An exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Rows were found, or a check succeeded.
    Success = 0,
    /// Nothing matched, or a check failed: damage in a store, a wrong configuration, a degraded recorder, or a difference between the sides
    /// of a comparison.
    Negative = 1,
    /// The command failed.
    Error = 2,
    /// A part of the answer's data is damaged, even if the rest has rows.
    Damaged = 3,
    /// A thread of the recorder has panicked.
    Died = 4,
}

impl ExitStatus {
    /// `Success` if `holds`, else `Negative`.
    pub fn negative_unless(holds: bool) -> Self {
        match holds {
            true => Self::Success,
            false => Self::Negative,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
