//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::options::OptionsError;

/// Why the store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is nothing at the path.
    #[error("there is no store at {path}: no such directory; check the path, or record into it first", path = .0.display())]
    Missing(PathBuf),
    /// Something else lives there.
    #[error("{path} is not a TrackIOps store: {why}; name a store, or to record an empty directory or a new one", path = .path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What was found instead.
        why: &'static str,
    },
    /// There is all of a store but its catalog.
    #[error("{path} has lost its catalog: `trackiops store rebuild-catalog --store {path}` rebuilds it from the segments", path = .0.display())]
    NoCatalog(PathBuf),
    /// The catalog is not what was written.
    #[error(
        "the catalog of {store} is damaged: {why}; `trackiops store rebuild-catalog --store {store}` rebuilds it from the segments",
        store = .store.display()
    )]
    DamagedCatalog {
        /// The store.
        store: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Written in another format.
    #[error(
        "{path} has format version {found}, this trackiops reads and writes version {FORMAT_VERSION}; \
         use the trackiops that wrote it, or record into another directory",
        path = .path.display()
    )]
    OtherFormat {
        /// The store or the file in it.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// One store has one writer.
    #[error("{path} is being recorded to; stop the recorder, or name another store", path = .0.display())]
    Locked(PathBuf),
    /// Somebody else owns it.
    #[error(
        "{path} belongs to user {owner}, who could change what is recorded; `chown -R {own} {path}`, or name another store",
        path = .path.display()
    )]
    NotOwned {
        /// The store, or a directory of it.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who wants to write.
        own: u32,
    },
    /// Others may write to it.
    #[error("others may write to {path} and could change what is recorded; `chmod -R go-w {path}`, or name another store", path = .0.display())]
    OthersWrite(PathBuf),
    /// The store would be recorded by its own recorder.
    #[error(
        "{path} is on NFS: the recorder would record its own writes, and a server that hangs would block it; \
         name a local directory, or allow it with --allow-nfs-store",
        path = .0.display()
    )]
    OnNfs(PathBuf),
    /// The operating system refused.
    #[error("cannot {doing} {path}: {source}{hint}", path = .path.display(), hint = hint(.source))]
    Io {
        /// What was tried, as a verb.
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite refused.
    #[error(
        "the catalog {path}: {source}; if it is damaged, `trackiops store rebuild-catalog` rebuilds it",
        path = .path.display()
    )]
    Catalog {
        /// The catalog file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A segment could not be written.
    #[error("cannot write segment {path}: {source}", path = .path.display())]
    Parquet {
        /// The segment.
        path: PathBuf,
        /// What the Parquet writer said.
        source: parquet::errors::ParquetError,
    },
    /// A file does not hold what it should, other than by a torn end.
    #[error("{path} is damaged at byte {offset}: {why}; keep a copy and move it out of the store", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A segment does not hold what it should.
    #[error("segment {path} is damaged: {why}; restore it from a copy, and see `trackiops store check`", path = .path.display())]
    DamagedSegment {
        /// The segment.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A choice that the store cannot work with.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A window does not begin on a multiple of its length.
    #[error("a window that starts at {start} ms is not aligned to {granularity}; align it before it is closed", start = .start.0)]
    Unaligned {
        /// The window's start.
        start: UtcMs,
        /// The store's finest granularity.
        granularity: Granularity,
    },
    /// Frames of a journal are bounded.
    #[error("a window of {0} bytes does not fit a journal; record fewer files at once")]
    WindowTooLarge(usize),
    /// So are its files.
    #[error(
        "a window makes {0} files of one journal, which is too many; record fewer files at once"
    )]
    TooManyFiles(usize),
    /// The sealing thread has panicked.
    #[error("the sealing thread of {path} has panicked: {why}; open the store again to seal its journals", path = .store.display())]
    SealerGone {
        /// The store.
        store: PathBuf,
        /// What it panicked with.
        why: String,
    },
    /// Somebody has deleted or moved the store while it was written.
    #[error("{path} is not where it was: somebody has deleted or moved it", path = .0.display())]
    Gone(PathBuf),
    /// A window is of no granularity of the store.
    #[error("windows of {0} are not kept in this store; name it with --granularity")]
    NotKept(Granularity),
    /// Sealing was stopped between two steps by the observer of its steps.
    #[error("sealing of journal {0} was interrupted; open the store again to finish it")]
    Interrupted(u64),
}

impl StoreError {
    /// The file or directory of the store that it is about.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Io { path, .. }
            | Self::Parquet { path, .. }
            | Self::Damaged { path, .. }
            | Self::DamagedSegment { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Makes an I/O error into one that names what was tried on which path.
    pub(crate) fn io<'a>(
        doing: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

/// The next step, where the cause suggests one.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run as a user who may, or name another store",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or name a store elsewhere"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; name a store on a writable file system",
        io::ErrorKind::NotADirectory => "; name a path whose parents are directories",
        io::ErrorKind::NotFound => "; check the path",
        _ => "",
    }
}
