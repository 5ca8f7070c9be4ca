//! Exports of more rows than the export holds in memory.

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

use super::pieces::MOST_ROWS;
use super::{Export, ExportDataset};
use trackiops_query::error::QueryError;
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::question;
use trackiops_testkit::stores::{options_of, record};

#[test]
fn pieces_of_an_export_are_the_whole_and_no_batch_is_of_more_than_a_piece() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = windows(9, THREE, 1000, 100, 100);
    record(dir.path(), options_of("h", "1s,10s", "30s"), &recorded);
    let rows = recorded
        .iter()
        .map(|window| window.rows.len())
        .sum::<usize>();
    assert!(rows > 4 * MOST_ROWS, "{rows}");
    let mut question = question(dir.path());
    question.zone = trackiops_query::times::Zone::utc();
    let export = Export {
        question,
        table: ExportDataset::Rollup,
        granularity: None,
    };
    let (mut bytes, mut times) = (0, Vec::new());
    let exported = export
        .run::<QueryError>(&mut |batch| {
            assert!(batch.num_rows() <= 2 * MOST_ROWS);
            let written = batch.column_by_name("write_bytes").unwrap();
            bytes += written
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .sum::<i64>();
            let time = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            times.extend_from_slice(time.values());
            Ok(())
        })
        .unwrap();
    assert_eq!(exported.rows as usize, rows);
    assert_eq!(times.len(), rows);
    assert!(times.is_sorted());
    let all = recorded.iter().flat_map(|window| &window.rows);
    let expected: u64 = all.map(|row| row.row.write.bytes).sum();
    assert_eq!(bytes as u64, expected);
}
