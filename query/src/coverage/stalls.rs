//! Stalls: runs of windows in which a request waited too long for a server.

use std::collections::BTreeMap;

use trackiops_schemas::pending::{Pending, STALLED_MS, StalledServer};

use crate::interval::Interval;

/// Largest distance between two windows of one stall, ms. A request that is sent again starts to wait again.
const JOIN_MS: u64 = 2000;
/// Label of a stall, in whole seconds.
pub fn stalled(age_ms: u64) -> String {
    format!("STALLED {} s", age_ms / 1000)
}

/// A time in which a server did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The server, and the longest wait for it.
    pub server: StalledServer,
    /// From the first to the last window in which a request waited too long.
    pub range: Interval,
}

impl Stall {
    /// Whether one wait can fill the range. Otherwise there were several waits, or a window is longer than the wait.
    pub fn is_one(&self) -> bool {
        self.range.ms() <= self.server.age_ms_max + STALLED_MS
    }
}

/// Stalled windows of a host, by server.
#[derive(Debug, Default)]
pub struct Stalls {
    windows: BTreeMap<(Option<String>, Interval), StalledServer>,
}

impl Stalls {
    /// Adds a window. Several journals may have the same window.
    pub fn add(&mut self, window: Interval, pending: &Pending) {
        for server in pending.stalled() {
            let known = self.windows.entry((server.address.clone(), window));
            known
                .and_modify(|known| known.merge(&server))
                .or_insert(server);
        }
    }

    /// The stalls, by start.
    pub fn finish(self) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = Vec::new();
        for ((address, range), server) in self.windows {
            match stalls.last_mut() {
                Some(last)
                    if last.server.address == address
                        && Interval::new(last.range.end, range.start).ms() <= JOIN_MS =>
                {
                    last.range = last.range.hull(range);
                    last.server.merge(&server);
                }
                _ => stalls.push(Stall { server, range }),
            }
        }
        stalls.sort_by_key(|stall| stall.range);
        stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::pending::PendingClient;
    use trackiops_schemas::time::UtcMs;

    fn client(client: u32, server: &str, mount: &str, age_ms_max: u64) -> PendingClient {
        PendingClient {
            client,
            server: Some(server.to_owned()),
            mounts: vec![mount.to_owned()],
            requests_max: 3,
            age_ms_max,
        }
    }

    #[test]
    fn a_stall_is_a_run_of_windows_of_one_server() {
        let mut stalls = Stalls::default();
        // Two clients of b; a slow but healthy server, c; a second stall of a; one window twice.
        for (second, clients) in [
            (0, vec![client(1, "a", "a:/x", 1500)]),
            (
                1,
                vec![client(1, "a", "a:/x", 2500), client(2, "c", "c:/", 999)],
            ),
            (
                2,
                vec![client(3, "b", "b:/1", 1000), client(4, "b", "b:/2", 1900)],
            ),
            (2, vec![client(3, "b", "b:/1", 1100)]),
            // The request was sent again in between.
            (4, vec![client(1, "a", "a:/y", 1100)]),
            (9, vec![client(1, "a", "a:/x", 1200)]),
        ] {
            let start = UtcMs(second * 1000);
            let pending = Pending {
                clients,
                ..Pending::default()
            };
            stalls.add(Interval::new(start, UtcMs(start.0 + 1000)), &pending);
        }
        let found = stalls.finish().into_iter().map(|Stall { server, range }| {
            let age = stalled(server.age_ms_max);
            (
                range.start.0,
                range.end.0,
                server.to_string(),
                age,
                server.requests_max,
            )
        });
        let found: Vec<_> = found.collect();
        let s = |text: &str| text.to_owned();
        assert_eq!(
            found,
            [
                (0, 5000, s("a (a:/x, a:/y)"), s("STALLED 2 s"), 3),
                (2000, 3000, s("b (b:/1, b:/2)"), s("STALLED 1 s"), 6),
                (9000, 10_000, s("a (a:/x)"), s("STALLED 1 s"), 3),
            ]
        );
    }
}
