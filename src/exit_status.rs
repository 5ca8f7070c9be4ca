//! What commands end with, for scripts: docs/reference/exit-status.md.

use std::process::ExitCode;

/// An exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Rows were found, or what was checked is well.
    Success = 0,
    /// Nothing matched, or what was checked is not well: a store has damage, a configuration is wrong, a recorder is degraded, both
    /// sides of a comparison differ.
    Negative = 1,
    /// The command could not do what was asked.
    Error = 2,
    /// A part of the data of an answer is damaged, whatever the rest has.
    Damaged = 3,
    /// A thread of the recorder has panicked.
    Died = 4,
}

impl ExitStatus {
    /// The negative status, unless something holds.
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
