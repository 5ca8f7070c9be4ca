//! Operations of a file other than READ and WRITE, as a row of files holds them. Mergeable partial aggregates.

use core::fmt;

use crate::counter_macro::counters;
use crate::histogram::Histogram;

/// A procedure as the kernel names it (`GETATTR`). The longest name has 20 bytes; names are cut after 24 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpName([u8; OpName::BYTES]);

impl OpName {
    /// Capacity in bytes.
    pub const BYTES: usize = 24;

    /// From bytes that end at the first zero, if there is one. `None` if they are not UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = bytes.split(|byte| *byte == 0).next()?;
        str::from_utf8(text).ok().map(Self::new)
    }

    /// The name.
    pub fn new(text: &str) -> Self {
        let mut name = [0; Self::BYTES];
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let length = ends
            .take_while(|end| *end <= Self::BYTES)
            .last()
            .unwrap_or(0);
        name[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self(name)
    }

    /// As a text.
    pub fn as_str(&self) -> &str {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Debug for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

counters! {
    /// The counters of one operation of a file. Like the kernel's statistics, they count each attempt.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FileOp {
        /// RPCs that completed, failed ones included.
        requests: "requests", Count, sum;
        /// RPCs that ended with an error.
        errors: "errors", Count, sum;
        /// Sum of the times until transmission, ns.
        queue_ns_sum: "queue_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from transmission to the reply, ns.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from start to completion, ns.
        execute_ns_sum: "execute_us_sum", Microseconds, saturating_sum;
        /// The longest time from start to completion, ns.
        execute_ns_max: "execute_us_max", Microseconds, max;
    }
    and {
        /// The procedure.
        op: OpName,
        /// Times from start to completion of calls for local files, as far as they had room. Empty for RPCs, which the
        /// kernel adds up.
        execute: Histogram,
    }
}

impl FileOp {
    /// Adds a partial aggregate of the same procedure.
    fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        self.execute.merge(&other.execute);
    }
}

/// Operations of a file, each once, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOps(Vec<FileOp>);

impl FileOps {
    /// Adds a partial aggregate.
    pub fn add(&mut self, other: &FileOp) {
        match self.0.binary_search_by_key(&other.op, |known| known.op) {
            Ok(at) => self.0[at].merge(other),
            Err(at) => self.0.insert(at, other.clone()),
        }
    }

    /// Adds the operations of another row.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|op| self.add(op));
    }

    /// All of them.
    pub fn as_slice(&self) -> &[FileOp] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<FileOp> for FileOps {
    fn from_iter<I: IntoIterator<Item = FileOp>>(ops: I) -> Self {
        let mut all = Self::default();
        ops.into_iter().for_each(|op| all.add(&op));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str, requests: u64, execute_ns: u64) -> FileOp {
        FileOp {
            op: OpName::new(name),
            requests,
            execute_ns_sum: requests * execute_ns,
            execute_ns_max: execute_ns,
            ..FileOp::default()
        }
    }

    #[test]
    fn the_same_operation_adds_up_and_others_stand_beside_it() {
        let mut ops: FileOps = [op("LOOKUP", 1, 5), op("GETATTR", 2, 7)]
            .into_iter()
            .collect();
        ops.merge(
            &[op("GETATTR", 3, 2), op("ACCESS", 1, 1)]
                .into_iter()
                .collect(),
        );
        let told = ops.as_slice().iter();
        let told: Vec<_> = told
            .map(|op| (op.op.as_str(), op.requests, op.execute_ns_max))
            .collect();
        assert_eq!(
            told,
            [("ACCESS", 1, 1), ("GETATTR", 5, 7), ("LOOKUP", 1, 5)]
        );
        assert_eq!(ops.as_slice()[1].execute_ns_sum, 20);
    }

    #[test]
    fn a_name_ends_at_a_zero_and_where_there_is_no_more_room() {
        let name = |bytes: &[u8]| OpName::from_bytes(bytes).map(|name| name.as_str().to_owned());
        assert_eq!(name(b"COMMIT\0\0rest").as_deref(), Some("COMMIT"));
        assert_eq!(name(&[b'X'; 30]), Some("X".repeat(24)));
        assert_eq!(name(b"\xff\0"), None);
        assert_eq!(
            OpName::new(&"\u{e9}".repeat(20)).as_str(),
            "\u{e9}".repeat(12)
        );
        let odd = format!("x{}", "\u{e9}".repeat(20));
        assert_eq!(OpName::new(&odd).as_str().len(), 23);
    }
}
