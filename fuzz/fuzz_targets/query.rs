//! Questions to a store with an unsealed journal.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trackiops_fuzz::{mutate, parts, questions};

static STORE: LazyLock<PathBuf> = LazyLock::new(|| questions::store("query"));

fuzz_target!(|input: &[u8]| {
    let (end, journal) = parts::split(input);
    fs::write(STORE.join("journal/1.tij"), journal).expect("a file can be written");
    fs::write(STORE.join("journal/1.end"), end).expect("a file can be written");
    questions::ask_everything(&STORE);
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutate::input(data, size, most, |input| mutate::journal(input, seed))
});
