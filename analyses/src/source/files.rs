//! Parquet files that others wrote, or `trackiops export`. No other code of this crate knows Parquet's reader.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_query::Range;
use trackiops_store::caught;

use crate::error::AnalysisError;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 8192;
/// Ending of Parquet files.
const ENDING: &str = "parquet";

/// Files, and directories of files, as they were named.
#[derive(Clone, Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// Only rows of this time.
    pub range: Range,
}

/// A kind of rows: how its file is called in a directory, and a column that tells it from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name of the file without its ending.
    pub name: &'static str,
    /// A column that only this kind has.
    pub mark: &'static str,
}

impl Files {
    /// These files, or those in these directories.
    pub fn new(paths: Vec<PathBuf>, range: Range) -> Self {
        Self { paths, range }
    }

    /// Their names, for messages.
    pub fn name(&self) -> String {
        let names = self.paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The files with rows of a kind: those that are named, `NAME.parquet` of a directory, or else all Parquet files in it, in order of
    /// their names.
    pub fn of(&self, kind: Kind) -> Result<Vec<PathBuf>, AnalysisError> {
        let mut found = Vec::new();
        for path in &self.paths {
            if !path.is_dir() {
                found.push(path.clone());
                continue;
            }
            let own = path.join(kind.name).with_extension(ENDING);
            match own.is_file() {
                true => found.push(own),
                false => found.extend(parquet_in(path)?),
            }
        }
        let mut of_kind = Vec::new();
        for path in found {
            if columns_of(&path)?.iter().any(|name| name == kind.mark) {
                of_kind.push(path);
            }
        }
        Ok(of_kind)
    }
}

fn parquet_in(dir: &Path) -> Result<Vec<PathBuf>, AnalysisError> {
    let entries = fs::read_dir(dir).map_err(|error| of_file(dir, &error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| of_file(dir, &error))?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn of_file(path: &Path, why: &dyn ToString) -> AnalysisError {
    AnalysisError::File {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>, AnalysisError> {
    let file = File::open(path).map_err(|error| of_file(path, &error))?;
    caught(|| ParquetRecordBatchReaderBuilder::try_new(file)).map_err(|why| of_file(path, &why))
}

/// Names of its columns.
pub fn columns_of(path: &Path) -> Result<Vec<String>, AnalysisError> {
    let reader = open(path)?;
    let fields = reader.schema().fields().iter();
    Ok(fields.map(|field| field.name().clone()).collect())
}

/// Passes on the rows of a file, with those of the wanted columns that it has.
pub fn read(
    path: &Path,
    wanted: &[&str],
    mut each: impl FnMut(&RecordBatch) -> Result<(), AnalysisError>,
) -> Result<(), AnalysisError> {
    let reader = open(path)?;
    let fields = reader.parquet_schema().root_schema().get_fields();
    let places = fields.iter().enumerate();
    let places = places.filter(|(_, field)| wanted.contains(&field.name()));
    let places: Vec<_> = places.map(|(place, _)| place).collect();
    let columns = ProjectionMask::roots(reader.parquet_schema(), places);
    let reader = reader.with_projection(columns).with_batch_size(BATCH_ROWS);
    let mut batches = caught(|| reader.build()).map_err(|why| of_file(path, &why))?;
    loop {
        let batch = caught(|| batches.next().transpose()).map_err(|why| of_file(path, &why))?;
        match batch {
            Some(batch) => each(&batch)?,
            None => return Ok(()),
        }
    }
}
