//! Which requests the programs record.

/// A value that a filter accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterKey {
    /// The kind of value: a bit of [`filters`].
    pub kind: u32,
    /// Device of a mount, directory or file.
    pub dev: u32,
    /// Fileid of a directory or file, or the process, user or cgroup.
    pub id: u64,
}

const _: () = assert!(size_of::<FilterKey>() == 8 * FILTER_KEY_WORDS);

/// [`FilterKey`] in words, as maps hold it.
pub const FILTER_KEY_WORDS: usize = 2;

impl FilterKey {
    /// As the words of a map.
    pub fn words(self) -> [u64; FILTER_KEY_WORDS] {
        let Self { kind, dev, id } = self;
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_ne_bytes());
        head[4..].copy_from_slice(&dev.to_ne_bytes());
        [u64::from_ne_bytes(head), id]
    }
}

/// Bits of the global [`FILTER_GLOBAL`](super::FILTER_GLOBAL), and kinds of [`FilterKey`]. A wanted request has a
/// listed value for every kind that the global sets. Mounts, directories and files count as one kind.
pub mod filters {
    /// Processes.
    pub const PIDS: u32 = 1 << 0;
    /// Users.
    pub const UIDS: u32 = 1 << 1;
    /// Cgroups.
    pub const CGROUPS: u32 = 1 << 2;
    /// Mounts, by device.
    pub const MOUNTS: u32 = 1 << 3;
    /// Directories and everything below them.
    pub const DIRECTORIES: u32 = 1 << 4;
    /// Files.
    pub const FILES: u32 = 1 << 5;
    /// Any of mounts, directories and files.
    pub const PLACES: u32 = MOUNTS | DIRECTORIES | FILES;
    /// READ is not wanted.
    pub const NO_READS: u32 = 1 << 6;
    /// WRITE is not wanted.
    pub const NO_WRITES: u32 = 1 << 7;
}
