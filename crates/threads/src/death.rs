//! Reports the death of a thread.
//!
//! A recorder without one of its threads would break its promises: without the sealing thread, journals pile up and the store exceeds its
//! size limit. So a panic is reported to the caller of [`watch`], which ends the recording. A supervisor starts another one.

use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread;

/// The first thread that has died.
static DEATH: OnceLock<Death> = OnceLock::new();
/// Receives the report.
static WATCHER: OnceLock<Watcher> = OnceLock::new();

type Watcher = Box<dyn Fn(&Death) + Send + Sync>;

/// The report of a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The thread's name.
    pub thread: String,
    /// The panic's message.
    pub why: String,
}

impl Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, why } = self;
        write!(f, "the thread `{thread}` has panicked: {why}")
    }
}

/// Sets the function that the first dying thread calls. Call it once, before any thread starts: a process has one recorder.
pub fn watch(watcher: impl Fn(&Death) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// The first thread that has died.
pub fn death() -> Option<&'static Death> {
    DEATH.get()
}

/// Runs a function on this thread. Reports a panic, and returns it.
pub fn guarded<T>(run: impl FnOnce() -> T) -> thread::Result<T> {
    // A caller that continues after a panic must know which borrowed data may be half changed.
    catch_unwind(AssertUnwindSafe(run)).inspect_err(|panic| report(&**panic))
}

/// A panic's message.
pub fn why(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".to_owned())
}

fn report(panic: &(dyn Any + Send)) {
    let death = Death {
        thread: thread::current().name().unwrap_or("unnamed").to_owned(),
        why: why(panic),
    };
    if DEATH.set(death).is_ok()
        && let (Some(watcher), Some(death)) = (WATCHER.get(), DEATH.get())
    {
        watcher(death);
    }
}
