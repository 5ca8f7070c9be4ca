//! The file `catalog.db`: an SQLite database, followed by its length and its checksum.
//!
//! SQLite does not read past a database's last page, so it can open the file as it is.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::catalog::tables;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FallocateFlags, fallocate};
use trackiops_schemas::columns::FORMAT_VERSION;

use super::limits::Limits;
use super::{error_at, mistrust, real};
use crate::beneath;
use crate::error::StoreError;
use crate::identity::{Place, is_same_file};
use crate::journal::bytes::u32_at;
use crate::layout;
use trackiops_threads::fail_point;

/// Fields of the trailer, little-endian:
///
/// ```text
/// magic | database bytes u64 | inode u64 | birth u64 | crc32c of database u32 | crc32c of trailer u32
/// ```
const TRAILER_BYTES: usize = 40;
const MAGIC: [u8; 8] = *b"TIOPends";
/// First bytes of an SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Offsets in an SQLite header of `PRAGMA user_version` and `PRAGMA application_id`, big-endian.
const VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;
const HEADER_BYTES: usize = 100;
const CHUNK_BYTES: usize = 64 << 10;
/// Attempts to open a catalog that a writer replaces at the same time.
const LOOKS: usize = 10;
/// Room that is reserved for growth, so that the next catalog fits on a disk that has become full.
const GROWTH_BYTES: u64 = 64 << 10;

/// Opens a store's catalog for reading. Also returns whether it is a copy of the file that a recorder wrote.
pub(super) fn open(store: &Path) -> Result<(Connection, Limits, bool), StoreError> {
    let path = layout::catalog(store);
    let mut looks = 1;
    loop {
        let (file, bytes, is_copy) = verified(store, &path, &mut io::sink())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection =
            Connection::open_with_flags(uri(&path)?, flags).and_then(|mut connection| {
                mistrust(&connection)?;
                connection.execute_batch("PRAGMA temp_store = MEMORY;")?;
                let limits = Limits::set(&mut connection, bytes)?;
                Ok((connection, limits, is_copy))
            });
        // SQLite opens the path a second time. If the path still leads to the verified file, SQLite has opened that
        // file.
        let both = file.metadata().ok().zip(path.metadata().ok());
        let same = both.is_some_and(|(verified, found)| is_same_file(&verified, &found));
        if same || looks == LOOKS {
            return connection.map_err(error_at(&path));
        }
        looks += 1;
    }
}

/// Copies the published database to a file, without its trailer. Returns whether the published catalog is itself a
/// copy.
pub(super) fn copy(store: &Path, to: &Path) -> Result<bool, StoreError> {
    let created = beneath::create_anew(store, to);
    let mut copy = created.map_err(StoreError::io("create", to))?;
    let (_, _, is_copy) = verified(store, &layout::catalog(store), &mut copy)?;
    Ok(is_copy)
}

/// Publishes the writer's scratch database. When this returns, readers see it and it is durable.
pub(super) fn publish(store: &Path) -> Result<(), StoreError> {
    let scratch = layout::catalog_scratch(store);
    let new = layout::new_catalog(store);
    let io = |doing, path| StoreError::io(doing, path);
    let from = beneath::read(store, &scratch).map_err(io("open", &scratch))?;
    let mut to = beneath::write_or_create(store, &new).map_err(io("create", &new))?;
    let mut write = || {
        let bytes = from.metadata()?.len();
        let crc = each_chunk(&from, bytes, |chunk| to.write_all(chunk))?;
        to.write_all(&trailer(bytes, Place::of(&to)?, crc))?;
        to.set_len(bytes + TRAILER_BYTES as u64)?;
        beneath::finished(&to)?;
        to.sync_all()?;
        Ok(bytes)
    };
    let bytes = write().map_err(io("write", &new))?;
    fail_point::hit("catalog: written");
    let catalog = layout::catalog(store);
    beneath::rename(store, &new, &catalog).map_err(io("rename the new catalog to", &catalog))?;
    fail_point::hit("catalog: renamed");
    beneath::sync_dir(store, store).map_err(io("sync directory", store))?;
    // Reserves room: on a full disk, segments can only expire if a catalog can be published.
    if let Ok(next) = beneath::create(store, &new) {
        let _ = fallocate(&next, FallocateFlags::empty(), 0, bytes + GROWTH_BYTES);
    }
    Ok(())
}

/// Opens and verifies a catalog, and writes its database to `to`. Returns the open file, the database's
/// length, and whether the file is a copy.
fn verified(
    store: &Path,
    path: &Path,
    to: &mut dyn Write,
) -> Result<(File, u64, bool), StoreError> {
    let read = || StoreError::io("read", path);
    let file = beneath::read(store, path).map_err(StoreError::io("open", path))?;
    let damaged = |why: &str| StoreError::DamagedCatalog {
        store: store.to_owned(),
        why: why.to_owned(),
    };
    let length = file.metadata().map_err(read())?.len();
    let end = length.checked_sub(TRAILER_BYTES as u64);
    let mut found = [0; TRAILER_BYTES];
    if let Some(end) = end {
        file.read_exact_at(&mut found, end).map_err(read())?;
    }
    let Some(bytes) = end.filter(|_| found.starts_with(&MAGIC)) else {
        return Err(match other(&file, store).map_err(read())? {
            Some(error) => error,
            None => damaged("its end is missing"),
        });
    };
    let crc = each_chunk(&file, bytes, |chunk| to.write_all(chunk)).map_err(read())?;
    let u64_at = |at| u64::from(u32_at(&found, at)) | u64::from(u32_at(&found, at + 4)) << 32;
    let place = Place {
        inode: u64_at(16),
        birth_ns: u64_at(24),
    };
    if trailer(bytes, place, crc) != found {
        return Err(damaged("it does not match its checksum"));
    }
    // It is intact, but another release may have written it.
    match other(&file, store).map_err(read())? {
        Some(error) => Err(error),
        None => {
            let is_copy = Place::of(&file).map_err(read())? != place;
            Ok((file, bytes, is_copy))
        }
    }
}

/// Explains why a file is not a catalog of this release. `None` if it looks like one.
fn other(file: &File, store: &Path) -> io::Result<Option<StoreError>> {
    let mut header = [0; HEADER_BYTES];
    let not_a_store = |why| {
        Some(StoreError::NotAStore {
            path: store.to_owned(),
            why,
        })
    };
    let is_database = file.read_exact_at(&mut header, 0).is_ok() && header.starts_with(SQLITE);
    let number = |at: usize| {
        header[at..]
            .iter()
            .take(4)
            .fold(0, |n, byte| n << 8 | u32::from(*byte))
    };
    let (id, version) = (number(APPLICATION_ID_AT), number(VERSION_AT));
    // Next to segments, the file was a catalog, whatever it contains now.
    let is_damaged = || layout::has_files(store).unwrap_or(false);
    Ok(
        match (
            is_database,
            id == tables::APPLICATION_ID.cast_unsigned(),
            version,
        ) {
            (true, true, FORMAT_VERSION) => None,
            (true, true, found) => Some(StoreError::OtherFormat {
                path: store.to_owned(),
                found,
            }),
            _ if is_damaged() => None,
            (true, false, _) => not_a_store("its catalog.db is not a TrackIOps catalog"),
            (false, _, _) => not_a_store("its catalog.db is not an SQLite database"),
        },
    )
}

/// Reads the first `bytes` bytes of a file. Returns their CRC32C.
fn each_chunk(
    file: &File,
    bytes: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u32> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut at, mut crc) = (0, 0);
    while at < bytes {
        let want = usize::try_from(bytes - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let chunk = &mut chunk[..want];
        file.read_exact_at(chunk, at)?;
        crc = crc32c::crc32c_append(crc, chunk);
        each(chunk)?;
        at += want as u64;
    }
    Ok(crc)
}

fn trailer(bytes: u64, place: Place, crc: u32) -> [u8; TRAILER_BYTES] {
    let mut trailer = [0; TRAILER_BYTES];
    trailer[..8].copy_from_slice(&MAGIC);
    trailer[8..16].copy_from_slice(&bytes.to_le_bytes());
    trailer[16..24].copy_from_slice(&place.inode.to_le_bytes());
    trailer[24..32].copy_from_slice(&place.birth_ns.to_le_bytes());
    trailer[32..36].copy_from_slice(&crc.to_le_bytes());
    let own = crc32c::crc32c(&trailer[..36]);
    trailer[36..].copy_from_slice(&own.to_le_bytes());
    trailer
}

/// The path as an SQLite URI of an immutable file.
fn uri(path: &Path) -> Result<String, StoreError> {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    let mut uri = String::from("file:");
    for byte in real(path)?.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri.push_str("?immutable=1");
    Ok(uri)
}
