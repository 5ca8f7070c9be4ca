//! The incidents of `incident.sh`, and what a verdict has to name.

/// An incident.
pub struct Incident {
    /// Its name in the script.
    pub name: &'static str,
    /// What is planted.
    pub what: &'static str,
    /// [`NFS`] or [`DISK`].
    pub victim_at: &'static str,
    /// The causes that are true of it; none if nothing is planted.
    pub causes: &'static [&'static str],
    /// Begin of the path of who does it.
    pub culprit: Option<&'static str>,
    /// A file that suffers.
    pub victim: &'static str,
    /// The harm begins within this time after the load does, s.
    pub grows_s: f64,
}

pub const NFS: &str = "NFS";
pub const DISK: &str = "a disk";

const ORDERS: &str = "/mnt/office/db/orders.db";

const fn nfs(name: &'static str, what: &'static str, causes: &'static [&'static str]) -> Incident {
    Incident {
        name,
        what,
        victim_at: NFS,
        causes,
        culprit: None,
        victim: ORDERS,
        grows_s: 0.0,
    }
}

const fn disk(name: &'static str, what: &'static str, causes: &'static [&'static str]) -> Incident {
    Incident {
        victim_at: DISK,
        ..nfs(name, what, causes)
    }
}

impl Incident {
    const fn by(self, culprit: &'static str) -> Self {
        Self {
            culprit: Some(culprit),
            ..self
        }
    }

    const fn harms(self, victim: &'static str) -> Self {
        Self { victim, ..self }
    }

    const fn grows(self, grows_s: f64) -> Self {
        Self { grows_s, ..self }
    }
}

/// All of them.
pub const INCIDENTS: [Incident; 13] = [
    nfs(
        "neighbour-nfs",
        "a backup writes as fast as it can",
        &["noisy-neighbour"],
    )
    .by("/mnt/office/scratch/backup.tar"),
    disk(
        "neighbour-disk",
        "a backup writes as fast as it can",
        &["noisy-neighbour"],
    )
    .by("/mnt/office/scratch/backup.tar"),
    nfs(
        "server",
        "the server's disk takes 50 ms longer (dm-delay)",
        &["server", "server-or-network"],
    ),
    nfs("delay", "packets take 60 ms each way (netem)", &["network"]),
    nfs(
        "loss",
        "one of ten packets is lost (netem)",
        &["network", "server-or-network", "retransmissions"],
    ),
    disk("cpu-disk", "six processes take all CPUs", &["client-cpu"]),
    nfs(
        "cold-cache",
        "the page cache is emptied again and again",
        &["cold-cache"],
    )
    .harms("/mnt/office/index/words"),
    nfs(
        "metadata-storm",
        "six threads make, rename and remove files",
        &["metadata-storm"],
    )
    .by("/mnt/office/build"),
    nfs(
        "sync-storm",
        "six threads write pages and sync them",
        &["sync-storm"],
    )
    .by("/mnt/office/queue"),
    nfs(
        "one-file",
        "the sectors of one file take 250 ms longer (dm-delay)",
        &["one-file"],
    )
    .harms("/mnt/office/log/app.log"),
    nfs(
        "stall",
        "no packet reaches the server, nor returns (netem)",
        &["stall"],
    ),
    disk(
        "growing-disk",
        "the readers of a file become more and more",
        // They suffer most themselves.
        &["noisy-neighbour", "own-load"],
    )
    .by("/mnt/office/crawl/segment")
    .grows(18.0),
    nfs("nothing", "nothing", &[]),
];
