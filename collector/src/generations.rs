//! A map that forgets what was idle, without ever being scanned for it.

use std::hash::Hash;
use std::mem;

use ahash::AHashMap;

/// Two generations of a map: what is used moves to the young one, and rotating drops the old one.
pub struct Generations<K, V> {
    young: AHashMap<K, V>,
    old: AHashMap<K, V>,
}

impl<K: Copy + Eq + Hash, V> Generations<K, V> {
    /// Empty.
    pub fn new() -> Self {
        Self {
            young: AHashMap::new(),
            old: AHashMap::new(),
        }
    }

    /// The value of `key`, made if it is not there; one hash operation for what is in use.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let old = &mut self.old;
        self.young
            .entry(key)
            .or_insert_with(|| old.remove(&key).unwrap_or_else(make))
    }

    /// Whether there is a value of `key`.
    pub fn knows(&self, key: &K) -> bool {
        self.young.contains_key(key) || self.old.contains_key(key)
    }

    /// What was used since the last rotation.
    pub fn recent(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.young.iter_mut()
    }

    /// Forgets what was not used since the last rotation but one.
    pub fn rotate(&mut self) {
        self.old = mem::take(&mut self.young);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_idle_leaves() {
        let mut map = Generations::new();
        map.entry("used", || 1);
        map.entry("idle", || 1);
        map.rotate();
        assert_eq!(*map.entry("used", || 2), 1, "moved, not made again");
        map.rotate();
        assert_eq!(*map.entry("used", || 2), 1);
        assert_eq!(*map.entry("idle", || 2), 2, "forgotten");
        assert_eq!(map.recent().count(), 2);
    }
}
