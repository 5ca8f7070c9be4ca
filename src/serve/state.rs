//! The state of stores in a range: the same state gives the same answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use trackiops_query::times::{self, Zone};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot, StoreError, marks_changed};
use xxhash_rust::xxh3::Xxh3;

use crate::question_flags::now;

/// After this time, a time relative to now has become another time.
const ANOTHER_DAY_MS: i64 = 25 * 3600 * 1000;

/// A range that does not depend on the time of the request.
pub fn fixed_range(since: Option<&str>, until: Option<&str>) -> Option<(UtcMs, UtcMs)> {
    let zone = Zone::Local;
    let range = |now: UtcMs| {
        let since = times::parse(since?, now, zone).ok()?.at;
        let until = times::parse_end(until?, Some(since), now, zone).ok()?.at;
        Some((since, until))
    };
    let at = now();
    let later = UtcMs(at.0.saturating_add(ANOTHER_DAY_MS));
    let fixed = range(at)?;
    (Some(fixed) == range(later) && fixed.0 < fixed.1).then_some(fixed)
}

/// The tag of a question: identifies the content of the stores in its range, and their marks.
pub fn tag(
    stores: &[PathBuf],
    (since, until): (UtcMs, UtcMs),
    question: &str,
) -> Result<String, StoreError> {
    let view = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    let mut hash = Xxh3::new();
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    let path = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(question.as_bytes());
    // Segments never change, and file names are in the catalog as long as their segments.
    for dataset in [Dataset::Rollup, Dataset::Ops, Dataset::Health] {
        for segment in view.segments(dataset, Some((since, until)))? {
            add(&path(&segment.path));
        }
    }
    for tail in view.tails() {
        if let Some((start, end)) = tail
            .span()
            .filter(|(start, end)| *start < until && since < *end)
        {
            add(&path(tail.path()));
            add(&start.0.to_le_bytes());
            add(&end.0.to_le_bytes());
        }
    }
    // Exports have no marks.
    for store in stores.iter().filter(|store| store.is_dir()) {
        if let Some((changed, bytes)) = marks_changed(store)? {
            let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            add(&path(store));
            add(&changed.as_nanos().to_le_bytes());
            add(&bytes.to_le_bytes());
        }
    }
    Ok(format!("\"{:032x}\"", hash.digest128()))
}

/// Describes the content of stores.
pub fn describe(stores: &[PathBuf]) -> Result<Value, StoreError> {
    let view = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    let sealed = view.journals()?.into_iter().map(|journal| journal.host);
    let hosts: BTreeSet<_> = sealed
        .chain(view.tails().iter().map(|tail| tail.host().to_owned()))
        .collect();
    let granularities = view.granularities().into_iter();
    let span = view.span();
    Ok(json!({
        "stores": stores.iter().map(|store| std::path::absolute(store).unwrap_or_else(|_| store.clone())).collect::<Vec<_>>(),
        "hosts": hosts,
        "since": span.map(|(since, _)| times::rfc3339(since)),
        "until": span.map(|(_, until)| times::rfc3339(until)),
        "granularities": granularities.map(|of| of.to_string()).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_of_fixed_times_is_fixed() {
        for (since, until) in [
            ("@1795233120", "@1795233180"),
            ("2026-11-21T03:10:00Z", "+10m"),
            ("2026-11-21", "2026-11-22 03:10"),
        ] {
            assert!(fixed_range(Some(since), Some(until)).is_some(), "{since}");
        }
        for (since, until) in [
            (Some("1h"), Some("@1795233180")),
            (Some("@1795233120"), None),
            (None, Some("@1795233180")),
            (Some("03:10"), Some("+10m")),
            (Some("@1795233120"), Some("now")),
            (Some("@1795233180"), Some("@1795233120")),
            (Some("x"), Some("@1795233120")),
        ] {
            assert!(fixed_range(since, until).is_none(), "{since:?} {until:?}");
        }
    }
}
