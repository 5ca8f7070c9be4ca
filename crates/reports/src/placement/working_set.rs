//! Working sets: distinct bytes that single requests touched.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::group::Entity;
use trackiops_query::requests::KeptRequests;
use trackiops_query::{QueryError, Question};
use trackiops_schemas::columns::{DONE_BYTES, FILE_KEY, OFFSET_BYTES, OP};
use trackiops_schemas::identity::FileKey;

/// Number of ranges of a file at which they are joined for the first time.
const JOINED_FIRST: usize = 1024;

/// Ranges of bytes of a file.
#[derive(Clone, Debug, Default)]
struct Ranges {
    ranges: Vec<(u64, u64)>,
    /// Number of ranges at which they are joined again.
    join_at: usize,
}

impl Ranges {
    fn add(&mut self, start: u64, end: u64) {
        match self.ranges.last_mut() {
            // Most files are read or written in order.
            Some((_, last)) if *last == start => *last = end,
            _ => self.ranges.push((start, end)),
        }
        if self.ranges.len() >= self.join_at.max(JOINED_FIRST) {
            self.join();
            self.join_at = 2 * self.ranges.len();
        }
    }

    /// Joins ranges that overlap or touch.
    fn join(&mut self) {
        self.ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.ranges.len());
        for (start, end) in self.ranges.drain(..) {
            match joined.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => joined.push((start, end)),
            }
        }
        self.ranges = joined;
    }

    fn bytes(mut self) -> u64 {
        self.join();
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

/// The working set of a subject, by its single requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkingSet {
    /// Number of requests.
    pub requests: u64,
    /// Distinct bytes that they read or wrote.
    pub bytes: u64,
}

/// The working sets of a question's subjects in a range, with notes; empty if no single request was kept.
pub fn working_sets(
    question: &Question,
    range: Interval,
) -> Result<(HashMap<Entity, WorkingSet>, Vec<Note>), QueryError> {
    let mut kept = match KeptRequests::open(question)? {
        Ok(kept) => kept,
        Err((_, notes)) => return Ok((HashMap::new(), notes)),
    };
    kept.keep_one_level()?;
    let mut files: HashMap<(Entity, FileKey), (u64, Ranges)> = HashMap::new();
    kept.read_by_entity(range, |batch, entities| add(&mut files, batch, entities))?;
    let (_, _, notes) = kept.finish(question);
    let mut sets: HashMap<Entity, WorkingSet> = HashMap::new();
    for ((entity, _), (requests, ranges)) in files {
        let set = sets.entry(entity).or_default();
        set.requests += requests;
        set.bytes += ranges.bytes();
    }
    Ok((sets, notes))
}

fn add(
    files: &mut HashMap<(Entity, FileKey), (u64, Ranges)>,
    batch: &RecordBatch,
    entities: &[Entity],
) -> Result<(), ArrowError> {
    let column = |name: &str| {
        let column = batch
            .column_by_name(name)
            .and_then(|array| array.as_primitive_opt::<Int64Type>());
        column.ok_or_else(|| ArrowError::SchemaError(format!("no column {name}")))
    };
    let (keys, offsets, done) = (
        column(FILE_KEY)?,
        column(OFFSET_BYTES)?,
        column(DONE_BYTES)?,
    );
    let ops = batch.column_by_name(OP);
    let ops = ops.and_then(|array| array.as_string_opt::<i32>());
    for (row, entity) in entities.iter().enumerate() {
        // Open and sync calls move no bytes.
        let op = ops.map_or("READ", |ops| ops.value(row));
        if !op.eq_ignore_ascii_case("READ") && !op.eq_ignore_ascii_case("WRITE") {
            continue;
        }
        let of = (entity.clone(), FileKey(keys.value(row)));
        let (requests, ranges) = files.entry(of).or_default();
        *requests += 1;
        let known = offsets.is_valid(row) && done.is_valid(row);
        let (Ok(offset), Ok(bytes)) = (
            u64::try_from(offsets.value(row)),
            u64::try_from(done.value(row)),
        ) else {
            continue;
        };
        if known && bytes > 0 {
            ranges.add(offset, offset.saturating_add(bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_byte_counts_once(ranges in prop::collection::vec((0_u64..200, 1_u64..30), 0..3000)) {
            let mut touched = [false; 256];
            let mut all = Ranges::default();
            for (start, length) in ranges {
                all.add(start, start + length);
                touched[start as usize..(start + length) as usize].fill(true);
            }
            prop_assert_eq!(all.bytes(), touched.iter().filter(|t| **t).count() as u64);
        }
    }
}
