//! Sums of the rows of an answer, in little memory. An answer may have a hundred thousand rows, most with few counters.

use std::borrow::Cow;

use trackiops_schemas::file_ops::{FileOp, FileOps};
use trackiops_schemas::row::{AppCalls, CachedBytes, Direction, Row};

const COUNTERS: usize = Direction::COUNT;
const CALLS: usize = AppCalls::COUNT;
const CACHE: usize = CachedBytes::COUNT;
/// Number of counters of a row: READ, WRITE, read calls, write calls, and the page cache.
const ALL: usize = 2 * COUNTERS + 2 * CALLS + CACHE;
const _: () = assert!(ALL <= u64::BITS as usize);

/// Counters of a row, without the zeros.
#[derive(Clone, Debug)]
pub struct SparseRow(Kept);

#[derive(Clone, Debug)]
enum Kept {
    /// A row without lists: its counters that are not zero, and a bit for each in `which`, one of [`ALL`].
    Few { which: u64, counters: Box<[u64]> },
    /// A row with lists.
    Whole(Box<Row>),
}

impl From<Row> for SparseRow {
    fn from(row: Row) -> Self {
        let Row {
            read,
            write,
            ops,
            app_read,
            app_write,
            cache,
        } = &row;
        let is_plain =
            |of: &Direction| of.errnos.counts().is_empty() && of.latency.buckets().is_empty();
        let is_untimed = |of: &AppCalls| of.latency.buckets().is_empty();
        if !(is_plain(read)
            && is_plain(write)
            && ops.as_slice().is_empty()
            && is_untimed(app_read)
            && is_untimed(app_write))
        {
            return Self(Kept::Whole(Box::new(row)));
        }
        let mut all = [0; ALL];
        all[..COUNTERS].copy_from_slice(&read.counters());
        all[COUNTERS..2 * COUNTERS].copy_from_slice(&write.counters());
        let (calls, cached) = all[2 * COUNTERS..].split_at_mut(2 * CALLS);
        calls[..CALLS].copy_from_slice(&app_read.counters());
        calls[CALLS..].copy_from_slice(&app_write.counters());
        cached.copy_from_slice(&cache.counters());
        let bits = all.iter().enumerate();
        let which = bits.fold(0, |which, (i, counter)| {
            which | u64::from(*counter != 0) << i
        });
        let mut counters = Vec::with_capacity(which.count_ones() as usize);
        counters.extend(ones(which).map(|i| all[i]));
        let counters = counters.into();
        Self(Kept::Few { which, counters })
    }
}

impl SparseRow {
    /// Counters of READ.
    pub fn read(&self) -> Cow<'_, Direction> {
        self.direction(0, |row| &row.read)
    }

    /// Counters of WRITE.
    pub fn write(&self) -> Cow<'_, Direction> {
        self.direction(1, |row| &row.write)
    }

    /// All other operations.
    pub fn ops(&self) -> &[FileOp] {
        match &self.0 {
            Kept::Few { .. } => &[],
            Kept::Whole(row) => row.ops.as_slice(),
        }
    }

    /// Read calls of applications.
    pub fn app_read(&self) -> Cow<'_, AppCalls> {
        self.calls(2 * COUNTERS, |row| &row.app_read)
    }

    /// Write calls of applications.
    pub fn app_write(&self) -> Cow<'_, AppCalls> {
        self.calls(2 * COUNTERS + CALLS, |row| &row.app_write)
    }

    /// Activity of the page cache.
    pub fn cache(&self) -> CachedBytes {
        match &self.0 {
            Kept::Few { which, counters } => {
                CachedBytes::of_counters(kept(*which, counters, ALL - CACHE))
            }
            Kept::Whole(row) => row.cache,
        }
    }

    /// All counters.
    pub fn row(&self) -> Cow<'_, Row> {
        match &self.0 {
            Kept::Few { .. } => Cow::Owned(Row {
                read: self.read().into_owned(),
                write: self.write().into_owned(),
                ops: FileOps::default(),
                app_read: self.app_read().into_owned(),
                app_write: self.app_write().into_owned(),
                cache: self.cache(),
            }),
            Kept::Whole(row) => Cow::Borrowed(row),
        }
    }

    /// Adds a row.
    pub fn merge(&mut self, row: &Row) {
        self.change(|own| own.merge(row));
    }

    /// Changes the counters.
    pub fn change(&mut self, change: impl FnOnce(&mut Row)) {
        if let Kept::Few { .. } = self.0 {
            self.0 = Kept::Whole(Box::new(self.row().into_owned()));
        }
        if let Kept::Whole(row) = &mut self.0 {
            change(row);
        }
    }

    /// Whether there are reads or writes.
    pub fn is_transfer(&self) -> bool {
        [self.read(), self.write()]
            .iter()
            .any(|direction| direction.requests > 0 || direction.bytes > 0)
    }

    /// Whether there are application calls.
    pub fn has_calls(&self) -> bool {
        let calls = [self.app_read(), self.app_write()];
        calls
            .iter()
            .any(|of| of.calls > 0 || of.direct_calls > 0 || of.all_bytes() > 0)
    }

    /// Whether there is any activity of the page cache.
    pub fn has_cached(&self) -> bool {
        self.cache() != CachedBytes::default()
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read().bytes + self.write().bytes
    }

    fn calls(&self, first: usize, of: impl Fn(&Row) -> &AppCalls) -> Cow<'_, AppCalls> {
        match &self.0 {
            Kept::Few { which, counters } => {
                Cow::Owned(AppCalls::of_counters(kept(*which, counters, first)))
            }
            Kept::Whole(row) => Cow::Borrowed(of(row)),
        }
    }

    fn direction(&self, place: usize, of: impl Fn(&Row) -> &Direction) -> Cow<'_, Direction> {
        let (which, counters) = match &self.0 {
            Kept::Few { which, counters } => (*which, counters),
            Kept::Whole(row) => return Cow::Borrowed(of(row)),
        };
        let direction = kept(which, counters, place * COUNTERS);
        Cow::Owned(Direction::of_counters(direction))
    }
}

/// The `COUNT` counters from index `first` on, taken from the non-zero ones.
fn kept<const COUNT: usize>(which: u64, counters: &[u64], first: usize) -> [u64; COUNT] {
    let before = (which & ((1 << first) - 1)).count_ones() as usize;
    let mut own = [0; COUNT];
    let which = which >> first & ((1 << COUNT) - 1);
    for (i, counter) in ones(which).zip(counters.get(before..).unwrap_or_default()) {
        own[i] = *counter;
    }
    own
}

/// Positions of the bits that are 1, from the lowest.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        (bits != 0).then(|| {
            bits &= bits - 1;
            place as usize
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trackiops_schemas::file_ops::OpName;
    use trackiops_schemas::histogram::Histogram;

    fn direction() -> impl Strategy<Value = Direction> {
        let counter = prop_oneof![Just(0), Just(1), 0..=u64::from(u32::MAX)];
        let counters = prop::collection::vec(counter, COUNTERS);
        let latencies = prop::collection::vec(1_u64..1 << 40, 0..3);
        (counters, latencies).prop_map(|(counters, latencies)| {
            let mut direction = Direction::of_counters(counters.try_into().unwrap());
            latencies
                .into_iter()
                .for_each(|ns| direction.latency.record(ns));
            direction
        })
    }

    fn row() -> impl Strategy<Value = Row> {
        (direction(), direction(), 0_u64..2).prop_map(|(read, write, requests)| {
            let mut ops = FileOps::default();
            let op = OpName::new("GETATTR");
            (0..requests).for_each(|_| {
                ops.add(&FileOp {
                    op,
                    requests: 1,
                    ..FileOp::default()
                })
            });
            let calls = |calls, latency: &Histogram| AppCalls {
                calls,
                bytes: calls * 10,
                latency: latency.clone(),
                ..AppCalls::default()
            };
            let cache = CachedBytes {
                added: read.bytes,
                evicted: requests,
                dirtied: write.bytes,
                written: write.bytes,
            };
            Row {
                cache,
                app_read: calls(requests, &read.latency),
                app_write: calls(2 * read.requests, &Histogram::default()),
                read,
                write,
                ops,
            }
        })
    }

    proptest! {
        #[test]
        fn a_sum_is_what_was_added(mut rows in prop::collection::vec(row(), 1..4)) {
            let mut expected = rows.remove(0);
            let mut sum = SparseRow::from(expected.clone());
            prop_assert_eq!(&*sum.row(), &expected);
            for row in rows {
                expected.merge(&row);
                sum.merge(&row);
            }
            prop_assert_eq!(&*sum.row(), &expected);
            prop_assert_eq!(&*sum.read(), &expected.read);
            prop_assert_eq!(&*sum.write(), &expected.write);
            prop_assert_eq!(sum.ops(), expected.ops.as_slice());
            prop_assert_eq!(&*sum.app_read(), &expected.app_read);
            prop_assert_eq!(&*sum.app_write(), &expected.app_write);
            prop_assert_eq!(sum.cache(), expected.cache);
            prop_assert_eq!(sum.is_transfer(), expected.is_transfer());
            prop_assert_eq!(sum.bytes(), expected.read.bytes + expected.write.bytes);
        }
    }
}
