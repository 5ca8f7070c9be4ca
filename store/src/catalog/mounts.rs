//! Mount points in the catalog, and when they existed.

use rusqlite::{Row, Transaction, params};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::UtcMs;

use super::write::{Named, named};
use super::{Catalog, CatalogView, Publish};
use crate::error::StoreError;
use crate::names::Seen;

/// A mount point, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSeen {
    /// The recording host.
    pub host: String,
    /// The mount.
    pub mount: MountPoint,
    /// First and last time it was seen. In the catalog, the last time may be too early.
    pub seen: Seen,
}

/// Writes mount points to the catalog, each change in a separate transaction.
#[derive(Debug)]
pub(crate) struct MountLog {
    catalog: Catalog,
    host: String,
    /// Mount points that exist, with their ids in the catalog.
    there: Vec<(i64, MountPoint)>,
}

impl MountLog {
    pub(crate) fn new(catalog: Catalog, host: &str) -> Self {
        Self {
            catalog,
            host: host.to_owned(),
            there: Vec::new(),
        }
    }

    /// Records that from `at` on exactly these mount points exist. Those that are missing were last seen before `at`, which
    /// tells readers that they have gone (`mount_times`).
    pub(crate) fn enter(&mut self, at: UtcMs, now: &[MountPoint]) -> Result<(), StoreError> {
        let before = UtcMs(at.0.saturating_sub(1));
        let last = |mount: &MountPoint| if now.contains(mount) { at } else { before };
        self.go_on(Publish::Now, last, |transaction, host, there| {
            there.retain(|(_, mount)| now.contains(mount));
            for mount in now {
                if !there.iter().any(|(_, known)| known == mount) {
                    let id = insert(transaction, host, mount, (at, at))?;
                    there.push((id, mount.clone()));
                }
            }
            Ok(())
        })
    }

    /// Records that the mount points still exist at `at`.
    pub(crate) fn still(&mut self, at: UtcMs) -> Result<(), StoreError> {
        self.go_on(Publish::Later, |_| at, |_, _, _| Ok(()))
    }

    fn go_on(
        &mut self,
        publish: Publish,
        last: impl Fn(&MountPoint) -> UtcMs,
        change: impl FnOnce(&Transaction<'_>, i64, &mut Vec<(i64, MountPoint)>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let mut there = self.there.clone();
        self.catalog.change(publish, |transaction| {
            let host = named(transaction, Named::Host, &self.host)?;
            for (id, mount) in &there {
                transaction
                    .prepare_cached(
                        "UPDATE mount_point SET last_ms = max(last_ms, ?2) WHERE id = ?1",
                    )?
                    .execute([*id, last(mount).0])?;
            }
            change(transaction, host, &mut there)
        })?;
        self.there = there;
        Ok(())
    }
}

impl Catalog {
    /// Adds mount points of another catalog.
    pub(crate) fn restore_mounts(&mut self, mounts: &[MountSeen]) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            for MountSeen { host, mount, seen } in mounts {
                let host = named(transaction, Named::Host, host)?;
                insert(transaction, host, mount, *seen)?;
            }
            Ok(())
        })
    }
}

fn insert(
    transaction: &Transaction<'_>,
    host: i64,
    mount: &MountPoint,
    (first, last): Seen,
) -> rusqlite::Result<i64> {
    let name = named(transaction, Named::Mount, &mount.mount)?;
    transaction
        .prepare_cached(
            "INSERT INTO mount_point
             (host, dev, mount, source, path, version, options, foreign_namespace, volume, claim, first_ms, last_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .insert(params![
            host,
            mount.dev.0,
            name,
            mount.source,
            mount.path,
            mount.version,
            mount.options,
            mount.is_foreign,
            mount.volume,
            mount.claim,
            first.0,
            last.0,
        ])
}

impl CatalogView {
    /// All mount points that were ever seen, in order of appearance.
    pub(crate) fn mounts(&self) -> Result<Vec<MountSeen>, StoreError> {
        self.rows(
            "SELECT host.name, dev, mount.name, source, path, version, options, foreign_namespace, volume, claim, first_ms, last_ms
             FROM mount_point JOIN host ON host.id = host JOIN mount ON mount.id = mount
             ORDER BY first_ms, mount_point.id",
            [],
            seen,
        )
    }
}

fn seen(row: &Row<'_>) -> rusqlite::Result<MountSeen> {
    Ok(MountSeen {
        host: row.get(0)?,
        mount: MountPoint {
            dev: Dev(row.get(1)?),
            mount: row.get(2)?,
            source: row.get(3)?,
            path: row.get(4)?,
            version: row.get(5)?,
            options: row.get(6)?,
            is_foreign: row.get(7)?,
            volume: row.get(8)?,
            claim: row.get(9)?,
        },
        seen: (UtcMs(row.get(10)?), UtcMs(row.get(11)?)),
    })
}
