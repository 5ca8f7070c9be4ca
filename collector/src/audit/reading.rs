//! Reads the counters of all superblocks, a piece at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::time::Duration;
use std::vec;

use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::identity::Dev;

use crate::audit::look::Look;
use crate::audit::mountstats::{MountStatistics, MountstatsParser};
use crate::clock::{ClockSample, MonotonicNs};
use crate::names::mountinfo::{NfsMount, mounts_of};

/// More than the kernel returns at once: about 4 KiB, in whole mounts.
const PIECE: usize = 64 << 10;

/// A walk through the mount namespaces that reads each superblock once.
pub struct Reading {
    /// Processes of the namespaces that are still to be read, with the devices of each.
    namespaces: vec::IntoIter<(u32, Vec<Dev>)>,
    file: Option<NamespaceFile>,
    seen: HashSet<Dev>,
    /// CPU time that it has taken.
    pub spent: Duration,
}

/// The open file of a namespace.
struct NamespaceFile {
    file: File,
    parser: MountstatsParser,
    devices: Devices,
    /// When reading of the mount that the last piece cut began.
    began: Option<MonotonicNs>,
}

/// Devices by source and mount point. The kernel prints mounts of one place in the same order in
/// both files.
struct Devices(HashMap<(String, String), VecDeque<Dev>>);

impl Reading {
    /// Reads the namespace of this process first, then the others that have further devices.
    pub fn new(others: &[(u32, Vec<Dev>)]) -> Self {
        let own = (std::process::id(), Vec::new());
        let namespaces: Vec<_> = [own].into_iter().chain(others.iter().cloned()).collect();
        Self {
            namespaces: namespaces.into_iter(),
            file: None,
            seen: HashSet::new(),
            spent: Duration::ZERO,
        }
    }

    /// Reads on for about `budget` of CPU time. Hands each look to `looked`, and returns whether
    /// there is more to read.
    pub fn advance(&mut self, budget: Duration, mut looked: impl FnMut(Dev, Look)) -> bool {
        let began = cpu_time();
        let spent = loop {
            let goes_on = self.read_piece(&mut looked);
            let spent = cpu_time().saturating_sub(began);
            if !goes_on {
                self.spent += spent;
                return false;
            }
            if spent >= budget {
                break spent;
            }
        };
        self.spent += spent;
        true
    }

    fn read_piece(&mut self, looked: &mut impl FnMut(Dev, Look)) -> bool {
        if self.file.is_none() && !self.open_next() {
            return false;
        }
        let Some(open) = &mut self.file else {
            return true;
        };
        let mut piece = [0; PIECE];
        let began = ClockSample::take().now;
        let length = open.file.read(&mut piece).unwrap_or(0);
        let ended = ClockSample::take().now;
        let mut complete = open.parser.take(&piece[..length]);
        if length == 0 {
            complete.extend(open.parser.finish());
        }
        let first = open.began.take().unwrap_or(began);
        open.began = open.parser.is_amid_mount().then_some(first);
        for mount in complete {
            if let Some(dev) = open.devices.take(&mount)
                && self.seen.insert(dev)
            {
                let age_s = i64::try_from(mount.age_s).unwrap_or(i64::MAX);
                let now_s = (ended.0 / 1_000_000_000).cast_signed();
                let born_s = now_s.saturating_sub(age_s);
                looked(dev, Look::new(mount.transfers, born_s, (first, ended)));
            }
        }
        if length == 0 {
            self.file = None;
        }
        true
    }

    /// Opens the next namespace that has devices which were not read. Returns whether there is one.
    /// A process that has ended takes its namespace with it, or another one shows it next time.
    fn open_next(&mut self) -> bool {
        for (pid, devices) in self.namespaces.by_ref() {
            let is_own = pid == std::process::id();
            if !is_own && devices.iter().all(|dev| self.seen.contains(dev)) {
                continue;
            }
            // In this order: a mount that comes meanwhile has no device, and is left out.
            let file = mounts_of(pid)
                .and_then(|mounts| Ok((mounts, File::open(format!("/proc/{pid}/mountstats"))?)));
            if let Ok((mounts, file)) = file {
                self.file = Some(NamespaceFile {
                    file,
                    parser: MountstatsParser::default(),
                    devices: Devices::new(mounts),
                    began: None,
                });
                return true;
            }
        }
        false
    }
}

impl Devices {
    fn new(mounts: Vec<NfsMount>) -> Self {
        let mut devices: HashMap<_, VecDeque<_>> = HashMap::new();
        for mount in mounts {
            let place = (mount.source, mount.mount_point);
            devices.entry(place).or_default().push_back(mount.dev);
        }
        Self(devices)
    }

    fn take(&mut self, mount: &MountStatistics) -> Option<Dev> {
        let place = (mount.source.clone(), mount.mount_point.clone());
        self.0.get_mut(&place)?.pop_front()
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
