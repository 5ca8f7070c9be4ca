//! Takes over names of files from another catalog.

use std::collections::HashSet;

use rusqlite::Transaction;
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::time::UtcMs;

use super::write::{
    Named, enter_begun, enter_journal, enter_mount_period, enter_name, enter_numbers, named,
};
use super::{Catalog, CatalogView, Publish, SealedRow};
use crate::error::StoreError;
use crate::layout::Series;
use crate::names::{NameSeen, Seen};
use crate::segment::metadata::JournalSpan;

/// A file as a catalog describes it.
struct KnownFile {
    key: FileKey,
    mount: Option<String>,
    dev: Option<u32>,
    fileid: i64,
    seen: Seen,
}

/// A time in which a device stood for a mount.
struct Period {
    host: String,
    dev: Dev,
    mount: Option<String>,
    seen: Seen,
}

impl Catalog {
    /// Enters sealed journals of another catalog, and the last journal that it knows to be in use.
    pub(crate) fn restore_journals(
        &mut self,
        journals: &[SealedRow],
        begun: &[(Series, u64)],
    ) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            for row in journals {
                let host = row.host.as_deref();
                let host = host
                    .map(|host| named(transaction, Named::Host, host))
                    .transpose()?;
                let span = row.seen.map(|(start, end)| JournalSpan {
                    number: row.journal,
                    previous: row.previous,
                    start,
                    end,
                });
                enter_journal(transaction, host, row.journal, row.previous, span)?;
            }
            let mut begun = begun.iter();
            begun.try_for_each(|(series, number)| enter_begun(transaction, *series, *number))
        })
    }

    /// Enters these files with the names and numbers that they have in another catalog.
    pub(crate) fn restore_names(
        &mut self,
        old: &CatalogView,
        keys: &HashSet<FileKey>,
    ) -> Result<(), StoreError> {
        let mut files = old.known_files()?;
        files.retain(|file| keys.contains(&file.key));
        let mut names = Vec::new();
        for file in &files {
            old.names_of(file.key, &mut names)?;
        }
        let periods = old.periods()?;
        self.change(Publish::Later, |transaction| {
            files
                .iter()
                .try_for_each(|file| enter_known(transaction, file))?;
            names
                .iter()
                .try_for_each(|name| enter_known_name(transaction, name))?;
            periods
                .iter()
                .try_for_each(|period| enter_period(transaction, period))
        })
    }
}

impl CatalogView {
    fn known_files(&self) -> Result<Vec<KnownFile>, StoreError> {
        self.rows(
            "SELECT file_key, mount.name, dev, fileid, first_ms, last_ms
             FROM file LEFT JOIN mount ON mount.id = file.mount",
            [],
            |row| {
                Ok(KnownFile {
                    key: FileKey(row.get(0)?),
                    mount: row.get(1)?,
                    dev: row.get(2)?,
                    fileid: row.get(3)?,
                    seen: (UtcMs(row.get(4)?), UtcMs(row.get(5)?)),
                })
            },
        )
    }

    fn periods(&self) -> Result<Vec<Period>, StoreError> {
        self.rows(
            "SELECT host.name, dev, mount.name, first_ms, last_ms
             FROM mount_period JOIN host ON host.id = host LEFT JOIN mount ON mount.id = mount",
            [],
            |row| {
                Ok(Period {
                    host: row.get(0)?,
                    dev: Dev(row.get(1)?),
                    mount: row.get(2)?,
                    seen: (UtcMs(row.get(3)?), UtcMs(row.get(4)?)),
                })
            },
        )
    }
}

fn mount_id(transaction: &Transaction<'_>, name: Option<&str>) -> rusqlite::Result<Option<i64>> {
    name.map(|name| named(transaction, Named::Mount, name))
        .transpose()
}

fn enter_known(transaction: &Transaction<'_>, file: &KnownFile) -> rusqlite::Result<()> {
    let mount = mount_id(transaction, file.mount.as_deref())?;
    enter_numbers(
        transaction,
        file.key,
        mount,
        file.dev,
        file.fileid,
        file.seen,
    )
}

fn enter_known_name(transaction: &Transaction<'_>, name: &NameSeen) -> rusqlite::Result<()> {
    match name.seen {
        Some(seen) => enter_name(transaction, name.key, &name.path, seen),
        None => Ok(()),
    }
}

fn enter_period(transaction: &Transaction<'_>, period: &Period) -> rusqlite::Result<()> {
    let host = named(transaction, Named::Host, &period.host)?;
    let mount = mount_id(transaction, period.mount.as_deref())?;
    enter_mount_period(transaction, host, period.dev, mount, period.seen)
}
