#![no_main]

use libfuzzer_sys::fuzz_target;
use trackiops_fuzz::parts;

fuzz_target!(|input: &[u8]| {
    let (module, kernel) = parts::split(input);
    trackiops_collector::fuzzing::btf(kernel, module);
});
