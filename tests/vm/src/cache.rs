//! The cache directory: content-keyed entries, built once, complete or absent.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use crate::host;

/// An image that was not used for this long is removed when another one is built.
const UNUSED: Duration = Duration::from_secs(21 * 24 * 3600);

/// The file that marks a complete entry: it lists names and sizes of its files.
const STAMP: &str = "stamp";

/// The cache of this user.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    pub fn open() -> Result<Self> {
        let base = match std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => PathBuf::from(
                std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?,
            )
            .join(".cache"),
        };
        Self::at(base.join("trackiops/vm"))
    }

    pub fn at(root: PathBuf) -> Result<Self> {
        let cache = Self { root };
        for dir in ["debs", "images", "apt", "verdicts", "console"] {
            let dir = cache.root.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        Ok(cache)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Held while downloading or building, so that concurrent runs build nothing twice.
    pub fn lock(&self) -> Result<File> {
        let path = self.root.join("lock");
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            host::say("waiting for another `cargo vm` to finish building ...");
            flock(&file, FlockOperation::LockExclusive).context("cannot lock the cache")?;
        }
        Ok(file)
    }

    fn entry(&self, kind: &str, key: &str) -> PathBuf {
        self.root
            .join("images")
            .join(format!("{kind}-{}", &key[..key.len().min(20)]))
    }

    /// A complete entry, or nothing. Marks it as used.
    pub fn get(&self, kind: &str, key: &str) -> Option<PathBuf> {
        let dir = self.entry(kind, key);
        let stamp = fs::read_to_string(dir.join(STAMP)).ok()?;
        if !stamp_holds(&dir, key, &stamp) {
            return None;
        }
        if let Ok(file) = File::open(dir.join(STAMP)) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(dir)
    }

    /// The complete entries of a kind, the last used first.
    pub fn latest(&self, kind: &str) -> Vec<PathBuf> {
        let mut entries: Vec<(SystemTime, PathBuf)> = fs::read_dir(self.root.join("images"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                name.to_string_lossy().starts_with(&format!("{kind}-"))
            })
            .filter_map(|entry| {
                let dir = entry.path();
                let stamp = fs::read_to_string(dir.join(STAMP)).ok()?;
                let used = fs::metadata(dir.join(STAMP))
                    .and_then(|m| m.modified())
                    .ok()?;
                stamp_holds(&dir, stamp.lines().next()?, &stamp).then_some((used, dir))
            })
            .collect();
        entries.sort();
        entries.into_iter().rev().map(|(_, dir)| dir).collect()
    }

    /// Builds an entry in a temporary directory and moves it into place. The caller holds the lock.
    pub fn build(
        &self,
        kind: &str,
        key: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let images = self.root.join("images");
        let temporary = tempfile::Builder::new()
            .prefix(".building-")
            .tempdir_in(&images)?;
        fill(temporary.path())?;
        let mut stamp = format!("{key}\n");
        for (name, bytes) in sizes(temporary.path())? {
            File::open(temporary.path().join(&name))?.sync_all()?;
            stamp.push_str(&format!("{bytes} {name}\n"));
        }
        fs::write(temporary.path().join(STAMP), stamp)?;
        let dir = self.entry(kind, key);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        fs::rename(temporary.keep(), &dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        self.prune();
        Ok(dir)
    }

    /// Removes entries that were not used for long, and remains of interrupted builds. Best effort.
    fn prune(&self) {
        for entry in fs::read_dir(self.root.join("images"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let abandoned = entry
                .file_name()
                .to_string_lossy()
                .starts_with(".building-");
            let used = fs::metadata(entry.path().join(STAMP))
                .or_else(|_| entry.metadata())
                .and_then(|m| m.modified());
            let old = used
                .ok()
                .and_then(|t| t.elapsed().ok())
                .is_some_and(|age| age > UNUSED);
            if abandoned || old {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn sizes(dir: &Path) -> Result<Vec<(String, u64)>> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        sizes.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.metadata()?.len(),
        ));
    }
    sizes.sort();
    Ok(sizes)
}

/// Whether the stamp names the key, and every listed file exists with its size.
fn stamp_holds(dir: &Path, key: &str, stamp: &str) -> bool {
    let mut lines = stamp.lines();
    lines.next() == Some(key)
        && lines.all(|line| {
            line.split_once(' ').is_some_and(|(bytes, name)| {
                fs::metadata(dir.join(name)).is_ok_and(|m| Ok(m.len()) == bytes.parse::<u64>())
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789012345678901234567890123456789";

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("vm")).unwrap();
        (dir, cache)
    }

    fn fill(dir: &Path) -> Result<()> {
        Ok(fs::write(dir.join("root.img"), "image")?)
    }

    #[test]
    fn an_entry_is_found_after_it_was_built() {
        let (_dir, cache) = cache();
        assert_eq!(cache.get("root", KEY), None);
        let built = cache.build("root", KEY, fill).unwrap();
        assert_eq!(cache.get("root", KEY), Some(built));
    }

    #[test]
    fn the_complete_entries_of_a_kind_come_in_the_order_of_their_use() {
        let (_dir, cache) = cache();
        let build = |kind: &str, digit: &str| {
            let dir = cache.build(kind, &digit.repeat(40), fill).unwrap();
            let stamp = File::open(dir.join(STAMP)).unwrap();
            let age = Duration::from_secs(digit.parse().unwrap());
            stamp.set_modified(SystemTime::now() - age).unwrap();
            dir
        };
        let (older, newer) = (build("root", "8"), build("root", "3"));
        build("kernel", "1");
        fs::write(build("root", "2").join("root.img"), "ima").unwrap();
        assert_eq!(cache.latest("root"), [newer, older]);
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let (_dir, cache) = cache();
        assert!(cache.build("root", KEY, |_| anyhow::bail!("no")).is_err());
        assert_eq!(cache.get("root", KEY), None);
        assert_eq!(fs::read_dir(cache.dir("images")).unwrap().count(), 0);
    }

    #[test]
    fn a_truncated_or_foreign_entry_is_rebuilt() {
        let (_dir, cache) = cache();
        let built = cache.build("root", KEY, fill).unwrap();
        fs::write(built.join("root.img"), "ima").unwrap();
        assert_eq!(cache.get("root", KEY), None);
        cache.build("root", KEY, fill).unwrap();
        assert!(cache.get("root", KEY).is_some());
        let other = format!("{}9", &KEY[..KEY.len() - 1]);
        assert!(other == KEY || cache.get("root", &other).is_none());
    }
}
