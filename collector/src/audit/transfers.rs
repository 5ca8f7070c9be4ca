//! Successful requests and their bytes, and the bytes of calls: the counts that the kernel's counters and rows share.

use trackiops_schemas::ebpf::ring::{FoldKey, FoldValue, RequestRecord, flags};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{AppCalls, Direction, Row};

/// Stands for all block devices. A row of a file names its file system, which may span several devices; so the counters of all devices
/// are compared together.
pub const DISKS: Dev = Dev(0);

/// Requests read, bytes read, requests written, bytes written; then bytes of calls, in the kernel's order: read and written
/// through the page cache, and read and written with `O_DIRECT`.
const COUNTS: usize = 8;
/// The leading counts, which are about requests.
const OF_REQUESTS: usize = 4;

/// Successful requests and their bytes, read and written, and the bytes that calls of applications read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers([u64; COUNTS]);

/// The differences between the counts of two transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference([i64; COUNTS]);

impl Transfers {
    /// Transfers with (requests, bytes) in each direction.
    pub fn new((reads, read_bytes): (u64, u64), (writes, written_bytes): (u64, u64)) -> Self {
        Self([reads, read_bytes, writes, written_bytes, 0, 0, 0, 0])
    }

    /// Bytes of calls that read, and of calls that wrote.
    pub fn of_calls(read: &AppCalls, write: &AppCalls) -> Self {
        let (direct_read, direct_written) = (read.direct_bytes, write.direct_bytes);
        Self::default().with_calls([read.bytes, write.bytes, direct_read, direct_written])
    }

    /// The same requests with these bytes of calls.
    pub fn with_calls(self, bytes: [u64; COUNTS - OF_REQUESTS]) -> Self {
        let [reads, read_bytes, writes, written_bytes, ..] = self.0;
        let [read, written, direct_read, direct_written] = bytes;
        Self([
            reads,
            read_bytes,
            writes,
            written_bytes,
            read,
            written,
            direct_read,
            direct_written,
        ])
    }

    /// The requests alone.
    pub fn without_calls(self) -> Self {
        self.with_calls([0; COUNTS - OF_REQUESTS])
    }

    /// Bytes of all calls.
    pub fn call_bytes(self) -> u64 {
        self.0
            .iter()
            .skip(OF_REQUESTS)
            .fold(0, |sum, bytes| sum.wrapping_add(*bytes))
    }

    /// The transfers of a row. Block devices count failed requests as well.
    pub fn of_row(level: IoLevel, row: &Row) -> Self {
        let of = |d: &Direction| {
            let left_out = match level {
                IoLevel::Wire => d.errors,
                _ => 0,
            };
            (d.requests.saturating_sub(left_out), d.bytes)
        };
        let mut all = Self::new(of(&row.read), of(&row.write));
        all.add(Self::of_calls(&row.app_read, &row.app_write));
        all
    }

    /// The transfers of a request.
    pub fn of_record(record: &RequestRecord) -> Self {
        let is_write = record.flags & flags::WRITE != 0;
        let requests = u64::from(record.error >= 0);
        Self::of_direction(is_write, (requests, u64::from(record.done_bytes)))
    }

    /// The transfers of a request to a block device, as the device counts them: with the bytes that failed.
    pub fn of_disk_record(record: &RequestRecord) -> Self {
        let is_write = record.flags & flags::WRITE != 0;
        let requests = u64::from(record.flags & flags::PIECE == 0);
        Self::of_direction(is_write, (requests, u64::from(record.asked_bytes)))
    }

    /// For a failed request: the bytes that rows do not have.
    pub fn of_failed(record: &RequestRecord) -> Self {
        let is_write = record.flags & flags::WRITE != 0;
        let bytes = record.asked_bytes.saturating_sub(record.done_bytes);
        Self::of_direction(is_write, (0, u64::from(bytes)))
    }

    /// The transfers of a folded sum.
    pub fn of_folded(key: &FoldKey, sum: &FoldValue) -> Self {
        let left_out = match key.direction & flags::BLOCK {
            0 => sum.errors,
            _ => 0,
        };
        let requests = sum.requests.saturating_sub(left_out);
        let is_write = key.direction & flags::WRITE != 0;
        Self::of_direction(is_write, (requests, sum.bytes))
    }

    /// Requests and bytes of one direction.
    pub fn of_direction(is_write: bool, of: (u64, u64)) -> Self {
        match is_write {
            false => Self::new(of, (0, 0)),
            true => Self::new((0, 0), of),
        }
    }

    /// Adds other transfers. The kernel's counters wrap around.
    pub fn add(&mut self, other: Self) {
        let pairs = self.0.iter_mut().zip(other.0);
        pairs.for_each(|(count, more)| *count = count.wrapping_add(more));
    }

    /// The transfers since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let at = |i: usize| self.0[i].wrapping_sub(earlier.0[i]);
        Self(std::array::from_fn(at))
    }

    /// Like [`Self::since`], but 0 where `earlier` is more: the kernel adds a failed attempt to its
    /// two counters one after the other, and a look may come in between.
    pub fn growth_since(self, earlier: Self) -> Self {
        self.difference(earlier).above(Difference::default())
    }

    /// The minimum of each count.
    pub fn min(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].min(other.0[i])))
    }

    /// The surplus of each count over `other`'s.
    pub fn difference(self, other: Self) -> Difference {
        Difference(self.since(other).0.map(u64::cast_signed))
    }

    /// Whether the bytes have grown since `earlier`, and by less than `leap`.
    pub fn grew_since(self, earlier: Self, leap: u64) -> bool {
        let Self([_, read_bytes, _, written_bytes, ..]) = self.since(earlier);
        read_bytes.max(written_bytes) < leap
    }

    /// Whether there are none.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Requests of both directions.
    pub fn requests(self) -> u64 {
        self.0[0].wrapping_add(self.0[2])
    }

    /// Bytes of both directions.
    pub fn bytes(self) -> u64 {
        self.0[1].wrapping_add(self.0[3])
    }

    /// A row of these transfers, without latencies.
    pub fn row(self) -> Row {
        let [reads, read_bytes, writes, written_bytes, ..] = self.0;
        let [.., called_read, called_written, direct_read, direct_written] = self.0;
        let calls = |bytes, direct_bytes| AppCalls {
            bytes,
            direct_bytes,
            ..AppCalls::default()
        };
        let direction = |requests, bytes| Direction {
            requests,
            bytes,
            untimed: requests,
            ..Direction::default()
        };
        Row {
            read: direction(reads, read_bytes),
            write: direction(writes, written_bytes),
            app_read: calls(called_read, direct_read),
            app_write: calls(called_written, direct_written),
            ..Row::default()
        }
    }
}

impl Difference {
    /// Adds transfers.
    pub fn plus(self, more: Transfers) -> Self {
        Self(std::array::from_fn(|i| {
            self.0[i].wrapping_add_unsigned(more.0[i])
        }))
    }

    /// Takes transfers away.
    pub fn minus(self, less: Transfers) -> Self {
        Self(std::array::from_fn(|i| {
            self.0[i].wrapping_sub_unsigned(less.0[i])
        }))
    }

    /// The minimum of each difference.
    pub fn min(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].min(other.0[i])))
    }

    /// How much each is above `limit`, or 0.
    pub fn above(self, limit: Self) -> Transfers {
        let at = |i: usize| self.0[i].saturating_sub(limit.0[i]).max(0).unsigned_abs();
        Transfers(std::array::from_fn(at))
    }

    /// Whether a number of bytes is negative.
    pub fn lacks_bytes(self) -> bool {
        self.0[1] < 0 || self.0[3] < 0
    }
}
