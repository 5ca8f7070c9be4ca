//! Threads of the recorder: none of them dies unnoticed.
//!
//! Each thread is started here. `death.rs` decides what happens when one panics, `privileges.rs` what it may do.

mod death;
pub mod fail_point;
pub mod privileges;

use std::hash::RandomState;
use std::hint::black_box;
use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

pub use death::{Death, death, guarded, watch, why};

/// Starts a thread whose panic is reported, and is that of joining it. What it needs of the system later is taken now, and the
/// capabilities that it does not need for a store are given up.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_writers, run)
}

/// Starts a thread that looks at other processes.
pub fn spawn_observer<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_observers, run)
}

/// Starts a thread that measures the programs in the kernel. It does nothing else, since what it keeps for that is nearly all that root may do.
pub fn spawn_measurer<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_measurers, run)
}

fn spawn_with<T: Send + 'static>(
    builder: Builder,
    give_up_capabilities: fn() -> io::Result<()>,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    take_seeds_of_the_process();
    builder.spawn(move || {
        // Every kernel allows it. What else forbids it must not end a recording.
        let _ = give_up_capabilities();
        // That of std's hash maps, which each thread has of its own.
        black_box(RandomState::new());
        guarded(run).unwrap_or_else(|panic| resume_unwind(panic))
    })
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
