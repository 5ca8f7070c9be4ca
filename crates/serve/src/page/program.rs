//! The program that answers questions.

/// The program that answers questions: this one, by its command line.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its commands and their flags.
    pub commands: fn() -> clap::Command,
    /// Its exit status if nothing matched.
    pub nothing: i32,
    /// Its exit status if a part of the data is damaged.
    pub damaged: i32,
    /// A variable, and the value with which it writes notes as JSON.
    pub notes: (&'static str, &'static str),
}

impl Program {
    /// Whether a process with this exit status has answered.
    pub(super) fn has_answered(self, status: i32) -> bool {
        [0, self.nothing, self.damaged].contains(&status)
    }
}
