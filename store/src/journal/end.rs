//! A file beside a journal that says how long the journal is. Without it, a journal that was cut,
//! or whose last frame is damaged, looks like a shorter journal.
//!
//! ```text
//! slot     bytes u64 | start i64 | end i64 | written u64 | boot u64 | crc32c u32     at 0 and at 512
//! ```
//!
//! After each append, the writer overwrites one of the two slots in turn. Only the first durable length is synced: the
//! kernel writes the others about half a minute later. So after a power cut the file may be that old, but it is not
//! empty if the journal has anything durable.
//!
//! `bytes` are durable, even after a power cut. `written` may be larger, because journals of requests are synced once a
//! second. It is valid only in the same boot of the machine, since a power cut can undo it. A disk writes a sector as a
//! whole, so a power cut leaves a slot valid or empty: any other slot is damaged.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use super::bytes::{read_at, u32_at};
use crate::beneath;
use crate::error::StoreError;
use crate::layout;

const SLOT_BYTES: usize = 44;
/// Bytes that the checksum covers.
const FIELDS_BYTES: usize = SLOT_BYTES - 4;
/// In separate sectors.
const SLOTS_AT: [u64; 2] = [0, 512];
/// Attempts to read a slot that the writer may be overwriting, and the time between them.
const LOOKS: usize = 4;
const OVERWRITING: Duration = Duration::from_millis(1);
/// Looks at the file of a journal that a recorder may be appending to for the first time, and the time between them.
const FIRST_LOOKS: usize = 5;
const APPENDING: Duration = Duration::from_millis(50);

/// The length of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Length of its durable part.
    pub(crate) bytes: u64,
    /// Start of the first and end of the last recorded window.
    pub(crate) span: (UtcMs, UtcMs),
    /// Its length in the boot `boot`.
    written: u64,
    boot: u64,
}

/// The content of a journal's `.end` file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// `None` if no slot is valid.
    pub(crate) extent: Option<Extent>,
    /// Whether a slot is damaged: more than [`Self::extent`] may have been durable.
    pub(crate) is_damaged: bool,
}

impl End {
    /// Reads the `.end` file of the journal with this path. An absent file yields no extent.
    pub(crate) fn read(journal: &Path) -> Self {
        let path = layout::journal_end(journal);
        let Ok(file) = beneath::read(layout::store_of(journal), &path) else {
            return Self::default();
        };
        let mut end = Self::of(&file);
        for _ in 1..LOOKS {
            if !end.is_damaged {
                break;
            }
            thread::sleep(OVERWRITING);
            end = Self::of(&file);
        }
        end
    }

    fn of(file: &File) -> Self {
        let mut end = Self::default();
        for at in SLOTS_AT {
            let mut slot = [0; SLOT_BYTES];
            let read = read_at(file, &mut slot, at);
            if read.is_ok() && slot.iter().all(|byte| *byte == 0) {
                continue;
            }
            match Extent::decode(&slot) {
                Some(extent) => {
                    let both = end.extent.into_iter().chain([extent]);
                    end.extent = both.max_by_key(|extent| extent.written);
                }
                None => end.is_damaged = true,
            }
        }
        end
    }
}

impl Extent {
    /// The extent of the journal with this path, if its `.end` file has a valid slot.
    pub(crate) fn read(journal: &Path) -> Option<Self> {
        End::read(journal).extent
    }

    /// The least length that the journal must have.
    pub(crate) fn vouched(&self) -> u64 {
        match self.boot == boot() {
            true => self.written,
            false => self.bytes,
        }
    }

    /// Whether a journal has an `.end` file. A recorder creates it before the journal, so only damage leaves none.
    pub(crate) fn has_file(journal: &Path) -> bool {
        let end = layout::journal_end(journal);
        beneath::exists(layout::store_of(journal), &end).unwrap_or(false)
    }

    /// Whether nothing says how long a journal was, so that a torn end may have been durable.
    pub(crate) fn is_unknown(journal: &Path) -> bool {
        for look in 1..=FIRST_LOOKS {
            if Self::read(journal).is_some() {
                return false;
            }
            if !Self::has_file(journal) {
                break;
            }
            if look < FIRST_LOOKS {
                thread::sleep(APPENDING);
            }
        }
        // It may have been sealed in the meantime.
        journal.symlink_metadata().is_ok()
    }

    fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.bytes.to_le_bytes());
        slot[8..16].copy_from_slice(&self.span.0.0.to_le_bytes());
        slot[16..24].copy_from_slice(&self.span.1.0.to_le_bytes());
        slot[24..32].copy_from_slice(&self.written.to_le_bytes());
        slot[32..FIELDS_BYTES].copy_from_slice(&self.boot.to_le_bytes());
        let crc = crc32c::crc32c(&slot[..FIELDS_BYTES]);
        slot[FIELDS_BYTES..].copy_from_slice(&crc.to_le_bytes());
        slot
    }

    fn decode(slot: &[u8; SLOT_BYTES]) -> Option<Self> {
        if crc32c::crc32c(&slot[..FIELDS_BYTES]) != u32_at(slot, FIELDS_BYTES) {
            return None;
        }
        let u64_at = |at| u64::from(u32_at(slot, at)) | u64::from(u32_at(slot, at + 4)) << 32;
        let time_at = |at| UtcMs(u64_at(at).cast_signed());
        let span = (time_at(8), time_at(16));
        let is_time = span.0.is_in_calendar() && span.1.is_in_calendar();
        // The checksum of zeros is zero, so a slot of zeros has a valid one.
        let written = u64_at(24);
        (written > 0 && u64_at(0) <= written && is_time).then(|| Self {
            bytes: u64_at(0),
            span,
            written,
            boot: u64_at(32),
        })
    }
}

/// A number of this boot of the machine. If it cannot be read, each call returns another number.
fn boot() -> u64 {
    static BOOT: OnceLock<Option<u64>> = OnceLock::new();
    let read = || {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u64::from_str_radix(id.get(..18)?.replace('-', "").get(..16)?, 16).ok()
    };
    static NONE: AtomicU64 = AtomicU64::new(0);
    BOOT.get_or_init(read)
        .unwrap_or_else(|| NONE.fetch_add(1, Ordering::Relaxed))
}

/// Writes the `.end` file of a journal.
#[derive(Debug)]
pub(crate) struct EndWriter {
    file: File,
    slot: usize,
    span: Option<(UtcMs, UtcMs)>,
    durable_bytes: u64,
}

impl EndWriter {
    /// Creates the file, before its journal: its name becomes durable together with the journal's.
    pub(crate) fn create(journal: &Path) -> Result<Self, StoreError> {
        let path = layout::journal_end(journal);
        // Replaces the file of an earlier journal with this number.
        let created = beneath::create_anew(layout::store_of(journal), &path).and_then(|file| {
            beneath::finished(&file)?;
            Ok(file)
        });
        let file = created.map_err(StoreError::io("create", &path))?;
        Ok(Self {
            file,
            slot: 0,
            span: None,
            durable_bytes: 0,
        })
    }

    /// Records that `bytes` are durable, and that `span` was recorded since the last call.
    pub(crate) fn note(&mut self, bytes: u64, span: (UtcMs, UtcMs)) {
        let is_first = self.durable_bytes == 0;
        self.durable_bytes = bytes;
        self.note_written(bytes, span);
        if is_first {
            // A failure does no harm, as in `note_written`.
            let _ = self.file.sync_data();
            fail_point::hit("journal: end durable");
        }
    }

    /// Records that `bytes` were written, and that `span` was recorded since the last call.
    pub(crate) fn note_written(&mut self, bytes: u64, span: (UtcMs, UtcMs)) {
        let spans = self.span.into_iter().chain([span]);
        let Some(span) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            return;
        };
        self.span = Some(span);
        let slot = Extent {
            bytes: self.durable_bytes,
            span,
            written: bytes,
            boot: boot(),
        }
        .encode();
        // A failure does no harm: the old content is still true, and the appended frames are durable.
        let _ = self.file.write_all_at(&slot, SLOTS_AT[self.slot]);
        self.slot ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_counts_until_the_machine_boots_again() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("journal")).unwrap();
        let journal = dir.path().join("journal/requests-1.tij");
        let mut end = EndWriter::create(&journal).unwrap();
        let at = (UtcMs(1), UtcMs(2));
        let read = || {
            let extent = Extent::read(&journal).unwrap();
            (extent.bytes, extent.vouched())
        };
        end.note_written(5, at);
        assert_eq!(read(), (0, 5));
        end.note(7, at);
        end.note_written(9, at);
        assert_eq!(read(), (7, 9));
        let extent = Extent::read(&journal).unwrap();
        let other = Extent {
            boot: extent.boot ^ 1,
            ..extent
        };
        assert_eq!(other.vouched(), 7);
    }

    #[test]
    fn the_larger_slot_that_is_whole_counts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("journal")).unwrap();
        let journal = dir.path().join("journal/1.tij");
        assert_eq!(End::read(&journal), End::default());
        let mut end = EndWriter::create(&journal).unwrap();
        assert_eq!(End::read(&journal), End::default());
        let at = |bytes: u64| (UtcMs(bytes.cast_signed()), UtcMs(bytes.cast_signed() + 1));
        let intact = |bytes: u64| End {
            extent: Some(Extent {
                bytes,
                span: (UtcMs(1), at(bytes).1),
                written: bytes,
                boot: boot(),
            }),
            is_damaged: false,
        };
        for bytes in 1..9 {
            end.note(bytes, at(bytes));
            assert_eq!(End::read(&journal), intact(bytes));
        }
        let path = layout::journal_end(&journal);
        let whole = std::fs::read(&path).unwrap();
        for flipped in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[flipped] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            // Slot 1 was written last. Nothing reads the bytes between the slots.
            let expected = match flipped {
                0..SLOT_BYTES => (8, true),
                512.. => (7, true),
                _ => (8, false),
            };
            let read = End::read(&journal);
            assert_eq!(
                (read.extent.unwrap().bytes, read.is_damaged),
                expected,
                "{flipped}"
            );
        }
        // An empty sector is not damage: a power cut may have prevented its write.
        for (zeroed, expected) in [(0, 8), (512, 7)] {
            let mut bytes = whole.clone();
            bytes[zeroed..zeroed + SLOT_BYTES].fill(0);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(End::read(&journal), intact(expected));
        }
        let mut none = whole.clone();
        for at in SLOTS_AT {
            let times = Extent {
                bytes: 9,
                span: (UtcMs(i64::MIN), UtcMs(0)),
                written: 9,
                boot: 0,
            };
            none[at as usize..][..SLOT_BYTES].copy_from_slice(&times.encode());
        }
        let nothing = |is_damaged| End {
            extent: None,
            is_damaged,
        };
        for (bytes, expected) in [
            (&none[..], nothing(true)),
            (&whole[..20], nothing(true)),
            (&vec![0; whole.len()], nothing(false)),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(End::read(&journal), expected);
        }
    }
}
