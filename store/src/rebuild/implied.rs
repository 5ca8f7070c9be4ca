//! Segments that must have existed, because others do. A granularity that has a journal has all of it, because its rows,
//! operations and health expire together.
//!
//! ```text
//! health with requests     ->  rollup
//! health with operations   ->  ops
//! rollup or ops            ->  health
//! ```

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::Found;
use crate::beneath;
use crate::layout::Dataset;
use crate::lost::{Kind, Lost};

/// The segments that others imply, but that are neither found nor known to be lost.
pub(super) fn missing(store: &Path, found: &[Found], lost: &[Lost]) -> Vec<Lost> {
    let mut readable: BTreeMap<Kind, HashSet<u64>> = BTreeMap::new();
    for segment in found {
        let own = kind_in(segment, segment.entry.dataset);
        readable.entry(own).or_default().extend(segment.numbers());
    }
    // First and last journals of segments that are known to be lost.
    let mut gone: BTreeMap<Kind, Vec<(u64, u64)>> = BTreeMap::new();
    for lost in lost {
        gone.entry(lost.kind(store))
            .or_default()
            .push(lost.journals());
    }
    let mut missing: Vec<Lost> = Vec::new();
    for segment in found {
        // A hidden segment may have expired, and the segments beside it may be deleted already.
        if !beneath::exists(store, &store.join(&segment.entry.path)).unwrap_or(false) {
            continue;
        }
        for dataset in implied(segment) {
            let kind = kind_in(segment, dataset);
            let numbers = readable.get(&kind);
            let gone = gone.entry(kind).or_default();
            let is_known = |number: u64| {
                numbers.is_some_and(|numbers| numbers.contains(&number))
                    || gone
                        .iter()
                        .any(|(first, last)| (*first..=*last).contains(&number))
            };
            let is_there = match dataset {
                Dataset::Health => segment.numbers().all(is_known),
                // A merged segment also names journals without rows.
                Dataset::Rollup | Dataset::Ops => segment.numbers().any(is_known),
            };
            if !is_there {
                let (host, journals) = (&segment.host, &segment.journals);
                gone.push(segment.entry.journals);
                missing.push(Lost::beside(&segment.entry, host, journals, dataset));
            }
        }
    }
    missing
}

/// The datasets that must have the journals of a segment.
fn implied(segment: &Found) -> Vec<Dataset> {
    match segment.entry.dataset {
        Dataset::Rollup | Dataset::Ops => vec![Dataset::Health],
        Dataset::Health => {
            let rollup = segment.has_requests.then_some(Dataset::Rollup);
            let ops = segment.has_operations.then_some(Dataset::Ops);
            rollup.into_iter().chain(ops).collect()
        }
    }
}

/// The kind of the segment that a dataset has of the same journals.
fn kind_in(segment: &Found, dataset: Dataset) -> Kind {
    let (_, granularity, host, date) = segment.kind();
    (dataset, granularity, host.to_owned(), date)
}
