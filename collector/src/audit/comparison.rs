//! Compares one superblock's counters with its rows, from look to look.

use crate::audit::look::Look;
use crate::audit::transfers::{Difference, Transfers};

/// Tolerance for ages: they are whole seconds and are read slightly apart from the clock.
const BIRTH_TOLERANCE_S: u64 = 2;
/// A counter whose difference between two looks exceeds this has been reset.
const LEAP: u64 = 1 << 62;

/// The state of a superblock since its account was opened.
///
/// ```text
/// rows    counted from the recorder's start
/// kernel  counted from the mount
///
/// kernel - rows = missed + offset     each look bounds this difference
/// ```
///
/// The `offset` is constant.
#[derive(Clone, Debug)]
pub struct Account {
    born_s: i64,
    /// Rows of the device that belong to earlier superblocks.
    rows_before: Transfers,
    /// Bounds of the constant.
    offset: (Difference, Difference),
    /// Whether the superblock's whole life is in its rows: the constant is 0.
    is_from_birth: bool,
    /// The kernel's counts and the rows at the last comparison.
    compared: Option<(Transfers, Transfers)>,
    /// What has been booked so far.
    booked: Transfers,
    /// The surplus of the last look. It is booked when the next look confirms it.
    candidate: Transfers,
    /// The device's rows when it was found without a mount.
    vacated: Option<Transfers>,
    /// When the superblock was last looked at, by the monotonic clock, s.
    looked_s: i64,
    /// It has lost all mounts of the last look, so another superblock may have its device number.
    is_in_doubt: bool,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The kernel's counts since the previous comparison.
    pub kernel: Transfers,
    /// The part of these that rows have.
    pub rows: Transfers,
    /// Counts to book as missed.
    pub missed: Transfers,
    /// Whether rows have more bytes than the kernel.
    pub is_excess: bool,
    /// Whether another look may change the result.
    pub is_open: bool,
}

impl Account {
    /// Opens the account of a superblock at its first look. `born_after` is set if the superblock was made while
    /// its device was being recorded, and has the rows of its predecessors.
    pub fn open(look: &Look, rows: Transfers, born_after: Option<Transfers>) -> Self {
        let mut account = Self {
            born_s: look.born_s,
            rows_before: born_after.unwrap_or_default(),
            offset: <(Difference, Difference)>::default(),
            is_from_birth: born_after.is_some(),
            compared: None,
            booked: Transfers::default(),
            candidate: Transfers::default(),
            vacated: None,
            looked_s: look.ended_s(),
            is_in_doubt: false,
        };
        if account.is_from_birth {
            account.compared = Some(<(Transfers, Transfers)>::default());
        } else {
            account.restart(look, rows);
        }
        account
    }

    /// Whether the look is at the superblock of this account. A superblock in doubt must be older
    /// than the last look.
    pub fn is_of(&self, look: &Look) -> bool {
        let is_old = look.born_s.saturating_add_unsigned(BIRTH_TOLERANCE_S) < self.looked_s;
        !self.is_succeeded_by(look) && (is_old || !self.is_in_doubt)
    }

    /// Whether the look is certainly at another superblock.
    fn is_succeeded_by(&self, look: &Look) -> bool {
        let is_same_age = look.born_s.abs_diff(self.born_s) <= BIRTH_TOLERANCE_S;
        let grows = |(kernel, _): (Transfers, Transfers)| look.kernel.grew_since(kernel, LEAP);
        !is_same_age || !self.compared.is_none_or(grows)
    }

    /// The rows before the superblock that a look has found in the place of this one; `None` if
    /// unknown.
    pub fn rows_before(&self, look: &Look) -> Option<Transfers> {
        self.vacated.filter(|_| self.is_succeeded_by(look))
    }

    /// Whether the device was found without a mount.
    pub fn is_vacant(&self) -> bool {
        self.vacated.is_some()
    }

    /// The device has lost all its mounts.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// The device has no mount now; `rows` are its rows so far. A superblock that is still in use
    /// may be mounted again.
    pub fn vacate(&mut self, rows: Transfers) {
        self.candidate = Transfers::default();
        self.is_in_doubt = true;
        self.vacated.get_or_insert(rows);
    }

    /// Compares a look at the same superblock with the device's rows, which include every request that
    /// completed by then.
    pub fn compare(&mut self, look: &Look, rows: Transfers) -> Comparison {
        self.born_s = look.born_s;
        self.vacated = None;
        self.looked_s = look.ended_s();
        self.is_in_doubt = false;
        let (low, high) = self.bounds(look, rows);
        if self.is_from_birth && self.booked.is_none() && high.lacks_bytes() {
            // The device's rows also include other superblocks.
            self.restart(look, rows);
            return Comparison::default();
        }
        // The current difference is an upper bound of the constant: it may include requests missed since the first look.
        self.offset.1 = self.offset.1.min(high);
        let known = self.offset.1.plus(self.booked);
        let more = low.above(known);
        let missed = more.min(self.candidate);
        self.candidate = more.since(missed);
        self.booked.add(missed);

        let least = self.offset.0.plus(self.booked);
        let excess = least.above(high);
        self.offset.0 = self.offset.0.minus(excess);
        let compared = (look.kernel, self.rows_at(look, rows));
        let (kernel, rows) = self.compared.replace(compared).unwrap_or(compared);
        Comparison {
            kernel: compared.0.growth_since(kernel),
            rows: compared.1.growth_since(rows),
            missed,
            is_excess: excess.bytes() > 0,
            // Only a more exact look can narrow the constant further.
            is_open: !high.above(self.offset.1.plus(self.booked)).is_none()
                || (self.offset.0 != self.offset.1 && !look.unsure.is_none()),
        }
    }

    /// Starts over at this look: earlier counts are not compared.
    fn restart(&mut self, look: &Look, rows: Transfers) {
        self.is_from_birth = false;
        self.candidate = Transfers::default();
        self.offset = self.bounds(look, rows);
        self.compared = Some((look.kernel, self.rows_at(look, rows)));
    }

    /// The least and the greatest surplus of the kernel over the rows.
    fn bounds(&self, look: &Look, rows: Transfers) -> (Difference, Difference) {
        let low = look.kernel.difference(self.rows_at(look, rows));
        (low, low.plus(look.unsure))
    }

    /// Rows of the requests that the look's counters may include.
    fn rows_at(&self, look: &Look, rows: Transfers) -> Transfers {
        rows.since(self.rows_before).since(look.after)
    }
}
