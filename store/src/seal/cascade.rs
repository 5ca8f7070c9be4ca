//! Feeding coarse windows by closing fine ones.

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::merge::Merged;
use crate::error::StoreError;

/// Takes the rows of one granularity: its number in the list, and the row.
pub(super) type Sink<'a> = &'a mut dyn FnMut(usize, Merged) -> Result<(), StoreError>;

/// The open window of one granularity. Rows come ordered by (file key, time), so there is one open
/// window at a time. It holds a row for each set of attributes that the file has in it, in order
/// of appearance: a rename or a second mount makes a second partial row, not a wrong name.
struct Level {
    granularity: Granularity,
    open: Option<(FileKey, UtcMs)>,
    rows: Vec<(u32, Row)>,
}

/// All granularities of a journal, from fine to coarse.
pub(super) struct Cascade {
    levels: Vec<Level>,
}

impl Cascade {
    pub(super) fn new(granularities: &[Granularity]) -> Self {
        let levels = granularities.iter().map(|granularity| Level {
            granularity: *granularity,
            open: None,
            rows: Vec::new(),
        });
        Self {
            levels: levels.collect(),
        }
    }

    /// Adds a row of the merged stream to the finest granularity.
    pub(super) fn push(&mut self, row: &Merged, sink: Sink<'_>) -> Result<(), StoreError> {
        push(&mut self.levels, 0, row, sink)
    }

    /// Closes every open window.
    pub(super) fn finish(mut self, sink: Sink<'_>) -> Result<(), StoreError> {
        for number in 0..self.levels.len() {
            close(&mut self.levels[number..], number, sink)?;
        }
        Ok(())
    }
}

fn push(
    levels: &mut [Level],
    number: usize,
    merged: &Merged,
    sink: Sink<'_>,
) -> Result<(), StoreError> {
    let Some(level) = levels.first() else {
        return Ok(());
    };
    let window = (merged.key, merged.time.align(level.granularity));
    if level.open != Some(window) {
        close(levels, number, sink)?;
        levels[0].open = Some(window);
    }
    let rows = &mut levels[0].rows;
    match rows.iter_mut().find(|(file, _)| *file == merged.file) {
        Some((_, row)) => row.merge(&merged.row),
        None => rows.push((merged.file, merged.row.clone())),
    }
    Ok(())
}

/// Hands the rows of the open window of the first of `levels` to the sink and to the level above.
fn close(levels: &mut [Level], number: usize, sink: Sink<'_>) -> Result<(), StoreError> {
    let Some((level, coarser)) = levels.split_first_mut() else {
        return Ok(());
    };
    let Some((key, time)) = level.open.take() else {
        return Ok(());
    };
    for (file, row) in level.rows.drain(..) {
        let closed = Merged {
            file,
            key,
            time,
            row,
        };
        push(coarser, number + 1, &closed, sink)?;
        sink(number, closed)?;
    }
    Ok(())
}
