//! Making of an earlier release's catalog one of the present format.

use rusqlite::{Connection, params};
use trackiops_schemas::columns::FORMAT_VERSION;
use trackiops_schemas::ddl;
use trackiops_schemas::identity::{Dev, FileId, FileKey};

use super::digest;

/// Upgrades within one transaction.
pub(super) fn upgrade(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(ddl::UPGRADE_TO_3)?;
    enter_devices(&transaction)?;
    transaction.execute_batch("ALTER TABLE file DROP COLUMN handle_hash;")?;
    digest::compute(&transaction)?;
    transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
    transaction.commit()
}

/// Files of unknown mounts all had the mount NULL; their keys tell which device they were on.
fn enter_devices(connection: &Connection) -> rusqlite::Result<()> {
    let mut devices =
        connection.prepare("SELECT DISTINCT dev FROM mount_period WHERE mount IS NULL")?;
    let devices = devices.query_map([], |row| Ok(Dev(row.get(0)?)))?;
    let devices: Vec<Dev> = devices.collect::<rusqlite::Result<_>>()?;
    let mut files =
        connection.prepare("SELECT file_key, fileid, handle_hash FROM file WHERE mount IS NULL")?;
    let mut files = files.query([])?;
    while let Some(row) = files.next()? {
        let key: i64 = row.get(0)?;
        let (fileid, handle_hash) = (row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?);
        let is_on = |dev: &&Dev| {
            let id = FileId {
                dev: **dev,
                fileid,
                handle_hash,
            };
            FileKey::new(None, id).0.cast_signed() == key
        };
        if let Some(dev) = devices.iter().find(is_on) {
            connection
                .prepare_cached("UPDATE file SET dev = ?2 WHERE file_key = ?1")?
                .execute(params![key, dev.0])?;
        }
    }
    Ok(())
}
