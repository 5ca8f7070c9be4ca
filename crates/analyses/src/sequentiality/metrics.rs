//! Metrics of completed runs.

use crate::distribution::Distribution;
use crate::source::Name;

macro_rules! metrics {
    ($($metric:ident $name:literal $doc:literal,)+) => {
        /// A metric of runs, or of requests in them, that has a distribution.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $(#[doc = $doc] $metric,)+
        }

        /// All of them, in the order of tables.
        pub const METRICS: &[(Metric, &str, &str)] = &[$((Metric::$metric, $name, $doc),)+];
    };
}

metrics! {
    Skip "skip" "From the end of a request to the offset of the next, bytes.",
    EndsOfFile "eof_count" "Runs of a group that ended at the end of the file.",
    ReadCount "read_count" "READs of a run.",
    WriteCount "write_count" "WRITEs of a run.",
    TotalCount "total_count" "Requests of a run.",
    ReadBytes "read_bytes" "Bytes that a run read.",
    WriteBytes "write_bytes" "Bytes that a run wrote.",
    TotalBytes "total_bytes" "Bytes that a run moved.",
    ReadShare "read_op_bytes_fraction" "Bytes read, of all that a run moved.",
    WriteShare "write_op_bytes_fraction" "Bytes written, of all that a run moved.",
    TotalShare "total_op_bytes_fraction" "All bytes, of all that a run moved: 1.",
    ReadFileShare "read_file_bytes_fraction" "Bytes read, of the size of the file.",
    WriteFileShare "write_file_bytes_fraction" "Bytes written, of the size of the file.",
    TotalFileShare "total_file_bytes_fraction" "Bytes moved, of the size of the file.",
    ReorderCount "reorder_count" "Requests of a run that were taken before an earlier one.",
    ReorderShare "reorder_fraction" "The same, of all requests of a run.",
    SequentialCountShare "sequentiality_count_fraction" "Requests of a run that are sequential.",
    SequentialBytesShare "sequentiality_bytes_fraction" "Bytes of a run that sequential requests moved.",
    InRandomCount "in_random_sequential_run_count" "Requests of a sequential run in a random run.",
    InRandomBytes "in_random_sequential_run_bytes" "Bytes of a sequential run in a random run.",
}

impl Metric {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        METRICS[self as usize].1
    }
}

/// Distributions of all metrics, for each entity.
pub struct Stats {
    exact_values: usize,
    groups: Vec<Vec<Distribution>>,
    /// Requests in runs.
    pub requests: u64,
    /// Requests that were taken before an earlier one.
    pub reordered: u64,
    /// Runs of files of unknown size.
    pub unknown_file_size: u64,
}

impl Stats {
    /// Empty distributions that keep this many values each.
    pub fn new(exact_values: usize) -> Self {
        Self {
            exact_values,
            groups: Vec::new(),
            requests: 0,
            reordered: 0,
            unknown_file_size: 0,
        }
    }

    /// The distributions of one entity.
    pub fn of(&mut self, group: Name) -> Metrics<'_> {
        let place = group as usize;
        if place >= self.groups.len() {
            let empty = vec![Distribution::new(self.exact_values); METRICS.len()];
            self.groups.resize(place + 1, empty);
        }
        Metrics {
            distributions: &mut self.groups[place],
            requests: &mut self.requests,
            reordered: &mut self.reordered,
            unknown_file_size: &mut self.unknown_file_size,
        }
    }

    /// All distributions with values, in order.
    pub fn known(&self) -> impl Iterator<Item = (Name, Metric, &Distribution)> {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(|(place, distributions)| {
            let metrics = METRICS.iter().zip(distributions);
            let metrics = metrics.filter(|(_, of)| of.count() > 0);
            let group = Name::try_from(place).unwrap_or(Name::MAX);
            metrics.map(move |((metric, ..), of)| (group, *metric, of))
        })
    }
}

/// The metrics of the entity of a group.
pub struct Metrics<'s> {
    distributions: &'s mut [Distribution],
    /// See [`Stats`].
    pub requests: &'s mut u64,
    /// See [`Stats`].
    pub reordered: &'s mut u64,
    /// See [`Stats`].
    pub unknown_file_size: &'s mut u64,
}

impl Metrics<'_> {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, metric: Metric, value: f64) {
        if let Some(of) = self.distributions.get_mut(metric as usize) {
            of.add(value);
        }
    }
}
