//! The process that runs an import: it decides when to end, and shows notices.

use std::io;
use std::os::fd::BorrowedFd;

use trackiops_store::Warning;

/// The process that runs an import.
pub trait Process: Sync {
    /// Whether a signal has ended the import, since [`Self::asked_to_end`] was called.
    fn was_ended(&self) -> bool;

    /// From now on, a signal that would end the process only makes the result readable.
    fn asked_to_end(&self) -> io::Result<BorrowedFd<'static>>;

    /// Shows a notice to the user.
    fn say(&self, notice: Notice);
}

/// A notice of a running import.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A warning of the store.
    Store(Warning),
    /// These columns of a table are not imported.
    Unused(String),
    /// The end of a capture cannot be read.
    CaptureCutShort(CutShort),
    /// The end of a text cannot be read.
    TextCutShort {
        /// Its name.
        name: String,
        /// The last line before that.
        line: u64,
        /// The reason.
        why: String,
    },
    /// This many requests are not imported, because a store cannot represent their times.
    LeftOut(u64),
}

/// A capture whose end cannot be read.
#[derive(Clone, Debug)]
pub struct CutShort {
    /// Its name.
    pub name: String,
    /// The reason.
    pub why: String,
    /// Packets before that.
    pub packets: u64,
}
