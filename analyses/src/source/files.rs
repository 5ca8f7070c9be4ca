//! Parquet files that others wrote, or `trackiops export`. No other code of this crate knows Parquet's reader.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
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

/// Requests, which stores have as well.
pub const REQUESTS: Kind = Kind {
    name: "requests",
    mark: "latency_ns",
    remedy: "`trackiops record --requests` and `trackiops import` keep them in a store, and `trackiops export --requests` writes them",
};
/// Messages of a capture.
pub const MESSAGES: Kind = Kind {
    name: "records",
    mark: "is_request",
    remedy: "`trackiops import pcap --messages` writes them; a store has READs and WRITEs (requests) and sums of others",
};
/// Attributes in replies of a capture.
pub const ATTRIBUTES: Kind = Kind {
    name: "attrs",
    mark: "dir_fh",
    remedy: "`trackiops import pcap --messages` writes what replies tell of files: sizes, types, names and parents",
};
/// READs and WRITEs of a capture, also those of which one side is missing.
pub const IOS: Kind = Kind {
    name: "io",
    mark: "is_read",
    remedy: "requests can take its place",
};
/// Packets of a capture.
pub const PACKETS: Kind = Kind {
    name: "packets",
    mark: "wire_bytes",
    remedy: "only a capture has packets; requests can be analyzed with --of requests",
};

/// A kind of rows: how its file is called in a directory, and a column that tells it from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name of the file without its ending.
    pub name: &'static str,
    /// A column that only this kind has.
    pub mark: &'static str,
    /// What would supply such rows.
    pub remedy: &'static str,
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

    /// As [`Self::of`]; none is an error.
    pub fn needed(
        &self,
        kind: Kind,
        analysis: &'static str,
    ) -> Result<Vec<PathBuf>, AnalysisError> {
        let paths = self.of(kind)?;
        match paths.is_empty() {
            false => Ok(paths),
            true => Err(kind.lacking(analysis, self.name())),
        }
    }
}

impl Kind {
    /// The error that a source has no such rows.
    pub fn lacking(self, analysis: &'static str, source_name: String) -> AnalysisError {
        AnalysisError::Lacks {
            analysis,
            needs: format!(
                "rows of {}.parquet (with the column {})",
                self.name, self.mark
            ),
            source_name,
            remedy: self.remedy,
        }
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

/// What its metadata has under a key.
pub fn metadata_of(path: &Path, key: &str) -> Result<Option<String>, AnalysisError> {
    let reader = open(path)?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let found = pairs.into_iter().flatten().find(|pair| pair.key == key);
    Ok(found.and_then(|pair| pair.value.clone()))
}

/// Batches of rows of a file, with those of the wanted columns that it has.
pub struct Batches {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl Batches {
    /// Opens a file.
    pub fn open(path: &Path, wanted: &[&str]) -> Result<Self, AnalysisError> {
        let reader = open(path)?;
        let fields = reader.parquet_schema().root_schema().get_fields();
        let places = fields.iter().enumerate();
        let places = places.filter(|(_, field)| wanted.contains(&field.name()));
        let places: Vec<_> = places.map(|(place, _)| place).collect();
        let columns = ProjectionMask::roots(reader.parquet_schema(), places);
        let reader = reader.with_projection(columns).with_batch_size(BATCH_ROWS);
        Ok(Self {
            path: path.to_owned(),
            reader: caught(|| reader.build()).map_err(|why| of_file(path, &why))?,
        })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, AnalysisError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = caught(|| self.reader.next().transpose());
        batch.map_err(|why| of_file(&self.path, &why)).transpose()
    }
}

/// Passes on the rows of a file, with those of the wanted columns that it has.
pub fn read(
    path: &Path,
    wanted: &[&str],
    mut each: impl FnMut(&RecordBatch) -> Result<(), AnalysisError>,
) -> Result<(), AnalysisError> {
    for batch in Batches::open(path, wanted)? {
        each(&batch?)?;
    }
    Ok(())
}
