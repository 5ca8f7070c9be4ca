//! Adding the rows of fine windows up to rows of coarser ones.

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::{Granularity, UtcMs};

use super::merge::Merged;
use crate::error::StoreError;

/// Takes the rows of closed windows.
pub(crate) type Sink<'a, F> = &'a mut dyn FnMut(Merged<F>) -> Result<(), StoreError>;

/// The open window of one granularity. Rows come ordered by (file key, time), so there is one open
/// window at a time. It holds a row for each set of attributes that the file has in it, in order
/// of appearance: a rename, a second mount or another tenant makes a second partial row, not a wrong
/// name.
pub(crate) struct Coarsen<F> {
    granularity: Granularity,
    open: Option<(FileKey, UtcMs)>,
    rows: Vec<(F, Row)>,
}

impl<F: PartialEq> Coarsen<F> {
    pub(crate) fn new(granularity: Granularity) -> Self {
        Self {
            granularity,
            open: None,
            rows: Vec::new(),
        }
    }

    /// Adds a row of the merged stream, closing the open window if the row is not of it.
    pub(crate) fn push(&mut self, merged: Merged<F>, sink: Sink<'_, F>) -> Result<(), StoreError> {
        match self.row_for(&merged, sink)? {
            Some(row) => row.merge(&merged.row),
            None => self.rows.push((merged.file, merged.row)),
        }
        Ok(())
    }

    /// As [`Self::push`], of a row that is needed elsewhere, too.
    pub(crate) fn add(&mut self, merged: &Merged<F>, sink: Sink<'_, F>) -> Result<(), StoreError>
    where
        F: Clone,
    {
        match self.row_for(merged, sink)? {
            Some(row) => row.merge(&merged.row),
            None => self.rows.push((merged.file.clone(), merged.row.clone())),
        }
        Ok(())
    }

    /// The row of the open window that it is to be added to, if there is one.
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
        let same = |(file, _): &&mut (F, Row)| *file == merged.file;
        Ok(self.rows.iter_mut().find(same).map(|(_, row)| row))
    }

    /// Hands the rows of the open window to the sink.
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
