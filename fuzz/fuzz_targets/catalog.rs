#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trackiops_fuzz::mutate;

fuzz_target!(|file: &[u8]| {
    trackiops_store::fuzzing::catalog(file);
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutate::input(data, size, most, |input| mutate::catalog(input, seed))
});
