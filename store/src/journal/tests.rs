//! Journals with valid checksums but wrong lengths. The file's real length bounds the time to read them, and data that
//! is only claimed takes no memory.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trackiops_schemas::ops::{Operation, OperationRow};
use trackiops_schemas::row::{ClosedWindow, Direction};
use trackiops_testkit::windows::{T0, file, reads, window, windows};

use super::cursor;
use super::definitions::MOST_DEFINED;
use super::file::JournalFile;
use super::frame::{FRAME_PREFIX_BYTES, Kind, NewFrames};
use super::header::Header;
use super::payload::put_window_head;
use super::scan::JournalScan;
use crate::error::StoreError;
use crate::identity::Identity;
use crate::unit_tests::options;
use crate::varint::{put_i64, put_str, put_u64};
use crate::writer::Writer;
use crate::{Snapshot, layout};

/// Reading 8 MiB takes milliseconds. Reading it in quadratic time takes hours.
const SOON: Duration = Duration::from_secs(20);
const LARGE: usize = 8 << 20;

/// A journal with chosen frames.
struct Lying {
    _dir: tempfile::TempDir,
    path: PathBuf,
    frames: NewFrames,
    header: Vec<u8>,
}

impl Lying {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("journal")).unwrap();
        let options = options("h");
        let finest = options.granularities.finest();
        let (header, seed) = Header::new(Identity::default(), &options, 1, finest)
            .unwrap()
            .encode();
        let mut frames = NewFrames::new(seed);
        frames.begin(header.len() as u64);
        Self {
            path: dir.path().join("journal/1.tij"),
            _dir: dir,
            frames,
            header,
        }
    }

    /// Adds the prefix of a frame that claims this length.
    fn claim(&mut self, length: u32, kind: Kind) {
        let begin = self.frames.bytes().len();
        self.frames.extend(&[0; FRAME_PREFIX_BYTES]);
        self.frames.seal(begin, length, kind.into());
    }

    fn put(&mut self, kind: Kind, payload: impl FnOnce(&mut Vec<u8>)) {
        self.frames.put(kind, payload).unwrap();
    }

    fn scan(&self) -> Result<JournalScan, StoreError> {
        let bytes = [&self.header, self.frames.bytes()].concat();
        fs::write(&self.path, bytes).unwrap();
        let began = Instant::now();
        let scan = JournalScan::new(JournalFile::open(&self.path).unwrap().unwrap());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        scan.map(Option::unwrap)
    }

    fn refused(&self) -> String {
        self.scan().unwrap_err().to_string()
    }
}

fn head(out: &mut Vec<u8>, rows: u64) {
    let empty: ClosedWindow = window(0, Vec::new());
    let mut head = Vec::new();
    put_window_head(&mut head, &empty, 0);
    // The numbers of rows and of files take a byte each.
    head.truncate(head.len() - 2);
    out.extend(head);
    put_u64(out, rows);
    put_u64(out, 0);
}

#[test]
fn frames_that_claim_gigabytes_are_torn() {
    for length in [u32::MAX, 1 << 30, 1] {
        let mut lying = Lying::new();
        lying.put(Kind::Window, |out| head(out, 0));
        lying.claim(length, Kind::Definitions);
        let scan = lying.scan().unwrap();
        assert_eq!(scan.windows.len(), 1);
        assert_eq!(scan.torn_bytes, FRAME_PREFIX_BYTES as u64);
    }
}

#[test]
fn a_hole_of_any_length_is_stepped_over() {
    let mut lying = Lying::new();
    lying.put(Kind::Window, |out| head(out, 0));
    let whole = lying.scan().unwrap();
    let hole = 1 << 40;
    let lengthen = || {
        let file = fs::File::options().write(true).open(&lying.path);
        file.unwrap().set_len(hole).unwrap();
        JournalFile::open(&lying.path).unwrap().unwrap()
    };
    let scan = JournalScan::new(lengthen()).unwrap().unwrap();
    assert_eq!(scan.windows.len(), whole.windows.len());
    assert_eq!(scan.torn_bytes, hole - whole.journal.bytes);
    // In an otherwise empty file, no header is searched for.
    fs::write(&lying.path, "").unwrap();
    let _ = JournalScan::new(lengthen());
}

#[test]
fn each_place_may_look_like_a_frame_that_has_all_the_rest() {
    let mut nested = Lying::new();
    while nested.frames.bytes().len() < LARGE {
        let left = LARGE - nested.frames.bytes().len();
        nested.claim((left / 2) as u32, Kind::Window);
    }
    assert!(nested.scan().unwrap().torn_bytes > 0);
    // A length counts only with its own checksum.
    let mut plausible = Lying::new();
    let looks = [0, 0, 0x10, 0, Kind::Window as u8];
    plausible.frames.extend(&looks.repeat(LARGE / looks.len()));
    let begin = plausible.frames.bytes().len();
    plausible.put(Kind::Window, |out| head(out, 0));
    let scan = plausible.scan().unwrap();
    assert_eq!(scan.windows.len(), 1);
    assert_eq!(scan.damage.len(), 1);
    assert_eq!(scan.damage[0].bytes, begin as u64);
}

#[test]
fn definitions_are_bounded_whatever_they_claim() {
    // After a damaged part, definitions may be missing.
    let damaged = || {
        let mut lying = Lying::new();
        lying.frames.extend(b"damaged");
        lying
    };
    for first in [1 << 24, u64::from(u32::MAX), u64::MAX] {
        let mut lying = damaged();
        lying.put(Kind::Definitions, |out| put_u64(out, first));
        assert!(lying.refused().contains("more files"), "{first}");
        let mut lying = damaged();
        lying.put(Kind::Window, |out| {
            head(out, 0);
            out.pop();
            put_u64(out, first);
        });
        assert!(lying.refused().contains("more files"), "{first}");
    }
    let mut lying = damaged();
    lying.put(Kind::Definitions, |out| put_u64(out, MOST_DEFINED as u64));
    assert_eq!(lying.scan().unwrap().files().count(), 0);
    // A mount's name that claims a terabyte.
    let mut lying = Lying::new();
    lying.put(Kind::Definitions, |out| {
        put_u64(out, 0);
        out.extend([0; 8 + 3]);
        put_u64(out, 1 << 40);
    });
    assert!(lying.refused().contains("ends within a value"));
    // Longer than the limit on frames of definitions.
    let mut lying = Lying::new();
    let begin = lying.frames.bytes().len();
    lying
        .frames
        .extend(&vec![0; (33 << 20) + FRAME_PREFIX_BYTES]);
    lying.frames.seal(begin, 33 << 20, Kind::Definitions.into());
    assert!(lying.refused().contains("too long"));
}

#[test]
fn rows_are_bounded_whatever_they_claim() {
    for counts in [&[1][..], &[1 << 40, 1 << 40]] {
        let mut lying = Lying::new();
        lying.put(Kind::Window, |out| {
            head(out, MOST_DEFINED as u64);
            put_u64(out, 0);
            // Operations of a file: their number, then names of one byte.
            put_u64(out, 4);
            counts.iter().for_each(|count| put_u64(out, *count));
            out.extend([1, b'A', 0].repeat(LARGE / 3));
        });
        let scan = lying.scan().unwrap();
        let began = Instant::now();
        assert!(cursor::window(&scan, &scan.windows[0]).is_err());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    // A row of two bytes takes hundreds of bytes in memory, so the number of rows is limited.
    let mut lying = Lying::new();
    lying.put(Kind::Window, |out| {
        head(out, 4 << 20);
        out.resize(out.len() + LARGE, 0);
    });
    assert!(lying.refused().contains("more rows"));
    // Descending errors: each would be inserted before all others.
    let mut lying = Lying::new();
    lying.put(Kind::Window, |out| {
        head(out, 1);
        out.extend([0, 1]);
        // The bit for the length of the list of errors.
        put_u64(out, 1 << Direction::COUNT);
        put_u64(out, 300_000);
        for errno in (0..300_000).rev() {
            put_i64(out, errno);
            out.push(1);
        }
    });
    let scan = lying.scan().unwrap();
    let began = Instant::now();
    let error = cursor::window(&scan, &scan.windows[0]).unwrap_err();
    assert!(error.to_string().contains("out of place"), "{error}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // A single row of several MiB.
    let mut lying = Lying::new();
    lying.put(Kind::Window, |out| {
        head(out, 1);
        out.extend([0, 4]);
        put_u64(out, 1);
        put_u64(out, LARGE as u64 * 2);
        out.resize(out.len() + LARGE, b'A');
    });
    let scan = lying.scan().unwrap();
    let error = cursor::window(&scan, &scan.windows[0]).unwrap_err();
    assert!(error.to_string().contains("a row is too long"), "{error}");
}

#[test]
fn operations_are_bounded_whatever_they_repeat() {
    // A mount that is written once, but counts for each row.
    let ops = |rows: u64, mount_bytes: usize| {
        let mut lying = Lying::new();
        lying.put(Kind::Operations, |out| {
            put_u64(out, rows);
            put_u64(out, 2);
            put_str(out, &"m".repeat(mount_bytes));
            out.extend([0; 5]);
            for _ in 1..rows {
                out.extend([1, 0, 0, 0, 0, 0]);
            }
        });
        lying.put(Kind::Window, |out| head(out, 0));
        let scan = lying.scan().unwrap();
        scan.ops(&scan.windows[0]).map(|ops| ops.len())
    };
    assert_eq!(ops(1000, 10_000).unwrap(), 1000);
    for (rows, mount_bytes) in [(100_000, 1), (10_000, 1 << 20)] {
        let error = ops(rows, mount_bytes).unwrap_err().to_string();
        assert!(error.contains("more operations"), "{error}");
    }
    // The writer refuses such a window.
    let operation = Operation {
        mount: Some("m".repeat(1 << 10)),
        ..Operation::default()
    };
    let row = OperationRow {
        operation,
        ..OperationRow::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let mut one = windows(1).remove(0);
    one.ops = vec![row; 40_000];
    let error = writer.append(&one).unwrap_err().to_string();
    assert!(error.contains("does not fit"), "{error}");
}

#[test]
fn times_that_no_calendar_has_are_none() {
    for start in [i64::MIN, i64::MAX, -300_000_000_000_000] {
        let mut lying = Lying::new();
        lying.put(Kind::Window, |out| {
            put_i64(out, start);
            out.extend([0, 0, 0]);
        });
        assert!(lying.refused().contains("out of range"), "{start}");
    }
}

#[test]
fn many_files_are_defined_in_several_frames() {
    let dir = tempfile::tempdir().unwrap();
    let name = |i: u64| format!("/mnt/{}/{i}", "long".repeat(200));
    let rows = (0..3000).map(|i| {
        let file = file(i, 49, Some(&name(i)));
        (file, reads(2))
    });
    let one = window(T0, rows.collect());
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    writer.append(&one).unwrap();
    writer.append(&windows(2)[1]).unwrap();
    let journal = layout::journal(dir.path(), 1);
    let frames = fs::read(journal).unwrap();
    assert!(frames.len() > 2 << 20);
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let mut read = Vec::new();
    let each = &mut |window| read.push(window);
    snapshot.tails()[0].windows(each).unwrap();
    assert_eq!(read, [one, windows(2).remove(1)]);
}
