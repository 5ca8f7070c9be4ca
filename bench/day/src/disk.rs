//! The size of a store on disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use trackiops_store::{Dataset, Snapshot};

/// The columns with the same content as the extractor's entry of 40 bytes: requests, bytes and latencies by direction.
const SIX_METRICS: [&str; 6] = [
    "read_requests",
    "read_bytes",
    "read_latency_us_sum",
    "write_requests",
    "write_bytes",
    "write_latency_us_sum",
];
/// Size of an entry in the extractor.
const PAPER_BYTES: f64 = 40.0;

/// Segments of one granularity.
#[derive(Default)]
struct Sizes {
    segments: u64,
    entries: u64,
    bytes: u64,
    columns: BTreeMap<String, u64>,
}

/// Bytes of journals not sealed yet.
pub fn journal_bytes(store: &Path) -> Result<u64> {
    Ok(files(&store.join("journal"))?
        .iter()
        .map(|(_, bytes)| bytes)
        .sum())
}

/// Prints the sizes of segments and catalog.
pub fn report(store: &Path) -> Result<()> {
    let all: u64 = files(store)?.iter().map(|(_, bytes)| bytes).sum();
    let catalog = files(store)?;
    let catalog = catalog
        .iter()
        .filter(|(path, _)| path.to_string_lossy().contains("catalog.db"));
    let catalog: u64 = catalog.map(|(_, bytes)| bytes).sum();
    println!(
        "catalog         {:6.1} MiB, {:.2} % of the store",
        catalog as f64 / f64::from(1 << 20),
        100.0 * catalog as f64 / all as f64
    );
    // Only current segments, without those that were merged.
    let snapshot = Snapshot::open(store)?;
    let segments = snapshot.segments(Dataset::Rollup, None)?;
    for granularity in snapshot.granularities() {
        let own = segments.iter().filter(|s| s.granularity == granularity);
        let own: Vec<_> = own.map(|segment| segment.path.as_path()).collect();
        print_sizes(&granularity.to_string(), &sizes(&own)?);
    }
    Ok(())
}

fn print_sizes(name: &str, sizes: &Sizes) {
    let entries = sizes.entries.max(1) as f64;
    let per_entry = |bytes: u64| bytes as f64 / entries;
    let six = SIX_METRICS
        .iter()
        .filter_map(|column| sizes.columns.get(*column))
        .sum();
    println!(
        "\nwindows of {name}: {} segments, {} entries, {:.2} bytes each ({:.2} times an entry of {PAPER_BYTES}); its six metrics {:.2}",
        sizes.segments,
        sizes.entries,
        per_entry(sizes.bytes),
        per_entry(sizes.bytes) / PAPER_BYTES,
        per_entry(six)
    );
    let mut columns: Vec<_> = sizes.columns.iter().collect();
    columns.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    for (column, bytes) in columns {
        println!("  {:8.3}  {column}", per_entry(*bytes));
    }
}

fn sizes(segments: &[&Path]) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    for path in segments {
        let file = File::open(path)?;
        sizes.segments += 1;
        sizes.bytes += file.metadata()?.len();
        let reader = SerializedFileReader::new(file)
            .with_context(|| format!("{} is no Parquet file", path.display()))?;
        for group in reader.metadata().row_groups() {
            sizes.entries += group.num_rows().unsigned_abs();
            for column in group.columns() {
                // The column of a list is that of its elements.
                let name = column
                    .column_path()
                    .parts()
                    .first()
                    .cloned()
                    .unwrap_or_default();
                *sizes.columns.entry(name).or_default() += column.compressed_size().unsigned_abs();
            }
        }
    }
    Ok(sizes)
}

/// The files below a directory, with their sizes.
fn files(directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => found.push((entry.path(), metadata.len())),
                // It was sealed meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}
