//! What TCP knows of the NFS client's connections, read when windows end.
//!
//! A separate thread asks the kernel, so that requests cost nothing more: no program takes part. It alone keeps the
//! capability to enter network namespaces, unless it may not enter any.

mod networks;
pub(crate) mod sock_diag;
mod transports;

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_threads::fail_point;

use crate::clock::{Clock, ClockSample};
use crate::connections::networks::Networks;

/// Shortest time between two readings, ms. A reading of 100 connections takes some tenths of a ms.
const SHORTEST_MS: i64 = 1000;
/// Longest time between two readings, ms. The counters of a connection that is replaced between two readings are not read
/// to their end.
const LONGEST_MS: i64 = 10_000;
/// Most readings that wait for the recorder. Then the thread waits, and the next differences are longer.
const READINGS: usize = 16;
const STACK_BYTES: usize = 256 << 10;

/// A reading of all connections that were in use since the one before.
#[derive(Debug)]
pub struct Readings {
    /// A time in the window that they belong to.
    pub at: UtcMs,
    /// By the connection's name in rows, such as `tcp-3`.
    pub connections: Vec<(String, TcpSums)>,
}

/// The reading thread. Once this is dropped, it ends with its next reading, at the latest after [`LONGEST_MS`].
pub struct Connections {
    readings: Receiver<Readings>,
}

impl Connections {
    /// Starts the thread, for windows of this length.
    pub fn start(granularity: Granularity) -> io::Result<Self> {
        let (sender, readings) = sync_channel(READINGS);
        let thread = thread::Builder::new()
            .name("trackiops-tcp".to_owned())
            .stack_size(STACK_BYTES);
        let every_ms = period_ms(granularity);
        trackiops_threads::spawn_network_observer(thread, move || read(every_ms, &sender))?;
        Ok(Self { readings })
    }

    /// The next reading, if there is one.
    pub fn next(&mut self) -> Option<Readings> {
        self.readings.try_recv().ok()
    }
}

fn read(every_ms: i64, readings: &SyncSender<Readings>) {
    let mut networks = Networks::new();
    // Differences count from here.
    networks.read(ClockSample::take().now);
    loop {
        let end = sleep_until_multiple_of(every_ms);
        fail_point::hit("connections: read");
        let connections = networks.read(ClockSample::take().now);
        // The end of a window is in the next one.
        let at = UtcMs(end.0 - 1);
        if readings.send(Readings { at, connections }).is_err() {
            return;
        }
    }
}

/// Time between two readings: a window if it is neither short nor long. Each long window has several, and one at its end.
fn period_ms(granularity: Granularity) -> i64 {
    let window_ms = granularity.ms();
    if window_ms < SHORTEST_MS {
        let windows = (SHORTEST_MS + window_ms - 1) / window_ms;
        return windows * window_ms;
    }
    // It divides a day or is whole days, so it has small divisors.
    let divides = |parts: &i64| window_ms % parts == 0;
    let parts = (window_ms.div_euclid(LONGEST_MS).max(1)..=window_ms).filter(divides);
    let mut periods = parts.map(|parts| window_ms / parts);
    periods.find(|ms| *ms <= LONGEST_MS).unwrap_or(window_ms)
}

/// Returns the multiple of the wall clock, or if the clock was set meanwhile, its time.
fn sleep_until_multiple_of(every_ms: i64) -> UtcMs {
    let now = || {
        let sample = ClockSample::take();
        Clock::new(sample).utc(sample.now).0
    };
    let began = now();
    let end = began - began.rem_euclid(every_ms) + every_ms;
    thread::sleep(Duration::from_millis((end - began).unsigned_abs()));
    let ended = now();
    match (end..end + every_ms).contains(&ended) {
        true => UtcMs(end),
        false => UtcMs(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_ends_with_a_reading_unless_windows_are_shorter_than_a_second() {
        for (window, every_ms) in [
            ("100ms", 1000),
            ("300ms", 1200),
            ("1s", 1000),
            ("2s", 2000),
            ("10s", 10_000),
            ("12s", 6000),
            ("15s", 7500),
            ("25s", 6250),
            ("1m", 10_000),
            ("1h", 10_000),
            ("7d", 10_000),
        ] {
            let granularity: Granularity = window.parse().unwrap();
            assert_eq!(period_ms(granularity), every_ms, "{window}");
        }
    }

    #[cfg(feature = "fail-points")]
    #[test]
    #[ignore = "is run by the other, to panic"]
    fn as_child_the_reader_panics() {
        let _connections = Connections::start("1s".parse().unwrap()).unwrap();
        assert_eq!(crate::panic_tests::died(), "trackiops-tcp");
    }

    #[cfg(feature = "fail-points")]
    #[test]
    fn a_panic_of_the_reader_is_reported() {
        let test = "as_child_the_reader_panics";
        crate::panic_tests::run(module_path!(), test, "1 connections: read");
    }
}
