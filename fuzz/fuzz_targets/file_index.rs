#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((rows, blob)) = input.split_first_chunk() {
        trackiops_store::fuzzing::file_index(blob, u64::from_le_bytes(*rows));
    }
});
