//! What a store contained before an import: importing a capture twice counts it twice.

use std::collections::BTreeMap;
use std::path::Path;

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;

/// Times that hosts had in a store before, and the windows that an import added to them.
#[derive(Default)]
pub struct Before {
    /// By host: beginnings and ends of separate times, ascending.
    times: BTreeMap<String, Vec<(UtcMs, UtcMs)>>,
    /// By host.
    added: BTreeMap<String, Added>,
}

/// New windows of a host that the store already had, without empty ones.
#[derive(Default)]
struct Added {
    all: u64,
    /// Windows at a time that the store already had.
    again: u64,
}

impl Before {
    /// The present content of the store. Empty if it cannot be read: the writer of the store will report why.
    pub fn of(store: &Path) -> Self {
        let mut before = Self::default();
        let Ok(snapshot) = Snapshot::open(store) else {
            return before;
        };
        let sealed = snapshot.journals().unwrap_or_default().into_iter();
        let sealed = sealed.map(|journal| (journal.host, (journal.span.start, journal.span.end)));
        let tails = snapshot.tails().iter();
        let tails = tails.filter_map(|tail| Some((tail.host().to_owned(), tail.span()?)));
        for (host, time) in sealed.chain(tails) {
            before.times.entry(host).or_default().push(time);
        }
        for times in before.times.values_mut() {
            times.sort_unstable();
            times.dedup_by(|(begin, end), (_, end_before)| {
                let touches = *begin <= *end_before;
                if touches {
                    *end_before = (*end_before).max(*end);
                }
                touches
            });
        }
        before
    }

    /// Counts windows of a host that are added to the store.
    pub fn added(&mut self, host: &str, windows: &[ClosedWindow]) {
        let Some(times) = self.times.get(host) else {
            return;
        };
        let was_there = |at: UtcMs| {
            let behind = times.partition_point(|(begin, _)| *begin <= at);
            behind > 0 && at < times[behind - 1].1
        };
        let added = self.added.entry(host.to_owned()).or_default();
        let is_filled = |window: &&ClosedWindow| !window.rows.is_empty() || !window.ops.is_empty();
        for window in windows.iter().filter(is_filled) {
            added.all += 1;
            added.again += u64::from(was_there(window.start));
        }
    }

    /// The number of hosts with data of an imported time, and of windows added there. Consecutive captures share one window.
    pub fn again(&self) -> (u64, u64) {
        let is_again = |added: &&Added| added.again > 1 || added.again == added.all;
        let of_hosts = self.added.values().filter(|added| added.again > 0);
        let of_hosts = of_hosts.filter(is_again).map(|added| added.again);
        of_hosts.fold((0, 0), |(hosts, windows), again| {
            (hosts + 1, windows + again)
        })
    }
}
