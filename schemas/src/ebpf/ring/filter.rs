//! Which requests the programs record.

/// One of the things of which a wanted request has one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterKey {
    /// Which: a bit of [`filters`].
    pub kind: u32,
    /// Device, for a mount, a directory or a file.
    pub dev: u32,
    /// Its fileid, the process, the user or the cgroup.
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

/// Bits of the global [`FILTER_GLOBAL`](super::FILTER_GLOBAL): what a request must have to be wanted, and kinds of [`FilterKey`]. It must
/// have one of each kind that is asked for; mounts, directories and files are one kind.
pub mod filters {
    /// Processes.
    pub const PIDS: u32 = 1 << 0;
    /// Users.
    pub const UIDS: u32 = 1 << 1;
    /// Cgroups.
    pub const CGROUPS: u32 = 1 << 2;
    /// Mounts, by device.
    pub const MOUNTS: u32 = 1 << 3;
    /// Directories with all that is below them.
    pub const DIRECTORIES: u32 = 1 << 4;
    /// Files.
    pub const FILES: u32 = 1 << 5;
    /// Any of those three.
    pub const PLACES: u32 = MOUNTS | DIRECTORIES | FILES;
    /// READ is not wanted.
    pub const NO_READS: u32 = 1 << 6;
    /// WRITE is not wanted.
    pub const NO_WRITES: u32 = 1 << 7;
}
