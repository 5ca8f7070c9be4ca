//! What happens when a thread dies.
//!
//! A recorder that has lost a thread would go on and do less than it says: without the sealing thread journals pile up and no limit of
//! room holds. So a thread that panics is reported to whoever [`watch`]es, which ends the recording. A supervisor starts another one.

use std::any::Any;
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread;

/// The first thread that has died.
static DEATH: OnceLock<Death> = OnceLock::new();
/// Who gets the report of it.
static WATCHER: OnceLock<Watcher> = OnceLock::new();

type Watcher = Box<dyn Fn(&Death) + Send + Sync>;

/// That a thread has panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The thread's name.
    pub thread: String,
    /// What it panicked with.
    pub why: String,
}

impl Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, why } = self;
        write!(f, "the thread `{thread}` has panicked: {why}")
    }
}

/// Calls `watcher`, on the thread that dies, when the first one does. To be called once, before any thread is started: a process has
/// one recorder.
pub fn watch(watcher: impl Fn(&Death) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(watcher));
}

/// The first thread that has died.
pub fn death() -> Option<&'static Death> {
    DEATH.get()
}

/// Runs something on this thread. A panic is reported, and returned.
pub fn guarded<T>(run: impl FnOnce() -> T) -> thread::Result<T> {
    // Whoever goes on with what was borrowed knows what may be half done.
    catch_unwind(AssertUnwindSafe(run)).inspect_err(|panic| report(&**panic))
}

/// What a thread panicked with, in words.
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
