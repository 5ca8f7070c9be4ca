#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    trackiops_capture::fuzzing::dump(text);
});
