//! The SQLite catalog: the only module that knows SQL.
//!
//! `catalog.db` is a database that never changes, with a checksum at its end. A change writes a new
//! file and renames it to `catalog.db` (`image`). So readers take no lock, wait for nothing and see
//! one point in time. A change in place is detected when the file is opened. The writer changes
//! a private scratch copy. A change that was not published did not happen.

mod ids;
mod image;
mod limits;
pub(crate) mod mounts;
mod requests;
mod restore;
mod schema;
mod tables;
mod upkeep;
mod view;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Transaction};
use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::beneath;
use crate::error::StoreError;
use crate::file_index::FileIndex;
use crate::identity::{Identity, Ids, StoreId, is_same_file};
use crate::layout::{self, Dataset};
use crate::machine;
use crate::names::Seen;
use crate::segment::metadata::JournalSpan;

pub(crate) use requests::RequestsEntry;
pub(crate) use upkeep::KeptSegment;
pub(crate) use view::CatalogView;

/// A segment's row in the catalog.
#[derive(Clone, Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) dataset: Dataset,
    pub(crate) granularity: Granularity,
    /// Numbers of the first and the last journal of its rows.
    pub(crate) journals: (u64, u64),
    pub(crate) start: UtcMs,
    pub(crate) end: UtcMs,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The checksum that covers the whole file.
    pub(crate) crc32c: u32,
    /// Relative to the store.
    pub(crate) path: String,
    pub(crate) files: FileIndex,
}

/// A file, and when it was seen with these attributes.
#[derive(Clone, Debug)]
pub(crate) struct FileSeen {
    pub(crate) file: Arc<FileAttributes>,
    pub(crate) first: UtcMs,
    pub(crate) last: UtcMs,
}

/// Entries that a sealed journal adds to the catalog.
pub(crate) struct Sealed<'a> {
    pub(crate) journal: u64,
    /// The journal before it.
    pub(crate) previous: Option<u64>,
    /// `None` if it held no window.
    pub(crate) span: Option<JournalSpan>,
    pub(crate) host: &'a str,
    pub(crate) segments: &'a [SegmentEntry],
    pub(crate) files: &'a [FileSeen],
}

/// A sealed journal's row in the catalog.
#[derive(Clone, Debug)]
pub(crate) struct SealedRow {
    pub(crate) journal: u64,
    pub(crate) previous: Option<u64>,
    pub(crate) host: Option<String>,
    /// `None` if it held no window.
    pub(crate) seen: Option<Seen>,
}

/// A segment, and the files and journals found in its rows.
pub(crate) struct Restored<'a> {
    pub(crate) host: &'a str,
    pub(crate) segment: &'a SegmentEntry,
    pub(crate) journals: &'a [JournalSpan],
    pub(crate) files: &'a [FileSeen],
}

/// The writer's catalog. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    store: PathBuf,
    /// The ids of the store.
    ids: Ids,
    scratch: Arc<Mutex<Scratch>>,
}

/// The database that the writer changes.
#[derive(Debug)]
struct Scratch {
    store: PathBuf,
    connection: Connection,
    /// A change failed: copy the published catalog again before the next use.
    is_lost: bool,
    /// It has changes that the published catalog lacks.
    is_ahead: bool,
}

/// When a change is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publish {
    Now,
    /// Together with the next change that is published at once. Losing it does no harm.
    Later,
}

impl Catalog {
    /// Opens the catalog of a store. Creates it if it does not exist.
    pub(crate) fn open(store: &Path) -> Result<Self, StoreError> {
        Self::open_on(machine::number(), store)
    }

    /// Opens it on the machine with this number.
    fn open_on(machine: Option<u64>, store: &Path) -> Result<Self, StoreError> {
        let path = layout::catalog(store);
        let exists = beneath::exists(store, &path).map_err(StoreError::io("look for", &path))?;
        let (mut catalog, is_copy) = match exists {
            true => {
                let (connection, is_copy) = published(store)?;
                let mut catalog = Self::with(store, connection);
                catalog.ids = catalog.ask(ids::all)?;
                (catalog, is_copy)
            }
            false => (Self::anew(store, &[])?, false),
        };
        if catalog.identify(is_copy, machine)? {
            catalog.publish()?;
        }
        Ok(catalog)
    }

    /// An empty catalog of a store that has had these ids. Publishing it replaces the store's catalog.
    pub(crate) fn anew(store: &Path, ids: &[StoreId]) -> Result<Self, StoreError> {
        let mut catalog = Self::with(store, blank(store)?);
        catalog.enter_ids(ids)?;
        Ok(catalog)
    }

    fn with(store: &Path, connection: Connection) -> Self {
        let scratch = Scratch {
            store: store.to_owned(),
            connection,
            is_lost: false,
            is_ahead: false,
        };
        Self {
            store: store.to_owned(),
            ids: Ids::default(),
            scratch: Arc::new(Mutex::new(scratch)),
        }
    }

    /// The ids of the store.
    pub(crate) fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The identity that segments are written under.
    pub(crate) fn identity(&self) -> Identity {
        Identity::of(&self.ids)
    }

    /// The store.
    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// Makes all changes visible to readers, and durable.
    pub(crate) fn publish(&self) -> Result<(), StoreError> {
        self.change(Publish::Now, |_| Ok(()))
    }

    /// Publishes changes, if there are any. Returns whether there were.
    pub(crate) fn publish_changes(&self) -> Result<bool, StoreError> {
        let is_ahead = self.scratch()?.is_ahead;
        if is_ahead {
            self.publish()?;
        }
        Ok(is_ahead)
    }

    /// Runs a query.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        question(&self.scratch()?.connection).map_err(self.error())
    }

    /// Changes the catalog in one transaction. After an error, nothing is changed.
    fn change<T>(
        &self,
        publish: Publish,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut scratch = self.scratch()?;
        // Stays set unless everything below succeeds.
        scratch.is_lost = true;
        let changed = scratch.connection.transaction().and_then(|transaction| {
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        });
        let changed = changed.map_err(self.error())?;
        if publish == Publish::Now {
            image::publish(&self.store)?;
        }
        scratch.is_ahead = publish == Publish::Later;
        scratch.is_lost = false;
        Ok(changed)
    }

    fn scratch(&self) -> Result<MutexGuard<'_, Scratch>, StoreError> {
        let scratch = self.scratch.lock();
        let mut scratch = scratch.unwrap_or_else(PoisonError::into_inner);
        if scratch.is_lost {
            (scratch.connection, _) = published(&self.store)?;
            scratch.is_lost = false;
            scratch.is_ahead = false;
        }
        Ok(scratch)
    }

    fn error(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        error_at(&layout::catalog(&self.store))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in [
            layout::catalog_scratch(&self.store),
            layout::new_catalog(&self.store),
        ] {
            let _ = beneath::remove(&self.store, &path);
        }
    }
}

/// An empty scratch database.
fn blank(store: &Path) -> Result<Connection, StoreError> {
    let path = layout::catalog_scratch(store);
    let created = beneath::create_anew(store, &path);
    created.map_err(StoreError::io("create", &path))?;
    let mut connection = scratch_at(&path)?;
    let mut create = || {
        let transaction = connection.transaction()?;
        transaction.execute_batch(tables::CREATE)?;
        transaction.pragma_update(None, "application_id", tables::APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
        transaction.commit()
    };
    create().map_err(error_at(&path))?;
    Ok(connection)
}

/// A scratch copy of the published catalog, and whether the published catalog is itself a copy.
fn published(store: &Path) -> Result<(Connection, bool), StoreError> {
    let path = layout::catalog_scratch(store);
    let is_copy = image::copy(store, &path)?;
    let connection = scratch_at(&path)?;
    schema::check(&connection, store)?;
    Ok((connection, is_copy))
}

/// Opens a scratch database. It need not survive a crash, and no one else opens it. So it needs
/// neither a journal on disk nor locks.
fn scratch_at(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let real = real(path)?;
    let connection = Connection::open_with_flags(&real, flags).map_err(error_at(path))?;
    // SQLite opens a path, which may lead to another store by now.
    let store = path.parent().unwrap_or(path);
    let own = beneath::read(store, path).and_then(|file| file.metadata());
    let own = own.map_err(StoreError::io("open", path))?;
    let opened = fs::metadata(&real).map_err(StoreError::io("open", path))?;
    if !is_same_file(&own, &opened) {
        return Err(StoreError::Gone(store.to_owned()));
    }
    let prepare = || {
        mistrust(&connection)?;
        connection.execute_batch(
            "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
             PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;",
        )
    };
    prepare().map_err(error_at(path))?;
    Ok(connection)
}

/// The path of a database, without links. SQLite follows none, but the store's own path
/// may contain some.
fn real(path: &Path) -> Result<PathBuf, StoreError> {
    let store = path.parent().unwrap_or(path);
    let real = beneath::real_path(store);
    let real = real.map_err(StoreError::io("open", store))?;
    Ok(real.join(path.file_name().unwrap_or_default()))
}

/// Longest value, and longest row, that is read or written, bytes. Indexes of files are the longest.
const LONGEST_BYTES: i32 = 64 << 20;

/// Someone else may have written the catalog.
fn mistrust(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_BYTES)?;
    Ok(())
}

fn error_at(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Catalog {
        path: path.clone(),
        source,
    }
}
