//! The process that runs an import, which decides when to end.

use std::io;
use std::os::fd::BorrowedFd;

/// The process that runs an import.
pub trait Process: Sync {
    /// Whether a signal has ended the import, since [`Self::asked_to_end`] was called.
    fn was_ended(&self) -> bool;

    /// From now on, a signal that would end the process only makes the result readable.
    fn asked_to_end(&self) -> io::Result<BorrowedFd<'static>>;
}
