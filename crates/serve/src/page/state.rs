//! The state of stores in a range: the same state gives the same answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use trackiops_query::coverage::Interval;
use trackiops_query::lost::begin_before;
use trackiops_query::times::{self, Zone};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    Dataset, RequestsView, Snapshot, StoreError, StoreId, marks_changed, store_ids,
};
use xxhash_rust::xxh3::Xxh3;

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
    let at = UtcMs::now();
    let later = UtcMs(at.0.saturating_add(ANOTHER_DAY_MS));
    let fixed = range(at)?;
    (Some(fixed) == range(later) && fixed.0 < fixed.1).then_some(fixed)
}

/// The hash of a state.
struct State(Xxh3);

impl State {
    fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn add_path(&mut self, path: &Path) {
        self.add(path.as_os_str().as_encoded_bytes());
    }
}

/// What an answer depends on, besides windows of its range and marks.
#[derive(Clone, Copy)]
pub struct Reads {
    /// Single requests, which are kept apart from windows.
    pub requests: bool,
    /// The time before the range that it is compared with.
    pub before: bool,
}

/// The tag of a question: identifies the content of the stores in its range, their marks, and what else the answer `reads`.
pub fn tag(
    stores: &[PathBuf],
    range: (UtcMs, UtcMs),
    question: &str,
    reads: Reads,
) -> Result<String, StoreError> {
    let mut state = State(Xxh3::new());
    state.add(env!("CARGO_PKG_VERSION").as_bytes());
    state.add(question.as_bytes());
    let begin = match reads.before {
        true => begin_before(Interval::new(range.0, range.1)),
        false => range.0,
    };
    add_windows(&mut state, stores, (begin, range.1))?;
    // Exports have neither marks nor single requests.
    for store in stores.iter().filter(|store| store.is_dir()) {
        if let Some((changed, bytes)) = marks_changed(store)? {
            let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
            state.add_path(store);
            state.add(&changed.as_nanos().to_le_bytes());
            state.add(&bytes.to_le_bytes());
        }
        if reads.requests {
            add_requests(&mut state, store, range)?;
        }
    }
    Ok(format!("\"{:032x}\"", state.0.digest128()))
}

fn add_windows(
    state: &mut State,
    stores: &[PathBuf],
    (since, until): (UtcMs, UtcMs),
) -> Result<(), StoreError> {
    let view = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    // A store that was deleted and made again has the same paths.
    for id in (0..stores.len()).flat_map(|store| view.ids(store)) {
        state.add(id.to_string().as_bytes());
    }
    // Segments never change, and file names are in the catalog as long as their segments.
    for dataset in [Dataset::Rollup, Dataset::Ops, Dataset::Health] {
        for segment in view.segments(dataset, Some((since, until)))? {
            state.add_path(&segment.path);
        }
    }
    for tail in view.tails() {
        if let Some((start, end)) = tail
            .span()
            .filter(|(start, end)| *start < until && since < *end)
        {
            state.add_path(tail.path());
            state.add(&start.0.to_le_bytes());
            state.add(&end.0.to_le_bytes());
        }
    }
    Ok(())
}

/// Adds single requests, and which of them are known to be missing.
fn add_requests(
    state: &mut State,
    store: &Path,
    (since, until): (UtcMs, UtcMs),
) -> Result<(), StoreError> {
    let view = RequestsView::open(store)?;
    let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
    for (file, bytes) in view.files(&(ns(since)..ns(until))) {
        state.add_path(&file);
        state.add(&bytes.to_le_bytes());
    }
    let unread = view.unread().iter().map(|unread| &unread.path);
    for path in unread.chain(view.damaged().keys()) {
        state.add_path(path);
    }
    let before = view.deleted_before().map_or(i64::MIN, |before| before.0);
    state.add(&before.to_le_bytes());
    Ok(())
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
    let id = |store: &PathBuf| -> Result<Option<StoreId>, StoreError> {
        match store.is_dir() {
            true => Ok(Some(store_ids(store)?.id)),
            false => Ok(None),
        }
    };
    let ids = stores.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "stores": stores.iter().map(|store| std::path::absolute(store).unwrap_or_else(|_| store.clone())).collect::<Vec<_>>(),
        "store_ids": ids,
        "hosts": hosts,
        "since": span.map(|(since, _)| times::rfc3339(since)),
        "until": span.map(|(_, until)| times::rfc3339(until)),
        "granularities": granularities.map(|of| of.to_string()).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::recording::of_two_files;
    use trackiops_testkit::stores::{options_of, record};
    use trackiops_testkit::windows::T0;

    use super::*;

    #[test]
    fn a_tag_of_a_comparison_also_stands_for_the_time_before() {
        let dir = tempfile::tempdir().unwrap();
        let stores = ["now", "before"].map(|name| dir.path().join(name));
        let record = |store: &Path, start_ms: i64| {
            record(
                store,
                options_of("h", "1s", "15m"),
                &of_two_files(start_ms, 10),
            );
        };
        let tag_of = |before| {
            let reads = Reads {
                requests: false,
                before,
            };
            tag(&stores, (UtcMs(T0), UtcMs(T0 + 10_000)), "top", reads).unwrap()
        };
        record(&stores[0], T0);
        record(&stores[1], T0 - 300_000);
        let tags = [tag_of(false), tag_of(true)];
        record(&stores[1], T0 - 200_000);
        assert_eq!(tag_of(false), tags[0]);
        assert_ne!(tag_of(true), tags[1]);
    }

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
