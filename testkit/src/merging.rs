//! Stores that are queried while a recorder merges them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Writer;

use crate::generated::{THREE, health};

/// A window after all others. If journals last five seconds, it has a separate journal.
pub fn idle(i: i64) -> ClosedWindow {
    ClosedWindow {
        start: UtcMs(THREE + 300_000 + 5000 * i),
        rows: Vec::new(),
        ops: Vec::new(),
        health: health(1000, &[]),
    }
}

/// Number of files that were merged into others.
pub fn merged(store: &Path) -> usize {
    let date = "date=2026-11-21";
    let dirs = ["1s", "10s", "1m"].map(|g| store.join(format!("rollup/granularity={g}/{date}")));
    let files = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".removed")).count()
}

/// Runs `ask` while the recorder continues, repeatedly until twelve files are merged. A merge follows each sealed journal.
pub fn while_merging(store: &Path, writer: &mut Writer, ask: impl Fn()) {
    let enough = merged(store) + 12;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1.. {
                thread::sleep(Duration::from_millis(150));
                writer.append(&idle(i)).unwrap();
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let _end = OnDrop(&is_over);
        for _ in 0..20 {
            ask();
            if merged(store) >= enough {
                return;
            }
        }
        panic!("{} files are merged, not {enough}", merged(store));
    });
}

/// Ends the recorder, even if a comparison fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
