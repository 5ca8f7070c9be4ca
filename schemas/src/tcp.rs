//! What TCP knows of a connection to a server, as the kernel measures it. Mergeable partial aggregates, like the rows of
//! operations in which they stand.

use crate::counter_macro::{Counter, counters};

counters! {
    /// Readings of a connection's `struct tcp_info`. Sums over readings are of gauges: divide them by `readings`. Other
    /// counts are differences between two readings.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpSums {
        /// Readings before which the connection was in use: data moved, or waited to be sent. Without one, nothing is
        /// known.
        readings: "readings", Count, sum;
        /// Readings that found another socket than the one before.
        reconnects: "reconnects", Count, sum;
        /// Sum over readings of the smoothed RTT, ns.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Largest smoothed RTT, ns.
        rtt_ns_max: "rtt_us_max", Microseconds, max;
        /// Least RTT of a segment in the last minutes before a reading (`net.ipv4.tcp_min_rtt_wlen`), ns.
        rtt_ns_min: "rtt_us_min", Microseconds, least;
        /// Sum over readings of the mean deviation of the RTT, ns.
        rtt_var_ns_sum: "rtt_var_us_sum", Microseconds, saturating_sum;
        /// Segments with data that were sent, retransmissions included.
        segments: "segments", Count, sum;
        /// Segments that were retransmitted, SYNs included (`tcpi_total_retrans`).
        retrans: "retrans", Count, sum;
        /// Their bytes.
        retrans_bytes: "retrans_bytes", Bytes, sum;
        /// Most segments that were taken for lost at a reading.
        lost_max: "lost_max", Count, max;
        /// How often the server acknowledged segments out of order.
        reorderings: "reorderings", Count, sum;
        /// Sum over readings of the segments in flight.
        in_flight_sum: "in_flight_sum", Count, sum;
        /// Most segments in flight at a reading.
        in_flight_max: "in_flight_max", Count, max;
        /// Sum over readings of the congestion window, segments.
        cwnd_sum: "cwnd_sum", Count, sum;
        /// Sum over readings of the window that the server offers, bytes.
        send_window_sum: "send_window_sum", Bytes, sum;
        /// Sum of the window that the client offers, bytes.
        receive_window_sum: "receive_window_sum", Bytes, sum;
        /// Readings in that sum. Linux before 6.2 does not say the client's window.
        receive_window_readings: "receive_window_readings", Count, sum;
        /// Time in which the server's window limited sending, ns.
        receiver_limited_ns: "receiver_limited_us", Microseconds, saturating_sum;
        /// Time in which the client's send buffer limited sending, ns.
        send_buffer_limited_ns: "send_buffer_limited_us", Microseconds, saturating_sum;
        /// Highest rate at which the server acknowledged data, at a reading.
        delivery_rate_max: "delivery_rate_max", BytesPerSecond, max;
        /// Time in which data that the client sent was not acknowledged, ns.
        busy_ns: "busy_us", Microseconds, saturating_sum;
        /// Segments that the client received out of order, because others before them were lost or overtaken.
        out_of_order: "out_of_order", Count, sum;
    }
    and {}
}

impl TcpSums {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
    }

    /// The value of a counter as its column holds it; `None` if it is unknown.
    pub fn known(&self, counter: &Counter<Self>) -> Option<u64> {
        let value = counter.stored((counter.get)(self));
        let is_measured = match counter.name {
            // The kernel has no rate before the first acknowledgement, and no RTT is 0.
            "rtt_us_min" | "delivery_rate_max" => value > 0,
            "receive_window_sum" => self.receive_window_readings > 0,
            _ => true,
        };
        (self.readings > 0 && is_measured).then_some(value)
    }

    /// Mean over readings of a sum; `None` without readings.
    pub fn per_reading(&self, sum: u64) -> Option<f64> {
        (self.readings > 0).then(|| sum as f64 / self.readings as f64)
    }

    /// Mean of the window that the client offers, bytes; `None` if it is unknown.
    pub fn receive_window_mean(&self) -> Option<f64> {
        let readings = self.receive_window_readings;
        (readings > 0).then(|| self.receive_window_sum as f64 / readings as f64)
    }

    /// The part of the segments that were retransmissions; `None` if none was sent. SYNs have no data, so they are not among
    /// the segments.
    pub fn retrans_share(&self) -> Option<f64> {
        let share = || self.retrans as f64 / self.segments as f64;
        (self.segments > 0).then(|| share().min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(rtt_us: u64, retrans: u64) -> TcpSums {
        TcpSums {
            readings: 1,
            rtt_ns_sum: rtt_us * 1000,
            rtt_ns_max: rtt_us * 1000,
            rtt_ns_min: rtt_us * 500,
            segments: 100,
            retrans,
            ..TcpSums::default()
        }
    }

    #[test]
    fn readings_add_up_in_any_order_and_nothing_changes_none() {
        let all = [reading(300, 0), reading(100, 7), reading(200, 1)];
        let merged = |order: [usize; 3]| {
            let mut sum = TcpSums::default();
            order.iter().for_each(|at| sum.merge(&all[*at]));
            sum
        };
        let sum = merged([0, 1, 2]);
        assert_eq!(sum, merged([2, 0, 1]));
        assert_eq!((sum.rtt_ns_max, sum.rtt_ns_min), (300_000, 50_000));
        assert_eq!(sum.per_reading(sum.rtt_ns_sum), Some(200_000.0));
        assert_eq!(sum.retrans_share(), Some(8.0 / 300.0));
        assert_eq!(reading(300, 120).retrans_share(), Some(1.0), "SYNs");
        let mut same = sum;
        same.merge(&TcpSums::default());
        assert_eq!(same, sum);
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let named = |name: &str| {
            let mut counters = TcpSums::COUNTERS.iter();
            counters.find(|counter| counter.name == name).unwrap()
        };
        let none = TcpSums::default();
        let known = TcpSums::COUNTERS.iter().map(|counter| none.known(counter));
        assert!(known.into_iter().all(|value| value.is_none()));
        assert_eq!(none.per_reading(0), None);
        let mut quiet = reading(300, 0);
        assert_eq!(quiet.known(named("retrans")), Some(0));
        assert_eq!(quiet.known(named("rtt_us_min")), Some(150));
        assert_eq!(quiet.known(named("delivery_rate_max")), None);
        assert_eq!(quiet.receive_window_mean(), None);
        assert_eq!(quiet.known(named("receive_window_sum")), None);
        quiet.receive_window_readings = 1;
        assert_eq!(quiet.receive_window_mean(), Some(0.0));
        assert_eq!(quiet.known(named("receive_window_sum")), Some(0));
    }
}
