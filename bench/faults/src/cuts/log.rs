//! The log of the kernel's dm-log-writes, and the content of a disk after a power cut.
//!
//! The format is in `Documentation/admin-guide/device-mapper/log-writes.rst` and `drivers/md/dm-log-writes.c` of Linux.
//! A write without a flush appears in the log right before the next flush that began after the write had ended. A write with FUA appears
//! once it has ended, a mark once it is sent. So everything before a mark was written before the mark was sent.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context as _, Result, ensure};

use trackiops_testkit::generated::Numbers;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// Sector, sectors, flags, and the length of a mark's text.
const ENTRY_BYTES: usize = 32;
/// The least unit that a disk writes atomically.
pub const SECTOR_BYTES: u64 = 512;
const PAGE_BYTES: usize = 4096;

/// An entry of the log.
pub struct Entry {
    flags: u64,
    /// Position on the disk, in bytes.
    to: u64,
    bytes: u64,
    /// Position in the log.
    from: u64,
    /// The text of a mark.
    pub mark: Option<String>,
}

impl Entry {
    fn is(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Whether the entry makes data durable.
    pub fn is_barrier(&self) -> bool {
        self.is(FLUSH) || self.is(FUA)
    }

    /// Whether it may be lost as long as no flush follows.
    fn is_volatile(&self) -> bool {
        self.bytes > 0 && !self.is(FUA)
    }
}

/// The log of writes to a disk.
pub struct Log {
    file: File,
    pub entries: Vec<Entry>,
}

impl Log {
    pub fn read(file: File) -> Result<Self> {
        let u64_at = |at: u64| -> Result<u64> {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, at)?;
            Ok(u64::from_le_bytes(bytes))
        };
        ensure!(
            u64_at(0)? == MAGIC && u64_at(8)? == VERSION,
            "it is no log of dm-log-writes"
        );
        let count = u64_at(16)?;
        // A u32 followed by zeros.
        let sector = u64_at(24)?;
        ensure!(
            sector.is_multiple_of(SECTOR_BYTES) && (1..=65536).contains(&sector),
            "its sectors have {sector} bytes"
        );
        let mut entries = Vec::new();
        let mut at = sector;
        for _ in 0..count {
            let [to, sectors, flags, said] = [0, 8, 16, 24].map(|field| u64_at(at + field));
            let (flags, said) = (flags?, said?);
            // The content of discarded sectors depends on the device; discards do not occur here.
            ensure!(flags & DISCARD == 0, "something was discarded");
            let mut entry = Entry {
                flags,
                to: to? * sector,
                bytes: sectors? * sector,
                from: at + sector,
                mark: None,
            };
            if entry.is(MARK) {
                ensure!(said + ENTRY_BYTES as u64 <= sector, "a mark is too long");
                let mut text = vec![0; usize::try_from(said)?];
                file.read_exact_at(&mut text, at + ENTRY_BYTES as u64)?;
                let text = String::from_utf8(text).context("a mark is text")?;
                entry.mark = Some(text.trim_end_matches('\0').to_owned());
            }
            at = entry.from + entry.bytes;
            entries.push(entry);
        }
        Ok(Self { file, entries })
    }

    fn data(&self, entry: &Entry) -> Result<Vec<u8>> {
        let mut data = vec![0; usize::try_from(entry.bytes)?];
        self.file.read_exact_at(&mut data, entry.from)?;
        Ok(data)
    }
}

/// Which of the unflushed writes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// All of them.
    All,
    /// Some of them.
    Some,
    /// Some of their sectors.
    Torn,
}

/// A power cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Number of entries before the cut.
    pub at: usize,
    pub survives: Survives,
    /// Chooses the surviving writes.
    pub seed: u64,
}

/// The cuts: up to half of them right after barriers, the others anywhere.
pub fn cuts(log: &Log, count: usize, numbers: &mut Numbers) -> Vec<Cut> {
    let mut barriers: Vec<usize> = (1..=log.entries.len())
        .filter(|at| log.entries[at - 1].is_barrier())
        .collect();
    while barriers.len() > count / 2 {
        barriers.swap_remove(numbers.below(barriers.len() as u64) as usize);
    }
    let mut cuts: Vec<Cut> = barriers
        .into_iter()
        .map(|at| Cut {
            at,
            survives: Survives::All,
            seed: 0,
        })
        .collect();
    while cuts.len() < count {
        cuts.push(Cut {
            at: 1 + numbers.below(log.entries.len() as u64) as usize,
            survives: [Survives::All, Survives::Some, Survives::Torn][numbers.below(3) as usize],
            seed: numbers.below(1 << 31),
        });
    }
    cuts.sort_by_key(|cut| cut.at);
    cuts
}

/// A disk to which the log is applied, entry by entry.
pub struct Disk<'l> {
    log: &'l Log,
    bytes: u64,
    /// Pages that are not all zeros.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
    /// Number of entries that are durable and applied to the pages.
    durable: usize,
}

impl<'l> Disk<'l> {
    /// The disk before the first entry.
    pub fn new(log: &'l Log, before: &File) -> Result<Self> {
        let bytes = before.metadata()?.len();
        let mut disk = Self {
            log,
            bytes,
            pages: BTreeMap::new(),
            durable: 0,
        };
        let mut chunk = vec![0; 1 << 20];
        let mut at = 0;
        while at < bytes {
            let read = before.read_at(&mut chunk, at)?;
            ensure!(read > 0, "the disk ends at {at}");
            disk.write(at, &chunk[..read]);
            at += read as u64;
        }
        Ok(disk)
    }

    fn write(&mut self, mut at: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let (page, within) = (at / PAGE_BYTES as u64, at as usize % PAGE_BYTES);
            let (part, rest) = data.split_at(data.len().min(PAGE_BYTES - within));
            let is_there = self.pages.contains_key(&page);
            if is_there || part.iter().any(|byte| *byte != 0) {
                let bytes = self
                    .pages
                    .entry(page)
                    .or_insert_with(|| Box::new([0; PAGE_BYTES]));
                bytes[within..within + part.len()].copy_from_slice(part);
            }
            at += part.len() as u64;
            data = rest;
        }
    }

    /// Writes the content of the disk after a cut to an empty file. Cuts must come in order of their positions. Writes are torn at
    /// multiples of `sector` bytes.
    pub fn cut(&mut self, cut: &Cut, sector: u64, file: &File) -> Result<()> {
        let entries = &self.log.entries[..cut.at];
        // A flush covers earlier entries, but not its own data.
        let flushed = entries.iter().rposition(|entry| entry.is(FLUSH));
        let flushed = flushed.unwrap_or(0).max(self.durable);
        for entry in &entries[self.durable..flushed] {
            self.write(entry.to, &self.log.data(entry)?);
        }
        self.durable = flushed;
        file.set_len(self.bytes)?;
        for (page, bytes) in &self.pages {
            file.write_all_at(&bytes[..], page * PAGE_BYTES as u64)?;
        }
        let mut numbers = Numbers(cut.seed);
        for entry in &entries[flushed..] {
            let data = self.log.data(entry)?;
            let parts = match cut.survives {
                Survives::Torn if entry.is_volatile() => sector as usize,
                _ => data.len().max(1),
            };
            for (place, part) in data.chunks(parts).enumerate() {
                let survives =
                    cut.survives == Survives::All || !entry.is_volatile() || numbers.below(2) == 0;
                if survives {
                    file.write_all_at(part, entry.to + (place * parts) as u64)?;
                }
            }
        }
        Ok(())
    }
}
