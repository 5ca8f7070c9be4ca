//! Threads of the recorder: none of them dies unnoticed.
//!
//! A recorder that has lost a thread would go on and do less than it says: without the sealing thread journals pile up and no limit of
//! room holds. So each thread is started by [`spawn`], and one that panics is reported to whoever [`watch`]es, which ends the recording.
//! A supervisor starts another one.

pub mod fail_point;

use std::any::Any;
use std::fmt::{self, Display};
use std::hash::RandomState;
use std::hint::black_box;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread::{self, Builder, JoinHandle};

/// The first thread that has died.
static DEATH: OnceLock<Death> = OnceLock::new();
/// Who is told of it.
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

/// Starts a thread whose panic is reported, and is that of joining it. What it needs of the system later is taken now.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    take_seeds_of_the_process();
    builder.spawn(|| {
        // That of std's hash maps, which each thread has of its own.
        black_box(RandomState::new());
        guarded(run).unwrap_or_else(|panic| resume_unwind(panic))
    })
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

/// Seeds of the hash maps in Arrow and Parquet. In a program without a loader the getrandom crate does not find the function of that
/// name, and reads them from /dev/urandom: without a free descriptor the first segment's hash map panicked, in the thread that seals.
fn take_seeds_of_the_process() {
    black_box(ahash::RandomState::new());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc::channel;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    #[test]
    fn the_first_thread_that_dies_is_reported_by_name_and_reason() {
        let (told, heard) = channel();
        let told = Mutex::new(told);
        watch(move |death| {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.send(death.clone()).unwrap();
        });
        let named = |name: &str| Builder::new().name(name.to_owned());
        let ended = spawn(named("ends"), || 7).unwrap();
        assert_eq!(ended.join().unwrap(), 7);
        assert_eq!(death(), None);

        let dies = spawn(named("dies"), || -> u8 { panic!("at step {}", 3) });
        let panic = dies.unwrap().join().unwrap_err();
        assert_eq!(why(&*panic), "at step 3");
        let expected = "the thread `dies` has panicked: at step 3";
        assert_eq!(heard.recv().unwrap().to_string(), expected);

        let next = spawn(named("next"), || panic!("another one"));
        assert!(next.unwrap().join().is_err());
        assert!(heard.try_recv().is_err(), "the recording ends already");
        assert_eq!(death().unwrap().to_string(), expected);
    }
}
