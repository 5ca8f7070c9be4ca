//! A map that forgets idle entries without a scan for them.

use std::hash::Hash;
use std::mem;

use ahash::AHashMap;

/// Two generations of a map: used entries move to the young one, and rotating drops the old one.
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

    /// The value of `key`, made if it is not there. Takes one hash operation for keys in use.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let old = &mut self.old;
        self.young
            .entry(key)
            .or_insert_with(|| old.remove(&key).unwrap_or_else(make))
    }

    /// The value of `key`, if it is there.
    pub fn get(&mut self, key: K) -> Option<&mut V> {
        if let Some(value) = self.old.remove(&key) {
            self.young.insert(key, value);
        }
        self.young.get_mut(&key)
    }

    /// The value of `key`, if it is there. Does not count as a use.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Sets the value of `key`, and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.old.remove(&key);
        self.young.insert(key, value).or(old)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// The number of entries used since the last rotation.
    pub fn recent_len(&self) -> usize {
        self.young.len()
    }

    /// Keeps only the entries for which `wanted` holds.
    pub fn retain(&mut self, wanted: impl Fn(&K, &V) -> bool) {
        self.young.retain(|key, value| wanted(key, value));
        self.old.retain(|key, value| wanted(key, value));
    }

    /// The entries that were used since the last rotation.
    pub fn recent(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.young.iter_mut()
    }

    /// Removes and returns the entries that were not used since the previous rotation.
    pub fn rotate(&mut self) -> AHashMap<K, V> {
        mem::replace(&mut self.old, mem::take(&mut self.young))
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
        assert!(map.rotate().is_empty());
        assert_eq!(*map.entry("used", || 2), 1, "moved, not made again");
        assert_eq!(map.peek(&"idle"), Some(&1));
        assert_eq!(map.get("none"), None);
        assert!(map.rotate().into_iter().eq([("idle", 1)]));
        assert_eq!(*map.entry("used", || 2), 1);
        assert_eq!(*map.entry("idle", || 2), 2, "forgotten");
        assert_eq!(map.insert("idle", 3), Some(2));
        assert_eq!(map.recent().count(), 2);
    }
}
