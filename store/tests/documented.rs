//! docs/reference/format.md lists exactly the columns, the metadata and the tables that are written.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_schemas::columns::{
    FORMAT_VERSION, health_schema, ops_schema, request_schema, rollup_schema,
};
use trackiops_testkit::lake;
use trackiops_testkit::stores::parquet_files;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/format.md");
    fs::read_to_string(path).unwrap()
}

/// The first cells of the table that follows a heading, without their backticks.
fn told(heading: &str) -> Vec<String> {
    let document = document();
    let (_, section) = document.split_once(&format!("\n{heading}\n")).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let cell = |line: &str| {
        line.split('|')
            .nth(1)
            .unwrap()
            .trim()
            .trim_matches('`')
            .to_owned()
    };
    rows.map(cell).collect()
}

#[test]
fn columns_are_documented_in_their_order() {
    let written = |schema: SchemaRef| {
        let fields = schema.fields().iter();
        fields.map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(told("### rollup"), written(rollup_schema()));
    assert_eq!(told("### ops"), written(ops_schema()));
    assert_eq!(told("### health"), written(health_schema()));
    assert_eq!(told("### requests"), written(request_schema()));
}

#[test]
fn metadata_and_tables_are_documented() {
    assert!(document().contains(&format!("Version {FORMAT_VERSION}.")));
    let lake = tempfile::tempdir().unwrap();
    lake::record(lake.path());
    let store = lake.path().join("h");
    let mut own = BTreeSet::new();
    for segment in parquet_files(&store) {
        let file = File::open(store.join(segment)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let metadata = reader.metadata().file_metadata().key_value_metadata();
        let keys = metadata.unwrap().iter().map(|pair| pair.key.clone());
        own.extend(keys.filter(|key| key.starts_with("trackiops.")));
    }
    let told_keys: BTreeSet<_> = told("## Segments").into_iter().collect();
    assert_eq!(own, told_keys);

    let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
    let mut tables = catalog
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let tables: BTreeSet<_> = tables.collect::<Result<_, _>>().unwrap();
    let told_tables: BTreeSet<_> = told("## The catalog").into_iter().collect();
    assert_eq!(tables, told_tables);
}
