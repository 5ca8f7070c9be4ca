//! One reading of a mount's counters, and the requests that completed about then.

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::{FoldKey, FoldValue, RequestRecord, flags};
use trackiops_schemas::identity::Dev;

use crate::audit::transfers::{DISKS, Transfers};
use crate::clock::MonotonicNs;
use crate::rollup::RequestStream;

/// Most time from a request's stamp until its device counts it: the kernel does that next, unless the CPU is taken away in
/// between.
pub const COUNTED_WITHIN_NS: u64 = 20_000_000;

/// The counters of a superblock, read at some time between `began` and `ended`.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the kernel has counted since the superblock was made.
    pub kernel: Transfers,
    /// When the superblock was made, by the monotonic clock, s.
    pub born_s: i64,
    /// When reading began.
    pub began: MonotonicNs,
    /// When reading had ended.
    pub ended: MonotonicNs,
    /// Requests of rows that are certainly not in `kernel`.
    pub after: Transfers,
    /// Requests of rows that may be in `kernel`, or not.
    pub unsure: Transfers,
    /// Left-out transfers that are certainly in `kernel`.
    pub left_out: Transfers,
    /// Sums of calls were taken after the reading ended: calls taken from now on returned after it.
    has_taken_calls: bool,
}

impl Look {
    /// A reading, before any request is seen.
    pub fn new(kernel: Transfers, born_s: i64, (began, ended): (MonotonicNs, MonotonicNs)) -> Self {
        Self {
            kernel,
            born_s,
            began,
            ended,
            after: Transfers::default(),
            unsure: Transfers::default(),
            left_out: Transfers::default(),
            has_taken_calls: false,
        }
    }

    /// A reading of the counters of block devices.
    pub fn of_disks(kernel: Transfers, at: (MonotonicNs, MonotonicNs)) -> Self {
        Self::new(kernel, 0, at)
    }

    /// Takes note of calls that were taken from the kernel and are in a row from now on. The kernel counts a call before the
    /// program adds it up.
    pub fn see_calls(&mut self, calls: Transfers) {
        let of = match self.has_taken_calls {
            true => &mut self.after,
            false => &mut self.unsure,
        };
        of.add(calls);
    }

    /// Notes that all calls added up by now were taken.
    pub fn end_taking_calls(&mut self) {
        self.has_taken_calls = true;
    }

    /// When the reading ended, s.
    pub fn ended_s(&self) -> i64 {
        (self.ended.0 / 1_000_000_000).cast_signed()
    }

    /// Takes note of a request that is counted in a row from now on.
    ///
    /// ```text
    /// reply  <=  kernel counts it  <=  end_ns (stamp)
    ///
    /// end_ns <= began    certainly in the counters
    /// reply  >  ended    certainly not
    /// ```
    #[inline]
    fn see(&mut self, record: &RequestRecord) {
        if record.end_ns <= self.began.0 {
            return;
        }
        let is_after = earliest_reply_ns(record).is_some_and(|reply| reply > self.ended.0);
        let of = match is_after {
            true => &mut self.after,
            false => &mut self.unsure,
        };
        of.add(Transfers::of_record(record));
    }

    /// [`Self::see`] for a request to a block device, which counts it after the stamp.
    fn see_of_disks(&mut self, record: &RequestRecord) {
        if record.end_ns.saturating_add(COUNTED_WITHIN_NS) <= self.began.0 {
            return;
        }
        let of = match record.end_ns > self.ended.0 {
            true => &mut self.after,
            false => &mut self.unsure,
        };
        of.add(Transfers::of_disk_record(record));
    }
}

/// The earliest possible time of the reply, if known. A request that was sent again may have
/// been answered before it was last sent.
fn earliest_reply_ns(record: &RequestRecord) -> Option<u64> {
    if record.flags & flags::UNTIMED != 0 {
        return None;
    }
    let start_ns = record.end_ns.saturating_sub(record.latency_ns);
    let is_split = record.flags & flags::UNSPLIT == 0 && record.retransmissions == 0;
    let until_reply_ns = match is_split {
        true => record.queue_ns.saturating_add(record.rtt_ns),
        false => 0,
    };
    Some(start_ns.saturating_add(until_reply_ns))
}

/// Waiting looks by device: some of the requests that completed around them have not arrived yet.
pub type Looks = AHashMap<Dev, Look>;

/// Takes note of requests that found no room in the rings, and may have completed at any time.
pub fn see_folded(looks: &mut Looks, key: &FoldKey, sum: &FoldValue) {
    let dev = match key.direction & flags::BLOCK {
        0 => Dev(key.dev),
        _ => DISKS,
    };
    if let Some(look) = looks.get_mut(&dev) {
        look.unsure.add(Transfers::of_folded(key, sum));
    }
}

/// Passes requests through and shows each one to the waiting looks.
pub struct Watched<'a, R> {
    requests: &'a mut R,
    looks: Option<&'a mut Looks>,
    /// Where failed requests to block devices are counted.
    failed: Option<&'a mut Transfers>,
}

impl<'a, R> Watched<'a, R> {
    /// Wraps `requests`.
    pub fn new(
        requests: &'a mut R,
        looks: &'a mut Looks,
        failed: Option<&'a mut Transfers>,
    ) -> Self {
        Self {
            requests,
            looks: Some(looks).filter(|looks| !looks.is_empty()),
            failed,
        }
    }
}

impl<R: RequestStream> Watched<'_, R> {
    /// Shows the next `count` requests.
    fn show(&mut self, count: usize) {
        for record in &self.requests.peek()[..count] {
            let is_of_disks = record.flags & flags::BLOCK != 0;
            if let Some(failed) = &mut self.failed
                && record.error < 0
                && is_of_disks
            {
                failed.add(Transfers::of_failed(record));
            }
            let dev = if is_of_disks { DISKS } else { Dev(record.dev) };
            let looks = self.looks.as_mut();
            if let Some(look) = looks.and_then(|looks| looks.get_mut(&dev)) {
                match is_of_disks {
                    true => look.see_of_disks(record),
                    false => look.see(record),
                }
            }
        }
    }
}

impl<R: RequestStream> RequestStream for Watched<'_, R> {
    #[inline]
    fn peek(&mut self) -> &[RequestRecord] {
        self.requests.peek()
    }

    #[inline]
    fn pass(&mut self, count: usize) {
        if self.failed.is_some() || self.looks.is_some() {
            self.show(count);
        }
        self.requests.pass(count);
    }
}
