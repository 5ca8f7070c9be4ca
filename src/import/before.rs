//! What a store had before an import: the same capture, imported again, counts twice.

use std::collections::BTreeMap;
use std::path::Path;

use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::Snapshot;

/// Times that hosts had in a store before, and what came to them.
#[derive(Default)]
pub struct Before {
    /// By host: begins and ends of times that do not touch, ascending.
    times: BTreeMap<String, Vec<(UtcMs, UtcMs)>>,
    /// By host.
    added: BTreeMap<String, Added>,
}

/// Windows that came to a host that had some before, but for empty ones.
#[derive(Default)]
struct Added {
    all: u64,
    /// Windows of a time that it had.
    again: u64,
}

impl Before {
    /// What the store has now. Nothing if it cannot be read: whoever writes to it says why.
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

    /// Windows of a host are added to the store.
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

    /// Hosts that had data of a time that was imported, and windows that came to it. Captures that follow each other share a window.
    pub fn again(&self) -> (u64, u64) {
        let is_again = |added: &&Added| added.again > 1 || added.again == added.all;
        let of_hosts = self.added.values().filter(|added| added.again > 0);
        let of_hosts = of_hosts.filter(is_again).map(|added| added.again);
        of_hosts.fold((0, 0), |(hosts, windows), again| {
            (hosts + 1, windows + again)
        })
    }
}
