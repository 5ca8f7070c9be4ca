#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trackiops_fuzz::{limits, mutate};

fuzz_target!(init: limits::forgive_other_crates(), |file: &[u8]| {
    trackiops_store::fuzzing::segment(file);
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutate::input(data, size, most, |input| mutate::segment(input, seed))
});
