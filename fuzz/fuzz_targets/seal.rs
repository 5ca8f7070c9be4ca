#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trackiops_fuzz::{mutate, parts};

fuzz_target!(|input: &[u8]| {
    let (end, journal) = parts::split(input);
    trackiops_store::fuzzing::seal(journal, end);
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutate::input(data, size, most, |input| mutate::journal(input, seed))
});
