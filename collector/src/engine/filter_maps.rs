//! The kernel side of a filter: the keys that the programs compare with requests.

use std::collections::BTreeSet;

use aya::maps::{HashMap, MapData, MapError};
use trackiops_schemas::ebpf::ring::{FILTER_KEY_WORDS, FilterKey, filters};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;

use crate::filter::{FilterError, ResolvedFilter};

/// The map of wanted keys, kept up to date with mounts and cgroups.
pub struct FilterMaps {
    map: HashMap<MapData, [u64; FILTER_KEY_WORDS], u8>,
    filter: ResolvedFilter,
    there: BTreeSet<FilterKey>,
    entries: u32,
}

impl FilterMaps {
    /// Fills the map, which has this many entries, with the filter's current keys.
    pub fn new(
        map: HashMap<MapData, [u64; FILTER_KEY_WORDS], u8>,
        mut filter: ResolvedFilter,
        entries: u32,
    ) -> Result<Self, FilterMapError> {
        let keys = filter.keys();
        if keys.len() > entries as usize {
            return Err(FilterError::TooMany(keys.len(), entries).into());
        }
        let mut maps = Self {
            map,
            filter,
            there: BTreeSet::new(),
            entries,
        };
        maps.put(keys)?;
        Ok(maps)
    }

    /// Updates the map for mounts and cgroups that came or went. Returns whether keys of mounts have changed.
    pub fn follow(&mut self) -> Result<bool, MapError> {
        if !self.filter.may_change() {
            return Ok(false);
        }
        let mut keys = self.filter.keys();
        // If there is no room for all, earlier keys stay.
        let mut newcomers: Vec<_> = keys.difference(&self.there).copied().collect();
        let room = (self.entries as usize).saturating_sub(keys.len() - newcomers.len());
        for key in newcomers.drain(..).skip(room) {
            keys.remove(&key);
        }
        let mut changed = keys.symmetric_difference(&self.there);
        let is_news = changed.any(|key| key.kind & filters::PLACES != 0);
        self.put(keys)?;
        Ok(is_news)
    }

    /// Whether files on a mount may be wanted.
    pub fn includes(&self, mount: &MountPoint) -> bool {
        self.filter.includes(mount, &self.there)
    }

    /// Whether a request to this device may be wanted.
    pub fn may_want(&self, dev: Dev) -> bool {
        let is_there = |key: &FilterKey| key.kind & filters::PLACES != 0 && key.dev == dev.0;
        !self.filter.names_places() || self.there.iter().any(is_there)
    }

    fn put(&mut self, keys: BTreeSet<FilterKey>) -> Result<(), MapError> {
        // New keys first: a volume may move from its superblock's key to its directory's, without a gap in between.
        for new in keys.difference(&self.there) {
            self.map.insert(new.words(), 1, 0)?;
        }
        for gone in self.there.difference(&keys) {
            self.map.remove(&gone.words())?;
        }
        self.there = keys;
        Ok(())
    }
}

/// Why the map cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum FilterMapError {
    /// The filter cannot be used.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The kernel refused to change the map.
    #[error(transparent)]
    Map(#[from] MapError),
}
