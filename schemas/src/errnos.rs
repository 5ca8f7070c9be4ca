//! Counts of failed requests by errno.

use crate::counter_macro::sum;

/// Counts by errno, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errnos {
    counts: Vec<(i32, u64)>,
}

impl Errnos {
    /// Counts `count` requests that ended with `errno`, a positive number as in errno(3).
    pub fn add(&mut self, errno: i32, count: u64) {
        match self
            .counts
            .binary_search_by_key(&errno, |(known, _)| *known)
        {
            Ok(at) => self.counts[at].1 = sum(self.counts[at].1, count),
            Err(at) => self.counts.insert(at, (errno, count)),
        }
    }

    /// Adds other counts to these.
    pub fn merge(&mut self, other: &Self) {
        for (errno, count) in &other.counts {
            self.add(*errno, *count);
        }
    }

    /// The errors that occurred, ascending, with their counts.
    pub fn counts(&self) -> &[(i32, u64)] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_by_errno() {
        let (mut a, mut b) = (Errnos::default(), Errnos::default());
        a.add(116, 1);
        a.add(5, 2);
        b.add(116, 3);
        a.merge(&b);
        assert_eq!(a.counts(), [(5, 2), (116, 4)]);
    }
}
