//! A checksum of what the catalog says, since SQLite has none of its own.
//!
//! For each table the number of its rows and the exclusive or of their hashes are kept in the table `digest`, by
//! triggers of the writer's connection. A changed row, one that is missing and one too many are found by adding up
//! anew. What SQLite keeps beside the rows is for its own `integrity_check`.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use xxhash_rust::xxh3::xxh3_64;

/// Adds up the hashes of rows.
const XOR: &str = "trackiops_xor";
/// The hash of a row's values.
const HASH: &str = "trackiops_hash";

/// Makes the connection keep the digests up to date.
pub(super) fn watch(connection: &Connection) -> rusqlite::Result<()> {
    add_functions(connection)?;
    for table in tables(connection)? {
        let Table { name, .. } = &table;
        let change = |rows: i64, hashes: &[String]| {
            let hash = hashes.iter().fold("hash".to_owned(), |sum, hash| {
                format!("{XOR}({sum}, {hash})")
            });
            format!("UPDATE digest SET rows = rows + {rows}, hash = {hash} WHERE name = '{name}';")
        };
        let (old, new) = (table.hash("OLD."), table.hash("NEW."));
        connection.execute_batch(&format!(
            "CREATE TEMP TRIGGER digest_insert_{name} AFTER INSERT ON main.{name} BEGIN {insert} END;
             CREATE TEMP TRIGGER digest_delete_{name} AFTER DELETE ON main.{name} BEGIN {delete} END;
             CREATE TEMP TRIGGER digest_update_{name} AFTER UPDATE ON main.{name} BEGIN {update} END;",
            insert = change(1, std::slice::from_ref(&new)),
            delete = change(-1, std::slice::from_ref(&old)),
            update = change(0, &[old, new]),
        ))?;
    }
    Ok(())
}

/// Adds up anew.
pub(super) fn compute(connection: &Connection) -> rusqlite::Result<()> {
    add_functions(connection)?;
    connection.execute("DELETE FROM digest", [])?;
    for table in tables(connection)? {
        let (rows, hash) = table.sum(connection)?;
        let insert = "INSERT INTO digest (name, rows, hash) VALUES (?1, ?2, ?3)";
        connection.execute(insert, params![table.name, rows, hash])?;
    }
    Ok(())
}

/// The tables that are not what was written.
pub(super) fn changed(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    add_functions(connection)?;
    let mut changed = Vec::new();
    for table in tables(connection)? {
        let kept = "SELECT rows, hash FROM digest WHERE name = ?1";
        let kept = connection.query_row(kept, [&table.name], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        match kept {
            Err(rusqlite::Error::QueryReturnedNoRows) => changed.push(table.name),
            kept => {
                if kept? != table.sum(connection)? {
                    changed.push(table.name);
                }
            }
        }
    }
    Ok(changed)
}

struct Table {
    name: String,
    /// Those that tell its rows apart among them.
    columns: Vec<String>,
}

impl Table {
    /// The hash of a row in SQL; `of` is what stands before the names of columns.
    fn hash(&self, of: &str) -> String {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns.map(|column| format!("{of}{column}")).collect();
        format!("{HASH}({})", columns.join(", "))
    }

    fn sum(&self, connection: &Connection) -> rusqlite::Result<(i64, i64)> {
        let sql = format!("SELECT {} FROM main.{}", self.hash(""), self.name);
        let mut select = connection.prepare(&sql)?;
        let mut hashes = select.query([])?;
        let (mut rows, mut sum) = (0, 0);
        while let Some(row) = hashes.next()? {
            rows += 1;
            sum ^= row.get::<_, i64>(0)?;
        }
        Ok((rows, sum))
    }
}

/// All tables but that of the digests.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut select = connection.prepare(
        "SELECT name, wr FROM pragma_table_list
         WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> 'digest'
         ORDER BY name",
    )?;
    let names = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let names: Vec<(String, bool)> = names.collect::<rusqlite::Result<_>>()?;
    let mut tables = Vec::new();
    for (name, is_without_rowid) in names {
        let mut select = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
        let mut columns: Vec<String> = if is_without_rowid {
            Vec::new()
        } else {
            vec!["rowid".to_owned()]
        };
        for column in select.query_map([&name], |row| row.get(0))? {
            columns.push(column?);
        }
        tables.push(Table { name, columns });
    }
    Ok(tables)
}

fn add_functions(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(HASH, -1, flags, hash)?;
    connection.create_scalar_function(XOR, 2, flags, |context| {
        Ok(context.get::<i64>(0)? ^ context.get::<i64>(1)?)
    })
}

fn hash(context: &Context<'_>) -> rusqlite::Result<i64> {
    let mut bytes = Vec::new();
    for i in 0..context.len() {
        let (kind, value): (u8, &[u8]) = match context.get_raw(i) {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(integer) => (1, &integer.to_le_bytes()),
            ValueRef::Real(real) => (2, &real.to_le_bytes()),
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    Ok(xxh3_64(&bytes).cast_signed())
}
