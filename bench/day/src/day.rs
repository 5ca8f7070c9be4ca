//! The synthetic day: plausible requests of 4000 files, second by second.
//!
//! Base rates are log-normal (median 20 requests/s while a file is active, sigma 1.3). A file is alternately active and idle for 10 minutes
//! on average. Reads to writes are 70 to 30; a file's requests all have the same size. Latencies are log-normal: median 450 us, sigma 0.5,
//! and a factor per file of sigma 0.5; writes take 1.5 times as long. Arrivals are a Poisson process. The same seed gives the same
//! requests.

use std::sync::Arc;

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;
use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};

const RATE_MEDIAN: f64 = 20.0;
const RATE_SIGMA: f64 = 1.3;
const PHASE_NS: f64 = 600e9;
const READS: f64 = 0.7;
const SIZES: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 1024 << 10];
const LATENCY_NS: f64 = 450e3;
const SIGMA: f64 = 0.5;
const WRITES_TAKE: f64 = 1.5;
/// Part of a latency in the client: in the queue and until completion. The rest is network and server.
const OWN_NS: f64 = 15e3;
/// Number of files that share an export, a directory, a tenant.
const FILES_OF_MOUNT: usize = 1000;
const FILES_OF_DIRECTORY: usize = 40;
const FILES_OF_TENANT: usize = 200;
const FILE_BYTES: u64 = 4 << 30;

/// A file and its next event.
struct File {
    record: RequestRecord,
    interval_ns: f64,
    latency_ns: f64,
    is_sequential: bool,
    /// End of the current phase.
    phase_end_ns: f64,
    is_active: bool,
    /// Completion of its next request, if the phase lasts that long.
    next_ns: f64,
    random: Pcg64Mcg,
}

/// The files, and the simulated time.
pub struct Day {
    files: Vec<File>,
    start_ns: u64,
    elapsed_ns: u64,
}

impl Day {
    /// A day of `files` files that begins at a time (UTC, ns since the epoch).
    pub fn new(files: usize, start_ns: u64, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let files = (0..files).map(|index| File::new(index, &mut random));
        Self {
            files: files.collect(),
            start_ns,
            elapsed_ns: 0,
        }
    }

    /// The requests that complete in the next `ns`, in that order.
    pub fn next(&mut self, ns: u64, requests: &mut Vec<RequestRecord>) {
        requests.clear();
        self.elapsed_ns += ns;
        for file in &mut self.files {
            file.until(self.elapsed_ns as f64, self.start_ns, requests);
        }
        requests.sort_unstable_by_key(|request| request.end_ns);
    }

    /// The attributes of the files, by their number less 1.
    pub fn attributes(&self) -> Vec<Arc<FileAttributes>> {
        let files = self.files.iter().enumerate();
        files
            .map(|(index, file)| attributes(index, &file.record))
            .collect()
    }
}

impl File {
    fn new(index: usize, all: &mut Pcg64Mcg) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(all.random());
        let mut normal = |sigma: f64| {
            let normal: f64 = StandardNormal.sample(&mut random);
            (sigma * normal).exp()
        };
        let rate = RATE_MEDIAN * normal(RATE_SIGMA);
        let latency_ns = LATENCY_NS * normal(SIGMA);
        let record = RequestRecord {
            fileid: index as u64 + 1,
            asked_bytes: SIZES[random.random_range(0..SIZES.len())],
            dev: 49 + (index / FILES_OF_MOUNT) as u32,
            handle_hash: random.random(),
            uid: 1000 + (index / FILES_OF_TENANT) as u32,
            cgroup: 5000 + (index / FILES_OF_TENANT) as u64,
            pid: 10_000 + index as u32,
            ..RequestRecord::default()
        };
        Self {
            record,
            interval_ns: 1e9 / rate,
            latency_ns,
            is_sequential: random.random(),
            phase_end_ns: 0.0,
            is_active: random.random(),
            next_ns: 0.0,
            random,
        }
    }

    fn until(&mut self, end_ns: f64, start_ns: u64, requests: &mut Vec<RequestRecord>) {
        loop {
            while self.is_active && self.next_ns < end_ns.min(self.phase_end_ns) {
                let at_ns = start_ns + self.next_ns as u64;
                requests.push(self.request(at_ns));
                self.next_ns += self.interval_ns * self.exponential();
            }
            if self.phase_end_ns > end_ns {
                return;
            }
            let begin_ns = self.phase_end_ns;
            self.is_active = !self.is_active;
            self.phase_end_ns = begin_ns + PHASE_NS * self.exponential();
            self.next_ns = begin_ns + self.interval_ns * self.exponential();
        }
    }

    fn request(&mut self, end_ns: u64) -> RequestRecord {
        let is_write = self.random.random::<f64>() >= READS;
        let slower = if is_write { WRITES_TAKE } else { 1.0 };
        let latency_ns = slower * self.latency_ns * self.log_normal();
        let queue_ns = (OWN_NS * self.log_normal()).min(latency_ns / 4.0);
        let completion_ns = (OWN_NS * self.log_normal()).min(latency_ns / 4.0);
        let bytes = self.record.asked_bytes;
        self.record.offset = if self.is_sequential {
            (self.record.offset + u64::from(bytes)) % FILE_BYTES
        } else {
            self.random.random_range(0..FILE_BYTES / u64::from(bytes)) * u64::from(bytes)
        };
        RequestRecord {
            end_ns,
            latency_ns: latency_ns as u64,
            done_bytes: bytes,
            flags: if is_write { flags::WRITE } else { 0 },
            queue_ns: queue_ns as u64,
            rtt_ns: (latency_ns - queue_ns - completion_ns) as u64,
            ..self.record
        }
    }

    fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.random)
    }

    fn log_normal(&mut self) -> f64 {
        let normal: f64 = StandardNormal.sample(&mut self.random);
        (SIGMA * normal).exp()
    }
}

fn attributes(index: usize, record: &RequestRecord) -> Arc<FileAttributes> {
    let volume = index / FILES_OF_MOUNT;
    let directory = index / FILES_OF_DIRECTORY;
    let id = FileId {
        dev: Dev(record.dev),
        fileid: record.fileid,
        handle_hash: record.handle_hash,
    };
    let mount = format!("filer:/vol{volume}");
    Arc::new(FileAttributes {
        key: FileKey::new(Some(&mount), id),
        id,
        mount: Some(mount),
        path: Some(format!(
            "/mnt/vol{volume}/project-{:02}/run-{directory:03}/part-{index:05}.dat",
            directory / 5
        )),
        path_inferred: false,
        tenant: Arc::new(Tenant {
            uid: Some(record.uid),
            user: Some(format!("user-{}", record.uid).into()),
            cgroup: Some(format!("/batch/job-{}", record.cgroup).into()),
            ..Tenant::default()
        }),
        level: Default::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_as_it_was_said_to_be_and_the_same_every_time() {
        const SECONDS: u64 = 300;
        let begin = |seed| {
            let mut day = Day::new(100, 0, seed);
            let mut requests = Vec::new();
            day.next(SECONDS * 1_000_000_000, &mut requests);
            requests
        };
        let requests = begin(1);
        assert!(requests.is_sorted_by_key(|r| r.end_ns));
        assert!(
            requests
                .last()
                .is_some_and(|last| last.end_ns < SECONDS * 1_000_000_000)
        );
        // Half of the time with the mean of a log-normal distribution.
        let expected =
            100.0 * SECONDS as f64 * 0.5 * RATE_MEDIAN * (RATE_SIGMA * RATE_SIGMA / 2.0).exp();
        let share = requests.len() as f64 / expected;
        assert!((0.4..2.5).contains(&share), "{share}");
        let writes = requests.iter().filter(|r| r.flags & flags::WRITE != 0);
        let share = writes.count() as f64 / requests.len() as f64;
        assert!((0.29..0.31).contains(&share), "{share}");
        assert!(
            requests
                .iter()
                .all(|r| r.queue_ns + r.rtt_ns <= r.latency_ns)
        );
        assert!(begin(1) == requests);
        assert!(begin(2) != requests);
    }

    #[test]
    fn it_does_not_matter_in_which_steps_a_day_is_taken() {
        let (mut at_once, mut in_steps) = (Day::new(20, 7, 3), Day::new(20, 7, 3));
        let (mut all, mut some, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        at_once.next(300_000_000_000, &mut all);
        for _ in 0..300 {
            in_steps.next(1_000_000_000, &mut some);
            steps.append(&mut some);
        }
        assert!(all == steps);
    }
}
