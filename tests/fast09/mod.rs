//! `trackiops analyze` reproduces the reference results of the authors' tool, for each trace, expectation and edge case of a folder.
//!
//! The folder is `TRACKIOPS_FAST09`, or `../shared/fast09` beside the repository. It has `traces/NAME/` (Parquet), `expected/NAME/` and
//! `edge/`. The test lists the folder and takes options from file names, so any content of this shape works. It prints one line per block.
//! Without a folder it compares nothing and says so.

mod blocks;
mod compare;
mod cubes;
mod distributions;
mod edge;
mod others;
mod program;
mod sequentiality;
mod tables;
mod write_parquet;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use blocks::Blocks;

const VARIABLE: &str = "TRACKIOPS_FAST09";
const USUAL: &str = "../shared/fast09";

/// The folder, if it exists. A folder named by the variable must exist.
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

/// Compares a file of expected results with the program's output.
fn compare_block(trace: &Path, file: &Path, blocks: &mut Blocks) {
    let name = file.file_name().expect("it has a name").to_string_lossy();
    let of_trace = trace.file_name().expect("it has a name").to_string_lossy();
    let block = format!("{of_trace}/{name}");
    let differences = match &*name {
        name if name.contains("sequentiality_") => sequentiality::compare(trace, file),
        name if name.starts_with("host_cube_") && name.ends_with(".csv") => {
            cubes::compare_cube(trace, file)
        }
        name if name.starts_with("host_cube_") => cubes::compare_cube_counts(trace, file),
        name if name.starts_with("host_rate") => cubes::compare_rates(trace, file),
        name if name.starts_with("packet_cube.") => cubes::compare_packets(trace, file),
        "table1_operations.csv" => cubes::compare_table_1(trace, file),
        "table2_figures3_4.json" => cubes::compare_table_2(trace, file),
        "server_latency.csv" => others::compare_latency(trace, file),
        "server_latency.json" => others::compare_missing(trace, file),
        "missing_ops.json" => others::compare_xids(trace, &sequentiality::json(file), None),
        "io_distributions.json" => others::compare_sizes(trace, file),
        "unique_files.json" => others::compare_files(trace, file),
        "operations_on_files.csv" => others::compare_operations(trace, file),
        "paths.csv" => others::compare_paths(trace, file),
        "packet_rates.json" => others::compare_bursts(trace, file),
        "calls_per_client.csv" => others::compare_calls(trace, file),
        name if name.ends_with("_rollup.csv") => others::compare_rollup(trace, file),
        _ => return blocks.unknown(&block),
    };
    blocks.add(&block, differences);
}
