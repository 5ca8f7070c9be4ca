//! Parquet files of other tools or of `trackiops export`.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use trackiops_query::Range;
use trackiops_store::{ParquetBatches, ParquetFile, StoreError};

use crate::error::AnalysisError;

/// Ending of Parquet files.
const ENDING: &str = "parquet";

/// Files, and directories of files, from the command line.
#[derive(Clone, Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// Restricts rows to this time.
    pub range: Range,
}

/// Requests; stores have them too.
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
/// READs and WRITEs of a capture, including those whose call or reply is missing.
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

/// A kind of rows: the name of its file in a directory, and a column that distinguishes it from the other kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Name of the file without its ending.
    pub name: &'static str,
    /// A column that only this kind has.
    pub mark: &'static str,
    /// How to supply such rows.
    pub remedy: &'static str,
}

impl Files {
    /// These files, and the files in these directories.
    pub fn new(paths: Vec<PathBuf>, range: Range) -> Self {
        Self { paths, range }
    }

    /// Their paths, for messages.
    pub fn name(&self) -> String {
        let names = self.paths.iter().map(|path| path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The files with rows of a kind: named files, `NAME.parquet` of a directory, or else all Parquet files in the directory, sorted by
    /// name.
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

    /// Like [`Self::of`]; fails if there are none.
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
    /// The error for a source without such rows.
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

/// The error contains the path already.
fn unreadable(path: &Path) -> impl FnOnce(StoreError) -> AnalysisError + use<'_> {
    |error| match error {
        StoreError::Unreadable { why, .. } => of_file(path, &why),
        StoreError::Io { source, .. } => of_file(path, &source),
        other => of_file(path, &other),
    }
}

fn open(path: &Path) -> Result<ParquetFile, AnalysisError> {
    ParquetFile::open(path).map_err(unreadable(path))
}

/// Names of a file's columns.
pub fn columns_of(path: &Path) -> Result<Vec<String>, AnalysisError> {
    let file = open(path)?;
    let fields = file.schema().fields().iter();
    Ok(fields.map(|field| field.name().clone()).collect())
}

/// The value of a key in a file's metadata.
pub fn metadata_of(path: &Path, key: &str) -> Result<Option<String>, AnalysisError> {
    let file = open(path)?;
    let pairs = file.key_values();
    let found = pairs.into_iter().flatten().find(|pair| pair.key == key);
    Ok(found.and_then(|pair| pair.value.clone()))
}

/// Batches of rows of a file. Wanted columns that the file lacks are omitted.
pub struct Batches {
    path: PathBuf,
    batches: ParquetBatches,
}

impl Batches {
    /// Opens a file.
    pub fn open(path: &Path, wanted: &[&str]) -> Result<Self, AnalysisError> {
        let batches = open(path)?.batches(|name| wanted.contains(&name));
        Ok(Self {
            path: path.to_owned(),
            batches: batches.map_err(unreadable(path))?,
        })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, AnalysisError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(unreadable(&self.path)))
    }
}

/// Passes on the rows of a file. Wanted columns that the file lacks are omitted.
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
