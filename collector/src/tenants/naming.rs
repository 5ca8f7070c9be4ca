//! Names tenants by rules, which may be replaced while recording.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::mount::MountPoint;
use trackiops_tenants::{Known, Rules, VolumeOf};

use crate::clock::{MonotonicNs, is_due};

/// Least time between checks of `/etc/passwd` and `/etc/group` for changes.
const LOOK: Duration = Duration::from_secs(1);
/// Above this number of volumes, those that have left are forgotten.
const MOST_VOLUMES: usize = 4096;

/// Passes replacement rules to a recorder.
#[derive(Clone, Debug, Default)]
pub struct NewRules(Arc<Mutex<Option<Replacement>>>);

/// What replaces the rules: other ones, or none, so that no tenant is named.
#[derive(Debug)]
struct Replacement(Option<Rules>);

impl NewRules {
    /// Replaces the rules.
    pub fn put(&self, rules: Option<Rules>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Replacement(rules));
    }

    fn take(&self) -> Option<Replacement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The current rules.
pub(crate) struct Naming {
    rules: Option<Rules>,
    new: NewRules,
    /// Increases when rows may belong to other tenants than before.
    version: u64,
    changes: u64,
    looked: Option<MonotonicNs>,
    /// Name and claim of the volume of each mount, by the mount's name.
    volumes: HashMap<String, (String, Option<String>)>,
}

/// The result of the rules for a file's attributes.
pub(crate) struct Named {
    version: u64,
    of: Arc<FileAttributes>,
    named: Arc<FileAttributes>,
}

impl Naming {
    pub(crate) fn new(rules: Option<Rules>) -> Self {
        Self {
            rules,
            new: NewRules::default(),
            version: 0,
            changes: 0,
            looked: None,
            volumes: HashMap::new(),
        }
    }

    /// Takes over the volumes of mounts. A volume that has left keeps its name for later rows.
    pub(crate) fn follow_volumes(&mut self, mounts: &[MountPoint]) {
        for mount in mounts {
            let Some(volume) = &mount.volume else {
                continue;
            };
            let known = self.volumes.get(&mount.mount);
            // Some mount points of a volume do not show its claim.
            if known.is_some_and(|(name, _)| name == volume) && mount.claim.is_none() {
                continue;
            }
            let volume = (volume.clone(), mount.claim.clone());
            if known != Some(&volume) {
                self.volumes.insert(mount.mount.clone(), volume);
                self.version += 1;
            }
        }
        if self.volumes.len() > MOST_VOLUMES {
            self.volumes
                .retain(|name, _| mounts.iter().any(|mount| mount.mount == *name));
        }
    }

    /// A handle that replaces the rules.
    pub(crate) fn new_rules(&self) -> NewRules {
        self.new.clone()
    }

    /// Takes new rules, if there are any. Call it regularly.
    pub(crate) fn follow(&mut self, now: MonotonicNs) {
        if let Some(Replacement(rules)) = self.new.take() {
            self.rules = rules;
            self.version += 1;
            self.changes += 1;
        }
        if let Some(rules) = &mut self.rules
            && is_due(&mut self.looked, now, LOOK)
        {
            self.version += u64::from(rules.refresh());
        }
    }

    /// How often the rules were replaced since the last call.
    pub(crate) fn take_changes(&mut self) -> u64 {
        mem::take(&mut self.changes)
    }

    /// The attributes with the name of their tenant. `known` is the result of an earlier call.
    pub(crate) fn named(
        &self,
        of: &Arc<FileAttributes>,
        known: &mut Option<Named>,
    ) -> Arc<FileAttributes> {
        let Some(rules) = &self.rules else {
            return Arc::clone(of);
        };
        // The attributes are held, so no others can be at their address.
        let is_of = |known: &Named| known.version == self.version && Arc::ptr_eq(&known.of, of);
        let known = match known.take().filter(is_of) {
            Some(same) => known.insert(same),
            None => known.insert(Named {
                version: self.version,
                of: Arc::clone(of),
                named: Arc::new(self.by_rules(rules, of)),
            }),
        };
        Arc::clone(&known.named)
    }

    fn by_rules(&self, rules: &Rules, of: &FileAttributes) -> FileAttributes {
        let volume = of.mount.as_ref().and_then(|mount| self.volumes.get(mount));
        let tenant = rules.named(&Known {
            mount: of.mount.as_deref(),
            volume: volume.map(|(name, claim)| VolumeOf {
                name,
                claim: claim.as_deref(),
            }),
            path: of.path.as_deref(),
            tenant: &of.tenant,
        });
        FileAttributes {
            tenant: tenant.into(),
            ..of.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::identity::{Dev, FileId, FileKey, Tenant};

    use super::*;

    #[test]
    fn a_volume_names_a_tenant_once_its_mount_is_known_to_be_one() {
        let text = "[[rule]]\nclaim = '{namespace}/*'\ntenant = '{namespace}'\n[[rule]]\nvolume = 'db'\ntenant = 'docker'\n\
                    [[rule]]\ntenant = 'rest'\n";
        let mut naming = Naming::new(Some(Rules::parse(text).unwrap()));
        let point = |mount: &str, volume: &str, claim: Option<&str>| MountPoint {
            dev: Dev(49),
            mount: mount.into(),
            source: mount.into(),
            path: "/v".into(),
            version: None,
            options: String::new(),
            is_foreign: false,
            volume: Some(volume.into()),
            claim: claim.map(str::to_owned),
        };
        let name = |naming: &Naming, mount: Option<&str>| {
            let file = Arc::new(FileAttributes {
                key: FileKey(7),
                id: FileId::others(Dev(49)),
                mount: mount.map(str::to_owned),
                path: None,
                path_inferred: false,
                tenant: Arc::default(),
                level: Default::default(),
            });
            let named = naming.named(&file, &mut None);
            named.tenant.name.as_deref().map(str::to_owned)
        };
        assert_eq!(name(&naming, Some("s:/e/1")).as_deref(), Some("rest"));
        let claimed = point("s:/e/1", "pvc-1", Some("shop/data"));
        naming.follow_volumes(&[
            claimed,
            point("s:/e/1", "pvc-1", None),
            point("s:/e/2", "db", None),
        ]);
        assert_eq!(name(&naming, Some("s:/e/1")).as_deref(), Some("shop"));
        assert_eq!(
            name(&naming, Some("s:/e/2")),
            None,
            "its claim is not known"
        );
        assert_eq!(name(&naming, None), None);
        naming.follow_volumes(&[]);
        assert_eq!(
            name(&naming, Some("s:/e/1")).as_deref(),
            Some("shop"),
            "it has just left"
        );
    }

    #[test]
    fn new_rules_hold_from_the_next_look_on() {
        let rules = |name: &str| {
            let text = format!("[[rule]]\npath = '/a/**'\ntenant = '{name}'\n");
            Some(Rules::parse(&text).unwrap())
        };
        let mut naming = Naming::new(rules("one"));
        let tenant: Tenant = "7:/user.slice".parse().unwrap();
        let file = Arc::new(FileAttributes {
            key: FileKey(7),
            id: FileId::others(Dev(49)),
            mount: None,
            path: Some("/a/b".into()),
            path_inferred: false,
            tenant: tenant.into(),
            level: Default::default(),
        });
        let mut known = None;
        let name = |named: &FileAttributes| named.tenant.name.as_deref().map(str::to_owned);
        let first = naming.named(&file, &mut known);
        assert_eq!(name(&first).as_deref(), Some("one"));
        assert!(Arc::ptr_eq(&first, &naming.named(&file, &mut known)));
        let new = naming.new_rules();
        new.put(rules("two"));
        assert_eq!(
            name(&naming.named(&file, &mut known)).as_deref(),
            Some("one")
        );
        naming.follow(MonotonicNs(1));
        assert_eq!(
            name(&naming.named(&file, &mut known)).as_deref(),
            Some("two")
        );
        assert_eq!((naming.take_changes(), naming.take_changes()), (1, 0));
        let moved = Arc::new(FileAttributes {
            path: Some("/b".into()),
            ..(*file).clone()
        });
        assert_eq!(name(&naming.named(&moved, &mut known)), None);
        new.put(None);
        naming.follow(MonotonicNs(2));
        assert!(Arc::ptr_eq(&file, &naming.named(&file, &mut known)));
    }
}
