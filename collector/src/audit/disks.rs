//! The kernel's own counters of requests to block devices.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::audit::look::Look;
use crate::audit::transfers::Transfers;
use crate::clock::ClockSample;

/// Bytes of the unit in `/sys/block/*/stat`.
const SECTOR: u64 = 512;
/// Most devices that are named.
const NAMED: usize = 4;

/// The counters of block devices. New devices are added. Requests between the last look and a device's removal remain unknown.
pub struct Disks {
    /// Where the kernel's files are.
    root: PathBuf,
    known: BTreeMap<OsString, Transfers>,
    all: Transfers,
    /// Devices whose counters have grown since they were first seen.
    busy: BTreeSet<OsString>,
}

impl Disks {
    /// Nothing is read yet.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.join("sys/block"),
            known: BTreeMap::new(),
            all: Transfers::default(),
            busy: BTreeSet::new(),
        }
    }

    /// Reads the counters. The second value says that a device has left, so the counts since the last look cannot be compared.
    pub fn look(&mut self) -> (Look, bool) {
        let began = ClockSample::take().now;
        let (mut found, mut has_left) = (BTreeMap::new(), false);
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for entry in entries {
            // Without this directory a device has no requests: its driver passes bios on to another one.
            if entry.path().join("mq").is_dir()
                && let Some(counted) = read(&entry.path().join("stat"))
            {
                has_left |= is_of_mapper(&entry.file_name());
                found.insert(entry.file_name(), counted);
            }
        }
        let ended = ClockSample::take().now;
        for (name, before) in &self.known {
            let now = found.get(name);
            // A device of the same name with smaller counters is another one.
            has_left |= now.is_none_or(|now| now.growth_since(*before) != now.since(*before));
        }
        for (name, now) in &found {
            let before = self.known.get(name).copied();
            let growth = now.growth_since(before.unwrap_or_default());
            if before.is_some() && !growth.is_none() {
                self.busy.insert(name.clone());
            }
            self.all.add(growth);
        }
        self.known = found;
        (Look::of_disks(self.all, (began, ended)), has_left)
    }
}

impl Disks {
    /// The names of the devices that had requests meanwhile, for people.
    pub fn names(&self) -> String {
        let names = self.busy.iter().take(NAMED);
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        if self.busy.len() > NAMED {
            names.push("others".into());
        }
        match names.as_slice() {
            [] => "the block devices".to_owned(),
            names => names.join(", "),
        }
    }
}

/// Whether it is a multipath device. It passes requests on to devices that count them once more than rows do, so nothing is compared.
fn is_of_mapper(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"dm-")
}

/// Reads and writes of a device since it was added (Documentation/block/stat.rst).
fn read(stat: &Path) -> Option<Transfers> {
    let text = fs::read_to_string(stat).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut number = |skipped| numbers.nth(skipped)?.ok();
    let (reads, read) = (number(0)?, number(1)?);
    let (writes, written) = (number(1)?, number(1)?);
    let bytes = |sectors: u64| sectors.wrapping_mul(SECTOR);
    Some(Transfers::new(
        (reads, bytes(read)),
        (writes, bytes(written)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(root: &Path, name: &str, reads: u64, writes: u64) {
        let device = root.join("sys/block").join(name);
        fs::create_dir_all(device.join("mq")).unwrap();
        let (read, written) = (8 * reads, 16 * writes);
        let stat = format!("{reads:8} 7 {read} 9 {writes} 1 {written} 4 0 5 6 7 8 9 1 2 3\n");
        fs::write(device.join("stat"), stat).unwrap();
    }

    fn counted(reads: u64, writes: u64) -> Transfers {
        Transfers::new((reads, 4096 * reads), (writes, 8192 * writes))
    }

    fn seen(disks: &mut Disks) -> (Transfers, bool) {
        let (look, has_left) = disks.look();
        (look.kernel, has_left)
    }

    #[test]
    fn devices_that_come_are_added_and_those_that_leave_stay_counted() {
        let root = tempfile::tempdir().unwrap();
        let mut disks = Disks::new(root.path());
        assert_eq!(seen(&mut disks), (counted(0, 0), false));
        set(root.path(), "sda", 10, 1);
        set(root.path(), "loop0", 5, 0);
        fs::create_dir_all(root.path().join("sys/block/dm-0")).unwrap();
        fs::write(root.path().join("sys/block/dm-0/stat"), "9 9 9 9 9 9 9").unwrap();
        assert_eq!(seen(&mut disks), (counted(15, 1), false));
        set(root.path(), "sda", 11, 3);
        assert_eq!(seen(&mut disks), (counted(16, 3), false));
        assert_eq!(disks.names(), "sda", "the other one had no requests since");
        fs::remove_dir_all(root.path().join("sys/block/loop0")).unwrap();
        assert_eq!(seen(&mut disks), (counted(16, 3), true));
        set(root.path(), "loop0", 2, 1);
        assert_eq!(seen(&mut disks), (counted(18, 4), false));
        assert!(!disks.look().1);
        set(root.path(), "dm-1", 0, 0);
        assert!(disks.look().1, "multipath is not compared");
        fs::remove_dir_all(root.path().join("sys/block/dm-1")).unwrap();
        disks.look();
        // Another device of the same name.
        set(root.path(), "loop0", 0, 4);
        let (all, has_left) = seen(&mut disks);
        assert!(has_left);
        assert_eq!(all, counted(18, 7));
    }
}
