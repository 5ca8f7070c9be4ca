//! Whether a catalog has the tables, columns and indices of a catalog: its digests are of rows, and a flipped bit in a name leaves them as they were.

use std::collections::BTreeSet;

use rusqlite::Connection;
use trackiops_schemas::ddl;

/// What a database consists of, a line each.
const PARTS: &str = "
    WITH own AS (SELECT * FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')
    SELECT format('%s %s', type, name) || iif(wr, ' without rowid', '') || iif(strict, ' strict', '') FROM own
    UNION ALL
    SELECT format('column %s.%s of type %s, default %Q, key %d, hidden %d', own.name, c.name, c.type, c.dflt_value, c.pk, c.hidden)
           || iif(c.\"notnull\", ', not null', '')
    FROM own JOIN pragma_table_xinfo(own.name) AS c
    UNION ALL
    SELECT format('index %s of %s, unique %d, column %s', i.name, own.name, i.\"unique\", x.name)
    FROM own JOIN pragma_index_list(own.name) AS i JOIN pragma_index_xinfo(i.name) AS x
    UNION ALL
    SELECT format('reference from %s.%s to %s', own.name, f.\"from\", f.\"table\")
    FROM own JOIN pragma_foreign_key_list(own.name) AS f";

/// What it lacks, and what it has that is not of a catalog, in words.
pub(super) fn changed(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let whole = Connection::open_in_memory()?;
    whole.execute_batch(ddl::CREATE)?;
    let (expected, found) = (parts(&whole)?, parts(connection)?);
    let lacks = expected.difference(&found);
    let lacks = lacks.map(|part| format!("it lacks its {part}"));
    let other = found.difference(&expected);
    let other = other.map(|part| format!("it should not have a {part}"));
    Ok(lacks.chain(other).collect())
}

fn parts(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut select = connection.prepare(PARTS)?;
    let parts = select.query_map([], |row| row.get(0))?;
    parts.collect()
}
