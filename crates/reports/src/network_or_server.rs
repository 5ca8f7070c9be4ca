//! Network or server? In some cases, rows or what TCP knew of connections show which of the two took more time.
//!
//! A wrong culprit is worse than none, so each of the two has to explain the time by itself. Rows have bounds of both
//! ([`OperationSums::network_ns_sum`]): a side explains it if its lower bound exceeds its upper bound of before by half of
//! the added time. Otherwise the connections may tell:
//!
//! * Network: the RTT rose by at least half of the added time, and by more than delayed acknowledgements explain; or segments were lost, and
//!   the RTT or the waits for retransmissions explain as much.
//! * Server: the RTT rose by at most a quarter of the added time, hardly a segment was lost, and operations with small replies became slower.
//!   The client does not see which segments the server sends again. That half of the replies of a segment or a few are lost is no network
//!   on which a connection lasts.

use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::tcp::TcpSums;

use crate::connections::Used;

/// Least number of readings in each of the two times.
const LEAST_READINGS: u64 = 5;
/// Least part of the requests that used connections with readings.
const LEAST_KNOWN: f64 = 0.8;
/// A side explains the added time if it took at least this part of it.
const EXPLAINS: f64 = 0.5;
/// A side has nothing to do with it if it took at most this part of it.
const LITTLE: f64 = 0.25;
/// A server may wait this long for a reply that carries the acknowledgement, or for an RTT if that is longer: `TCP_DELACK_MIN` in
/// `include/net/tcp.h`, and `tcp_send_delayed_ack` in `net/ipv4/tcp_output.c`.
const DELAYED_ACK_US: f64 = 40_000.0;
/// Least retransmissions that show a loss, as a number, as a share of the segments, and relative to before.
const LEAST_LOST: u64 = 20;
const LOSS: f64 = 0.01;
const MORE_LOST: f64 = 5.0;
/// A smaller share of the segments is no loss.
const HARDLY_LOST: f64 = 0.001;
/// Least time until a segment is sent again without acknowledgements of later ones: `TCP_RTO_MIN`.
const RETRANSMITTED_US: f64 = 200_000.0;
/// Replies of at most this size, bytes, are of few segments.
const SMALL: f64 = 16_384.0;
/// An operation became slower if its median is this many times as long, of at least [`LEAST_REQUESTS`].
const SLOWER: f64 = 1.5;
const LEAST_REQUESTS: u64 = 20;

/// Which of the two took more time, or why that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The network.
    Network,
    /// The server.
    Server,
    /// There were no or too few readings.
    FewReadings,
    /// The RTT rose, but delayed acknowledgements may explain that.
    DelayedAcks,
    /// RTT or retransmissions rose, but explain only a part of the time.
    Partly,
    /// The network was as before for what the client sends, but only operations with large replies became slower.
    LargeReplies,
}

impl Split {
    /// The name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Server => "server",
            Self::FewReadings | Self::DelayedAcks | Self::Partly | Self::LargeReplies => {
                "cannot-tell"
            }
        }
    }
}

/// A verdict and what it is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The verdict.
    pub split: Split,
    /// What TCP knew; `None` if that is too little.
    pub tcp: Option<Tcp>,
    /// Bounds that tell; `None` if they do not.
    pub bounds: Option<Bounds>,
}

/// Means of requests in the slow time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Time that was surely the side's, us.
    pub surely_us: f64,
    /// Time until the reply, us.
    pub rtt_us: f64,
}

/// Figures of connections, before and in the slow time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tcp {
    /// Mean of the smoothed RTT, us.
    pub rtt_us: [f64; 2],
    /// Part of the segments that were retransmissions, 0 to 1.
    pub retrans_share: [f64; 2],
}

/// Judges the connections of two times. `added_us` is what network and server took more for each request in the second one.
pub fn judge([before, now]: &[Used; 2], added_us: f64) -> Evidence {
    let path = Path::new(before, now);
    let tcp = path.known();
    let by_bounds = by_bounds([before, now], added_us);
    let by_tcp = || tcp.map_or(Split::FewReadings, |tcp| path.split(tcp, added_us));
    Evidence {
        split: by_bounds.map_or_else(by_tcp, |(split, _)| split),
        tcp,
        bounds: by_bounds.map(|(_, bounds)| bounds),
    }
}

/// The side whose time surely grew by half of the added time, if there is one.
fn by_bounds(times: [&Used; 2], added_us: f64) -> Option<(Split, Bounds)> {
    let [before, now] = times.map(|used| {
        let mut all = OperationSums::default();
        used.ops.values().for_each(|op| all.merge(op));
        all
    });
    let mean_us = |of: &OperationSums, ns: u64| Some(of.per_request(ns)? / 1000.0);
    let grown = |side: fn(&OperationSums) -> u64, other: fn(&OperationSums) -> u64| {
        let most_before = before.rtt_ns_sum.saturating_sub(other(&before));
        let bounds = Bounds {
            surely_us: mean_us(&now, side(&now))?,
            rtt_us: mean_us(&now, now.rtt_ns_sum)?,
        };
        let grown_us = bounds.surely_us - mean_us(&before, most_before)?;
        let is_known = bounds.surely_us > 0.0;
        (is_known && grown_us >= EXPLAINS * added_us).then_some(bounds)
    };
    let network = grown(|of| of.network_ns_sum, |of| of.server_ns_sum);
    let server = grown(|of| of.server_ns_sum, |of| of.network_ns_sum);
    match (network, server) {
        (Some(bounds), None) => Some((Split::Network, bounds)),
        (None, Some(bounds)) => Some((Split::Server, bounds)),
        _ => None,
    }
}

/// The connections of the mounts, before and now.
#[derive(Default)]
struct Path {
    /// Requests of the mounts now.
    requests: u64,
    /// The part of them on connections that were read in both times.
    known: u64,
    /// Requests of all mounts on these connections.
    of_all: u64,
    /// Sums of the mean RTT of each connection, us, weighted by its requests of the mounts now. Another use of connections is no other RTT.
    rtt_us_sum: [f64; 2],
    tcp: [TcpSums; 2],
    /// Whether an operation with small replies became slower.
    is_small_slower: bool,
}

impl Path {
    fn new(before: &Used, now: &Used) -> Self {
        let mut path = Self {
            is_small_slower: is_small_slower(before, now),
            ..Self::default()
        };
        for (key, now) in now.connections.iter().filter(|(_, of)| of.own > 0) {
            path.requests = path.requests.saturating_add(now.own);
            let Some(before) = before.connections.get(key) else {
                continue;
            };
            let both = [&before.tcp, &now.tcp];
            let [Some(rtt_before), Some(rtt)] = both.map(|of| of.per_reading(of.rtt_ns_sum)) else {
                continue;
            };
            path.known = path.known.saturating_add(now.own);
            path.of_all = path.of_all.saturating_add(now.requests);
            for (sum, rtt_ns) in path.rtt_us_sum.iter_mut().zip([rtt_before, rtt]) {
                *sum += now.own as f64 * rtt_ns / 1000.0;
            }
            for (sum, of) in path.tcp.iter_mut().zip(both) {
                sum.merge(of);
            }
        }
        path
    }

    /// The figures, if they are of enough readings and requests.
    fn known(&self) -> Option<Tcp> {
        let are_many = self.tcp.iter().all(|of| of.readings >= LEAST_READINGS);
        let are_most = self.known as f64 >= LEAST_KNOWN * self.requests as f64;
        (self.known > 0 && are_many && are_most).then(|| Tcp {
            rtt_us: self.rtt_us_sum.map(|sum| sum / self.known as f64),
            retrans_share: self.tcp.map(|of| of.retrans_share().unwrap_or(0.0)),
        })
    }

    fn split(&self, tcp: Tcp, added_us: f64) -> Split {
        let [rtt_before_us, rtt_us] = tcp.rtt_us;
        let [lost_before, lost] = tcp.retrans_share;
        let retrans = self.tcp[1].retrans;
        let risen_us = rtt_us - rtt_before_us;
        let explains = |us: f64| us >= EXPLAINS * added_us;
        let may_be_delayed = risen_us <= DELAYED_ACK_US.max(rtt_before_us);
        let is_loss = retrans >= LEAST_LOST && lost >= LOSS && lost >= MORE_LOST * lost_before;
        let waits_us = retrans as f64 * RETRANSMITTED_US / self.of_all.max(1) as f64;
        if (explains(risen_us) && (is_loss || !may_be_delayed)) || (is_loss && explains(waits_us)) {
            return Split::Network;
        }
        // A connection that was made again was down.
        let was_whole = lost < HARDLY_LOST && self.tcp[1].reconnects == 0;
        match (was_whole, risen_us <= LITTLE * added_us) {
            (true, true) if self.is_small_slower => Split::Server,
            (true, true) => Split::LargeReplies,
            (true, false) if may_be_delayed => Split::DelayedAcks,
            _ => Split::Partly,
        }
    }
}

/// Whether most requests of an operation with small replies became slower.
fn is_small_slower(before: &Used, now: &Used) -> bool {
    now.ops.iter().any(|(op, now)| {
        let Some(before) = before.ops.get(op) else {
            return false;
        };
        let both = [before, now];
        let are_many = both.iter().all(|of| of.execute.total() >= LEAST_REQUESTS);
        let is_small = now.received_bytes as f64 <= SMALL * now.requests as f64;
        let [before_us, now_us] = both.map(|of| of.quantile_us(0.5).unwrap_or(0.0));
        are_many && is_small && now_us >= SLOWER * before_us
    })
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::ops::OperationSums;

    use super::*;
    use crate::connections::Connection;

    /// A connection that took `rtt_us` at each of 10 readings, and lost this many of 10,000 segments.
    fn tcp(rtt_us: u64, retrans: u64) -> TcpSums {
        TcpSums {
            readings: 10,
            rtt_ns_sum: 10_000 * rtt_us,
            segments: 10_000,
            retrans,
            ..TcpSums::default()
        }
    }

    fn connection(own: u64, tcp: TcpSums) -> Connection {
        Connection {
            own,
            requests: own,
            tcp,
            ..Connection::default()
        }
    }

    fn used(connections: impl IntoIterator<Item = (&'static str, Connection)>, us: u64) -> Used {
        let mut write = OperationSums {
            requests: 1000,
            received_bytes: 200_000,
            ..OperationSums::default()
        };
        (0..1000).for_each(|_| write.execute.record(1000 * us));
        let connections = connections.into_iter();
        Used {
            connections: connections
                .map(|(name, of)| (("h".into(), Some(name.into())), of))
                .collect(),
            ops: [("WRITE".into(), write)].into(),
        }
    }

    /// One connection; the requests take `added_us` more.
    fn split(before: TcpSums, now: TcpSums, added_us: u64) -> Split {
        let before = used([("tcp-0", connection(1000, before))], 400);
        let now = used([("tcp-0", connection(1000, now))], 400 + added_us);
        let path = Path::new(&before, &now);
        path.known()
            .map_or(Split::FewReadings, |tcp| path.split(tcp, added_us as f64))
    }

    #[test]
    fn each_side_has_to_explain_the_time() {
        let usual = tcp(300, 0);
        for (now, added_us, expected) in [
            (tcp(60_300, 0), 60_000, Split::Network),
            (tcp(20_300, 310), 20_000, Split::Network),
            // 310 of 1,000 requests wait for at least 200 ms.
            (tcp(300, 310), 70_000, Split::Network),
            (tcp(300, 310), 700_000, Split::Partly),
            (tcp(60_300, 0), 600_000, Split::Server),
            (tcp(60_300, 0), 150_000, Split::Partly),
            // A server that takes 20 ms may also acknowledge after 20 ms.
            (tcp(20_300, 0), 20_000, Split::DelayedAcks),
            (tcp(310, 3), 20_000, Split::Server),
            (tcp(310, 50), 20_000, Split::Partly),
        ] {
            assert_eq!(split(usual, now, added_us), expected, "{now:?} {added_us}");
        }
        // It has always been lost.
        assert_eq!(split(tcp(300, 300), tcp(300, 310), 70_000), Split::Partly);
        // Where an RTT is long, acknowledgements may be as late.
        assert_eq!(
            split(tcp(90_000, 0), tcp(170_000, 0), 80_000),
            Split::DelayedAcks
        );
        let again = TcpSums {
            reconnects: 1,
            ..usual
        };
        assert_eq!(split(usual, again, 20_000), Split::Partly);
    }

    /// A second of 1,000 WRITEs that took `rtt_us` until the reply, with lower bounds for network and server.
    fn bounded(rtt_us: u64, network_us: u64, server_us: u64) -> Used {
        let mut used = used([], rtt_us);
        for op in used.ops.values_mut() {
            op.rtt_ns_sum = 1_000_000 * rtt_us;
            op.network_ns_sum = 1_000_000 * network_us;
            op.server_ns_sum = 1_000_000 * server_us;
        }
        used
    }

    #[test]
    fn bounds_tell_what_connections_cannot() {
        for (before, now, expected) in [
            (
                bounded(400, 0, 0),
                bounded(20_400, 0, 15_000),
                Split::Server,
            ),
            (
                bounded(400, 0, 0),
                bounded(20_400, 15_000, 0),
                Split::Network,
            ),
            (
                bounded(400, 0, 0),
                bounded(20_400, 5000, 5000),
                Split::FewReadings,
            ),
            // The server may have taken as long before.
            (
                bounded(14_000, 0, 0),
                bounded(34_000, 0, 15_000),
                Split::FewReadings,
            ),
            (
                bounded(14_000, 13_000, 0),
                bounded(34_000, 13_000, 15_000),
                Split::Server,
            ),
        ] {
            let Evidence { split, bounds, .. } = judge(&[before, now], 20_000.0);
            assert_eq!(
                (split, bounds.is_some()),
                (expected, split != Split::FewReadings)
            );
        }
        let found = judge(&[bounded(400, 0, 0), bounded(20_400, 0, 15_000)], 20_000.0);
        let bounds = Bounds {
            surely_us: 15_000.0,
            rtt_us: 20_400.0,
        };
        assert_eq!((found.bounds, found.tcp), (Some(bounds), None));
    }

    #[test]
    fn too_little_is_known() {
        let few = TcpSums {
            readings: 4,
            ..tcp(90_000, 0)
        };
        assert_eq!(split(tcp(300, 0), few, 90_000), Split::FewReadings);
        assert_eq!(
            split(TcpSums::default(), tcp(90_000, 0), 90_000),
            Split::FewReadings
        );
        // Half of the requests used a connection without readings.
        let of = |rtt_us| {
            let known = ("tcp-0", connection(500, tcp(rtt_us, 0)));
            let other = ("tcp-1", connection(500, TcpSums::default()));
            used([known, other], rtt_us)
        };
        assert_eq!(Path::new(&of(300), &of(90_000)).known(), None);
    }

    #[test]
    fn more_use_of_a_distant_connection_is_no_longer_rtt() {
        let of = |near, far| {
            let near = ("tcp-0", connection(near, tcp(300, 0)));
            let far = ("tcp-1", connection(far, tcp(90_000, 0)));
            used([near, far], 400)
        };
        let path = Path::new(&of(900, 100), &of(100, 900));
        let [before, now] = path.known().unwrap().rtt_us;
        assert_eq!(before, now);
    }

    #[test]
    fn large_replies_alone_show_no_server() {
        let large = |us| {
            let mut of = used([("tcp-0", connection(1000, tcp(300, 0)))], us);
            for op in of.ops.values_mut() {
                op.received_bytes = 1000 << 20;
            }
            of
        };
        let path = Path::new(&large(400), &large(20_400));
        let tcp = path.known().unwrap();
        assert_eq!(path.split(tcp, 20_000.0), Split::LargeReplies);
    }
}
