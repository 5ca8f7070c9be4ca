//! All planted incidents, and what every view of them has to name.

use trackiops_schemas::row::ClosedWindow;

use super::scenes;

/// A planted incident.
pub struct Planted {
    /// Its name.
    pub name: &'static str,
    /// The cause in the words of a verdict; empty if it is open or nothing is slow.
    pub cause: &'static str,
    /// Begin of the path of who does it; empty if it is not a file.
    pub culprit: &'static str,
    /// Begin of the path of a file that suffers; empty if nothing is slow.
    pub victim: &'static str,
    /// Whether the culprit reads or writes: it is in tables of files then.
    pub transfers: bool,
    /// Its seconds.
    pub windows: fn() -> Vec<ClosedWindow>,
}

impl Planted {
    /// Whether anything is slow.
    pub fn is_slow(&self) -> bool {
        !self.victim.is_empty()
    }
}

/// What the office and the device suffer from.
const OFFICE: Planted = Planted {
    name: "",
    cause: "",
    culprit: "",
    victim: "/srv/db/orders.db",
    transfers: true,
    windows: scenes::nothing,
};
const DEVICE: Planted = Planted {
    victim: "/data/db/orders.db",
    ..OFFICE
};

/// All of them.
pub static PLANTED: [Planted; 13] = [
    Planted {
        name: "neighbour",
        cause: "a noisy neighbour",
        culprit: "/srv/scratch/backup.tar",
        windows: scenes::noisy_neighbour,
        ..OFFICE
    },
    Planted {
        name: "neighbour-disk",
        cause: "a noisy neighbour",
        culprit: "/data/scratch/backup.tar",
        windows: scenes::noisy_neighbour_on_a_device,
        ..DEVICE
    },
    Planted {
        name: "neighbour-and-another-moment",
        cause: "a noisy neighbour",
        culprit: "/srv/scratch/backup.tar",
        windows: scenes::noisy_neighbour_after_a_slow_minute,
        ..OFFICE
    },
    Planted {
        name: "server",
        cause: "the server",
        windows: || scenes::slow_server(420),
        ..OFFICE
    },
    Planted {
        name: "network",
        cause: "the network",
        windows: scenes::slow_network,
        ..OFFICE
    },
    Planted {
        name: "loss",
        cause: "retransmissions",
        windows: scenes::retransmissions,
        ..OFFICE
    },
    Planted {
        name: "cold-cache",
        cause: "a cold cache",
        victim: "/data/index/",
        windows: scenes::cold_cache,
        ..DEVICE
    },
    Planted {
        name: "metadata-storm",
        cause: "a storm of metadata operations",
        culprit: "/srv/build",
        transfers: false,
        windows: scenes::metadata_storm,
        ..OFFICE
    },
    Planted {
        name: "sync-storm",
        cause: "a storm of syncs",
        culprit: "/data/queue/log",
        transfers: false,
        windows: scenes::sync_storm,
        ..DEVICE
    },
    Planted {
        name: "one-file",
        cause: "this file alone",
        victim: "/srv/img/11/4711",
        windows: scenes::one_slow_file,
        ..OFFICE
    },
    Planted {
        name: "stall",
        cause: "a stall",
        windows: scenes::stall,
        ..OFFICE
    },
    Planted {
        name: "growing",
        cause: "",
        culprit: "/srv/crawl/segment",
        windows: scenes::growing_tenant,
        ..OFFICE
    },
    Planted {
        name: "nothing",
        victim: "",
        ..OFFICE
    },
];
