//! Names as numbers: each name is stored once.

use std::sync::Arc;

use ahash::AHashMap;

/// A name: its index in [`Names`].
pub type Name = u32;

/// The names seen so far.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Arc<str>>,
    places: AHashMap<Arc<str>, Name>,
    last: Name,
    bytes: usize,
}

/// Memory of a name without its text.
const NAME_BYTES: usize = 64;

impl Names {
    /// The number of a name.
    #[inline]
    pub fn of(&mut self, name: &str) -> Name {
        // Neighbouring rows often have the same name.
        if self
            .names
            .get(self.last as usize)
            .is_some_and(|last| **last == *name)
        {
            return self.last;
        }
        self.last = match self.places.get(name) {
            Some(place) => *place,
            None => self.insert(name),
        };
        self.last
    }

    fn insert(&mut self, name: &str) -> Name {
        let name: Arc<str> = name.into();
        let place = Name::try_from(self.names.len()).unwrap_or(Name::MAX);
        self.bytes += NAME_BYTES + name.len();
        self.names.push(Arc::clone(&name));
        self.places.insert(name, place);
        place
    }

    /// The name with a number.
    pub fn get(&self, name: Name) -> Arc<str> {
        let known = self.names.get(name as usize);
        known.map_or_else(|| "?".into(), Arc::clone)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Memory that the names take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        let mut names = Names::default();
        let numbers: Vec<_> = ["a", "b", "b", "a", "c"].map(|name| names.of(name)).into();
        assert_eq!(numbers, [0, 1, 1, 0, 2]);
        assert_eq!((&*names.get(1), names.len()), ("b", 3));
    }
}
