//! Compares `trackiops report billing`, `placement` and `carbon` with DuckDB's results from the single requests of the same stores. Needs a
//! Python with DuckDB (`make notebooks`): TRACKIOPS_PYTHON is its path.

use std::path::Path;

use trackiops_testkit::{program, usage};

fn check(report: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/science/reports.py");
    for seed in [3, 8] {
        let dir = tempfile::tempdir().unwrap();
        usage::record(dir.path(), seed);
        print!("seed {seed}: ");
        let args = [env!("CARGO_BIN_EXE_trackiops"), report];
        program::python(&script, args, dir.path());
    }
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB"]
fn report_numbers_of_billing_are_what_duckdb_computes() {
    check("billing");
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB"]
fn report_numbers_of_carbon_are_what_duckdb_computes() {
    check("carbon");
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB"]
fn report_numbers_of_placement_are_what_duckdb_computes() {
    check("placement");
}
