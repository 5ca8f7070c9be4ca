//! Threads of the recorder: the death of each is noticed.
//!
//! All threads start here. `death.rs` decides what happens when one panics, `privileges.rs` which capabilities it keeps.

mod death;
pub mod fail_point;
pub mod privileges;

use std::hash::RandomState;
use std::hint::black_box;
use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

pub use death::{Death, death, guarded, watch, why};

/// Starts a thread. A panic is reported, and joining the thread returns it. The thread takes now what it later needs from the system, and
/// drops the capabilities that a store does not need.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_writers, run)
}

/// Starts a thread that inspects other processes.
pub fn spawn_observer<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_observers, run)
}

/// Starts a thread that measures the kernel programs. It does nothing else, because its capabilities nearly equal root's.
pub fn spawn_measurer<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_measurers, run)
}

/// Starts a thread that enters network namespaces. It does nothing else, as [`spawn_measurer`] says.
pub fn spawn_network_observer<T: Send + 'static>(
    builder: Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(builder, privileges::keep_those_of_network_observers, run)
}

fn spawn_with<T: Send + 'static>(
    builder: Builder,
    give_up_capabilities: fn() -> io::Result<()>,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    take_seeds_of_the_process();
    builder.spawn(move || {
        // Every kernel allows this. If something else forbids it, the recording must not end.
        let _ = give_up_capabilities();
        // The seed of std's hash maps, which each thread has separately.
        black_box(RandomState::new());
        guarded(run).unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Takes the seeds of the hash maps in Arrow and Parquet. In a static program, the getrandom crate does not find the libc function, and
/// reads /dev/urandom. Without a free descriptor, the first hash map of the sealing thread then panicked.
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
