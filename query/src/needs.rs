//! Which stored columns an answer is made of.

use std::sync::LazyLock;

use trackiops_schemas::columns::{DIRECTIONS, rollup_schema};

/// A set of the columns of the rollup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// One bit for each, in the order of the schema.
    columns: u64,
    only_transfers: bool,
}

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let schema = rollup_schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.collect()
});

fn bit(column: &str) -> u64 {
    let place = NAMES.iter().position(|name| name == column);
    place.map_or(0, |place| 1 << place)
}

impl Needs {
    /// These columns.
    pub fn new<'n>(columns: impl IntoIterator<Item = &'n str>) -> Self {
        Self {
            columns: columns.into_iter().map(bit).fold(0, |all, one| all | one),
            only_transfers: false,
        }
    }

    /// All of them.
    pub fn all() -> Self {
        Self::new(NAMES.iter().map(String::as_str))
    }

    /// Those of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            columns: self.columns | other.columns,
            only_transfers: self.only_transfers || other.only_transfers,
        }
    }

    /// Without files that were neither read nor written, which takes their requests.
    pub fn only_transfers(self, only: bool) -> Self {
        let requests = DIRECTIONS.map(|direction| format!("{direction}_requests"));
        let requests = match only {
            true => Self::new(requests.iter().map(String::as_str)),
            false => Self::default(),
        };
        Self {
            only_transfers: only,
            ..self.and(requests)
        }
    }

    /// Whether files that were neither read nor written are left out.
    pub(crate) fn is_of_transfers(self) -> bool {
        self.only_transfers
    }

    /// Whether a column is one of them.
    pub(crate) fn include(self, column: &str) -> bool {
        self.columns & bit(column) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_column_has_a_bit_of_its_own() {
        assert!(NAMES.len() <= u64::BITS as usize);
        let all = Needs::all();
        assert_eq!(all.columns.count_ones() as usize, NAMES.len());
        let one = Needs::new(["path"]);
        assert!(one.include("path") && !one.include("mount") && !one.include("colour"));
        assert!(one.only_transfers(true).include("write_requests"));
    }
}
