//! Runs: ordered requests of a group.

use super::io::Io;
use super::metrics::{Metric, Metrics};

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// A run that may continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    reads: Sum,
    writes: Sum,
    sequential: Sum,
    /// The first request, until it is known whether it is sequential.
    first_bytes: Option<u64>,
    has_random: bool,
    /// The sequential run that contains the last request.
    current: Sum,
    /// The byte after the last request.
    pub end: u64,
    /// Requests that were taken before an earlier one.
    pub reordered: u64,
}

impl Run {
    /// Whether it has no requests.
    pub fn is_empty(&self) -> bool {
        self.reads.count + self.writes.count == 0
    }

    /// Takes the next request. Returns whether it ended the run at the end of the file. If so, this becomes a new, empty run.
    pub fn take(&mut self, io: &Io, file_size: Option<u64>, metrics: &mut Metrics<'_>) -> bool {
        *metrics.requests += 1;
        if self.is_empty() {
            self.first_bytes = Some(io.bytes);
            self.current.add(io.bytes);
        } else {
            self.go_on(io, metrics);
        }
        match io.is_read {
            true => self.reads.add(io.bytes),
            false => self.writes.add(io.bytes),
        }
        self.end = io.end();
        let moved = self.reads.bytes.saturating_add(self.writes.bytes);
        let is_last = file_size == Some(self.end)
            && file_size.is_some_and(|size| moved.saturating_mul(2) >= size);
        if is_last {
            self.finish(file_size, metrics);
        }
        is_last
    }

    fn go_on(&mut self, io: &Io, metrics: &mut Metrics<'_>) {
        let skip = i128::from(io.offset) - i128::from(self.end);
        metrics.add(Metric::Skip, skip as f64);
        if skip == 0 {
            // The first request is sequential if the second one continues it.
            if let Some(bytes) = self.first_bytes.take() {
                self.sequential.add(bytes);
            }
            self.sequential.add(io.bytes);
            self.current.add(io.bytes);
            return;
        }
        self.first_bytes = None;
        self.has_random = true;
        add_in_random(self.current, metrics);
        self.current = Sum::default();
        self.current.add(io.bytes);
    }

    /// Adds the run to the distributions, and begins a new one.
    pub fn finish(&mut self, file_size: Option<u64>, metrics: &mut Metrics<'_>) {
        let run = std::mem::take(self);
        if run.is_empty() {
            return;
        }
        let total = Sum {
            count: run.reads.count + run.writes.count,
            bytes: run.reads.bytes.saturating_add(run.writes.bytes),
        };
        let sums = [run.reads, run.writes, total];
        use Metric as M;
        for (metric, sum) in [M::ReadCount, M::WriteCount, M::TotalCount]
            .into_iter()
            .zip(sums)
        {
            metrics.add(metric, sum.count as f64);
        }
        for (metric, sum) in [M::ReadBytes, M::WriteBytes, M::TotalBytes]
            .into_iter()
            .zip(sums)
        {
            metrics.add(metric, sum.bytes as f64);
        }
        if run.has_random {
            add_in_random(run.current, metrics);
        }
        if total.bytes == 0 {
            return;
        }
        let bytes = total.bytes as f64;
        for (metric, sum) in [M::ReadShare, M::WriteShare, M::TotalShare]
            .into_iter()
            .zip(sums)
        {
            metrics.add(metric, sum.bytes as f64 / bytes);
        }
        // A share of an empty file is undefined.
        match file_size.filter(|size| *size > 0) {
            None => *metrics.unknown_file_size += 1,
            Some(size) => {
                let of_file = [M::ReadFileShare, M::WriteFileShare, M::TotalFileShare];
                for (metric, sum) in of_file.into_iter().zip(sums) {
                    metrics.add(metric, sum.bytes as f64 / size as f64);
                }
            }
        }
        let count = total.count as f64;
        metrics.add(M::ReorderCount, run.reordered as f64);
        metrics.add(M::ReorderShare, run.reordered as f64 / count);
        metrics.add(M::SequentialCountShare, run.sequential.count as f64 / count);
        metrics.add(M::SequentialBytesShare, run.sequential.bytes as f64 / bytes);
    }
}

fn add_in_random(sum: Sum, metrics: &mut Metrics<'_>) {
    metrics.add(Metric::InRandomCount, sum.count as f64);
    metrics.add(Metric::InRandomBytes, sum.bytes as f64);
}
