//! Requests that found their ring full, added up in the kernel.

use aya::maps::MapError;
use trackiops_schemas::ebpf::ring::{
    FOLD_ENTRIES, FOLD_KEY_WORDS, FOLD_MOUNT_ENTRIES, FOLD_VALUE_WORDS, FOLDS_BY_FILE,
    FOLDS_BY_MOUNT, FoldKey, FoldValue,
};
use zerocopy::transmute;

use crate::kernel_sums::{DoubleBufferedMap, MapsInUse};

/// The maps that the programs add to.
pub struct Folds {
    programs: MapsInUse<FOLD_KEY_WORDS, FOLD_VALUE_WORDS>,
    by_file: DoubleBufferedMap<FOLD_KEY_WORDS, FOLD_VALUE_WORDS>,
    by_mount: DoubleBufferedMap<FOLD_KEY_WORDS, FOLD_VALUE_WORDS>,
}

impl Folds {
    /// Makes the maps, and passes them to the programs. `share` means [`crate::Settings::map_share`].
    pub fn create(
        mut programs: MapsInUse<FOLD_KEY_WORDS, FOLD_VALUE_WORDS>,
        share: u32,
    ) -> Result<Self, MapError> {
        Ok(Self {
            by_file: DoubleBufferedMap::create(&mut programs, FOLDS_BY_FILE, FOLD_ENTRIES / share)?,
            by_mount: DoubleBufferedMap::create(&mut programs, FOLDS_BY_MOUNT, FOLD_MOUNT_ENTRIES)?,
            programs,
        })
    }

    /// Takes all sums so far.
    pub fn take(&mut self) -> Result<Vec<(FoldKey, FoldValue)>, MapError> {
        let mut taken = Vec::new();
        for sums in [&mut self.by_file, &mut self.by_mount] {
            sums.take(&mut self.programs, |key, value| {
                taken.push((transmute!(key), transmute!(value)));
            })?;
        }
        Ok(taken)
    }
}
