//! The SQLite catalog: the only module that knows SQL.
//!
//! Readers never block the writer (WAL), and what a sealed journal adds is one transaction.

mod digest;
mod keep;
pub(crate) mod mounts;
mod read;
mod schema;
mod write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::ddl;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::describe::JournalSpan;
use crate::error::StoreError;
use crate::file_index::FileIndex;
use crate::layout::{self, Dataset};

pub(crate) use keep::Kept;
pub(crate) use read::CatalogView;

/// Writers hold the database for one short transaction; a reader's recovery of the WAL may take
/// a little longer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A segment as the catalog knows it.
#[derive(Clone, Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) dataset: Dataset,
    pub(crate) granularity: Granularity,
    /// Numbers of the first and of the last journal that its rows are from.
    pub(crate) journals: (u64, u64),
    pub(crate) start: UtcMs,
    pub(crate) end: UtcMs,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Relative to the store.
    pub(crate) path: String,
    pub(crate) files: FileIndex,
}

/// A file and when it was seen with these attributes.
#[derive(Clone, Debug)]
pub(crate) struct FileSeen {
    pub(crate) file: Arc<FileAttributes>,
    pub(crate) first: UtcMs,
    pub(crate) last: UtcMs,
}

/// What a sealed journal adds to the catalog.
pub(crate) struct Sealed<'a> {
    pub(crate) journal: u64,
    /// `None` if it held no window.
    pub(crate) span: Option<JournalSpan>,
    pub(crate) host: &'a str,
    pub(crate) segments: &'a [SegmentEntry],
    pub(crate) files: &'a [FileSeen],
}

/// A segment, and what its rows say.
pub(crate) struct Restored<'a> {
    pub(crate) host: &'a str,
    pub(crate) segment: &'a SegmentEntry,
    pub(crate) journals: &'a [JournalSpan],
    pub(crate) files: &'a [FileSeen],
}

/// The writer's connection.
#[derive(Debug)]
pub(crate) struct Catalog {
    connection: Connection,
    path: PathBuf,
}

impl Catalog {
    /// Opens the catalog of a store, creating it where there is none.
    pub(crate) fn open(store: &Path) -> Result<Self, StoreError> {
        Self::at(layout::catalog(store), store)
    }

    /// Opens the database at `path` as a catalog of the store, creating it where there is none.
    pub(crate) fn at(path: PathBuf, store: &Path) -> Result<Self, StoreError> {
        let error = error_at(&path);
        let connection = Connection::open(&path).map_err(&error)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(&error)?;
        connection
            .execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;")
            .map_err(&error)?;
        let mut catalog = Self { connection, path };
        if catalog.is_blank().map_err(&error)? {
            catalog.create().map_err(&error)?;
            layout::sync_dir(store)?;
        }
        check_format(&catalog.connection, store, &catalog.path)?;
        digest::watch(&catalog.connection).map_err(&error)?;
        Ok(catalog)
    }

    /// Whether nothing was committed to it yet: it is new, or its creation was interrupted.
    fn is_blank(&self) -> rusqlite::Result<bool> {
        let count = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = self.connection.query_row(count, [], |row| row.get(0))?;
        let (application_id, version) = marks(&self.connection)?;
        Ok(tables == 0 && application_id == 0 && version == 0)
    }

    fn create(&mut self) -> rusqlite::Result<()> {
        self.connection
            .execute_batch("PRAGMA journal_mode = WAL;")?;
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(ddl::CREATE)?;
        digest::compute(&transaction)?;
        transaction.pragma_update(None, "application_id", ddl::APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
        transaction.commit()
    }

    /// Closes the database, which is one durable file then if nobody else has it open.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        let Self { connection, path } = self;
        let closed = connection.close().map_err(|(_, error)| error);
        closed.map_err(error_at(&path))?;
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(StoreError::io("sync", &path))
    }

    fn error(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        error_at(&self.path)
    }
}

/// Says that something else lives where the catalog of a store should be.
fn not_a_store(catalog: &Path, why: &'static str) -> StoreError {
    StoreError::NotAStore {
        path: catalog.parent().unwrap_or(catalog).to_owned(),
        why,
    }
}

fn error_at(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            not_a_store(&path, "its catalog.db is not an SQLite database")
        }
        _ => StoreError::Catalog {
            path: path.clone(),
            source,
        },
    }
}

/// `application_id` and `user_version`.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, u32)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let application_id = pragma("application_id")?;
    let version: i32 = pragma("user_version")?;
    Ok((application_id, version.cast_unsigned()))
}

/// Refuses other programs' databases, and catalogs of another format.
fn check_format(connection: &Connection, store: &Path, path: &Path) -> Result<(), StoreError> {
    match marks(connection).map_err(error_at(path))? {
        (ddl::APPLICATION_ID, FORMAT_VERSION) => Ok(()),
        (ddl::APPLICATION_ID, found) => Err(StoreError::OtherFormat {
            path: store.to_owned(),
            found,
        }),
        _ => Err(not_a_store(
            path,
            "its catalog.db is not a TrackIOps catalog",
        )),
    }
}

/// Opens a catalog for reading. On media where the WAL's shared memory cannot be made the database file is read as it is, or
/// where a WAL has content that would be missed, from a copy of both.
fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let open = |immutable: bool| {
        let uri = uri(path, immutable);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        marks(&connection)?;
        Ok(connection)
    };
    let cannot_open = |e: &rusqlite::Error| {
        matches!(
            e.sqlite_error_code(),
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
        )
    };
    // The database file is opened on its own first for an error that tells permission from absence.
    File::open(path).map_err(StoreError::io("open", path))?;
    match open(false) {
        Err(e) if cannot_open(&e) && !has_wal(path) => open(true),
        Err(e) if cannot_open(&e) => return copied(path),
        other => other,
    }
    .map_err(error_at(path))
}

/// A catalog with what is in its WAL, in memory. SQLite reads a WAL only where it can write beside it.
fn copied(path: &Path) -> Result<Connection, StoreError> {
    let scratch = tempfile::Builder::new().prefix("trackiops-").tempdir();
    let scratch = scratch.map_err(StoreError::io("make a directory in", &std::env::temp_dir()))?;
    let copy = layout::catalog(scratch.path());
    for (from, to) in [(path.to_owned(), copy.clone()), (wal(path), wal(&copy))] {
        std::fs::copy(&from, to).map_err(StoreError::io("copy", &from))?;
    }
    let catalog = Connection::open(&copy).map_err(error_at(path))?;
    in_memory(&catalog).map_err(error_at(path))
}

/// A copy of a catalog.
fn in_memory(catalog: &Connection) -> rusqlite::Result<Connection> {
    let mut copy = Connection::open_in_memory()?;
    const ALL_PAGES: i32 = -1;
    Backup::new(catalog, &mut copy)?.step(ALL_PAGES)?;
    Ok(copy)
}

/// What SQLite writes beside a database.
fn wal(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    wal.into()
}

fn has_wal(path: &Path) -> bool {
    let length = std::fs::metadata(wal(path)).map(|m| m.len());
    !matches!(length, Ok(0)) && !matches!(&length, Err(e) if e.kind() == io::ErrorKind::NotFound)
}

/// The path as an SQLite URI.
fn uri(path: &Path, immutable: bool) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    if immutable {
        uri.push_str("?immutable=1");
    }
    uri
}
