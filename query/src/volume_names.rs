//! Names that the kubelet or a container engine gives to the volumes of mounts.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_store::Snapshot;
use trackiops_tenants::VolumeOf;

use crate::error::QueryError;
use crate::shell_pattern::pattern_of;

/// The name of a volume where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeName {
    /// Name of the PersistentVolume, or of the engine's volume.
    pub volume: String,
    /// The claim: `namespace/name`, as far as known.
    pub claim: Option<String>,
}

impl VolumeName {
    /// The volume's names, in the form that rules use.
    pub fn for_rules(&self) -> VolumeOf<'_> {
        VolumeOf {
            name: &self.volume,
            claim: self.claim.as_deref(),
        }
    }
}

/// The volumes of mounts, by the names that mounts have in rows.
#[derive(Clone, Debug, Default)]
pub struct VolumeNames(HashMap<String, Arc<VolumeName>>);

impl VolumeNames {
    /// The volumes that the recorders have seen. A mount that was several volumes gets the latest one.
    pub fn new(snapshot: &Snapshot) -> Result<Self, QueryError> {
        let seen = snapshot.mounts()?.into_iter().map(|seen| seen.mount);
        let volumes: Vec<_> = seen
            .filter_map(|mount| Some((mount.mount, mount.volume?, mount.claim)))
            .collect();
        // Not every mount of a volume shows its claim.
        let claims = volumes.iter();
        let claims = claims.filter_map(|(_, volume, claim)| Some((volume.clone(), claim.clone()?)));
        let claims: HashMap<_, _> = claims.collect();
        let name = |(mount, volume, claim): (String, String, Option<String>)| {
            let claim = claim.or_else(|| claims.get(&volume).cloned());
            (mount, Arc::new(VolumeName { volume, claim }))
        };
        Ok(Self(volumes.into_iter().map(name).collect()))
    }

    /// The volume of a mount.
    pub fn of(&self, mount: &str) -> Option<&Arc<VolumeName>> {
        self.0.get(mount)
    }

    /// The names of the volume `volume`.
    pub fn named(&self, volume: &str) -> Option<&Arc<VolumeName>> {
        self.0.values().find(|name| name.volume == volume)
    }

    /// The mounts whose volume or claim has one of these names or matches one as a pattern.
    pub fn mounts_of(&self, asked: &[String]) -> Vec<&str> {
        let asked: Vec<_> = asked.iter().map(|text| (text, pattern_of(text))).collect();
        let is_asked = |text: &str| {
            let mut asked = asked.iter();
            asked.any(|(exact, pattern)| *exact == text || pattern.matches(text))
        };
        let is_one = |name: &VolumeName| {
            is_asked(&name.volume) || name.claim.as_deref().is_some_and(is_asked)
        };
        let mounts = self.0.iter().filter(|(_, name)| is_one(name));
        mounts.map(|(mount, _)| mount.as_str()).collect()
    }
}
