//! Makes forged files.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow::compute::take;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use trackiops_schemas::columns::{META_CRC32C, PATH};
use trackiops_store::ParquetFile;

fn properties(of: &ParquetFile) -> parquet::file::properties::WriterPropertiesBuilder {
    let pairs = of.key_values().cloned().unwrap_or_default();
    let pairs = pairs.into_iter().filter(|pair| pair.key != META_CRC32C);
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(pairs.collect()))
}

fn first(of: &ParquetFile) -> RecordBatch {
    of.batches(|_| true).unwrap().next().unwrap().unwrap()
}

/// The rows of a Parquet file, written like by another program.
pub fn rewritten(file: &Path) -> Vec<u8> {
    let file = ParquetFile::open(file).unwrap();
    let mut bytes = Vec::new();
    let written = ArrowWriter::try_new(
        &mut bytes,
        file.schema().clone(),
        Some(properties(&file).build()),
    );
    let mut writer = written.unwrap();
    writer.write(&first(&file)).unwrap();
    writer.close().unwrap();
    bytes
}

/// Repeats the first row of a file, with paths of `length` bytes that are all equal or all distinct.
pub fn table(from: &Path, to: &Path, rows: usize, length: usize, differ: bool) {
    let from = ParquetFile::open(from).unwrap();
    let batch = first(&from);
    let properties = properties(&from)
        .set_max_row_group_row_count(Some(4096))
        .build();
    let to = File::create(to).unwrap();
    let mut writer = ArrowWriter::try_new(to, batch.schema(), Some(properties)).unwrap();
    let mut left = rows;
    while left > 0 {
        let count = left.min(4096);
        let same = UInt32Array::from(vec![0; count]);
        let schema = batch.schema();
        let column = |place: usize| match schema.field(place).name() == PATH {
            true => Arc::new(StringArray::from_iter_values((0..count).map(|row| {
                let number = if differ { left - row } else { 0 };
                format!("/{number:0length$}")
            }))) as ArrayRef,
            false => take(batch.column(place), &same, None).unwrap(),
        };
        let columns = (0..batch.num_columns()).map(column);
        let batch = RecordBatch::try_new(batch.schema(), columns.collect()).unwrap();
        writer.write(&batch).unwrap();
        left -= count;
    }
    writer.close().unwrap();
}

/// The packets of a pcap file with times in ns, as pcapng.
pub fn pcapng(pcap: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let length = (12 + body.len() + padding.len()) as u32;
        let (kind, length) = (kind.to_le_bytes(), length.to_le_bytes());
        [&kind[..], &length, body, &padding, &length].concat()
    };
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let mut file = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    // Link type and snapshot length; times are in ns.
    file.extend(block(
        1,
        &words(&[word(pcap, 20), 65535, 1 << 16 | 9, 9, 0]),
    ));
    let mut rest = &pcap[24..];
    while rest.len() >= 16 {
        let (s, ns, length) = (word(rest, 0), word(rest, 4), word(rest, 8));
        let time = u64::from(s) * 1_000_000_000 + u64::from(ns);
        let (packet, behind) = rest[16..].split_at(length as usize);
        let head = words(&[0, (time >> 32) as u32, time as u32, length, length]);
        file.extend(block(6, &[&head[..], packet].concat()));
        rest = behind;
    }
    file
}

/// Mutants of a file: bytes replaced by extreme ones, mostly where lengths are; or parts removed, repeated or cut off. The same mutants
/// every time.
pub fn mutants(content: &[u8], count: usize) -> impl Iterator<Item = Vec<u8>> {
    const LENGTHS: [&[u8]; 5] = [
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0x7f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[0; 4],
        &[0x80, 0x80, 0x80, 0x80, 0x08],
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ content.len() as u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below.max(1)
    };
    (0..count).map(move |number| {
        let mut bytes = content.to_vec();
        for _ in 0..=random(3) {
            let end = bytes.len();
            let at = match random(3) {
                0 => random(end.min(64)),
                1 => end.saturating_sub(1 + random(end.min(4096))),
                _ => random(end),
            };
            match number % 4 {
                0 => {
                    let length = LENGTHS[random(LENGTHS.len())];
                    let upto = (at + length.len()).min(end);
                    bytes.splice(at..upto, length.iter().copied());
                }
                1 if at < end => bytes[at] ^= 1 << random(8),
                2 => {
                    let part = bytes[at..(at + 1 + random(512)).min(end)].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes
    })
}
