#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    trackiops_capture::fuzzing::capture(file);
});
