//! The segments that a journal is sealed to: one for each dataset, granularity and date.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::rollup::Health;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::cascade::Cascade;
use super::merge::Merge;
use super::{Seen, files_seen};
use crate::batch::{HealthRow, RollupRow};
use crate::catalog::{FileSeen, SegmentEntry};
use crate::error::StoreError;
use crate::journal::scan::{Scan, WindowFrame};
use crate::layout::{self, Dataset, Date};
use crate::segment::{SegmentRow, SegmentWriter, Target};

/// A segment being written.
struct Output<R> {
    writer: SegmentWriter<R>,
    granularity: Granularity,
    /// Relative to the store.
    path: String,
    start: UtcMs,
    end: UtcMs,
}

/// The segments of a dataset by number of the granularity and date.
type Set<R> = BTreeMap<(usize, Date), Output<R>>;

/// All segments of a journal.
pub(super) struct Outputs {
    number: u64,
    granularities: Vec<Granularity>,
    rollup: Set<RollupRow>,
    health: Set<HealthRow>,
}

impl Outputs {
    /// Begins every segment that the journal's windows call for.
    pub(super) fn create(store: &Path, number: u64, scan: &Scan) -> Result<Self, StoreError> {
        let granularities = scan.header.granularities.as_slice().to_vec();
        let with_rows = |window: &&WindowFrame| window.head.rows > 0;
        let rollup = scan.windows.iter().filter(with_rows);
        Ok(Self {
            number,
            rollup: create(store, number, scan, Dataset::Rollup, rollup)?,
            health: create(store, number, scan, Dataset::Health, scan.windows.iter())?,
            granularities,
        })
    }

    /// Streams the rows of all windows to every granularity.
    pub(super) fn write_rollup(&mut self, scan: &Scan) -> Result<Vec<FileSeen>, StoreError> {
        let finest = scan.header.granularities.finest();
        let mut seen: Seen = vec![None; scan.definitions.len()];
        let mut cascade = Cascade::new(&self.granularities);
        let rollup = &mut self.rollup;
        let mut sink = |number, closed: super::merge::Merged| {
            let file = Arc::clone(&scan.definitions[closed.file as usize]);
            let row = RollupRow {
                time: closed.time,
                file,
                row: closed.row,
            };
            push(rollup, number, closed.time, row)
        };
        let mut merge = Merge::new(scan)?;
        while let Some(row) = merge.next()? {
            let (first, last) = (row.time, row.time.plus(finest));
            let times = seen[row.file as usize].get_or_insert((first, last));
            *times = (times.0.min(first), times.1.max(last));
            cascade.push(&row, &mut sink)?;
        }
        cascade.finish(&mut sink)?;
        Ok(files_seen(scan, &seen))
    }

    /// Adds up the health of all windows at every granularity.
    pub(super) fn write_health(&mut self, scan: &Scan) -> Result<(), StoreError> {
        for (number, granularity) in self.granularities.iter().enumerate() {
            let mut windows: BTreeMap<UtcMs, Health> = BTreeMap::new();
            for window in &scan.windows {
                let start = window.head.start.align(*granularity);
                windows.entry(start).or_default().merge(&window.head.health);
            }
            for (time, health) in windows {
                push(&mut self.health, number, time, HealthRow { time, health })?;
            }
        }
        Ok(())
    }

    /// Completes all segments and makes their content durable.
    pub(super) fn finish(self) -> Result<Vec<SegmentEntry>, StoreError> {
        let mut entries = Vec::new();
        for output in self.rollup.into_values() {
            entries.push(output.finish(Dataset::Rollup, self.number)?);
        }
        for output in self.health.into_values() {
            entries.push(output.finish(Dataset::Health, self.number)?);
        }
        Ok(entries)
    }
}

impl<R: SegmentRow> Output<R> {
    fn finish(self, dataset: Dataset, journal: u64) -> Result<SegmentEntry, StoreError> {
        let written = self.writer.finish()?;
        Ok(SegmentEntry {
            dataset,
            granularity: self.granularity,
            journal,
            start: self.start,
            end: self.end,
            rows: written.rows,
            bytes: written.bytes,
            path: self.path,
            files: written.files,
        })
    }
}

fn create<'a, R: SegmentRow>(
    store: &Path,
    number: u64,
    scan: &Scan,
    dataset: Dataset,
    windows: impl Iterator<Item = &'a WindowFrame> + Clone,
) -> Result<Set<R>, StoreError> {
    let host: Arc<str> = scan.header.host.as_str().into();
    let mut set = Set::new();
    for (i, granularity) in scan.header.granularities.as_slice().iter().enumerate() {
        for ((date, start), end) in spans(*granularity, windows.clone()) {
            let path = layout::segment(dataset, *granularity, date, &host, start, number);
            let target = Target {
                granularity: *granularity,
                host: Arc::clone(&host),
                path: store.join(&path),
            };
            if let Some(dir) = target.path.parent() {
                layout::create_dir(dir)?;
            }
            let output = Output {
                writer: SegmentWriter::create(target)?,
                granularity: *granularity,
                path,
                start,
                end,
            };
            set.insert((i, date), output);
        }
    }
    Ok(set)
}

/// For each date, the start of the first and the end of the last window of a granularity.
fn spans<'a>(
    granularity: Granularity,
    windows: impl Iterator<Item = &'a WindowFrame>,
) -> Vec<((Date, UtcMs), UtcMs)> {
    let mut spans: BTreeMap<Date, (UtcMs, UtcMs)> = BTreeMap::new();
    for window in windows {
        let start = window.head.start.align(granularity);
        let end = start.plus(granularity);
        let span = spans.entry(Date::of(start)).or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
    let spans = spans.into_iter();
    spans
        .map(|(date, (start, end))| ((date, start), end))
        .collect()
}

fn push<R: SegmentRow>(
    set: &mut Set<R>,
    number: usize,
    time: UtcMs,
    row: R,
) -> Result<(), StoreError> {
    match set.get_mut(&(number, Date::of(time))) {
        Some(output) => output.writer.push(row),
        // `spans` went over the same windows.
        None => unreachable!("every window of the journal has its segment"),
    }
}

/// Makes the names of segments durable, and of the directories that were created for them.
pub(super) fn sync_names(store: &Path, segments: &[SegmentEntry]) -> Result<(), StoreError> {
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    for segment in segments {
        let above = Path::new(&segment.path).ancestors().skip(1);
        dirs.extend(above.map(|dir| store.join(dir)));
    }
    dirs.iter().try_for_each(|dir| layout::sync_dir(dir))
}
