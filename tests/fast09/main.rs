//! `trackiops analyze` reproduces the reference results of the authors' tool, for each trace, expectation and edge case of a folder.
//!
//! The folder is `TRACKIOPS_FAST09`, or `../shared/fast09` beside the repository. It has `traces/NAME/` (Parquet), `expected/NAME/`
//! and `edge/`. Any folder of this shape is gone through: what is there is found by listing, and options by names of files. One line
//! a block says whether it is equal. Without a folder nothing is compared, which is said.
#![allow(clippy::expect_used, clippy::unwrap_used)] // helpers of tests are tests

mod blocks;
mod compare;
mod distributions;
mod edge;
mod program;
mod sequentiality;
mod write_parquet;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use blocks::Blocks;

const VARIABLE: &str = "TRACKIOPS_FAST09";
const USUAL: &str = "../shared/fast09";

/// The folder, if there is one. One that the variable names must exist.
fn folder() -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(named) => {
            let named = PathBuf::from(named);
            assert!(
                named.is_dir(),
                "{VARIABLE} is no directory: {}",
                named.display()
            );
            Some(named)
        }
        None => {
            let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join(USUAL);
            usual.is_dir().then_some(usual)
        }
    }
}

/// Entries of a directory, in order of their names; none if it does not exist.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn analyses_reproduce_the_reference_results() {
    let Some(folder) = folder() else {
        println!("skipped: no folder {USUAL}, and {VARIABLE} is not set");
        return;
    };
    let mut blocks = Blocks::default();
    for expected in entries(&folder.join("expected")) {
        let name = expected.file_name().expect("it has a name").to_owned();
        let trace = folder.join("traces").join(&name);
        for dir in [expected.clone(), expected.join("derived")] {
            for file in entries(&dir).into_iter().filter(|path| path.is_file()) {
                compare_block(&trace, &file, &mut blocks);
            }
        }
    }
    edge::compare(&folder.join("edge"), &mut blocks);
    blocks.finish();
}

/// Compares a file of expected results with what the program says.
fn compare_block(trace: &Path, file: &Path, blocks: &mut Blocks) {
    let name = file.file_name().expect("it has a name").to_string_lossy();
    let of_trace = trace.file_name().expect("it has a name").to_string_lossy();
    let block = format!("{of_trace}/{name}");
    if name.contains("sequentiality_") {
        blocks.add(&block, sequentiality::compare(trace, file));
    } else {
        blocks.unknown(&block);
    }
}
