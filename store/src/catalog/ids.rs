//! Catalog access for the ids of the store.

use rusqlite::{Connection, params};

use super::{Catalog, CatalogView, Publish};
use crate::error::StoreError;
use crate::identity::{Ids, StoreId, StoreIds};
use crate::layout;
use crate::machine;

const ALL: &str = "SELECT id FROM store ORDER BY generation";

impl Catalog {
    /// Gives the store a new id if it has none, if it is a copy, or if it is on another machine than before. Records the
    /// machine. Returns whether the id is new.
    pub(crate) fn identify(
        &mut self,
        is_copy: bool,
        machine: Option<u64>,
    ) -> Result<bool, StoreError> {
        let is_moved = machine::is_another(self.machine()?, machine);
        let is_new = is_copy || is_moved || self.ids.is_empty();
        if is_new {
            self.take_new_id()?;
        }
        if let Some(machine) = machine {
            self.enter_machine(machine)?;
        }
        Ok(is_new)
    }

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
    fn take_new_id(&mut self) -> Result<(), StoreError> {
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

    /// The ids of the store, and whether it is a copy.
    pub(crate) fn store_ids(&self) -> Result<StoreIds, StoreError> {
        let ids = self.ids()?;
        let (id, former) = match ids.split_last() {
            Some((id, former)) => (*id, former.to_vec()),
            None => (StoreId::default(), Vec::new()),
        };
        let is_copy = self.is_copy()?;
        Ok(StoreIds {
            id,
            former,
            is_copy,
        })
    }
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Ids> {
    let mut select = connection.prepare(ALL)?;
    let ids = select.query_map([], |row| row.get::<_, String>(0))?;
    let ids: Vec<String> = ids.collect::<rusqlite::Result<_>>()?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<u64> = Some(1);
    const TWO: Option<u64> = Some(2);

    #[test]
    fn a_store_on_another_machine_takes_a_new_id_once() {
        let dir = tempfile::tempdir().unwrap();
        let opened_on = |machine| {
            let catalog = Catalog::open_on(machine, dir.path()).unwrap();
            catalog.publish().unwrap();
            catalog.ids().to_vec()
        };
        // The machine may be unknown at first, or at times.
        let first = opened_on(None);
        assert_eq!(first.len(), 1);
        for machine in [ONE, None, ONE] {
            assert_eq!(opened_on(machine), first, "{machine:?}");
        }
        let second = opened_on(TWO);
        assert_eq!((second.len(), &second[..1]), (2, &first[..]));
        for machine in [TWO, None, TWO] {
            assert_eq!(opened_on(machine), second, "{machine:?}");
        }
        let third = opened_on(ONE);
        assert_eq!((third.len(), &third[..2]), (3, &second[..]));
    }

    #[test]
    fn a_store_without_an_id_gets_one() {
        let dir = tempfile::tempdir().unwrap();
        let catalog = Catalog::anew(dir.path(), &[]).unwrap();
        catalog.publish().unwrap();
        drop(catalog);
        assert!(CatalogView::open(dir.path()).unwrap().ids().is_err());
        let ids = Catalog::open(dir.path()).unwrap().ids().to_vec();
        assert_eq!(ids.len(), 1);
        let known = CatalogView::open(dir.path()).unwrap().store_ids().unwrap();
        assert_eq!((known.id, known.former), (ids[0], Vec::new()));
    }
}
