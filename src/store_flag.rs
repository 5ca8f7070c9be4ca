//! Chooses the store of a command: `--store`, else `$TRACKIOPS_STORE`, else the default path.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::bail;
use trackiops_store::stores_in;

use crate::read_memory_flag::ReadMemoryFlag;

/// The variable that names the store if `--store` does not.
pub const VARIABLE: &str = "TRACKIOPS_STORE";
/// The store if the variable does not name one either.
const USUAL: &str = "/var/lib/trackiops";

/// One store.
#[derive(clap::Args)]
pub struct StoreFlag {
    /// The store [default: $TRACKIOPS_STORE or /var/lib/trackiops]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

impl StoreFlag {
    /// The store of an argument without a flag, or else this one.
    pub fn or_named(self, dir: Option<PathBuf>) -> Self {
        Self {
            store: dir.or(self.store),
        }
    }

    /// Its directory, which need not exist.
    pub fn dir(&self) -> PathBuf {
        self.store.clone().unwrap_or_else(|| without_flag().1)
    }

    /// Its directory, which must exist. Of a directory of stores, the only one.
    pub fn existing(self) -> anyhow::Result<PathBuf> {
        only_one(existing(self.store)?)
    }

    /// The store, if there is one. A store that the flag names must exist.
    pub fn if_any(self) -> anyhow::Result<Option<PathBuf>> {
        match self.store {
            Some(dir) => only_one(existing(Some(dir))?).map(Some),
            None => Ok(Some(without_flag().1).filter(|dir| !is_missing(dir))),
        }
    }

    /// The store that the flag itself names, if any.
    pub fn named(self) -> anyhow::Result<Option<PathBuf>> {
        self.store.map(|dir| existing(Some(dir))).transpose()
    }
}

/// One store or several.
#[derive(clap::Args)]
pub struct StoreFlags {
    /// A store, repeatable [default: $TRACKIOPS_STORE or /var/lib/trackiops]
    ///
    /// Give it once for each host, or name a directory with a store for each, to ask several stores as one.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
    #[command(flatten)]
    memory: ReadMemoryFlag,
}

impl StoreFlags {
    /// The stores that the flag itself names.
    pub fn named(&self) -> Vec<PathBuf> {
        self.memory.apply();
        self.store.clone()
    }

    /// Their directories, which must exist. From now on, [`ReadMemoryFlag`] applies.
    pub fn existing(self) -> anyhow::Result<Vec<PathBuf>> {
        self.memory.apply();
        let named = match self.store.is_empty() {
            true => vec![None],
            false => self.store.into_iter().map(Some).collect(),
        };
        let mut stores = Vec::new();
        for dir in named {
            stores.extend(stores_in(&existing(dir)?)?);
        }
        Ok(stores)
    }
}

/// The source of a store's path.
#[derive(Clone, Copy)]
enum StoreNamedBy {
    Flag,
    Variable,
    Usual,
}

fn without_flag() -> (StoreNamedBy, PathBuf) {
    match env::var_os(VARIABLE).filter(|dir| !dir.is_empty()) {
        Some(dir) => (StoreNamedBy::Variable, dir.into()),
        None => (StoreNamedBy::Usual, USUAL.into()),
    }
}

fn existing(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let (source, dir) = match named {
        Some(dir) => (StoreNamedBy::Flag, dir),
        None => without_flag(),
    };
    refuse_missing(source, &dir)?;
    Ok(dir)
}

/// The store that a directory is or has. Refuses one that has several. Opening the store reports what cannot be read.
fn only_one(dir: PathBuf) -> anyhow::Result<PathBuf> {
    let Ok(mut stores) = stores_in(&dir) else {
        return Ok(dir);
    };
    match (stores.len(), stores.pop()) {
        (1, Some(store)) => Ok(store),
        (count, Some(store)) => bail!(
            "{} has {count} stores, and this is about one: name it, such as {}",
            dir.display(),
            store.display()
        ),
        (_, None) => Ok(dir),
    }
}

fn refuse_missing(source: StoreNamedBy, dir: &Path) -> anyhow::Result<()> {
    if !is_missing(dir) {
        return Ok(());
    }
    let shown = dir.display();
    match source {
        StoreNamedBy::Flag => bail!(
            "there is no store at {shown}, which --store names; check the path, or record into it first"
        ),
        StoreNamedBy::Variable => {
            bail!(
                "there is no store at {shown}, which ${VARIABLE} names; correct it, or name a store with --store"
            )
        }
        StoreNamedBy::Usual => bail!(
            "there is no store at {shown}, the default; name yours with --store or ${VARIABLE}, or fill it with `trackiops record`"
        ),
    }
}

/// Other obstacles are reported when the store is opened.
fn is_missing(dir: &Path) -> bool {
    matches!(dir.metadata(), Err(error) if error.kind() == ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    #[test]
    fn of_a_directory_of_stores_the_only_one_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let of_all = || only_one(dir.path().to_owned());
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let make = |store: &Path| {
            fs::create_dir(store).unwrap();
            fs::write(store.join("catalog.db"), "").unwrap();
        };
        assert_eq!(of_all().unwrap(), dir.path());
        make(&a);
        assert_eq!(of_all().unwrap(), a);
        make(&b);
        let error = of_all().unwrap_err().to_string();
        assert!(error.contains("has 2 stores"), "{error}");
        assert_eq!(only_one(b.clone()).unwrap(), b);
    }

    #[test]
    fn who_named_a_missing_store_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("nowhere");
        for (source, words) in [
            (StoreNamedBy::Flag, "which --store names"),
            (StoreNamedBy::Variable, "which $TRACKIOPS_STORE names"),
            (StoreNamedBy::Usual, "the default"),
        ] {
            let error = refuse_missing(source, &nowhere).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("nowhere"),
                "{error}"
            );
            assert!(refuse_missing(source, dir.path()).is_ok());
        }
    }
}
