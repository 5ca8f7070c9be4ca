//! A recorder that hits a file size limit reports errors. Once there is room again, nothing is missing.
//!
//! The limit applies to the process, so this file has only one test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::io;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trackiops_store::{Options, StoreError, Writer, check};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{granularity, windows};

/// Limits the size of files of this process.
fn limit(bytes: Option<u64>) {
    let limit = Rlimit {
        current: bytes,
        ..getrlimit(Resource::Fsize)
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

/// Whether the limit caused this error, in a journal or a segment, or in SQLite.
fn is_too_long(error: &StoreError) -> bool {
    match error {
        StoreError::Io { source, .. } => source.kind() == io::ErrorKind::FileTooLarge,
        StoreError::Catalog { .. } => true,
        _ => false,
    }
}

#[test]
fn a_file_that_may_not_become_longer_costs_no_window() {
    // SAFETY: ignoring a signal installs no handler, so no code runs on it.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let options = || Options {
        rotate: granularity("2s"),
        ..options("h")
    };
    let recorded = windows(24);
    // Room for nothing, for journals only, and for segments but no catalog.
    for bytes in [0, 8 << 10, 64 << 10] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(dir.path(), options()).unwrap();
        let mut refused = 0;
        for (i, window) in recorded.iter().enumerate() {
            limit((6..12).contains(&i).then_some(bytes));
            while let Err(error) = writer.append(window) {
                // The error may come from sealing, which lags by a window or more on a busy machine.
                assert!(is_too_long(&error), "{bytes}: {error}");
                refused += 1;
                limit(None);
            }
            if i == 11 {
                // Sealing meets the limit, too.
                sleep(Duration::from_millis(300));
            }
        }
        assert!(refused > 0 || bytes > 0);
        writer.finish().unwrap();
        assert_eq!(check(dir.path()).unwrap().findings, [], "{bytes}");
        for text in ["1s", "1m"] {
            let text = granularity(text);
            let expected = Content::of(&recorded, text);
            assert_eq!(Content::stored(dir.path(), text), expected, "{bytes}");
        }
    }
}
