//! What the threads beside recording warn of.

use std::fmt;
use std::path::PathBuf;

/// What a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// An earlier writer had left windows in a journal, which are sealed now.
    RecoveredWindows {
        /// How many.
        windows: u64,
        /// Bytes at the end that were no whole frame, and were cut. They were never reported durable, unless the medium has
        /// damaged them since.
        torn_bytes: u64,
    },
    /// An earlier writer had left requests, kept one by one, in a journal, which are sealed now.
    RecoveredRequests {
        /// How many.
        requests: u64,
        /// Bytes at the end that were no whole batch, and were cut.
        torn_bytes: u64,
    },
    /// A journal is damaged. What of it could be read was sealed; it was renamed to this path and is not read again.
    Quarantined(PathBuf),
    /// Something cannot be done with a file of the store: the text says what and why. It is tried again from time to time.
    WillRetry(String),
    /// So many segments would be too old if time counted in which nothing was recorded. Told once.
    Spared(usize),
    /// The oldest segments of requests are deleted from now on, because all together would exceed this number of bytes. Reported once.
    RequestsFull(u64),
    /// The store cannot be written, for this error. Windows wait in memory until it can be.
    CannotWrite(String),
    /// The store is written again, after [`Self::CannotWrite`].
    WrittenAgain {
        /// Windows that had waited.
        waited: u64,
        /// Windows that were added up to coarser ones meanwhile, as there was no room for all.
        coarsened: u64,
        /// Windows that found no room even then.
        dropped: u64,
    },
    /// A window never can be written, for this error, and is left out.
    WindowLeftOut(String),
    /// The recording has ended, and this number of windows still could not be written.
    WaitingLost(usize),
    /// The thread that writes windows has panicked, and those that waited could not be written after that, for this error.
    LostAfterPanic(String),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecoveredWindows {
                windows,
                torn_bytes,
            } => write!(
                f,
                "recovered {windows} windows that an interrupted recording had left ({torn_bytes} bytes of a torn end cut off)"
            ),
            Self::RecoveredRequests {
                requests,
                torn_bytes,
            } => write!(
                f,
                "recovered {requests} requests, kept one by one, that an interrupted recording had left ({torn_bytes} bytes \
                 of a torn end cut off)"
            ),
            Self::Quarantined(path) => write!(
                f,
                "a journal is damaged: what of it could be read is kept; it is now {}, and not read again",
                path.display()
            ),
            Self::WillRetry(error) => {
                write!(
                    f,
                    "{error}; all else goes on, and a recorder tries this again from time to time"
                )
            }
            Self::Spared(segments) => write!(
                f,
                "by the clock {segments} segments are older than --retain, but not by the time that was recorded since: the recorder did not \
                 run, or the clock was set; they are kept, and --retain-by-clock deletes them"
            ),
            Self::RequestsFull(bytes) => write!(
                f,
                "single requests have filled the {} MiB that they may take (--requests-size): the oldest are deleted \
                 from now on; windows are kept",
                bytes >> 20
            ),
            Self::CannotWrite(error) => write!(
                f,
                "the store cannot be written, recording goes on and windows wait in memory: {error}"
            ),
            Self::WrittenAgain {
                waited,
                coarsened,
                dropped,
            } => {
                write!(f, "the store is written again: {waited} windows had waited")?;
                if *coarsened > 0 {
                    write!(
                        f,
                        ", {coarsened} were added up to coarser ones for lack of memory"
                    )?;
                }
                if *dropped > 0 {
                    write!(f, ", {dropped} of these are lost")?;
                }
                Ok(())
            }
            Self::WindowLeftOut(error) => write!(f, "a window is left out: {error}"),
            Self::WaitingLost(windows) => {
                write!(f, "{windows} windows that waited in memory are lost")
            }
            Self::LostAfterPanic(error) => write!(f, "windows are lost: {error}"),
        }
    }
}

/// Warns a person.
pub(crate) type Warn = Box<dyn Fn(Warning) + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_written_again_says_what_that_has_cost() {
        let text = |coarsened, dropped| {
            let again = Warning::WrittenAgain {
                waited: 7,
                coarsened,
                dropped,
            };
            again.to_string()
        };
        assert_eq!(
            text(0, 0),
            "the store is written again: 7 windows had waited"
        );
        assert_eq!(
            text(5, 2),
            "the store is written again: 7 windows had waited, 5 were added up to coarser ones for lack of memory, 2 of these \
             are lost"
        );
    }
}
