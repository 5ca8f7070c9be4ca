//! Merges a store's segments completely.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::Result;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Options, RetentionPolicy, Snapshot, Writer};

/// Merges segments until there is nothing left to merge, and deletes merged ones.
pub fn compact(store: &Path, options: Options) -> Result<()> {
    let keep = RetentionPolicy {
        now,
        ..options.keep
    };
    let options = Options { keep, ..options };
    let mut before = None;
    loop {
        let segments = segments(store)?;
        if before.as_ref() == Some(&segments) {
            return Ok(());
        }
        before = Some(segments);
        // A writer deletes expired segments and merges once.
        Writer::open(store, options.clone())?.finish()?;
    }
}

/// An hour later each time: by then, every planned read of a merged segment is over.
fn now() -> UtcMs {
    const HOUR_MS: i64 = 3_600_000;
    static NOW: AtomicI64 = AtomicI64::new(0);
    // After any time of the system's clock.
    UtcMs(i64::MAX / 2 + NOW.fetch_add(HOUR_MS, Ordering::Relaxed))
}

fn segments(store: &Path) -> Result<Vec<PathBuf>> {
    let snapshot = Snapshot::open(store)?;
    let mut paths = Vec::new();
    for dataset in Dataset::ALL {
        let segments = snapshot.segments(dataset, None)?;
        paths.extend(segments.into_iter().map(|segment| segment.path));
    }
    Ok(paths)
}
