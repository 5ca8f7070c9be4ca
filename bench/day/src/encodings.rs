//! Rewrites the columns of a store's segments in every encoding, and prints the sizes: `trackiops-bench-encodings --store DIR`. Row groups,
//! pages and compression are like in the store.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use clap::Parser;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::time::Granularity;
use trackiops_store::{Dataset, Snapshot};

#[derive(Parser)]
#[command(about)]
struct Args {
    /// A store that nobody writes
    #[arg(long)]
    store: PathBuf,
    /// Segments of which granularity
    #[arg(long, default_value = "1s")]
    granularity: Granularity,
    /// How many of them, the earliest first
    #[arg(long, default_value_t = 4)]
    segments: usize,
}

/// The store's values (`store/src/segment/writer.rs`).
const ROW_GROUP_ROWS: usize = 32 << 10;
const PAGE_ROWS: usize = 2048;
const ZSTD_LEVEL: i32 = 3;
/// Levels that are tried for all columns together.
const ZSTD_LEVELS: [i32; 5] = [1, 3, 6, 9, 15];

/// With a dictionary, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Dictionary,
    Plain,
    Delta,
    DeltaBytes,
    Split,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Dictionary,
        Self::Plain,
        Self::Delta,
        Self::DeltaBytes,
        Self::Split,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Dictionary => "dictionary",
            Self::Plain => "plain",
            Self::Delta => "delta packed",
            Self::DeltaBytes => "delta bytes",
            Self::Split => "bytes split",
        }
    }

    /// The Parquet encoding, if the type supports it.
    fn encoding(self, of: Type) -> Option<Encoding> {
        let is_integer = matches!(of, Type::INT32 | Type::INT64);
        match self {
            Self::Dictionary if of != Type::BOOLEAN => Some(Encoding::RLE_DICTIONARY),
            Self::Plain => Some(Encoding::PLAIN),
            Self::Delta if is_integer => Some(Encoding::DELTA_BINARY_PACKED),
            Self::DeltaBytes if of == Type::BYTE_ARRAY => Some(Encoding::DELTA_BYTE_ARRAY),
            Self::Split if is_integer => Some(Encoding::BYTE_STREAM_SPLIT),
            _ => None,
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let snapshot = Snapshot::open(&args.store)?;
    let stored = snapshot.segments(Dataset::Rollup, None)?;
    let stored = stored.iter().filter(|s| s.granularity == args.granularity);
    let segments = stored.take(args.segments).map(|s| Segment::read(&s.path));
    let segments: Vec<_> = segments.collect::<Result<_>>()?;
    let entries: usize = segments.iter().map(|segment| segment.rows()).sum();
    ensure!(entries > 0, "{} has no such entries", args.store.display());
    let histograms = ["read_latency_hist", "write_latency_hist"];
    let buckets = histograms
        .map(|column| buckets(&segments, column))
        .iter()
        .sum::<f64>();
    let is_histogram = |chunk: &&ColumnChunkMetaData| {
        let root = chunk.column_path().parts().first();
        root.is_some_and(|root| histograms.contains(&root.as_str()))
    };
    let chunks = || segments.iter().flat_map(Segment::chunks);
    let (bytes, in_buckets) = (size(chunks()), size(chunks().filter(is_histogram)));
    let per_entry = |number: f64| number / entries as f64;
    println!(
        "{entries} entries of {} in {} segments: {:.1} bytes each, of which {:.1} are for {:.1} occupied buckets of histograms \
         ({:.2} bytes a bucket) and {:.1} for all else.\n",
        args.granularity,
        segments.len(),
        per_entry(bytes as f64),
        per_entry(in_buckets as f64),
        per_entry(buckets),
        in_buckets as f64 / buckets,
        per_entry((bytes - in_buckets) as f64),
    );
    by_column(&segments, entries)?;
    by_level(&segments, entries)
}

/// Bytes per entry of each column in each encoding.
fn by_column(segments: &[Segment], entries: usize) -> Result<()> {
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    println!("| column | as written | {} |", names.join(" | "));
    println!("|---|---|{}", "---|".repeat(names.len()));
    let leaves: Vec<_> = segments[0]
        .metadata
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|leaf| (leaf.path().clone(), leaf.physical_type()))
        .collect();
    for (path, of) in leaves {
        let chunks = segments.iter().flat_map(Segment::chunks);
        let written = size(chunks.filter(|chunk| *chunk.column_path() == path));
        let mut cells = vec![path.string(), cell(written, entries)];
        for kind in Kind::ALL {
            let Some(encoding) = kind.encoding(of) else {
                cells.push(String::new());
                continue;
            };
            let mut bytes = 0;
            for segment in segments {
                bytes += segment.with(&path, encoding)?;
            }
            cells.push(cell(bytes, entries));
        }
        println!("| {} |", cells.join(" | "));
    }
    Ok(())
}

fn cell(bytes: u64, entries: usize) -> String {
    format!("{:.3}", bytes as f64 / entries as f64)
}

/// Bytes per entry and time for all columns in their current encodings, by level of compression.
fn by_level(segments: &[Segment], entries: usize) -> Result<()> {
    println!("\n| compression | bytes per entry | CPU time per entry, us |");
    println!("|---|---|---|");
    let levels = ZSTD_LEVELS.iter().map(|level| Some(*level));
    for level in [None].into_iter().chain(levels) {
        let compression = match level {
            None => Compression::UNCOMPRESSED,
            Some(level) => zstd(level)?,
        };
        let before = cpu_time();
        let mut bytes = 0;
        for segment in segments {
            bytes += segment.all(compression)?;
        }
        let took = cpu_time().saturating_sub(before);
        println!(
            "| {} | {} | {:.2} |",
            level.map_or("none".to_owned(), |level| format!("zstd {level}")),
            cell(bytes, entries),
            took.as_secs_f64() * 1e6 / entries as f64
        );
    }
    Ok(())
}

fn zstd(level: i32) -> Result<Compression> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(level)?))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.cast_unsigned() as u32,
    )
}

/// Number of elements in the lists of a column.
fn buckets(segments: &[Segment], column: &str) -> f64 {
    let batches = segments.iter().flat_map(|segment| &segment.batches);
    let lists = batches.filter_map(|batch| batch.column_by_name(column));
    let lengths = lists.filter_map(|lists| {
        let lists = lists.as_any().downcast_ref::<arrow::array::ListArray>()?;
        let offsets = lists.offsets();
        Some(f64::from(offsets.last() - offsets.first()))
    });
    lengths.sum()
}

fn chunks(of: &ParquetMetaData) -> impl Iterator<Item = &ColumnChunkMetaData> {
    of.row_groups().iter().flat_map(|group| group.columns())
}

/// Compressed bytes.
fn size<'a>(chunks: impl Iterator<Item = &'a ColumnChunkMetaData>) -> u64 {
    chunks
        .map(|chunk| chunk.compressed_size().unsigned_abs())
        .sum()
}

/// A segment in memory.
struct Segment {
    batches: Vec<RecordBatch>,
    metadata: Arc<ParquetMetaData>,
}

impl Segment {
    fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .with_context(|| format!("{} is no Parquet file", path.display()))?;
        let metadata = Arc::clone(reader.metadata());
        let batches = reader.with_batch_size(PAGE_ROWS).build()?;
        Ok(Self {
            batches: batches.collect::<Result<_, _>>()?,
            metadata,
        })
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn chunks(&self) -> impl Iterator<Item = &ColumnChunkMetaData> {
        chunks(&self.metadata)
    }

    /// Size of a column in this encoding.
    fn with(&self, path: &ColumnPath, encoding: Encoding) -> Result<u64> {
        let root = path.parts().first().context("a column has no name")?;
        let properties = self.properties(zstd(ZSTD_LEVEL)?, &[(path.clone(), encoding)])?;
        let index = self.batches[0].schema().index_of(root)?;
        let written = write(&self.batches, &[index], properties)?;
        Ok(size(
            chunks(&written).filter(|chunk| chunk.column_path() == path),
        ))
    }

    /// Size of all columns in their encodings.
    fn all(&self, compression: Compression) -> Result<u64> {
        let mut encodings = BTreeMap::new();
        for column in self.chunks() {
            let is_packed = column
                .encodings()
                .any(|e| e == Encoding::DELTA_BINARY_PACKED);
            if is_packed {
                encodings.insert(column.column_path().string(), column.column_path().clone());
            }
        }
        let encodings: Vec<_> = encodings
            .into_values()
            .map(|path| (path, Encoding::DELTA_BINARY_PACKED))
            .collect();
        let columns: Vec<_> = (0..self.batches[0].num_columns()).collect();
        let properties = self.properties(compression, &encodings)?;
        let written = write(&self.batches, &columns, properties)?;
        Ok(size(chunks(&written)))
    }

    fn properties(
        &self,
        compression: Compression,
        encodings: &[(ColumnPath, Encoding)],
    ) -> Result<WriterProperties> {
        let mut builder = WriterProperties::builder()
            .set_compression(compression)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(64 << 10)
            .set_write_batch_size(512)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
        for (path, encoding) in encodings {
            let is_dictionary = *encoding == Encoding::RLE_DICTIONARY;
            builder = builder.set_column_dictionary_enabled(path.clone(), is_dictionary);
            if !is_dictionary {
                builder = builder.set_column_encoding(path.clone(), *encoding);
            }
        }
        Ok(builder.build())
    }
}

fn write(
    batches: &[RecordBatch],
    columns: &[usize],
    properties: WriterProperties,
) -> Result<ParquetMetaData> {
    let schema: Arc<Schema> = Arc::new(batches[0].schema().project(columns)?);
    let mut writer = ArrowWriter::try_new(std::io::sink(), schema, Some(properties))?;
    for batch in batches {
        writer.write(&batch.project(columns)?)?;
    }
    Ok(writer.close()?)
}
