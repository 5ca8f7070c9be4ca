//! Checks that a database has exactly the tables and indexes of a catalog, before queries run on
//! it.

use std::path::Path;

use crate::catalog::tables;
use rusqlite::Connection;

use crate::error::StoreError;

/// Refuses a database with other tables, indexes, triggers or views.
pub(super) fn check(connection: &Connection, store: &Path) -> Result<(), StoreError> {
    let damaged = |why: String| StoreError::DamagedCatalog {
        store: store.to_owned(),
        why,
    };
    let found = statements(connection).map_err(|error| damaged(error.to_string()))?;
    let expected = expected();
    let other = found.iter().find(|found| !expected.contains(found));
    if let Some(other) = other {
        let first = other.lines().next().unwrap_or_default();
        return Err(damaged(format!("it should not have: {first}")));
    }
    match expected
        .into_iter()
        .find(|expected| !found.contains(expected))
    {
        Some(lacking) => {
            let first = lacking.lines().next().unwrap_or_default();
            Err(damaged(format!("it lacks: {first}")))
        }
        None => Ok(()),
    }
}

/// The statements in the form in which SQLite stores them: without comments and white space around.
fn expected() -> Vec<String> {
    let without_comments = |statement: &str| {
        let mut lines = statement.trim().lines();
        let mut statement = lines.by_ref().skip_while(|line| line.starts_with("--"));
        let mut kept = statement.next().unwrap_or_default().to_owned();
        for line in statement {
            kept.push('\n');
            kept.push_str(line);
        }
        kept
    };
    let statements = tables::CREATE.split(";\n").map(without_comments);
    statements
        .filter(|statement| !statement.is_empty())
        .collect()
}

fn statements(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // Indexes that SQLite creates itself have no SQL text.
    let mut select = connection.prepare("SELECT coalesce(sql, type || ' ' || name) FROM sqlite_schema WHERE sql IS NOT NULL OR name NOT LIKE 'sqlite_autoindex_%'")?;
    let statements = select.query_map([], |row| row.get(0))?;
    statements.collect()
}
