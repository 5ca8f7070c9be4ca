//! Stores that are queried while a recorder merges them.

use std::collections::BTreeSet;
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

/// Like [`merged`], once no file was merged for two seconds. Waits two minutes at most.
pub fn all_merged(store: &Path) -> usize {
    const POLLS: usize = 20;
    let mut counts = vec![merged(store)];
    while counts.len() < 1200 {
        thread::sleep(Duration::from_millis(100));
        counts.push(merged(store));
        let last = counts.iter().rev().take(POLLS);
        if counts.len() > POLLS && last.collect::<BTreeSet<_>>().len() == 1 {
            break;
        }
    }
    counts[counts.len() - 1]
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
