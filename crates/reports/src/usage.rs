//! Counts of a subject: requests, operations, bytes.

use trackiops_query::columns::{Column, Unit};
use trackiops_query::{AnswerRow, Projection, Question};
use trackiops_schemas::columns::FILE_OPS;
use trackiops_schemas::time::Granularity;

use crate::by::ReportBy;
use crate::columns::count;
use crate::report::Made;
use crate::series::{SeriesSet, Sums, ask_series};

/// Counts of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// READ requests.
    pub read_requests: u64,
    /// WRITE requests.
    pub write_requests: u64,
    /// All other operations about files, such as GETATTR and LOOKUP.
    pub metadata_operations: u64,
    /// Bytes that READs moved.
    pub read_bytes: u64,
    /// Bytes that WRITEs moved.
    pub write_bytes: u64,
}

impl Sums for Usage {
    fn add(&mut self, other: &Self) {
        self.read_requests += other.read_requests;
        self.write_requests += other.write_requests;
        self.metadata_operations += other.metadata_operations;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
    }
}

impl Usage {
    /// Asks for series of usage, for the rows that a question selects.
    pub fn ask(question: &Question, by: ReportBy, interval: Granularity) -> Made<SeriesSet<Self>> {
        ask_series(question, by, interval, Self::needs(), Self::of)
    }

    /// The usage of a row.
    pub fn of(row: &AnswerRow) -> Self {
        let (read, write) = (row.sum.read(), row.sum.write());
        Self {
            read_requests: read.requests,
            write_requests: write.requests,
            metadata_operations: row.sum.ops().iter().map(|op| op.requests).sum(),
            read_bytes: read.bytes,
            write_bytes: write.bytes,
        }
    }

    /// The stored columns that [`Self::of`] reads.
    pub fn needs() -> Projection {
        Projection::new([
            "read_requests",
            "write_requests",
            "read_bytes",
            "write_bytes",
            FILE_OPS,
        ])
    }

    /// READs and WRITEs: the operations that IOPS count.
    pub fn requests(&self) -> u64 {
        self.read_requests + self.write_requests
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes + self.write_bytes
    }
}

/// Its columns.
pub fn columns<R: 'static>(of: fn(&R) -> &Usage) -> Vec<Column<R>> {
    let column =
        |name, unit, get: fn(&Usage) -> u64| count(name, unit, move |row: &R| Some(get(of(row))));
    vec![
        column("read_requests", Unit::Count, |usage| usage.read_requests),
        column("write_requests", Unit::Count, |usage| usage.write_requests),
        column("metadata_operations", Unit::Count, |usage| {
            usage.metadata_operations
        }),
        column("read_bytes", Unit::Bytes, |usage| usage.read_bytes),
        column("write_bytes", Unit::Bytes, |usage| usage.write_bytes),
    ]
}
