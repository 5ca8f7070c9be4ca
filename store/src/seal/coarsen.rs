//! Adds up the rows of fine windows to rows of coarser ones.

use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::row::Row;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::merge_windows::Merged;
use crate::error::StoreError;

/// Receives the rows of closed windows.
pub(crate) type Sink<'a, F> = &'a mut dyn FnMut(Merged<F>) -> Result<(), StoreError>;

/// Looks up the attributes of a file.
pub(crate) trait Attributes<F> {
    fn of<'a>(&'a self, file: &'a F) -> Option<&'a FileAttributes>;
}

/// The open window of one granularity. Rows arrive ordered by file key and time, so only one window is open at a time.
/// It has a row for each set of attributes of the file, in order of appearance: a rename, a second mount or another
/// tenant adds a row. A changed user name does not: the row keeps the last known name.
pub(crate) struct Coarsen<'a, F> {
    granularity: Granularity,
    attributes: &'a dyn Attributes<F>,
    open: Option<(FileKey, UtcMs)>,
    rows: Vec<(F, Row)>,
}

impl<'a, F: Clone + PartialEq> Coarsen<'a, F> {
    pub(crate) fn new(granularity: Granularity, attributes: &'a dyn Attributes<F>) -> Self {
        Self {
            granularity,
            attributes,
            open: None,
            rows: Vec::new(),
        }
    }

    /// Adds a row of the merged stream. Closes the open window first if the row belongs to another.
    pub(crate) fn push(&mut self, merged: Merged<F>, sink: Sink<'_, F>) -> Result<(), StoreError> {
        match self.row_for(&merged, sink)? {
            Some(row) => row.merge(&merged.row),
            None => self.rows.push((merged.file, merged.row)),
        }
        Ok(())
    }

    /// As [`Self::push`], but borrows the row.
    pub(crate) fn add(&mut self, merged: &Merged<F>, sink: Sink<'_, F>) -> Result<(), StoreError> {
        match self.row_for(merged, sink)? {
            Some(row) => row.merge(&merged.row),
            None => self.rows.push((merged.file.clone(), merged.row.clone())),
        }
        Ok(())
    }

    /// The row of the open window to add this row to, if any.
    fn row_for(
        &mut self,
        merged: &Merged<F>,
        sink: Sink<'_, F>,
    ) -> Result<Option<&mut Row>, StoreError> {
        let window = (merged.key, merged.time.align(self.granularity));
        if self.open != Some(window) {
            self.close(sink)?;
            self.open = Some(window);
        }
        let Self {
            attributes, rows, ..
        } = self;
        for (file, row) in rows {
            if *file == merged.file {
                return Ok(Some(row));
            }
            let known = attributes.of(file).zip(attributes.of(&merged.file));
            if let Some((old, new)) = known.filter(|(old, new)| old.adds_up_with(new)) {
                if new.tenant.names() >= old.tenant.names() {
                    *file = merged.file.clone();
                }
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Passes the rows of the open window to the sink.
    pub(crate) fn close(&mut self, sink: Sink<'_, F>) -> Result<(), StoreError> {
        let Some((key, time)) = self.open.take() else {
            return Ok(());
        };
        for (file, row) in self.rows.drain(..) {
            sink(Merged {
                file,
                key,
                time,
                row,
            })?;
        }
        Ok(())
    }
}
