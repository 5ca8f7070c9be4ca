//! Rebuilds a catalog from one segment, checks the store and asks questions.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use trackiops_fuzz::{limits, mutate, questions};

static STORE: LazyLock<PathBuf> = LazyLock::new(|| questions::store("rebuild"));

fuzz_target!(init: limits::forgive_other_crates(), |file: &[u8]| {
    for dataset in ["rollup", "health", "ops"] {
        let name = "granularity=1s/date=2026-11-22/h-20261122T001500Z-3.parquet";
        let path = STORE.join(dataset).join(name);
        fs::write(path, file).expect("a file can be written");
    }
    let rebuilt = trackiops_store::rebuild_catalog(&STORE);
    if rebuilt.is_ok_and(|rebuilt| rebuilt.segments > 0) {
        let _ = trackiops_store::check(&STORE);
        questions::ask_everything(&STORE);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    mutate::input(data, size, most, |input| mutate::segment(input, seed))
});
