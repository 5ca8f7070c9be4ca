//! Catalog access for the ids of the store.

use rusqlite::{Connection, params};

use super::{Catalog, CatalogView, Publish};
use crate::error::StoreError;
use crate::identity::{Ids, StoreId};
use crate::layout;

const ALL: &str = "SELECT id FROM store ORDER BY generation";

impl Catalog {
    /// Enters ids that the store has had, in their order.
    pub(crate) fn enter_ids(&mut self, ids: &[StoreId]) -> Result<(), StoreError> {
        self.change(Publish::Later, |transaction| {
            let mut insert = transaction.prepare("INSERT INTO store (id) VALUES (?1)")?;
            let mut ids = ids.iter();
            ids.try_for_each(|id| insert.execute(params![id.to_string()]).map(drop))
        })?;
        self.ids = self.ids.iter().chain(ids).copied().collect();
        Ok(())
    }

    /// Gives the store an id that no other one has.
    pub(crate) fn take_new_id(&mut self) -> Result<(), StoreError> {
        let random = StoreId::random();
        let path = layout::catalog(&self.store);
        self.enter_ids(&[random.map_err(StoreError::io("make an id for", &path))?])
    }
}

impl CatalogView {
    /// The ids of the store.
    pub(crate) fn ids(&self) -> Result<Ids, StoreError> {
        let ids = self.rows(ALL, params![], |row| row.get::<_, String>(0))?;
        let ids: Ids = ids.iter().filter_map(|id| id.parse().ok()).collect();
        match ids.is_empty() {
            true => Err(self.damaged("it has no id of a store")),
            false => Ok(ids),
        }
    }
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Ids> {
    let mut select = connection.prepare(ALL)?;
    let ids = select.query_map([], |row| row.get::<_, String>(0))?;
    let ids: Vec<String> = ids.collect::<rusqlite::Result<_>>()?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}
