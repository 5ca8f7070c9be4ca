//! A question about some files touches only their pages.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use trackiops_query::coverage::note::Note;
use trackiops_query::{Explain, FileSelector, Outcome, ask};
use trackiops_schemas::row::{ClosedWindow, Direction, Row};
use trackiops_store::{Dataset, NameSeen, Names, Snapshot};
use trackiops_testkit::generated::{THREE, windows};
use trackiops_testkit::questions::{found, question, range, rows, select};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::{file, window};

/// A block has a checksum.
const BLOCK_BYTES: u64 = 8 << 10;

/// Overwrites every block that only has data pages without a row of `keep`. Returns the number of blocks.
fn wreck_pages_beside(path: &std::path::Path, keep: &[std::ops::Range<u64>]) -> usize {
    let file = File::open(path).unwrap();
    let metadata = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = metadata.parse_and_finish(&file).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let mut unwanted = Vec::new();
    let mut group_start = 0_u64;
    for group in 0..metadata.num_row_groups() {
        let group_rows = metadata.row_group(group).num_rows() as u64;
        let index = metadata.page_index_for_row_group(group);
        for column in 0..metadata.row_group(group).num_columns() {
            let column = index.offset_index(column).unwrap();
            let pages = column.page_locations();
            for (i, page) in pages.iter().enumerate() {
                let first = group_start + page.first_row_index as u64;
                let next = pages
                    .get(i + 1)
                    .map_or(group_rows, |next| next.first_row_index as u64);
                let end = group_start + next;
                if keep
                    .iter()
                    .all(|range| range.end <= first || range.start >= end)
                {
                    let start = page.offset as u64;
                    unwanted.push(start..start + page.compressed_page_size as u64);
                }
            }
        }
        group_start += group_rows;
    }
    unwanted.sort_by_key(|page| page.start);
    let mut wrecked = 0;
    let mut start = 0;
    let runs = unwanted.chunk_by(|page, next| page.end == next.start);
    for run in runs.map(|run| run[0].start..run[run.len() - 1].end) {
        start = run.start.next_multiple_of(BLOCK_BYTES).max(start);
        while start + BLOCK_BYTES <= run.end {
            file.write_all_at(&[0xFF; BLOCK_BYTES as usize], start)
                .unwrap();
            wrecked += 1;
            start += BLOCK_BYTES;
        }
    }
    wrecked
}

/// Asks for the files that have one of these names, before and after the pages of all others are wrecked.
fn pages_of_other_files_are_not_read(selector: FileSelector, names: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    // Many rows in one journal, so that each of its columns has several pages.
    let recorded = windows(1, THREE, 1000, 100, 600);
    record(dir.path(), options_of("a", "1s", "2h"), &recorded);
    let mut asked = question(dir.path());
    asked.files = vec![selector];
    asked.step = Some("1s".parse().unwrap());
    let before = rows(&found(&asked));
    assert!(before.len() > 30 * names.len());

    let snapshot = Snapshot::open(dir.path()).unwrap();
    let mut keys = Vec::new();
    let mut add = |name: NameSeen| keys.push(name.key);
    for name in names {
        snapshot.names(Names::Exactly(name), &mut add).unwrap();
    }
    keys.sort_unstable();
    let mut wrecked = 0;
    for segment in snapshot.segments(Dataset::Rollup, None).unwrap() {
        wrecked += wreck_pages_beside(&segment.path, &segment.files.unpack().rows_of(&keys));
    }
    assert!(wrecked > 20, "{wrecked}");
    assert!(rows(&found(&asked)) == before);
    asked.files.clear();
    let Outcome::Nothing { notes, .. } = ask(&asked).unwrap() else {
        panic!("all there is was damaged")
    };
    let damaged = notes.iter().find_map(|note| match note {
        Note::Damaged { path, covers, .. } => path.to_str().zip(*covers),
        _ => None,
    });
    let (path, (_, files)) = damaged.unwrap();
    assert!(path.ends_with(".parquet") && files > 100, "{path} {files}");
}

#[test]
fn a_name_decodes_only_the_pages_of_its_file() {
    pages_of_other_files_are_not_read(select("/mnt/f4"), &["/mnt/f4"]);
}

#[test]
fn a_pattern_decodes_only_the_pages_of_its_files() {
    pages_of_other_files_are_not_read(select("/m*/f19[78]"), &["/mnt/f197", "/mnt/f198"]);
}

/// 40 files in each second, with latencies in many buckets.
fn of_long_histograms(second: i64) -> ClosedWindow {
    let mut direction = Direction::default();
    for bucket in 0..32_u64 {
        let latency_ns = (50_000 + second.unsigned_abs()) << (bucket / 4);
        let latency_ns = latency_ns + (latency_ns >> 2) * (bucket % 4);
        direction.requests += 1;
        direction.bytes += 4096;
        direction.latency.record(latency_ns);
        direction.latency_ns_sum += latency_ns;
        direction.latency_ns_max = direction.latency_ns_max.max(latency_ns);
    }
    let row = Row {
        read: direction.clone(),
        write: direction,
        ..Row::default()
    };
    let rows = (1..=40).map(|fileid| {
        (
            file(fileid, 49, Some(&format!("/mnt/{fileid}"))),
            row.clone(),
        )
    });
    window(THREE + second * 1000, rows.collect())
}

#[test]
fn of_a_long_segment_a_short_time_of_all_files_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let recorded: Vec<_> = (0..900).map(of_long_histograms).collect();
    record(dir.path(), options_of("a", "1s", "2h"), &recorded);
    let mut asked = question(dir.path());
    asked.step = Some("1s".parse().unwrap());
    for (since, until) in [(0, 1), (451, 453), (700, 760), (0, 900)] {
        let times = THREE + since * 1000..THREE + until * 1000;
        asked.range = range(times.start, times.end);
        asked.explain = Explain::on();
        let answer = found(&asked);
        assert_eq!(answer.notes, [], "{since} to {until}");
        let expected = recorded
            .iter()
            .filter(|window| times.contains(&window.start.0));
        let expected: Vec<_> = expected.flat_map(|window| &window.rows).collect();
        assert_eq!(answer.rows.len(), expected.len());
        for row in &answer.rows {
            let sum = row.sum.row();
            let key = (row.time.0 - THREE) / 1000;
            assert_eq!(
                sum.read.latency,
                of_long_histograms(key).rows[0].row.read.latency
            );
        }
        let read = asked.explain.explained().unwrap().rows_read();
        assert_eq!(
            (read.rows, read.rows_stored),
            (expected.len() as u64, 36_000)
        );
    }
}
