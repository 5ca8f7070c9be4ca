//! Reads the counters of all superblocks, a piece at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;
use std::vec;

use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::identity::Dev;

use crate::audit::look::Look;
use crate::audit::mountstats::{MountStatistics, MountstatsParser};
use crate::clock::{ClockSample, MonotonicNs};
use crate::names::mountinfo::{HOST, NfsMount, parse_mountinfo};

/// Larger than any read returns: about 4 KiB, in whole mounts.
const PIECE: usize = 64 << 10;

/// A walk through the mount namespaces that reads each superblock once.
pub struct Reading {
    /// Processes of the namespaces that are still to be read, with the devices of each.
    namespaces: vec::IntoIter<(u32, Vec<Dev>)>,
    file: Option<NamespaceFile>,
    /// Where the kernel's files are.
    root: PathBuf,
    seen: HashSet<Dev>,
    /// CPU time spent.
    pub spent: Duration,
}

/// The open file of a namespace.
struct NamespaceFile {
    file: File,
    parser: MountstatsParser,
    devices: Devices,
    /// When the reading of the mount that the last piece cut began.
    began: Option<MonotonicNs>,
}

/// Devices by source and mount point. The kernel prints mounts of one place in the same order in
/// both files.
struct Devices(HashMap<(String, String), VecDeque<Dev>>);

impl Reading {
    /// Reads the namespace of the host first, then the others that have further devices.
    pub fn new(others: &[(u32, Vec<Dev>)]) -> Self {
        let own = (HOST, Vec::new());
        let namespaces: Vec<_> = [own].into_iter().chain(others.iter().cloned()).collect();
        Self {
            namespaces: namespaces.into_iter(),
            file: None,
            root: "/".into(),
            seen: HashSet::new(),
            spent: Duration::ZERO,
        }
    }

    /// Skips mounts.
    pub fn leave_out_mounts(&mut self) {
        self.namespaces = Vec::new().into_iter();
    }

    /// Continues for about `budget` of CPU time. Passes each look to `looked`, and returns whether
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
        let Ok(length) = open.file.read(&mut piece) else {
            // The cut mount may lack operations, and would seem to have fewer requests.
            self.file = None;
            return true;
        };
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

    /// Opens the next namespace with devices that were not read. Returns whether there is one.
    /// If a process has ended, its namespace is gone, or another process represents it next time.
    fn open_next(&mut self) -> bool {
        for (pid, devices) in self.namespaces.by_ref() {
            let is_own = pid == HOST;
            if !is_own && devices.iter().all(|dev| self.seen.contains(dev)) {
                continue;
            }
            let process = self.root.join(format!("proc/{pid}"));
            // In this order: a mount that is added in between has no device here, and is left out.
            let mountinfo = fs::read(process.join("mountinfo"));
            let opened = mountinfo.and_then(|text| {
                let file = File::open(process.join("mountstats"))?;
                Ok((parse_mountinfo(&text), file))
            });
            if let Ok((mounts, file)) = opened {
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
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::transfers::Transfers;
    use std::path::Path;

    /// A mount as both files show it: device, source, mount point, and how often it was read.
    type Told<'a> = (u32, &'a str, &'a str, u64);

    fn write(root: &Path, pid: u32, mounts: &[Told<'_>]) {
        let process = root.join(format!("proc/{pid}"));
        fs::create_dir_all(&process).unwrap();
        let (mut info, mut stats) = (
            String::new(),
            "device proc mounted on /proc with fstype proc\n".to_owned(),
        );
        for (i, (dev, source, point, reads)) in mounts.iter().enumerate() {
            info += &format!("{i} 1 0:{dev} / {point} rw - nfs4 {source} rw\n");
            stats += &format!(
                "device {source} mounted on {point} with fstype nfs4 statvers=1.1\n\tage:\t3\n\tcaps:\tcaps=0xf\n\tbytes:\t0 0 0 0 {} 0 0 0 \n\
                 \tper-op statistics\n\t        NULL: 1 1 0 44 24 0 0 0 0\n\t        READ: {reads} 1 0 1 1 1 1 1 0\n\n",
                reads * 10
            );
        }
        fs::write(process.join("mountinfo"), info).unwrap();
        fs::write(process.join("mountstats"), stats).unwrap();
    }

    fn read(
        root: &Path,
        others: &[(u32, Vec<Dev>)],
        budget: Duration,
    ) -> (Vec<(Dev, Transfers)>, usize) {
        let mut reading = Reading {
            root: root.to_owned(),
            ..Reading::new(others)
        };
        let (mut looks, mut rounds) = (Vec::new(), 1);
        while reading.advance(budget, |dev, look| looks.push((dev, look.kernel))) {
            rounds += 1;
        }
        (looks, rounds)
    }

    fn reads(requests: u64) -> Transfers {
        Transfers::new((requests, requests * 10), (0, 0))
    }

    #[test]
    fn each_superblock_of_every_namespace_is_read_once() {
        let root = tempfile::tempdir().unwrap();
        let own = HOST;
        // A bind mount; `nosharecache`; two exports mounted over each other at one place.
        let mounts = [
            (50, "s:/a", "/a", 5),
            (50, "s:/a", "/again", 5),
            (50, "s:/a/dir", "/bound", 5),
            (51, "s:/a", "/unshared", 7),
            (52, "s:/b", "/over", 8),
            (53, "s:/b", "/over", 9),
        ];
        write(root.path(), own, &mounts);
        write(root.path(), 901, &mounts[..1]);
        write(
            root.path(),
            902,
            &[(50, "s:/a", "/a", 5), (60, "s:/c", "/inside", 1)],
        );
        let others = [
            (901, vec![Dev(50)]),
            (902, vec![Dev(50), Dev(60)]),
            // This process has ended.
            (903, vec![Dev(61)]),
        ];
        fs::remove_file(root.path().join("proc/901/mountstats")).unwrap();
        let expected = [(50, 5), (51, 7), (52, 8), (53, 9), (60, 1)];
        let expected = expected.map(|(dev, requests)| (Dev(dev), reads(requests)));
        let (looks, rounds) = read(root.path(), &others, Duration::MAX);
        assert_eq!((&looks[..], rounds), (&expected[..], 1));
        let (looks, rounds) = read(root.path(), &others, Duration::ZERO);
        assert_eq!(looks, expected);
        assert!(rounds > 3, "a piece at a time: {rounds}");
    }

    #[test]
    fn a_mount_that_comes_between_both_files_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let own = HOST;
        write(
            root.path(),
            own,
            &[(50, "s:/a", "/a", 5), (51, "s:/b", "/b", 6)],
        );
        let info = root.path().join(format!("proc/{own}/mountinfo"));
        let text = fs::read_to_string(&info).unwrap();
        fs::write(&info, text.lines().next().unwrap()).unwrap();
        let (looks, _) = read(root.path(), &[], Duration::MAX);
        assert_eq!(looks, [(Dev(50), reads(5))]);
    }
}
