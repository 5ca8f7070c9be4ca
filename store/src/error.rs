//! Errors of a store.

use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::beneath;
use crate::options::OptionsError;

/// An operation on a store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The path does not exist.
    #[error("there is no store at {path}: no such directory; check the path, or record into it first", path = .0.display())]
    Missing(PathBuf),
    /// The path is not a store.
    #[error("{path} is not a TrackIOps store: {why}; name a store; to record, name an empty or a new directory", path = .path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// The kind of directory that was found.
        why: &'static str,
    },
    /// The catalog is missing, but segments or journals are there.
    #[error("{path} has lost its catalog: `trackiops store rebuild-catalog --store {path}` rebuilds it from the segments", path = .0.display())]
    NoCatalog(PathBuf),
    /// The catalog is damaged.
    #[error(
        "the catalog of {store} is damaged: {why}; `trackiops store rebuild-catalog --store {store}` rebuilds it from the segments",
        store = .store.display()
    )]
    DamagedCatalog {
        /// The store.
        store: PathBuf,
        /// The problem.
        why: String,
    },
    /// The store or the file has another version of the format.
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
    /// A recorder holds the lock of the store.
    #[error("{path} is being recorded to; stop the recorder, or name another store", path = .0.display())]
    Locked(PathBuf),
    /// The store belongs to another user.
    #[error(
        "{path} belongs to user {owner}, who could change what is recorded; `chown -R {own} {path}`, or name another store",
        path = .path.display()
    )]
    NotOwned {
        /// The store, or a directory of it.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user who wants to write.
        own: u32,
    },
    /// Other users may write to the store.
    #[error("others may write to {path} and could change what is recorded; `chmod -R go-w {path}`, or name another store", path = .0.display())]
    OthersWrite(PathBuf),
    /// The store is on NFS.
    #[error(
        "{path} is on NFS: the recorder would record its own writes, and a server that hangs would block it; \
         name a local directory, or allow it with --allow-nfs-store",
        path = .0.display()
    )]
    OnNfs(PathBuf),
    /// A system call failed.
    #[error("cannot {doing} {path}: {source}{hint}", path = .path.display(), hint = hint(.source))]
    Io {
        /// The attempted action: a verb that the path follows.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// SQLite reported an error.
    #[error(
        "the catalog {path}: {source}; if it is damaged, `trackiops store rebuild-catalog` rebuilds it",
        path = .path.display()
    )]
    Catalog {
        /// The catalog file.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A segment could not be written.
    #[error("cannot write segment {path}: {source}", path = .path.display())]
    Parquet {
        /// The segment.
        path: PathBuf,
        /// The Parquet writer's error.
        source: parquet::errors::ParquetError,
    },
    /// A file is damaged, other than by a torn end.
    #[error("{path} is damaged at byte {offset}: {why}; keep a copy and move it out of the store", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// The problem.
        why: &'static str,
    },
    /// A segment is damaged.
    #[error("segment {path} is damaged: {why}; restore it from a copy, and see `trackiops store check`", path = .path.display())]
    DamagedSegment {
        /// The segment.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file of another program cannot be read.
    #[error("cannot read {path}: {why}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A window does not start at a multiple of its length.
    #[error("a window that starts at {start} ms is not aligned to {granularity}; align it before it is closed", start = .start.0)]
    Unaligned {
        /// The window's start.
        start: UtcMs,
        /// The store's finest granularity.
        granularity: Granularity,
    },
    /// A window of this many bytes exceeds the limit of a frame.
    #[error("a window of {0} bytes does not fit a journal; record fewer files at once")]
    WindowTooLarge(usize),
    /// A window would bring its journal to this many files, more than the limit.
    #[error(
        "a window would give its journal {0} files, which is too many; record fewer files at once"
    )]
    TooManyFiles(usize),
    /// The sealing thread has panicked.
    #[error("the sealing thread of {path} has panicked: {why}; open the store again to seal its journals", path = .store.display())]
    SealerGone {
        /// The store.
        store: PathBuf,
        /// The message of the panic.
        why: String,
    },
    /// A path that a copy cannot be made at.
    #[error("cannot copy to {path}: {why}; name a directory that is new or empty, outside of the store", path = .path.display())]
    CopyTarget {
        /// The path.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A mark was refused; the text is the reason.
    #[error("the mark is not written: {0}")]
    RefusedMark(&'static str),
    /// The store was deleted or moved while it was open for writing.
    #[error("{path} was deleted or moved while it was recorded to", path = .0.display())]
    Gone(PathBuf),
    /// The store was moved or deleted while it was open for writing, and another directory is at its path.
    #[error(
        "{path} leads to another directory than the one that was recorded to: nothing is written to it; \
         move the first one back, or start the recorder again to record into this one",
        path = .0.display()
    )]
    Replaced(PathBuf),
    /// Files with the progress of imports are missing.
    #[error(
        "files in {path} are missing, so it is not known whether {store} has this import; restore them from a copy, name another store, or run `trackiops store rebuild-catalog` to add all of it to what is there",
        store = .store.display(), path = .path.display()
    )]
    MissingImports {
        /// The store.
        store: PathBuf,
        /// The directory of these files.
        path: PathBuf,
    },
    /// Journals of an interrupted import are gone, or were sealed without being counted.
    #[error(
        "it is not known how much of this import {store} has; name another store, or remove {path} and run `trackiops store rebuild-catalog` to add all of it to what is there",
        store = .store.display(), path = .path.display()
    )]
    UnknownImport {
        /// The store.
        store: PathBuf,
        /// The file with the progress of the import.
        path: PathBuf,
    },
    /// The store does not keep windows of this granularity.
    #[error("this store does not keep windows of {0}; add {0} to --granularity")]
    NotKept(Granularity),
    /// Sealing a journal stopped between two steps: a change of the catalog failed, or a test interrupted it.
    #[error("sealing of journal {0} was interrupted; open the store again to finish it")]
    Interrupted(u64),
}

impl StoreError {
    /// The file or directory that the error is about, for errors with single files.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Io { path, .. }
            | Self::Parquet { path, .. }
            | Self::Damaged { path, .. }
            | Self::DamagedSegment { path, .. }
            | Self::Unreadable { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Adds the attempted action and the path to an I/O error.
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

/// The next step, if the cause suggests one.
fn hint(source: &io::Error) -> &'static str {
    if beneath::other_than_file(source).is_some() {
        return "; move it out of the store";
    }
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
