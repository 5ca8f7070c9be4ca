//! Bounds of the time that requests spent in the network. docs/internals/network-or-server.md says why they hold, and when.

/// A server may wait this long for a reply that carries the acknowledgement, or for an RTT if that is longer. RFC 1122 (4.2.3.2) demands less
/// than 500 ms; most systems wait 40 to 200 ms.
const DELAYED_ACK_NS: f64 = 200e6;
/// Least time until a lost segment without successors is sent again: `TCP_RTO_MIN`.
const RETRANSMITTED_NS: f64 = 200e6;

/// A connection in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// Requests that completed on it, of all mounts and operations.
    pub requests: u64,
    /// Bytes sent for them.
    pub sent_bytes: u64,
    /// Mean number of requests between transmission and reply.
    pub concurrency: f64,
    /// Least RTT of a segment so far, ns.
    pub least_ns: f64,
    /// The smoothed RTT at the beginning and the end of the window: the smaller one; and the larger one with the mean
    /// deviation. ns.
    pub smoothed_ns: [f64; 2],
    /// Mean time until the reply of the quickest operation, ns. `None` if no operation is frequent.
    pub quickest_ns: Option<f64>,
    /// Time in which sent data was not acknowledged, ns.
    pub busy_ns: f64,
    /// The windows before, the last one first, as far as they are known: their [`excess`](Self::excess_ns).
    pub excess_before_ns: Vec<f64>,
    /// Length of the window, ns.
    pub window_ns: f64,
    /// Whether segments were sent again.
    pub has_retransmissions: bool,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
    /// Whether requests of more than a few segments share the connection.
    pub has_large_requests: bool,
    /// The same of replies.
    pub has_large_replies: bool,
}

/// The requests of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    /// Number of requests whose parts are known.
    pub count: u64,
    /// Sum of the times from transmission to reply, ns.
    pub rtt_ns_sum: u64,
    /// Longest latency, ns.
    pub longest_ns: u64,
    /// Bytes sent for them.
    pub sent_bytes: u64,
}

/// Parts of [`Requests::rtt_ns_sum`]. The rest is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Surely in the network, ns.
    pub network_ns: u64,
    /// Surely in the server, ns.
    pub server_ns: u64,
}

/// Splits the time of requests. Each request used one of these connections. A side whose bounds are further apart than
/// its lower bound is unknown.
pub fn split(requests: &Requests, paths: &[Path]) -> Parts {
    let all_ns = requests.rtt_ns_sum as f64;
    if requests.count == 0 || paths.is_empty() {
        return Parts::default();
    }
    let least = paths.iter().map(|path| path.least_ns_sum(requests));
    let least_ns = least.fold(all_ns, f64::min);
    // They may have been spread over the connections, and have waited on each at the same time.
    let most_ns: f64 = paths.iter().map(|path| path.most_ns_sum(requests)).sum();
    let most_ns = most_ns.max(least_ns).min(all_ns);
    let width_ns = most_ns - least_ns;
    let known = |lower_ns: f64| match width_ns <= lower_ns {
        true => lower_ns as u64,
        false => 0,
    };
    Parts {
        network_ns: known(least_ns),
        server_ns: known(all_ns - most_ns),
    }
}

impl Path {
    /// Lower bound of the time of requests in the network, ns.
    fn least_ns_sum(&self, requests: &Requests) -> f64 {
        let [smoothed_ns, _] = self.smoothed_ns;
        let without_waits = smoothed_ns - DELAYED_ACK_NS.max(self.least_ns);
        requests.count as f64 * without_waits.max(self.least_ns)
    }

    /// Upper bound of that time, ns; infinite if there is none.
    fn most_ns_sum(&self, requests: &Requests) -> f64 {
        if self.has_large_replies || self.requests == 0 {
            return f64::INFINITY;
        }
        let count = requests.count as f64;
        let concurrency = self.concurrency.max(1.0);
        let at_once = concurrency.min(count);
        let waits = at_once * self.out_of_order as f64 * RETRANSMITTED_NS;
        let longest_ns = requests.longest_ns as f64;
        // While the network stands still, requests gather: all of the row may have waited, whatever their mean number at once is.
        let stall = count * self.stall_ns(longest_ns) + at_once * longest_ns.min(self.busy_ns);
        let [_, smoothed_ns] = self.smoothed_ns;
        let unacknowledged = concurrency * self.share(requests) * self.busy_ns;
        let of_segments = unacknowledged.max(count * smoothed_ns);
        // Otherwise requests of one window may find the network in different states.
        let is_even =
            !self.has_large_requests && !self.has_retransmissions && self.out_of_order == 0;
        let quickest = self.quickest_ns.filter(|_| is_even);
        let quickest = quickest.map(|ns| count * ns);
        let usual = of_segments.min(quickest.unwrap_or(f64::INFINITY));
        usual.max(stall) + waits
    }

    /// The part of the connection's unacknowledged time that can be of these requests.
    fn share(&self, requests: &Requests) -> f64 {
        let of_requests = requests.count as f64 / self.requests as f64;
        let of_bytes = requests.sent_bytes as f64 / self.sent_bytes.max(1) as f64;
        of_requests.max(of_bytes).min(1.0)
    }

    /// Longest time in which the network can have stood still during a request that took `longest_ns`, beyond the round trips of requests.
    fn stall_ns(&self, longest_ns: f64) -> f64 {
        let windows = (longest_ns / self.window_ns.max(1.0)).ceil() as usize;
        let before_ns = match self.excess_before_ns.get(..windows) {
            Some(before) => before.iter().sum(),
            None => longest_ns,
        };
        longest_ns.min(self.excess_ns() + before_ns)
    }

    /// Time in which sent data was not acknowledged, beyond the least that the round trips of its requests take.
    pub fn excess_ns(&self) -> f64 {
        let [smoothed_ns, _] = self.smoothed_ns;
        let round_trips = self.requests as f64 * smoothed_ns.max(self.least_ns);
        (self.busy_ns - round_trips / self.concurrency.max(1.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// A second in which one request at a time was made on a connection whose segments took `rtt_ms`.
    fn serial(count: u64, rtt_ms: f64) -> Path {
        Path {
            requests: count,
            sent_bytes: 200 * count,
            concurrency: 1.0,
            least_ns: rtt_ms * MS,
            smoothed_ns: [rtt_ms * MS; 2],
            quickest_ns: None,
            busy_ns: count as f64 * rtt_ms * MS,
            excess_before_ns: vec![0.0; 64],
            window_ns: 1000.0 * MS,
            has_retransmissions: false,
            out_of_order: 0,
            has_large_requests: false,
            has_large_replies: false,
        }
    }

    /// This number of requests, each `ms` long.
    fn took(count: u64, ms: f64) -> Requests {
        Requests {
            count,
            rtt_ns_sum: (count as f64 * ms * MS) as u64,
            longest_ns: (ms * MS) as u64,
            sent_bytes: 200 * count,
        }
    }

    /// Means of network, server and unknown, ms.
    fn means(requests: Requests, paths: &[Path]) -> [f64; 3] {
        let parts = split(&requests, paths);
        let unknown = requests.rtt_ns_sum - parts.network_ns - parts.server_ns;
        let sums = [parts.network_ns, parts.server_ns, unknown];
        sums.map(|ns| (ns as f64 / requests.count as f64 / MS * 100.0).round() / 100.0)
    }

    #[test]
    fn the_parts_of_requests_on_one_connection() {
        let delayed_acks = |least_ms: f64, ack_ms: f64, count| Path {
            least_ns: least_ms * MS,
            ..serial(count, ack_ms)
        };
        for (what, requests, path, expected) in [
            (
                "a long path",
                took(40, 20.1),
                serial(40, 20.0),
                [20.0, 0.1, 0.0],
            ),
            (
                "a slow server",
                took(40, 20.0),
                serial(40, 0.3),
                [0.3, 19.7, 0.0],
            ),
            ("both", took(40, 25.0), serial(40, 5.0), [5.0, 20.0, 0.0]),
            (
                "a server that acknowledges with its reply",
                took(40, 20.0),
                delayed_acks(0.2, 20.0, 40),
                [0.0, 0.0, 20.0],
            ),
            (
                "a server that is slower than a delayed acknowledgement",
                took(10, 100.0),
                delayed_acks(0.2, 40.0, 10),
                [0.0, 60.0, 40.0],
            ),
            (
                "a path that has become much longer",
                took(10, 500.0),
                delayed_acks(0.2, 499.0, 10),
                [299.0, 0.0, 201.0],
            ),
            (
                "a path that has become longer by less than a delay",
                took(20, 41.0),
                delayed_acks(0.4, 41.0, 20),
                [0.0, 0.0, 41.0],
            ),
        ] {
            let [network, server, unknown] = means(requests, &[path]);
            let is_near = |(is, of): (f64, f64)| (is - of).abs() < 0.05;
            let mut pairs = [network, server, unknown].into_iter().zip(expected);
            assert!(pairs.all(is_near), "{what}: {network} {server} {unknown}");
        }
    }

    #[test]
    fn a_quick_operation_shows_a_quick_network() {
        // The server acknowledges READs after 20 ms with its replies, and GETATTRs after 0.3 ms.
        let path = Path {
            least_ns: 0.2 * MS,
            quickest_ns: Some(0.3 * MS),
            ..serial(40, 20.0)
        };
        let bulk = Path {
            has_large_requests: true,
            ..path.clone()
        };
        let lossy = Path {
            has_retransmissions: true,
            ..path.clone()
        };
        let [network, server, _] = means(took(40, 20.0), &[path]);
        assert_eq!((network, server), (0.0, 19.5));
        assert_eq!(means(took(40, 20.0), &[lossy]), [0.0, 0.0, 20.0]);
        // A GETATTR between large WRITEs may find the network idle.
        assert_eq!(means(took(40, 20.0), &[bulk]), [0.0, 0.0, 20.0]);
    }

    #[test]
    fn a_stall_of_the_network_is_not_the_servers() {
        // Nothing was acknowledged for 300 ms. The smoothed RTT has recovered by the end.
        let stalled = Path {
            concurrency: 2.6,
            busy_ns: 500.0 * MS,
            ..serial(1000, 0.2)
        };
        let row = Requests {
            count: 8,
            rtt_ns_sum: (8.0 * 300.0 * MS) as u64,
            longest_ns: (301.0 * MS) as u64,
            sent_bytes: 1600,
        };
        assert_eq!(split(&row, &[stalled]).server_ns, 0);
        // It was in the window before.
        let before = Path {
            concurrency: 2.6,
            excess_before_ns: vec![423.0 * MS],
            ..serial(1000, 0.2)
        };
        assert_eq!(split(&row, std::slice::from_ref(&before)).server_ns, 0);
        let unknown = Path {
            excess_before_ns: vec![],
            ..before
        };
        assert_eq!(split(&row, &[unknown]).server_ns, 0);
    }

    #[test]
    fn requests_may_be_spread_over_connections() {
        // 16 WRITEs of 1 MiB at once fill four connections.
        let full = Path {
            concurrency: 4.0,
            busy_ns: 1000.0 * MS,
            has_large_requests: true,
            ..serial(100, 5.0)
        };
        let writes = Requests {
            count: 400,
            rtt_ns_sum: (16_000.0 * MS) as u64,
            longest_ns: (60.0 * MS) as u64,
            sent_bytes: 400 << 20,
        };
        assert_eq!(split(&writes, std::slice::from_ref(&full)).server_ns, 0);
        assert_eq!(split(&writes, &vec![full; 4]).server_ns, 0);
        // A slow server behind four of them is known.
        let idle = serial(10, 0.3);
        let parts = split(&took(40, 20.0), &vec![idle; 4]);
        assert_eq!(parts.server_ns, (752.0 * MS) as u64);
    }

    #[test]
    fn a_server_that_stood_still_for_seconds_is_known() {
        let quiet = Path {
            excess_before_ns: vec![1.0 * MS; 64],
            ..serial(4, 0.2)
        };
        let [network, server, unknown] = means(took(4, 3000.0), &[quiet]);
        assert_eq!(network, 0.0);
        assert!(server > 2990.0 && unknown < 10.0, "{server} {unknown}");
    }

    #[test]
    fn what_bounds_cannot_hold_is_unknown() {
        let usual = serial(40, 0.2);
        let large = Path {
            has_large_replies: true,
            ..usual.clone()
        };
        assert_eq!(split(&took(40, 20.0), &[large]).server_ns, 0);
        // Replies were lost, and sent again after 200 ms each.
        let lost = Path {
            out_of_order: 4,
            ..usual.clone()
        };
        assert_eq!(split(&took(40, 20.0), &[lost]).server_ns, 0);
        // All of the unacknowledged time can be of a few large requests.
        let shared = Path {
            requests: 1000,
            sent_bytes: 10_200_000,
            busy_ns: 900.0 * MS,
            ..usual.clone()
        };
        let writes = Requests {
            sent_bytes: 10_000_000,
            ..took(10, 90.0)
        };
        assert_eq!(split(&writes, &[shared]).server_ns, 0);
        // One of the connections is that slow.
        let both = [usual.clone(), serial(40, 19.0)];
        assert_eq!(split(&took(40, 20.0), &both), Parts::default());
        assert_eq!(split(&took(40, 20.0), &[]), Parts::default());
        assert_eq!(split(&Requests::default(), &[usual]), Parts::default());
    }

    #[test]
    fn parts_never_exceed_the_time() {
        for rtt_ms in [0.0, 0.1, 5.0, 40.0, 90.0, 500.0] {
            for ms in [0.0, 0.05, 0.2, 19.0, 95.0, 4000.0] {
                for count in [1, 7, 1000] {
                    let requests = took(count, ms);
                    let Parts {
                        network_ns,
                        server_ns,
                    } = split(&requests, &[serial(count, rtt_ms)]);
                    assert!(network_ns + server_ns <= requests.rtt_ns_sum);
                }
            }
        }
    }
}
