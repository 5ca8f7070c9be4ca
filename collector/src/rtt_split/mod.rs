//! Splits the time between transmission and reply into network and server, when a window closes.
//!
//! Requests cost nothing more: a window's rows and what TCP knew of connections in it are enough for bounds.

mod bounds;

use std::collections::VecDeque;

use ahash::AHashMap;
use trackiops_schemas::ops::{CONNECTION, OTHER_OPERATIONS, Operation, OperationSums};
use trackiops_schemas::row::{Direction, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::operations::WindowOps;
use crate::rtt_split::bounds::{Parts, Path, Requests, split};

/// Shortest windows that are split: each has a reading of its connections at its end.
const SHORTEST_MS: i64 = 1000;
/// Windows whose readings are remembered. An older request is not known to the server.
const WINDOWS: usize = 64;
/// Most connections that are remembered. Beyond that all are forgotten, and unknown for a window.
const CONNECTIONS: usize = 16 << 10;
/// Requests and replies of at most this size, bytes, are of few segments.
const SMALL: u64 = 16_384;
/// Least number of requests whose mean says something of others.
const LEAST_REQUESTS: u64 = 20;
/// About what a WRITE sends beside its data, bytes.
const HEADER_BYTES: u64 = 256;

/// What is remembered of connections, from window to window.
pub struct RttSplit {
    granularity: Granularity,
    known: AHashMap<String, Known>,
}

/// A connection in earlier windows.
struct Known {
    /// The first window in which it was read.
    since: UtcMs,
    least_ns: u64,
    /// Mean of the smoothed RTT at the last reading, and its upper end.
    smoothed_ns: [f64; 2],
    /// Windows in which it was in use, each with [`Path::excess_ns`].
    excess: VecDeque<(UtcMs, f64)>,
}

/// The connections of a window.
#[derive(Default)]
pub struct WindowPaths {
    /// By name, such as `tcp-3`.
    paths: AHashMap<String, Path>,
    /// By mount, for reads and for writes, because files of a mount ask for the same ones. An unknown mount has an empty
    /// name.
    of_mounts: AHashMap<String, [Vec<Path>; 2]>,
}

impl RttSplit {
    /// For windows of this length.
    pub fn new(granularity: Granularity) -> Self {
        Self {
            granularity,
            known: AHashMap::new(),
        }
    }

    /// The connections of a closed window; `covered_ns` of it were recorded. Windows must come in their order.
    pub fn paths(&mut self, start: UtcMs, covered_ns: u64, ops: &WindowOps) -> WindowPaths {
        if self.granularity.ms() < SHORTEST_MS {
            return WindowPaths::default();
        }
        if self.known.len() > CONNECTIONS {
            self.known.clear();
        }
        let mut paths = AHashMap::new();
        for (operation, sums) in ops.iter().filter(|(of, _)| of.op == CONNECTION) {
            let name = operation.transport.as_ref();
            let path = name.and_then(|name| Some((name, self.path(name, start, &sums.tcp)?)));
            paths.extend(path.map(|(name, path)| (name.clone(), path)));
        }
        for (operation, sums) in ops.iter().filter(|(_, sums)| sums.requests > 0) {
            let name = operation.transport.as_ref();
            if let Some(path) = name.and_then(|name| paths.get_mut(name)) {
                add_operation(path, sums, covered_ns);
            }
        }
        // Operations without room by name may have used any connection.
        let are_all_known = !ops.keys().any(|of| of.op == OTHER_OPERATIONS);
        for (name, path) in &paths {
            if let Some(known) = self.known.get_mut(name) {
                known.excess.push_front((start, path.excess_ns()));
                known.excess.truncate(WINDOWS);
            }
        }
        if !are_all_known {
            return WindowPaths::default();
        }
        WindowPaths {
            paths,
            of_mounts: AHashMap::new(),
        }
    }

    /// What TCP says of a connection in this window. Remembers it for the next ones.
    fn path(&mut self, name: &str, start: UtcMs, tcp: &TcpSums) -> Option<Path> {
        if tcp.readings == 0 || tcp.rtt_ns_min == 0 || tcp.reconnects > 0 {
            // Data may have waited for the new socket.
            self.known.remove(name);
            return None;
        }
        let mean_ns = tcp.per_reading(tcp.rtt_ns_sum)?;
        let deviation_ns = tcp.per_reading(tcp.rtt_var_ns_sum)?;
        let most_ns = tcp.rtt_ns_max as f64 + deviation_ns;
        let window_ns = self.granularity.ns();
        let known = self.known.entry(name.to_owned()).or_insert_with(|| Known {
            since: start,
            least_ns: tcp.rtt_ns_min,
            // There was no smaller one, and it may have been any larger one.
            smoothed_ns: [0.0, most_ns],
            excess: VecDeque::new(),
        });
        known.least_ns = known.least_ns.min(tcp.rtt_ns_min);
        let [least_before_ns, most_before_ns] = known.smoothed_ns;
        // The smallest of several readings is not stored.
        let least_smoothed_ns = match tcp.readings {
            1 => mean_ns.min(least_before_ns),
            _ => 0.0,
        };
        let path = Path {
            least_ns: known.least_ns as f64,
            smoothed_ns: [least_smoothed_ns, most_ns.max(most_before_ns)],
            busy_ns: tcp.busy_ns as f64,
            excess_before_ns: known.excess_before(start, self.granularity),
            window_ns: window_ns as f64,
            has_retransmissions: tcp.retrans > 0,
            out_of_order: tcp.out_of_order,
            ..Path::default()
        };
        known.smoothed_ns = [mean_ns, most_ns];
        Some(path)
    }
}

impl Known {
    /// [`Path::excess_ns`] of the windows before, the last one first. One without a reading has none.
    fn excess_before(&self, start: UtcMs, granularity: Granularity) -> Vec<f64> {
        let mut readings = self.excess.iter().peekable();
        let mut before = Vec::new();
        let mut window = start;
        while before.len() < WINDOWS {
            window = UtcMs(window.0.saturating_sub(granularity.ms()));
            if window < self.since {
                break;
            }
            while readings.next_if(|(at, _)| *at > window).is_some() {}
            let excess_ns = readings.next_if(|(at, _)| *at == window);
            before.push(excess_ns.map_or(0.0, |(_, excess_ns)| *excess_ns));
        }
        before
    }
}

/// Adds an operation that used a connection.
fn add_operation(path: &mut Path, sums: &OperationSums, covered_ns: u64) {
    path.requests += sums.requests;
    path.sent_bytes = path.sent_bytes.saturating_add(sums.sent_bytes);
    path.concurrency += sums.rtt_ns_sum as f64 / covered_ns.max(1) as f64;
    let is_large = |bytes: u64| bytes > SMALL.saturating_mul(sums.requests);
    path.has_large_replies |= is_large(sums.received_bytes);
    path.has_large_requests |= is_large(sums.sent_bytes);
    if sums.rtt_ns_sum > 0 {
        let mean_ns = sums.rtt_ns_sum as f64 / sums.requests as f64;
        // A request takes its RTT at least. So a longer RTT was a wait for the reply.
        path.least_ns = path.least_ns.min(mean_ns);
        if sums.requests >= LEAST_REQUESTS {
            let quickest_ns = path.quickest_ns.unwrap_or(mean_ns);
            path.quickest_ns = Some(quickest_ns.min(mean_ns));
        }
    }
}

impl WindowPaths {
    /// Whether nothing can be split.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Splits the time of operations.
    pub fn split_operations(&self, ops: &mut WindowOps) {
        for (operation, sums) in ops {
            let name = operation.transport.as_deref();
            let Some(path) = name.and_then(|name| self.paths.get(name)) else {
                continue;
            };
            let requests = Requests {
                count: sums.requests,
                rtt_ns_sum: sums.rtt_ns_sum,
                longest_ns: sums.execute_ns_max,
                sent_bytes: sums.sent_bytes,
            };
            let Parts {
                network_ns,
                server_ns,
            } = split(&requests, std::slice::from_ref(path));
            (sums.network_ns_sum, sums.server_ns_sum) = (network_ns, server_ns);
        }
    }

    /// Splits the time of a file's requests. `mount` is the mount of its device, if known.
    pub fn split_row(&mut self, mount: Option<&str>, row: &mut Row, ops: &WindowOps) {
        for (is_write, direction) in [(false, &mut row.read), (true, &mut row.write)] {
            let count = direction.timed().saturating_sub(direction.unsplit);
            // How long large replies are sent is not seen. READs of other files may be small.
            let is_large = !is_write && direction.bytes > SMALL.saturating_mul(direction.requests);
            if count == 0 || is_large {
                continue;
            }
            let requests = Requests {
                count,
                rtt_ns_sum: direction.rtt_ns_sum,
                longest_ns: direction.latency_ns_max,
                sent_bytes: sent_bytes(direction, is_write),
            };
            let paths = self.of_mount(mount, is_write, ops);
            let Parts {
                network_ns,
                server_ns,
            } = split(&requests, paths);
            (direction.network_ns_sum, direction.server_ns_sum) = (network_ns, server_ns);
        }
    }

    /// The connections that reads or writes of a mount may have used. Empty if one of them is unknown.
    fn of_mount(&mut self, mount: Option<&str>, is_write: bool, ops: &WindowOps) -> &[Path] {
        let name = mount.unwrap_or_default();
        if !self.of_mounts.contains_key(name) {
            let both = [false, true].map(|is_write| self.used(mount, is_write, ops));
            self.of_mounts.insert(name.to_owned(), both);
        }
        let both = self.of_mounts.get(name);
        both.map_or(&[], |both| &both[usize::from(is_write)])
    }

    fn used(&self, mount: Option<&str>, is_write: bool, ops: &WindowOps) -> Vec<Path> {
        let used = ops.iter().filter(|(operation, sums)| {
            moves_data(operation, sums, is_write) && may_be_of(operation, mount)
        });
        let path_of = |operation: &Operation| self.paths.get(operation.transport.as_deref()?);
        let found: Option<Vec<_>> = used
            .map(|(operation, _)| path_of(operation).cloned())
            .collect();
        found.unwrap_or_default()
    }
}

fn moves_data(operation: &Operation, sums: &OperationSums, is_write: bool) -> bool {
    let names: &[&str] = match is_write {
        true => &["WRITE"],
        false => &["READ", "READ_PLUS"],
    };
    sums.requests > 0 && names.contains(&operation.op.as_str())
}

/// Whether files of this mount may have used the operation. Mounts that share a client have operations without a mount.
fn may_be_of(operation: &Operation, mount: Option<&str>) -> bool {
    match (operation.mount.as_deref(), mount) {
        (Some(of), Some(mount)) => of == mount,
        _ => true,
    }
}

/// About the bytes that were sent for requests. READs send few, so their number is enough.
fn sent_bytes(direction: &Direction, is_write: bool) -> u64 {
    match is_write {
        true => direction
            .bytes
            .saturating_add(HEADER_BYTES.saturating_mul(direction.requests)),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;

    fn granularity(text: &str) -> Granularity {
        text.parse().unwrap()
    }

    fn operation(mount: Option<&str>, op: &str, transport: Option<&str>) -> Operation {
        Operation {
            mount: mount.map(str::to_owned),
            op: op.to_owned(),
            transport: transport.map(str::to_owned),
        }
    }

    /// Requests that took `ms` each.
    fn sums(requests: u64, ms: u64) -> OperationSums {
        OperationSums {
            requests,
            sent_bytes: 200 * requests,
            received_bytes: 4300 * requests,
            rtt_ns_sum: requests * ms * MS,
            execute_ns_max: ms * MS,
            ..OperationSums::default()
        }
    }

    /// A reading of a connection whose segments took `us` and which sent `requests`, one at a time.
    fn reading(requests: u64, us: u64) -> OperationSums {
        OperationSums {
            tcp: TcpSums {
                readings: 1,
                rtt_ns_sum: 1000 * us,
                rtt_ns_max: 1000 * us,
                rtt_ns_min: 1000 * us,
                busy_ns: requests * us * 1000,
                ..TcpSums::default()
            },
            ..OperationSums::default()
        }
    }

    /// A window of 40 READs, on each of these connections, that took 20 ms each.
    fn window(connections: &[(&str, u64)]) -> WindowOps {
        let mut ops = WindowOps::new();
        for (name, us) in connections {
            let read = operation(Some("nas:/a"), "READ", Some(name));
            ops.insert(read, sums(40, 20));
            ops.insert(Operation::connection((*name).to_owned()), reading(40, *us));
        }
        ops
    }

    fn reads(count: u64, ms: u64) -> Row {
        let mut row = Row::default();
        row.read.requests = count;
        row.read.rtt_ns_sum = count * ms * MS;
        row.read.latency_ns_max = ms * MS;
        row
    }

    /// Network and server of a file's 40 READs, ms, in the window at `second`.
    fn split_file(split: &mut RttSplit, second: i64, mount: &str, ops: &mut WindowOps) -> [u64; 2] {
        let mut paths = split.paths(UtcMs(1000 * second), SECOND, ops);
        paths.split_operations(ops);
        let mut row = reads(40, 20);
        paths.split_row(Some(mount), &mut row, ops);
        [row.read.network_ns_sum, row.read.server_ns_sum].map(|ns| ns / MS)
    }

    #[test]
    fn files_and_operations_are_split_by_their_connections() {
        let mut split = RttSplit::new(granularity("1s"));
        let mut ops = window(&[("tcp-1", 300)]);
        // All of the requests may have begun before the first window, which is not known.
        assert_eq!(split_file(&mut split, 1, "nas:/a", &mut ops), [0, 0]);
        assert_eq!(split_file(&mut split, 2, "nas:/a", &mut ops), [12, 788]);
        let read = &ops[&operation(Some("nas:/a"), "READ", Some("tcp-1"))];
        assert_eq!(
            (read.network_ns_sum, read.server_ns_sum),
            (12 * MS, 788 * MS)
        );
        assert!(read.is_split());
        assert_eq!(read.either_ns_sum(), 0);
        // A distant connection.
        let mut ops = window(&[("tcp-2", 19_900)]);
        assert_eq!(split_file(&mut split, 3, "nas:/a", &mut ops), [796, 0]);
        // Either of both.
        let mut ops = window(&[("tcp-1", 300), ("tcp-2", 19_900)]);
        assert_eq!(split_file(&mut split, 4, "nas:/a", &mut ops), [0, 0]);
        // Another mount has not read, and its connections are not known.
        assert_eq!(split_file(&mut split, 5, "nas:/b", &mut ops), [0, 0]);
    }

    #[test]
    fn large_replies_among_many_small_ones_are_not_split() {
        let mut split = RttSplit::new(granularity("1s"));
        let mut ops = window(&[("tcp-1", 300)]);
        split_file(&mut split, 1, "nas:/a", &mut ops);
        let mut paths = split.paths(UtcMs(2000), SECOND, &ops);
        let mut row = reads(4, 20);
        row.read.bytes = 4 << 20;
        paths.split_row(Some("nas:/a"), &mut row, &ops);
        assert_eq!((row.read.network_ns_sum, row.read.server_ns_sum), (0, 0));
    }

    #[test]
    fn operations_that_mounts_share_may_be_of_each() {
        let mut split = RttSplit::new(granularity("1s"));
        let mut ops = WindowOps::new();
        ops.insert(operation(None, "READ", Some("tcp-1")), sums(40, 20));
        ops.insert(Operation::connection("tcp-1".to_owned()), reading(40, 300));
        split_file(&mut split, 1, "nas:/b", &mut ops);
        assert_eq!(split_file(&mut split, 2, "nas:/b", &mut ops), [12, 788]);
        // One of its connections is not known.
        ops.insert(operation(None, "READ_PLUS", Some("rdma-2")), sums(1, 20));
        assert_eq!(split_file(&mut split, 3, "nas:/b", &mut ops), [0, 0]);
    }

    #[test]
    fn a_window_that_says_too_little_is_not_split() {
        let mut split = RttSplit::new(granularity("1s"));
        let usual = || window(&[("tcp-1", 300)]);
        let connection = Operation::connection("tcp-1".to_owned());
        let mut none = usual();
        none.remove(&connection);
        let mut again = usual();
        again.get_mut(&connection).unwrap().tcp.reconnects = 1;
        let mut other = usual();
        other.insert(operation(None, OTHER_OPERATIONS, None), sums(1, 0));
        for (second, mut ops) in (1..).zip([none, again, other]) {
            assert_eq!(split_file(&mut split, second, "nas:/a", &mut ops), [0, 0]);
        }
        // Shorter windows have no reading each.
        let mut short = RttSplit::new(granularity("100ms"));
        assert_eq!(split_file(&mut short, 1, "nas:/a", &mut usual()), [0, 0]);
    }

    #[test]
    fn the_least_rtt_is_no_longer_than_an_answer() {
        // All acknowledgements waited 20 ms for their replies, except that GETATTRs take 1 ms.
        let mut split = RttSplit::new(granularity("1s"));
        let mut ops = window(&[("tcp-1", 20_000)]);
        let getattr = operation(Some("nas:/a"), "GETATTR", Some("tcp-1"));
        ops.insert(getattr.clone(), sums(3, 1));
        assert_eq!(split_file(&mut split, 1, "nas:/a", &mut ops), [0, 0]);
        // With 30 of them, their mean bounds the network, once the round trips of the window before are known.
        ops.insert(getattr, sums(30, 1));
        assert_eq!(split_file(&mut split, 2, "nas:/a", &mut ops), [0, 0]);
        assert_eq!(split_file(&mut split, 3, "nas:/a", &mut ops), [40, 760]);
    }

    #[test]
    fn windows_before_are_known_from_the_first_reading_on() {
        let mut split = RttSplit::new(granularity("1s"));
        let mut ops = window(&[("tcp-1", 300)]);
        let connection = Operation::connection("tcp-1".to_owned());
        // 40 round trips take 12 ms of it.
        ops.get_mut(&connection).unwrap().tcp.busy_ns = 30 * MS;
        let mut before = |second: i64| {
            let paths = split.paths(UtcMs(1000 * second), SECOND, &ops).paths;
            paths["tcp-1"].excess_before_ns.clone()
        };
        let excess_ns = 18_000_000.0;
        assert_eq!(before(1), Vec::<f64>::new());
        assert_eq!(before(2), [excess_ns]);
        assert_eq!(before(5), [0.0, 0.0, excess_ns, excess_ns], "it was idle");
        assert_eq!(before(900).len(), WINDOWS);
    }
}
