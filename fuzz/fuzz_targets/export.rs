#![no_main]

use libfuzzer_sys::fuzz_target;
use trackiops_fuzz::limits;

fuzz_target!(init: limits::forgive_other_crates(), |file: &[u8]| {
    trackiops_store::fuzzing::export(file);
});
