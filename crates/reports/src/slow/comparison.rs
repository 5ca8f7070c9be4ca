//! The requests of a slow time, compared with those of its baseline.

use trackiops_schemas::row::{Direction, Row};

/// A part of the latency dominates if it has this share of the added time.
const MOST: f64 = 0.6;

/// The parts of the mean latency, us. They add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// In the client: for a slot, for the transport or for the next try.
    pub queue_us: f64,
    /// From transmission to reply.
    pub rtt_us: f64,
    /// The rest: in the client after the reply.
    pub completion_us: f64,
}

/// A part of the latency: where most of the added time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In the client, before requests were sent.
    Queue,
    /// From sending to the reply: network and server, or the device.
    Service,
    /// In the client, after the reply.
    Completion,
}

/// Figures of a time, comparable with figures of another time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests/s.
    pub iops: f64,
    /// Bytes/s.
    pub throughput: f64,
    /// Mean size of a request, bytes; `None` without requests.
    pub size: Option<f64>,
    /// Share of the requests that read, 0 to 1.
    pub read_share: Option<f64>,
    /// Share of the requests with an error, 0 to 1.
    pub error_share: Option<f64>,
    /// Repeated transmissions for each request.
    pub retrans: Option<f64>,
    /// Mean latency, us.
    pub mean_us: Option<f64>,
    /// 99th percentile, us.
    pub p99_us: Option<f64>,
    /// Parts of the mean, where they are known.
    pub parts: Option<Parts>,
}

/// Reads and writes together.
pub fn both(row: &Row) -> Direction {
    let mut both = row.read.clone();
    both.merge(&row.write);
    both
}

impl Figures {
    /// Figures of the requests in `recorded_ms` of recorded time.
    pub fn new(row: &Row, recorded_ms: u64) -> Self {
        let all = both(row);
        let per_second = |count: u64| match recorded_ms {
            0 => 0.0,
            ms => count as f64 * 1000.0 / ms as f64,
        };
        let of_each = |sum: u64| (all.requests > 0).then(|| sum as f64 / all.requests as f64);
        Self {
            iops: per_second(all.requests),
            throughput: per_second(all.bytes),
            size: of_each(all.bytes),
            read_share: of_each(row.read.requests),
            error_share: of_each(all.errors),
            retrans: of_each(all.retrans),
            mean_us: all.latency_ns_mean().map(|ns| ns / 1000.0),
            p99_us: all.quantile_us(0.99),
            parts: all.parts_ns_mean().map(|[queue, rtt, completion]| Parts {
                queue_us: queue / 1000.0,
                rtt_us: rtt / 1000.0,
                completion_us: completion / 1000.0,
            }),
        }
    }
}

/// The part of the latency that has most of the added time.
pub fn grown_part(before: &Direction, now: &Direction) -> Option<Part> {
    let [queue, service, completion] = now.parts_ns_mean()?;
    let was = before.parts_ns_mean()?;
    let added = [queue - was[0], service - was[1], completion - was[2]];
    let sum: f64 = added.iter().sum();
    let parts = [Part::Queue, Part::Service, Part::Completion];
    // Completion includes the time of requests without known parts, so these must be few.
    let is_known = now.unsplit * 5 < now.requests;
    let most = added
        .iter()
        .zip(parts)
        .find(|(added, _)| **added >= MOST * sum);
    most.filter(|_| sum > 0.0 && is_known).map(|(_, part)| part)
}

/// What network and server took more for each request, us; `None` if it is unknown.
pub fn added_rtt_us(before: &Figures, now: &Figures) -> Option<f64> {
    Some(now.parts?.rtt_us - before.parts?.rtt_us)
}

/// The part of the mean's change that comes from a different mix of reads and writes, us: new shares, at the old means. In the rest, reads
/// and writes themselves took longer. `None` if a direction is new, or if there were no requests.
pub fn mix_us(before: &Row, now: &Row) -> Option<f64> {
    let requests = |row: &Row| (row.read.requests + row.write.requests) as f64;
    let (all_before, all_now) = (requests(before), requests(now));
    if all_before == 0.0 || all_now == 0.0 {
        return None;
    }
    let part = |before: &Direction, now: &Direction| {
        let change = now.requests as f64 / all_now - before.requests as f64 / all_before;
        match before.latency_ns_mean() {
            Some(mean_ns) => Some(change * mean_ns / 1000.0),
            None => (now.requests == 0).then_some(0.0),
        }
    };
    Some(part(&before.read, &now.read)? + part(&before.write, &now.write)?)
}

/// Something that may explain why it was slow.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub what: &'static str,
    /// Its value before.
    pub before: Option<f64>,
    /// Its value in the slow time.
    pub now: Option<f64>,
    /// Whether it changed by enough to deserve attention first.
    pub is_notable: bool,
}

/// A number that changed by this factor is notable.
pub(super) const NOTABLE_RATIO: f64 = 1.5;
/// A share that changed by this much is notable.
const NOTABLE_SHARE: f64 = 0.1;
/// Errors and repeated transmissions are notable above this share of requests.
const NOTABLE_FAULTS: f64 = 0.001;

/// The changes, notable ones first.
pub fn changes(before: &Figures, now: &Figures) -> Vec<Change> {
    let by_ratio = |before: f64, now: f64| {
        let (low, high) = (before.min(now), before.max(now));
        high > NOTABLE_RATIO * low
    };
    let by_share = |before: f64, now: f64| (now - before).abs() >= NOTABLE_SHARE;
    let more_faults = |before: f64, now: f64| now > NOTABLE_FAULTS && now > NOTABLE_RATIO * before;
    type Is<'i> = &'i dyn Fn(f64, f64) -> bool;
    let change = |what, before: Option<f64>, now: Option<f64>, is: Is<'_>| Change {
        what,
        before,
        now,
        is_notable: before.zip(now).is_some_and(|(before, now)| is(before, now)),
    };
    let mut changes = vec![
        change("requests/s", Some(before.iops), Some(now.iops), &by_ratio),
        change(
            "bytes/s",
            Some(before.throughput),
            Some(now.throughput),
            &by_ratio,
        ),
        change("bytes per request", before.size, now.size, &by_ratio),
        change(
            "share of reads",
            before.read_share,
            now.read_share,
            &by_share,
        ),
        change(
            "share of errors",
            before.error_share,
            now.error_share,
            &more_faults,
        ),
        change(
            "retransmissions per request",
            before.retrans,
            now.retrans,
            &more_faults,
        ),
    ];
    changes.sort_by_key(|change| !change.is_notable);
    changes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn requests(count: u64, us: u64) -> Direction {
        let mut of = Direction {
            requests: count,
            bytes: count * 4096,
            latency_ns_sum: count * us * 1000,
            queue_ns_sum: count * us * 100,
            rtt_ns_sum: count * us * 700,
            ..Direction::default()
        };
        (0..count).for_each(|_| of.latency.record(us * 1000));
        of
    }

    fn row(read: Direction, write: Direction) -> Row {
        Row {
            read,
            write,
            ..Row::default()
        }
    }

    #[test]
    fn parts_add_up_to_the_mean() {
        let figures = Figures::new(&row(requests(30, 100), requests(10, 500)), 2000);
        assert_eq!((figures.iops, figures.mean_us), (20.0, Some(200.0)));
        let parts = figures.parts.unwrap();
        let sum = parts.queue_us + parts.rtt_us + parts.completion_us;
        assert!((sum - 200.0).abs() < 1e-9);
        assert!((parts.rtt_us - 140.0).abs() < 1e-9);
        assert_eq!(figures.read_share, Some(0.75));
    }

    #[test]
    fn another_mix_is_told_from_longer_requests() {
        let before = row(requests(30, 100), requests(10, 500));
        let other_mix = row(requests(10, 100), requests(30, 500));
        // The mean rose from 200 us to 400 us, though neither direction took longer.
        assert!((mix_us(&before, &other_mix).unwrap() - 200.0).abs() < 1e-9);
        let longer = row(requests(30, 200), requests(10, 1000));
        assert_eq!(mix_us(&before, &longer), Some(0.0));
        assert_eq!(
            mix_us(&row(requests(3, 100), Direction::default()), &before),
            None
        );
        assert_eq!(mix_us(&Row::default(), &before), None);
    }

    #[test]
    fn what_changed_comes_first() {
        let mut now = row(requests(30, 100), requests(10, 500));
        let before = Figures::new(&now, 1000);
        now.read.retrans = 3;
        let changes = changes(&before, &Figures::new(&now, 1000));
        assert_eq!(changes[0].what, "retransmissions per request");
        assert_eq!(changes.iter().filter(|change| change.is_notable).count(), 1);
    }
}
