//! Merges small segments.
//!
//! Power may fail between any two of these steps:
//!
//! 1. The merged segments are written under temporary names and synced.
//! 2. A new catalog lists them in place of the small segments, and records the small ones as
//!    removed. Readers that have planned to read the small ones still can: they are deleted later.
//! 3. Dataset by dataset, the small segments are hidden from globs, then the merged one is shown.
//! 4. The small segments are deleted.
//!
//! Before step 2, readers read the small segments. After it, they read the merged segment under any of its names. A
//! recorder that begins or ends deletes segments that are in no catalog.

mod inputs;
mod plan;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::Health;
use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::batch::{HealthRow, OpsRow, RollupRow};
use crate::beneath;
use crate::catalog::{Catalog, KeptSegment, SegmentEntry};
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::glob_view;
use crate::layout::{self, Dataset, Date};
use crate::seal::coarsen::{Attributes, Coarsen};
use crate::seal::merge_windows::Merged;
use crate::segment::metadata::{Description, JournalSpan};
use crate::segment::writer::{SegmentRow, SegmentWriter, Target};
use inputs::Inputs;
use plan::Group;

/// Merges once, if there is anything to merge. The inputs may be deleted from `at` on. A segment
/// that cannot be merged stays as it is, and blocks nothing else.
pub(crate) fn step(
    store: &Path,
    catalog: &mut Catalog,
    at: UtcMs,
    backoff: &mut FileBackoff,
) -> Result<(), StoreError> {
    let kept = catalog.kept_segments()?;
    let unsealed = layout::journals(store)?;
    // A group that failed pauses, so this loop terminates.
    while let Some(group) = plan::next(
        &kept,
        |segment| backoff.is_pausing(&segment.path),
        |host, numbers| {
            let sealed = catalog.spans(host, (*numbers.start(), *numbers.end()));
            unsealed.iter().any(|number| numbers.contains(number))
                || !sealed.is_ok_and(|sealed| sealed.is_empty())
        },
    ) {
        let inputs = || group.inputs.iter().map(|input| &input.path);
        let Err(error) = merge(store, catalog, &group, at, backoff) else {
            inputs().for_each(|path| backoff.overcome(path));
            break;
        };
        let at_fault = |path: &&String| error.path() == Some(&store.join(path));
        match inputs().find(at_fault) {
            Some(path) => backoff.failed(path, &error),
            None => inputs().for_each(|path| backoff.failed(path, &error)),
        }
    }
    Ok(())
}

fn merge(
    store: &Path,
    catalog: &mut Catalog,
    group: &Group,
    at: UtcMs,
    backoff: &mut FileBackoff,
) -> Result<(), StoreError> {
    let journals = catalog.spans(&group.host, group.journals)?;
    let mut outputs = Vec::new();
    for dataset in Dataset::ALL {
        let inputs = group.inputs.iter().filter(|input| input.dataset == dataset);
        let inputs: Vec<&KeptSegment> = inputs.collect();
        outputs.extend(Output::new(catalog, group, dataset, &journals, inputs));
    }
    let paths: Vec<_> = outputs
        .iter()
        .map(|output| output.target.path.clone())
        .collect();
    let written: Result<Vec<_>, _> = outputs
        .into_iter()
        .map(|output| output.write(store))
        .collect();
    if written.is_err() {
        for path in &paths {
            let _ = beneath::remove(store, &layout::temporary(path));
        }
    }
    let written = written?;
    layout::sync_names(store, written.iter().map(|segment| &segment.path))?;
    fail_point::hit("compact: written");
    let inputs: Vec<_> = group
        .inputs
        .iter()
        .map(|input| input.path.clone())
        .collect();
    catalog.replace(&group.host, &written, &inputs, at)?;
    fail_point::hit("compact: committed");
    for dataset in Dataset::ALL {
        let inputs = group.inputs.iter().filter(|input| input.dataset == dataset);
        let merged = written.iter().filter(|merged| merged.dataset == dataset);
        let (inputs, merged) = (inputs.map(|of| &of.path), merged.map(|of| &of.path));
        glob_view::settle(store, inputs, merged, backoff)?;
    }
    Ok(())
}

/// A segment to be written.
struct Output<'g> {
    inputs: Vec<&'g KeptSegment>,
    target: Target,
    entry: SegmentEntry,
}

impl<'g> Output<'g> {
    /// `None` without inputs.
    fn new(
        catalog: &Catalog,
        group: &Group,
        dataset: Dataset,
        journals: &[JournalSpan],
        inputs: Vec<&'g KeptSegment>,
    ) -> Option<Self> {
        let start = inputs.iter().map(|input| input.start).min()?;
        let end = inputs.iter().map(|input| input.end).max()?;
        let (granularity, host) = (group.granularity, &group.host);
        let date = Date::of(start);
        let path = layout::segment(dataset, granularity, date, host, start, group.journals);
        Some(Self {
            target: Target {
                description: Description {
                    dataset: dataset.name(),
                    granularity: Some(granularity),
                    host: host.as_str().into(),
                    journals: journals.to_vec(),
                    store: catalog.identity(),
                },
                path: catalog.store().join(&path),
            },
            entry: SegmentEntry {
                dataset,
                granularity,
                journals: group.journals,
                start,
                end,
                rows: 0,
                bytes: 0,
                crc32c: 0,
                path,
                files: Default::default(),
            },
            inputs,
        })
    }

    /// Writes the segment under its temporary name, and syncs it.
    fn write(self, store: &Path) -> Result<SegmentEntry, StoreError> {
        if let Some(dir) = self.target.path.parent() {
            layout::create_dir(store, dir)?;
        }
        match self.entry.dataset {
            Dataset::Rollup => self.write_rollup(store),
            Dataset::Health => self.write_health(store),
            Dataset::Ops => self.write_ops(store),
        }
    }

    fn write_rollup(self, store: &Path) -> Result<SegmentEntry, StoreError> {
        let mut writer = SegmentWriter::create(store, self.target)?;
        let mut sink = |closed: Merged<Arc<_>>| {
            writer.push(RollupRow {
                time: closed.time,
                file: closed.file,
                row: closed.row,
            })
        };
        let mut rows = Inputs::rollup(store, &self.inputs)?;
        let mut open = Coarsen::new(self.entry.granularity, &OwnAttributes);
        while let Some(RollupRow { time, file, row }) = rows.next()? {
            let key = file.key;
            let row = Merged {
                file,
                key,
                time,
                row,
            };
            open.push(row, &mut sink)?;
        }
        open.close(&mut sink)?;
        finish(writer, self.entry)
    }

    fn write_health(self, store: &Path) -> Result<SegmentEntry, StoreError> {
        let mut writer = SegmentWriter::create(store, self.target)?;
        let mut rows = Inputs::health(store, &self.inputs)?;
        let mut open: Option<(UtcMs, Health)> = None;
        while let Some(HealthRow { time, health }) = rows.next()? {
            match &mut open {
                Some((same, sum)) if *same == time => sum.merge(&health),
                _ => {
                    if let Some((time, health)) = open.replace((time, health)) {
                        writer.push(HealthRow { time, health })?;
                    }
                }
            }
        }
        if let Some((time, health)) = open {
            writer.push(HealthRow { time, health })?;
        }
        finish(writer, self.entry)
    }

    fn write_ops(self, store: &Path) -> Result<SegmentEntry, StoreError> {
        let mut writer = SegmentWriter::create(store, self.target)?;
        let mut rows = Inputs::ops(store, &self.inputs)?;
        let mut open: (UtcMs, BTreeMap<Operation, OperationSums>) = (UtcMs(0), BTreeMap::new());
        let mut close = |(time, sums): (UtcMs, BTreeMap<Operation, OperationSums>)| {
            let mut sums = sums.into_iter();
            sums.try_for_each(|(operation, sums)| {
                let row = OperationRow { operation, sums };
                writer.push(OpsRow { time, row })
            })
        };
        while let Some(OpsRow { time, row }) = rows.next()? {
            if time != open.0 {
                close(std::mem::replace(&mut open, (time, BTreeMap::new())))?;
            }
            open.1.entry(row.operation).or_default().merge(&row.sums);
        }
        close(open)?;
        finish(writer, self.entry)
    }
}

/// Attributes of files whose rows already contain them.
struct OwnAttributes;

impl Attributes<Arc<FileAttributes>> for OwnAttributes {
    fn of<'a>(&'a self, file: &'a Arc<FileAttributes>) -> Option<&'a FileAttributes> {
        Some(file)
    }
}

fn finish<R: SegmentRow>(
    writer: SegmentWriter<R>,
    entry: SegmentEntry,
) -> Result<SegmentEntry, StoreError> {
    let written = writer.finish()?;
    Ok(SegmentEntry {
        rows: written.rows,
        bytes: written.bytes,
        crc32c: written.crc32c,
        files: written.files,
        ..entry
    })
}
