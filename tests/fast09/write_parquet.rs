//! Converts CSV of edge cases to Parquet.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;

/// A column of a file.
pub enum Column {
    /// Texts.
    Texts(Vec<Option<String>>),
    /// Numbers.
    Numbers(Vec<Option<i64>>),
    /// Flags.
    Flags(Vec<Option<bool>>),
}

/// Writes a file.
pub fn write(path: &Path, columns: Vec<(&str, Column)>) {
    let arrays = columns.into_iter().map(|(name, column)| {
        let array: ArrayRef = match column {
            Column::Texts(texts) => Arc::new(StringArray::from(texts)),
            Column::Numbers(numbers) => Arc::new(Int64Array::from(numbers)),
            Column::Flags(flags) => Arc::new(BooleanArray::from(flags)),
        };
        (name, array, true)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(arrays).expect("columns are as long");
    let file = File::create(path).expect("it can be made");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("it opens");
    writer.write(&batch).expect("it writes");
    writer.close().expect("it closes");
}
