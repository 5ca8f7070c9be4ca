//! The ground truth: `/proc/self/mountstats` (fs/nfs/super.c, net/sunrpc/stats.c).

use std::collections::BTreeMap;

/// Columns of rows for [`MountCounters::transfers`].
pub const TRANSFERS: [&str; 4] = [
    "read_requests",
    "write_requests",
    "read_bytes",
    "write_bytes",
];

/// The statistics of one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountCounters {
    /// Options in force: `opts:`.
    pub options: Vec<String>,
    /// Bytes that applications read and wrote, without and with `O_DIRECT`: fields 1 to 4 of `bytes:`.
    pub application_bytes: [u64; 4],
    /// Requests sent over each connection: `xprt:`.
    pub sent: Vec<u64>,
    /// Bytes read from the server: field 5 of `bytes:`.
    pub server_read_bytes: u64,
    /// Bytes written to the server: field 6 of `bytes:`.
    pub server_written_bytes: u64,
    /// For each operation, its 9 or more numbers.
    pub ops: BTreeMap<String, Vec<u64>>,
}

impl MountCounters {
    /// Sum of a field over operations.
    fn total(&self, ops: &[&str], field: usize) -> u64 {
        ops.iter()
            .filter_map(|op| self.ops.get(*op))
            .map(|numbers| numbers[field])
            .sum()
    }

    /// Completed READ attempts, READ_PLUS included.
    pub fn reads(&self) -> u64 {
        self.total(&["READ", "READ_PLUS"], 0)
    }

    /// Requests that completed, of any operation.
    pub fn count(&self, op: &str) -> u64 {
        self.total(&[op], 0)
    }

    /// Completed WRITE attempts.
    pub fn writes(&self) -> u64 {
        self.total(&["WRITE"], 0)
    }

    /// The counts that rows call [`TRANSFERS`].
    pub fn transfers(&self) -> [u64; 4] {
        [
            self.reads(),
            self.writes(),
            self.server_read_bytes,
            self.server_written_bytes,
        ]
    }

    /// Attempts of these operations that ended with an error, including those repeated after it: the ninth number, since Linux 5.3.
    pub fn failed_attempts(&self, ops: &[&str]) -> u64 {
        self.total(ops, 8)
    }

    /// Transmissions beyond one per request.
    pub fn retransmissions(&self) -> u64 {
        let ops = ["READ", "READ_PLUS", "WRITE"];
        self.total(&ops, 1).saturating_sub(self.total(&ops, 0))
    }

    /// Mean time from a request's creation to its completion, ms.
    pub fn execute_ms_mean(&self) -> f64 {
        self.mean_of_transfers(7)
    }

    /// Mean time from a request's creation to its transmission, ms.
    pub fn queue_ms_mean(&self) -> f64 {
        self.mean_of_transfers(5)
    }

    /// Mean time from a request's transmission to the reply, ms.
    pub fn rtt_ms_mean(&self) -> f64 {
        self.mean_of_transfers(6)
    }

    fn mean_of_transfers(&self, field: usize) -> f64 {
        let ops = ["READ", "READ_PLUS", "WRITE"];
        self.total(&ops, field) as f64 / self.total(&ops, 0) as f64
    }
}

/// Statistics by mount point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mountstats {
    pub mounts: BTreeMap<String, (String, MountCounters)>,
}

impl Mountstats {
    /// Parses the NFS mounts of the file.
    pub fn parse(text: &str) -> Self {
        let mut mounts = BTreeMap::new();
        let mut current: Option<&mut (String, MountCounters)> = None;
        for line in text.lines() {
            if let Some(device) = line.strip_prefix("device ") {
                let words: Vec<&str> = device.split(' ').collect();
                let nfs = words
                    .get(6)
                    .is_some_and(|fstype| fstype.starts_with("nfs") && *fstype != "nfsd");
                current = nfs.then(|| {
                    let entry = mounts.entry(words[3].to_owned());
                    entry.or_insert((words[0].to_owned(), MountCounters::default()))
                });
            } else if let (Some((_, counters)), Some((key, values))) =
                (&mut current, line.trim().split_once(':'))
            {
                let numbers: Vec<u64> = values
                    .split_whitespace()
                    .map_while(|v| v.parse().ok())
                    .collect();
                if key == "opts" {
                    counters.options = values.trim().split(',').map(str::to_owned).collect();
                } else if key == "xprt" {
                    // Protocol, port, binds, connects, time to connect, idle time, requests sent.
                    let sent = values.split_whitespace().nth(6);
                    counters
                        .sent
                        .extend(sent.and_then(|n| n.parse::<u64>().ok()));
                } else if key == "bytes" {
                    counters.application_bytes.copy_from_slice(&numbers[..4]);
                    (counters.server_read_bytes, counters.server_written_bytes) =
                        (numbers[4], numbers[5]);
                } else if numbers.len() >= 8
                    && key.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                {
                    counters.ops.insert(key.to_owned(), numbers);
                }
            }
        }
        Self { mounts }
    }

    /// Counts since an earlier snapshot. A mount that the snapshot lacks counts from zero.
    pub fn since(mut self, before: &Self) -> Self {
        for (mount_point, (_, counters)) in &mut self.mounts {
            let Some((_, old)) = before.mounts.get(mount_point) else {
                continue;
            };
            counters.server_read_bytes -= old.server_read_bytes;
            counters.server_written_bytes -= old.server_written_bytes;
            subtract(&mut counters.application_bytes, &old.application_bytes);
            subtract(&mut counters.sent, &old.sent);
            for (op, numbers) in &mut counters.ops {
                if let Some(old) = old.ops.get(op) {
                    subtract(numbers, old);
                }
            }
        }
        self
    }
}

fn subtract(from: &mut [u64], what: &[u64]) {
    from.iter_mut().zip(what).for_each(|(new, old)| *new -= old);
}

#[test]
fn mountstats_are_read_as_the_kernel_prints_them() {
    let text = "device proc mounted on /proc with fstype proc\n\
        device 127.0.0.1:/exp mounted on /mnt/nfs with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2,nconnect=2\n\tbytes:\t1 2 3 4 500 600 7 8 \n\
        \txprt:\ttcp 0 0 2 0 0 12 12 0 12\n\txprt:\ttcp 0 0 2 0 0 6 6 0 6\n\tper-op statistics\n\
        \t        NULL: 1 1 0 44 24 0 0 0 0\n\t        READ: 10 12 0 1 2 3 4 5 2\n\t   READ_PLUS: 5 5 0 1 2 3 4 10 1\n";
    let parsed = Mountstats::parse(text);
    let (device, counters) = &parsed.mounts["/mnt/nfs"];
    assert_eq!(
        (device.as_str(), parsed.mounts.len()),
        ("127.0.0.1:/exp", 1)
    );
    assert_eq!(
        (counters.server_read_bytes, counters.server_written_bytes),
        (500, 600)
    );
    assert_eq!(
        (
            counters.reads(),
            counters.writes(),
            counters.retransmissions()
        ),
        (15, 0, 2)
    );
    assert_eq!(counters.failed_attempts(&["READ", "READ_PLUS"]), 3);
    assert_eq!(counters.options, ["rw", "vers=4.2", "nconnect=2"]);
    assert_eq!(
        (&counters.application_bytes, &counters.sent[..]),
        (&[1, 2, 3, 4], &[12, 6][..])
    );
    let none = parsed.clone().since(&parsed);
    assert_eq!(none.mounts["/mnt/nfs"].1.reads(), 0);
}
