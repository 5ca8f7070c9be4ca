//! Warnings of the threads that write and maintain a store.

use std::fmt;
use std::path::PathBuf;

/// A warning for the person who runs the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Windows of an interrupted recording were sealed from its journal.
    RecoveredWindows {
        /// Number of windows.
        windows: u64,
        /// Bytes at the end that were not a complete frame, and were cut off. They were never reported durable, unless
        /// the disk damaged them later.
        torn_bytes: u64,
    },
    /// Single requests of an interrupted recording were sealed from their journal.
    RecoveredRequests {
        /// Number of requests.
        requests: u64,
        /// Bytes at the end that were not a complete batch, and were cut off.
        torn_bytes: u64,
    },
    /// A journal is damaged. Its readable part was sealed. The file was renamed to this path and will not be read
    /// again.
    Quarantined(PathBuf),
    /// An operation on a file failed, as the text says. It is retried from time to time.
    WillRetry(String),
    /// This many segments would be too old if time without a recording counted as age. Reported once.
    Spared(usize),
    /// Single requests have reached this number of bytes. From now on, their oldest segments are deleted. Reported
    /// once.
    RequestsFull(u64),
    /// The disk is too slow for single requests. Some are dropped. Reported once.
    RequestsLeftOut,
    /// Single requests cannot be written for now, because of this error. They are dropped.
    CannotWriteRequests(String),
    /// Single requests can be written again, after [`Self::CannotWriteRequests`].
    RequestsWrittenAgain,
    /// Single requests cannot be written any more, because of this error.
    RequestsEnded(String),
    /// The store cannot be written, because of this error. Windows wait in memory.
    CannotWrite(String),
    /// Another directory has taken the place of the store, as the text says. Nothing more can be written, so the
    /// recording should end.
    Replaced(String),
    /// The store can be written again, after [`Self::CannotWrite`].
    WrittenAgain {
        /// Windows that had to wait.
        waited: u64,
        /// Windows that were added up to coarser ones, because memory for waiting windows was full.
        coarsened: u64,
        /// Windows that were dropped, because that was not enough.
        dropped: u64,
    },
    /// A window was dropped because it can never be written, for this reason.
    WindowLeftOut(String),
    /// The recording has ended, and this many windows were not written.
    WaitingLost(usize),
    /// The thread that writes windows panicked. Afterwards, the waiting windows could not be written, because of this
    /// error.
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
                "a journal is damaged: its readable part is kept; it was renamed to {}, and is not read again",
                path.display()
            ),
            Self::WillRetry(error) => {
                write!(
                    f,
                    "{error}; everything else continues, and a recorder retries from time to time"
                )
            }
            Self::Spared(segments) => write!(
                f,
                "{segments} segments are older than --retain by the clock, but not by recorded time: the recorder did not run, \
                 or the clock was set; they are kept, and --retain-by-clock deletes them"
            ),
            Self::RequestsFull(bytes) => write!(
                f,
                "single requests have filled the {} MiB that they may take (--requests-size): the oldest are deleted \
                 from now on; windows are kept",
                bytes >> 20
            ),
            Self::RequestsLeftOut => f.write_str(
                "the disk is too slow for --requests: some are left out, windows are complete",
            ),
            Self::CannotWriteRequests(error) => write!(
                f,
                "requests are not kept one by one for now, but windows are complete: {error}"
            ),
            Self::RequestsWrittenAgain => f.write_str("requests are kept one by one again"),
            Self::RequestsEnded(error) => {
                write!(f, "requests are not kept one by one any more: {error}")
            }
            Self::CannotWrite(error) => write!(
                f,
                "the store cannot be written, recording goes on and windows wait in memory: {error}"
            ),
            Self::Replaced(error) => write!(f, "the recording stops: {error}"),
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
            Self::WindowLeftOut(error) => write!(f, "a window is dropped: {error}"),
            Self::WaitingLost(windows) => {
                write!(f, "{windows} windows that waited in memory are lost")
            }
            Self::LostAfterPanic(error) => write!(f, "windows are lost: {error}"),
        }
    }
}

/// Passes a warning on.
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
