//! Reads files that [`super::Writer`] wrote.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_ipc::reader::FileReader;
use parquet::file::metadata::KeyValue;
use trackiops_schemas::columns::{META_DATASET, META_FORMAT, META_GRANULARITY, META_RANGE};
use trackiops_schemas::regular_file::open_regular;
use trackiops_store::{ParquetBatches, ParquetFile, RecordEnds, RecordLimit, StoreError, caught};

use super::{Kind, Texts, arrays, arrow_file, text};

/// Rows per batch of CSV, and bytes of its texts.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 16 << 20;

/// A file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused to open or read the file.
    #[error("cannot read {path}: {source}; check the name and who may read it")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file has another format, or is damaged.
    #[error("{path} is no whole file of rows: {why}; name one that `trackiops export` wrote")]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// Reads batches of rows from a file.
pub struct Reader {
    kind: Kind,
    schema: SchemaRef,
    path: PathBuf,
    described: Vec<(String, String)>,
    batches: Batches,
}

struct CsvReader {
    reader: csv::Reader<RecordLimit<File>>,
    ends: RecordEnds,
}

enum Batches {
    Parquet(ParquetBatches),
    Arrow(FileReader<File>),
    Csv(Box<CsvReader>),
}

impl Reader {
    /// Opens a file, and detects its format from its content. CSV does not contain types, so its columns must be among `known`.
    pub fn open(path: &Path, known: &[SchemaRef]) -> Result<Self, ReadError> {
        let file = open_regular(path).map_err(|source| ReadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::of(file, path, known)
    }

    /// Like [`Self::open`], for an open file at its beginning.
    pub fn of(mut file: File, path: &Path, known: &[SchemaRef]) -> Result<Self, ReadError> {
        let io = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let content = |why: String| ReadError::Content {
            path: path.to_owned(),
            why,
        };
        let mut magic = Vec::new();
        file.by_ref().take(6).read_to_end(&mut magic).map_err(io)?;
        file.rewind().map_err(io)?;
        let mut described = Vec::new();
        let (kind, schema, batches) = match magic.as_slice() {
            [b'P', b'A', b'R', b'1', ..] => {
                let parquet = ParquetFile::of(file, path);
                let parquet = parquet.map_err(|error| content(reason(error)))?;
                let schema = Arc::clone(parquet.schema());
                for KeyValue { key, value } in parquet.key_values().into_iter().flatten() {
                    if [META_FORMAT, META_DATASET, META_GRANULARITY, META_RANGE]
                        .contains(&key.as_str())
                    {
                        described.push((key.clone(), value.clone().unwrap_or_default()));
                    }
                }
                let batches = parquet.batches(|_| true);
                let batches = batches.map_err(|error| content(reason(error)))?;
                (Kind::Parquet, schema, Batches::Parquet(batches))
            }
            b"ARROW1" => {
                caught(|| arrow_file::check(&file)).map_err(content)?;
                let reader = caught(|| FileReader::try_new(file, None)).map_err(content)?;
                (Kind::Arrow, reader.schema(), Batches::Arrow(reader))
            }
            _ => {
                let (file, ends) = RecordLimit::new(file);
                let mut reader = csv::Reader::from_reader(file);
                let header = reader.headers();
                let header = header.map_err(|error| content(error.to_string()))?;
                let schema = schema_of(header, known).map_err(content)?;
                let reader = Box::new(CsvReader { reader, ends });
                (Kind::Csv(Texts::AsTheyAre), schema, Batches::Csv(reader))
            }
        };
        Ok(Self {
            kind,
            schema: plain(&schema),
            path: path.to_owned(),
            described,
            batches,
        })
    }

    /// Metadata of the file from [`super::Writer::describe`].
    pub fn described(&self) -> impl Iterator<Item = (&str, String)> {
        let pairs = self.described.iter();
        pairs.map(|(key, value)| (key.as_str(), value.clone()))
    }

    /// Format of the file.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Columns of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, String> {
        let batch = match &mut self.batches {
            Batches::Parquet(batches) => batches.next().transpose().map_err(reason),
            Batches::Arrow(reader) => caught(|| reader.next().transpose()),
            Batches::Csv(reader) => return of_lines(reader, &self.schema),
        };
        let batch = batch?.map(|batch| batch.with_schema(Arc::clone(&self.schema)));
        batch.transpose().map_err(|error| error.to_string())
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let path = &self.path.clone();
        let content = |why| ReadError::Content {
            path: path.clone(),
            why,
        };
        self.read().map_err(content).transpose()
    }
}

/// Why a file cannot be read, without its path.
fn reason(error: StoreError) -> String {
    match error {
        StoreError::Unreadable { why, .. } => why,
        other => other.to_string(),
    }
}

/// Drops metadata of the whole file, because a writer of another file adds its own.
fn plain(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().clone()))
}

/// Looks up the columns of a header.
fn schema_of(header: &csv::StringRecord, known: &[SchemaRef]) -> Result<SchemaRef, String> {
    let fields = |schema: &SchemaRef| {
        let fields = header.iter().map(|name| schema.field_with_name(name).ok());
        fields
            .map(|field| field.cloned())
            .collect::<Option<Vec<_>>>()
    };
    match known.iter().find_map(fields) {
        // An export has each column once.
        Some(fields)
            if fields.len() > known.iter().map(|of| of.fields().len()).max().unwrap_or(0) =>
        {
            Err("its first line names columns twice".into())
        }
        Some(fields) => Ok(Arc::new(Schema::new(fields))),
        None => Err("its first line does not name the columns of an export".into()),
    }
}

fn of_lines(csv: &mut CsvReader, schema: &SchemaRef) -> Result<Option<RecordBatch>, String> {
    let mut columns = vec![Vec::new(); schema.fields().len()];
    let (mut rows, mut bytes) = (0, 0);
    let mut record = csv::StringRecord::new();
    while rows < BATCH_ROWS && bytes < BATCH_BYTES {
        let more = csv.reader.read_record(&mut record);
        if !more.map_err(|error| error.to_string())? {
            break;
        }
        csv.ends.ended();
        bytes += record.as_slice().len();
        let fields = schema.fields().iter().zip(&record);
        for ((field, text), values) in fields.zip(&mut columns) {
            let value = text::parse(field.data_type(), text);
            let line = record.position().map_or(0, csv::Position::line);
            values.push(value.ok_or_else(|| {
                format!(
                    "line {line}: `{text}` is nothing for the column {}",
                    field.name()
                )
            })?);
        }
        rows += 1;
    }
    if rows == 0 {
        return Ok(None);
    }
    let fields = schema.fields().iter().zip(columns);
    let arrays = fields.map(|(field, values)| arrays::array(field.data_type(), values));
    let arrays = arrays.collect::<Result<_, _>>();
    let batch = arrays.and_then(|arrays| RecordBatch::try_new(Arc::clone(schema), arrays));
    batch.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Seek as _, Write as _};

    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;

    use super::super::Writer;
    use super::*;

    /// A small file with all types of exports: numbers, texts with a dictionary, and lists.
    fn file(kind: Kind) -> Vec<u8> {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
            (0..9).map(|row| (row != 4).then(|| vec![Some(row); row as usize])),
        );
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter(0..9))),
            ("path", Arc::new(StringArray::from(vec!["/mnt/a"; 9]))),
            ("buckets", Arc::new(lists)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(kind, &batch.schema(), &mut bytes).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        bytes
    }

    /// Its batches, or the error.
    fn batches(bytes: &[u8]) -> Result<Vec<RecordBatch>, ReadError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Reader::of(file, Path::new("/day"), &[])?.collect()
    }

    #[test]
    fn a_damaged_file_is_an_error_or_has_rows() {
        for kind in [Kind::Parquet, Kind::Arrow] {
            let whole = file(kind);
            let rows = batches(&whole).unwrap();
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 9);
            let mut errors = 0;
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 0xff;
                match batches(&bytes) {
                    Err(_) => errors += 1,
                    // If the damage hits the program's name, the file counts as one of another program, with the same rows.
                    Ok(read) => assert!(kind != Kind::Parquet || read == rows, "byte {at}"),
                }
            }
            assert!(errors > 0);
            assert!(batches(&whole[..whole.len() / 2]).is_err());
        }
    }
}
