//! A segment with valid checksums but a lying footer or lying pages is an error that names it. It costs little memory
//! and time.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{
    ColumnChunkMetaDataBuilder, FileMetaData, ParquetMetaData, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_store::{RequestsView, Writer, check};
use trackiops_testkit::forge;
use trackiops_testkit::stores::{options, parquet_files, seal_catalog};
use trackiops_testkit::windows::{T0, file, windows};

/// Serialises the tests, because they measure the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// A store with a segment of single requests.
fn recorded(store: &Path) -> PathBuf {
    let mut writer = Writer::open(store, options("h")).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for window in windows(5) {
        let end_ns = window.start.0 * 1_000_000;
        requests
            .append(&RequestBatch {
                files: vec![file(1, 49, Some("/mnt/a"))],
                requests: vec![Request::new(&RequestRecord::default(), end_ns, 0); 30],
            })
            .unwrap();
        writer.append(&window).unwrap();
    }
    requests.finish().unwrap();
    writer.finish().unwrap();
    let files = parquet_files(store);
    let mut files = files.iter().filter(|file| file.starts_with("requests/"));
    store.join(files.next().unwrap())
}

/// Makes the catalog list a segment in its current state.
fn list(store: &Path, segment: &Path) {
    let change = |column: &str, value: u64| {
        let catalog = rusqlite::Connection::open(store.join("catalog.db")).unwrap();
        let sql = format!("UPDATE requests_segment SET {column} = {value}");
        catalog.execute(&sql, []).unwrap();
        drop(catalog);
        seal_catalog(store);
    };
    change("bytes", fs::metadata(segment).unwrap().len());
    let mut view = RequestsView::open(store).unwrap();
    view.read(0..i64::MAX, &mut |_| Ok(true)).unwrap();
    let why = view.damaged().get(segment);
    if let Some(sum) = why.and_then(|why| why.strip_prefix("its checksum is ")) {
        change("crc32c", u64::from_str_radix(&sum[..8], 16).unwrap());
    }
}

/// Why each kind of reader refuses the segment.
fn refused(store: &Path, segment: &Path) -> String {
    list(store, segment);
    let findings = check(store).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].path, segment);
    let mut view = RequestsView::open(store).unwrap();
    let all = T0 * 1_000_000..i64::MAX;
    view.read(all, &mut |_| Ok(true)).unwrap();
    let why = view.damaged()[segment].clone();
    assert_eq!(findings[0].why, why);
    why
}

/// The same metadata, other rows.
fn with_rows(
    segment: &Path,
    batches: impl IntoIterator<Item = RecordBatch>,
    dictionary: bool,
) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(segment).unwrap()).unwrap();
    let mut pairs = reader.metadata().file_metadata().key_value_metadata();
    let mut pairs = pairs.take().unwrap().clone();
    pairs.retain(|pair| pair.key != "ARROW:schema");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
        .set_dictionary_enabled(dictionary)
        .set_dictionary_page_size_limit(16 << 20)
        .set_key_value_metadata(Some(pairs))
        .build();
    let mut batches = batches.into_iter().peekable();
    let schema = batches.peek().unwrap().schema();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    for batch in batches {
        writer.write(&batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// The same data, another footer.
fn with_footer(
    segment: &Path,
    change: impl Fn(ColumnChunkMetaDataBuilder, usize) -> ColumnChunkMetaDataBuilder,
    rows: impl Fn(i64) -> i64,
) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(segment).unwrap()).unwrap();
    let metadata = reader.metadata();
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().enumerate();
        let columns = columns.map(|(place, column)| {
            let changed = change(column.clone().into_builder(), place);
            changed.build().unwrap()
        });
        RowGroupMetaData::builder(group.schema_descr_ptr())
            .set_num_rows(rows(group.num_rows()))
            .set_total_byte_size(group.total_byte_size())
            .set_column_metadata(columns.collect())
            .build()
            .unwrap()
    });
    let groups: Vec<_> = groups.collect();
    let own = metadata.file_metadata();
    let own = FileMetaData::new(
        own.version(),
        groups.iter().map(|group| group.num_rows()).sum(),
        own.created_by().map(str::to_owned),
        own.key_value_metadata().cloned(),
        own.schema_descr_ptr(),
        None,
    );
    let bytes = fs::read(segment).unwrap();
    let mut parquet = bytes[..forge::sums(&bytes).start].to_vec();
    let metadata = ParquetMetaData::new(own, groups);
    ParquetMetaDataWriter::new(&mut parquet, &metadata)
        .finish()
        .unwrap();
    parquet
}

fn rows_of(segment: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(segment).unwrap()).unwrap();
    reader.build().unwrap().next().unwrap().unwrap()
}

/// The peak memory of this process.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

/// `batch` with other names, repeated.
fn named<'n>(batch: &RecordBatch, names: impl Iterator<Item = &'n str>) -> RecordBatch {
    let path = batch.schema().index_of("path").unwrap();
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    columns[path] = Arc::new(
        names
            .take(batch.num_rows())
            .map(Some)
            .collect::<StringArray>(),
    );
    RecordBatch::try_new(batch.schema(), columns).unwrap()
}

#[test]
fn a_text_that_is_repeated_takes_as_little_as_it_does_in_the_file() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let segment = recorded(dir.path());
    // Rows with equal times are in order.
    let batch = rows_of(&segment);
    let one = batch.slice(0, 1);
    let batch = concat_batches(&batch.schema(), std::iter::repeat_n(&one, batch.num_rows()));
    let batch = batch.unwrap();
    let rows = 20 * batch.num_rows();
    // The dictionary has one long text among many short ones. Every second row has it, 750 MiB in total.
    let long = "x".repeat(512 << 10);
    let short: Vec<_> = (0..rows).map(|i| i.to_string()).collect();
    let batches = short.chunks(batch.num_rows()).map(|short| {
        let names = short.iter().enumerate();
        let names = names.map(|(i, short)| if i % 2 == 0 { &*long } else { short });
        named(&batch, names)
    });
    let parquet = with_rows(&segment, batches, true);
    fs::write(&segment, forge::segment(&parquet)).unwrap();
    drop(parquet);
    list(dir.path(), &segment);
    let before = peak_bytes();
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let mut view = RequestsView::open(dir.path()).unwrap();
    let mut read = 0;
    let all = T0 * 1_000_000..i64::MAX;
    view.read(all, &mut |batch| {
        read += batch.num_rows();
        Ok(true)
    })
    .unwrap();
    assert_eq!(read, rows);
    let grown = peak_bytes() - before;
    assert!(grown < 128 << 20, "{grown}");
}

#[test]
fn what_lies_is_named_and_takes_little() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let segment = recorded(dir.path());
    let honest = fs::read(&segment).unwrap();
    assert_eq!(check(dir.path()).unwrap().findings, []);
    let batch = rows_of(&segment);
    let named = |name: &str| named(&batch, std::iter::repeat(name));
    let same = |column: ColumnChunkMetaDataBuilder, _| column;
    let long = "x".repeat(2 << 20);
    let cases = [
        // 30 KB would unpack to 300 MiB.
        (
            "a page",
            with_rows(&segment, [named(&long)], false),
            "claim to hold more than they can",
        ),
        (
            "a dictionary",
            with_rows(&segment, [named(&long)], true),
            "claim to hold more than they can",
        ),
        (
            "more rows",
            with_footer(&segment, same, |rows| rows << 40),
            "number of rows",
        ),
        (
            "fewer rows",
            with_footer(&segment, same, |rows| rows - 1),
            "number of rows",
        ),
        (
            "negative rows",
            with_footer(&segment, same, |_| -1),
            "do not add up",
        ),
        (
            "a column beyond the end",
            with_footer(
                &segment,
                |column, _| {
                    column
                        .set_data_page_offset(1 << 40)
                        .set_dictionary_page_offset(None)
                },
                |rows| rows,
            ),
            "names places",
        ),
        (
            "a column before the start",
            with_footer(
                &segment,
                |column, _| {
                    column
                        .set_data_page_offset(-9)
                        .set_dictionary_page_offset(None)
                },
                |rows| rows,
            ),
            "names places",
        ),
        (
            "two columns in one place",
            with_footer(
                &segment,
                |column, _| {
                    column
                        .set_data_page_offset(4)
                        .set_dictionary_page_offset(None)
                },
                |rows| rows,
            ),
            "in one place",
        ),
        (
            "an index that is none",
            with_footer(
                &segment,
                |column, _| column.set_offset_index_offset(Some(100)),
                |rows| rows,
            ),
            "",
        ),
        (
            "an index of all of the file",
            with_footer(
                &segment,
                |column, _| {
                    let all = i32::MAX;
                    column
                        .set_offset_index_offset(Some(4))
                        .set_offset_index_length(Some(all))
                },
                |rows| rows,
            ),
            "",
        ),
        (
            "no index",
            with_footer(
                &segment,
                |column, _| {
                    column
                        .set_offset_index_offset(None)
                        .set_offset_index_length(None)
                },
                |rows| rows,
            ),
            "",
        ),
    ];
    let before = peak_bytes();
    for (lie, parquet, expected) in cases {
        fs::write(&segment, forge::segment(&parquet)).unwrap();
        let begun = Instant::now();
        let why = refused(dir.path(), &segment);
        assert!(why.contains(expected), "{lie}: {why}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{lie}");
        eprintln!("{lie}: {why}");
    }
    for footer_bytes in [u32::MAX, i32::MAX as u32, honest.len() as u32] {
        let mut bytes = honest.clone();
        let at = bytes.len() - 8;
        bytes[at..at + 4].copy_from_slice(&footer_bytes.to_le_bytes());
        fs::write(&segment, bytes).unwrap();
        assert_eq!(
            refused(dir.path(), &segment),
            "its end is not that of a segment"
        );
    }
    assert!(peak_bytes() - before < 128 << 20);
    fs::write(&segment, &honest).unwrap();
    list(dir.path(), &segment);
    assert_eq!(check(dir.path()).unwrap().findings, []);
}
