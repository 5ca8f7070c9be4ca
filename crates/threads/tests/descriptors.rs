//! A thread takes what it needs from the system when it starts. A separate program, because it uses up all descriptors.
#![allow(clippy::unwrap_used)]

use std::hash::RandomState;
use std::hint::black_box;
use std::sync::mpsc::channel;
use std::thread::Builder;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Only a statically linked program, like a release, can fail this: others find the system's random numbers without a file.
#[test]
fn a_thread_makes_hash_maps_without_a_descriptor() {
    let (begin, begun) = channel::<()>();
    let thread = trackiops_threads::spawn(Builder::new().name("hashes".into()), move || {
        begun.recv().unwrap();
        black_box((RandomState::new(), ahash::RandomState::new()));
    });
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    begin.send(()).unwrap();
    let joined = thread.unwrap().join();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(joined.is_ok());
}
