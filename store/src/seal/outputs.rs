//! Writes the segments of a journal: one per dataset, granularity and date.
//!
//! Granularities are written one after the other, from fine to coarse, each from the rows of the previous one. A
//! Parquet writer takes at least 20 MB: a compressor per column, and the pages of a row group. Rows that wait for the
//! next granularity take only a buffer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::Health;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::coarsen::{Attributes, Coarsen};
use super::merge_windows::{Merge, Merged, Rows};
use super::spool::{Spool, SpooledRows};
use crate::batch::{HealthRow, OpsRow, RollupRow};
use crate::catalog::{FileSeen, SegmentEntry};
use crate::error::StoreError;
use crate::identity::Identity;
use crate::journal::scan::{JournalScan, WindowFrame};
use crate::layout::{self, Dataset, Date};
use crate::segment::metadata::{Description, JournalSpan};
use crate::segment::writer::{SegmentRow, SegmentWriter, Target};

/// Writes the segments of one journal, under temporary names.
pub(super) struct Outputs<'a> {
    store: &'a Path,
    scan: &'a JournalScan,
    span: JournalSpan,
    identity: Identity,
    /// By local id: start of the first and end of the last window that has a row of the file.
    seen: BTreeMap<u32, (UtcMs, UtcMs)>,
}

/// A segment being written.
struct Output<R> {
    writer: SegmentWriter<R>,
    entry: SegmentEntry,
}

/// Adds up rows for the next granularity.
struct Coarser<'a> {
    open: Coarsen<'a, u32>,
    spool: Spool,
}

impl Coarser<'_> {
    fn add(&mut self, row: &Merged<u32>) -> Result<(), StoreError> {
        self.open.add(row, &mut |closed| self.spool.push(&closed))
    }

    fn finish(mut self, scan: &JournalScan) -> Result<SpooledRows<'_>, StoreError> {
        self.open.close(&mut |closed| self.spool.push(&closed))?;
        self.spool.rows(scan)
    }
}

/// The segments of one dataset and granularity.
type Dates<R> = BTreeMap<Date, Output<R>>;

impl<'a> Outputs<'a> {
    pub(super) fn new(
        store: &'a Path,
        identity: Identity,
        span: JournalSpan,
        scan: &'a JournalScan,
    ) -> Self {
        Self {
            store,
            scan,
            span,
            identity,
            seen: BTreeMap::new(),
        }
    }

    /// Writes all segments and syncs their content.
    pub(super) fn write(&mut self) -> Result<Vec<SegmentEntry>, StoreError> {
        let scan = self.scan;
        let granularities = scan.header.granularities.as_slice();
        let mut entries = Vec::new();
        let mut rows: Box<dyn Rows + '_> = Box::new(Merge::new(scan)?);
        for (i, granularity) in granularities.iter().enumerate() {
            let mut coarser = match granularities.get(i + 1) {
                Some(coarser) => Some(Coarser {
                    open: Coarsen::new(*coarser, scan),
                    spool: Spool::create(self.store)?,
                }),
                None => None,
            };
            entries.extend(self.write_rollup(*granularity, &mut *rows, coarser.as_mut())?);
            if let Some(coarser) = coarser {
                rows = Box::new(coarser.finish(scan)?);
            }
            entries.extend(self.write_health(*granularity)?);
            entries.extend(self.write_ops(*granularity)?);
        }
        Ok(entries)
    }

    /// Writes the rows, and adds them up for the next granularity.
    fn write_rollup(
        &mut self,
        granularity: Granularity,
        rows: &mut dyn Rows,
        mut coarser: Option<&mut Coarser<'_>>,
    ) -> Result<Vec<SegmentEntry>, StoreError> {
        let scan = self.scan;
        let finest = scan.header.granularities.finest();
        let windows = scan.windows.iter().filter(|w| w.head.rows > 0);
        let mut dates = self.create(Dataset::Rollup, granularity, windows)?;
        let mut sink = |closed: Merged<u32>| {
            if let Some(coarser) = &mut coarser {
                coarser.add(&closed)?;
            }
            // Merging passes on only rows of known files.
            let Some(file) = scan.file(closed.file) else {
                return Ok(());
            };
            if granularity == finest {
                let (first, last) = (closed.time, closed.time.plus(finest));
                let times = self.seen.entry(closed.file).or_insert((first, last));
                *times = (times.0.min(first), times.1.max(last));
            }
            let row = RollupRow {
                time: closed.time,
                file: Arc::clone(file),
                row: closed.row,
            };
            push(&mut dates, closed.time, row)
        };
        let mut open = Coarsen::new(granularity, scan);
        while let Some(row) = rows.next()? {
            open.push(row, &mut sink)?;
        }
        open.close(&mut sink)?;
        finish(dates)
    }

    fn write_health(&self, granularity: Granularity) -> Result<Vec<SegmentEntry>, StoreError> {
        let mut dates = self.create(Dataset::Health, granularity, self.scan.windows.iter())?;
        let mut windows: BTreeMap<UtcMs, Health> = BTreeMap::new();
        for WindowFrame { head, .. } in &self.scan.windows {
            let window = windows.entry(head.start.align(granularity)).or_default();
            window.merge(&head.health);
        }
        for (time, health) in windows {
            push(&mut dates, time, HealthRow { time, health })?;
        }
        finish(dates)
    }

    /// Writes in order of time, so that the operations of only one window are in memory.
    fn write_ops(&self, granularity: Granularity) -> Result<Vec<SegmentEntry>, StoreError> {
        let windows = || self.scan.windows.iter().filter(|w| w.has_ops());
        let mut dates = self.create(Dataset::Ops, granularity, windows())?;
        let mut ordered: Vec<_> = windows().collect();
        ordered.sort_by_key(|window| window.head.start);
        let time = |window: &&WindowFrame| window.head.start.align(granularity);
        for windows in ordered.chunk_by(|a, b| time(a) == time(b)) {
            let mut sums: BTreeMap<Operation, OperationSums> = BTreeMap::new();
            for window in windows {
                for OperationRow {
                    operation,
                    sums: own,
                } in self.scan.ops(window)?
                {
                    sums.entry(operation).or_default().merge(&own);
                }
            }
            let Some(time) = windows.first().map(time) else {
                continue;
            };
            for (operation, sums) in sums {
                let row = OperationRow { operation, sums };
                push(&mut dates, time, OpsRow { time, row })?;
            }
        }
        finish(dates)
    }

    /// Creates a segment for each date of the windows.
    fn create<'w, R: SegmentRow>(
        &self,
        dataset: Dataset,
        granularity: Granularity,
        windows: impl Iterator<Item = &'w WindowFrame>,
    ) -> Result<Dates<R>, StoreError> {
        let host: &str = &self.scan.header.host;
        let mut dates = Dates::new();
        for (date, (start, end)) in spans(granularity, windows) {
            let number = self.span.number;
            let journals = (number, number);
            let path = layout::segment(dataset, granularity, date, host, start, journals);
            let target = Target {
                description: Description {
                    dataset: dataset.name(),
                    granularity: Some(granularity),
                    host: host.into(),
                    journals: vec![self.span],
                    store: self.identity,
                },
                path: self.store.join(&path),
            };
            if let Some(dir) = target.path.parent() {
                layout::create_dir(self.store, dir)?;
            }
            let writer = SegmentWriter::create(self.store, target)?;
            let entry = SegmentEntry {
                dataset,
                granularity,
                journals,
                start,
                end,
                rows: 0,
                bytes: 0,
                crc32c: 0,
                path,
                files: Default::default(),
            };
            dates.insert(date, Output { writer, entry });
        }
        Ok(dates)
    }

    /// The journal's files, and when they were seen. Complete after [`Self::write`].
    pub(super) fn files_seen(&self) -> Vec<FileSeen> {
        let seen = |(id, file): (u32, &Arc<_>)| {
            let (first, last) = *self.seen.get(&id)?;
            Some(FileSeen {
                file: Arc::clone(file),
                first,
                last,
            })
        };
        self.scan.files().filter_map(seen).collect()
    }
}

impl Attributes<u32> for JournalScan {
    fn of<'a>(&'a self, file: &'a u32) -> Option<&'a FileAttributes> {
        self.file(*file).map(Arc::as_ref)
    }
}

/// For each date, the start of the first and the end of the last window of a granularity.
fn spans<'w>(
    granularity: Granularity,
    windows: impl Iterator<Item = &'w WindowFrame>,
) -> BTreeMap<Date, (UtcMs, UtcMs)> {
    let mut spans = BTreeMap::new();
    for window in windows {
        let start = window.head.start.align(granularity);
        let end = start.plus(granularity);
        let span = spans.entry(Date::of(start)).or_insert((start, end));
        *span = (span.0.min(start), span.1.max(end));
    }
    spans
}

fn push<R: SegmentRow>(dates: &mut Dates<R>, time: UtcMs, row: R) -> Result<(), StoreError> {
    match dates.get_mut(&Date::of(time)) {
        Some(output) => output.writer.push(row),
        // `spans` covers the same windows.
        None => unreachable!("every window of the journal has its segment"),
    }
}

fn finish<R: SegmentRow>(dates: Dates<R>) -> Result<Vec<SegmentEntry>, StoreError> {
    let finish = |output: Output<R>| {
        let written = output.writer.finish()?;
        Ok(SegmentEntry {
            rows: written.rows,
            bytes: written.bytes,
            crc32c: written.crc32c,
            files: written.files,
            ..output.entry
        })
    };
    dates.into_values().map(finish).collect()
}
