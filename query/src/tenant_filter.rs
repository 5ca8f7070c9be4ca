//! Selects tenants, and names them by rules.

use std::collections::HashMap;
use std::sync::Arc;

use glob::Pattern;
use trackiops_schemas::identity::{Tenant, name_text};
use trackiops_tenants::{Known, Rules};

use crate::origin::File;
use crate::shell_pattern::pattern_of;
use crate::volume_names::VolumeNames;

/// The tenants that a question selects, and the rules that name tenants.
#[derive(Clone, Debug, Default)]
pub struct TenantFilter {
    /// The values of `--tenant`, as text and as patterns; all tenants if empty.
    only: Vec<(String, Pattern)>,
    /// Rules that replace recorded names.
    rules: Option<Arc<Rules>>,
    /// The volumes that rules may refer to.
    volumes: VolumeNames,
    /// Whether only the user of a tenant is kept.
    only_users: bool,
}

impl TenantFilter {
    /// Parses the values of `--tenant`.
    pub fn new(asked: &[String], rules: Option<Arc<Rules>>) -> Self {
        let pattern = |text: &String| (text.clone(), pattern_of(text));
        Self {
            only: asked.iter().map(pattern).collect(),
            rules,
            volumes: VolumeNames::default(),
            only_users: false,
        }
    }

    /// The same filter, with rules that know these volumes.
    pub fn with_volumes(self, volumes: VolumeNames) -> Self {
        Self { volumes, ..self }
    }

    /// The same filter, keeping only users of tenants.
    pub fn of_users(self, only_users: bool) -> Self {
        Self { only_users, ..self }
    }

    /// Whether the tenants of rows are needed.
    pub(crate) fn needs_tenants(&self) -> bool {
        !self.only.is_empty() || self.rules.is_some() || self.only_users
    }

    /// Whether the names and mounts of rows are needed.
    pub(crate) fn needs_names(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether the filter selects a tenant: by its name, or without a name by its user or cgroup.
    pub fn matches(&self, tenant: &Tenant) -> bool {
        if self.only.is_empty() {
            return true;
        }
        let is_one = |text: &str| {
            let mut only = self.only.iter();
            only.any(|(asked, pattern)| {
                asked == text || name_text(asked.as_bytes()) == text || pattern.matches(text)
            })
        };
        if let Some(name) = &tenant.name {
            return is_one(name);
        }
        let texts = [&tenant.user, &tenant.cgroup, &tenant.container];
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| is_one(text))
            || tenant.uid.is_some_and(|uid| is_one(&uid.to_string()))
            || tenant.is_known() && is_one(&tenant.to_string())
            || tenant.named().is_some_and(|named| is_one(&named))
    }

    /// A chooser for the rows of one thread.
    pub(crate) fn chooser(&self) -> Chooser<'_> {
        Chooser {
            filter: self,
            last: None,
            known: HashMap::new(),
        }
    }
}

/// The result for a file and a tenant. It holds their `Arc`s, so other values cannot reuse the addresses.
struct Chosen {
    file: Arc<File>,
    tenant: Arc<Tenant>,
    /// `None` if the tenant is not selected.
    named: Option<Arc<Tenant>>,
}

/// Names the tenants of rows, and selects among them.
pub(crate) struct Chooser<'f> {
    filter: &'f TenantFilter,
    /// The result for the last row.
    last: Option<Chosen>,
    known: HashMap<Tenant, Arc<Tenant>>,
}

impl Chooser<'_> {
    /// The tenant of a row; `None` if it is not selected.
    pub(crate) fn choose<'t>(
        &'t mut self,
        file: &Arc<File>,
        tenant: &'t Arc<Tenant>,
    ) -> Option<&'t Arc<Tenant>> {
        if !self.filter.needs_tenants() {
            return Some(tenant);
        }
        let is_last =
            |last: &Chosen| Arc::ptr_eq(&last.file, file) && Arc::ptr_eq(&last.tenant, tenant);
        if !self.last.as_ref().is_some_and(is_last) {
            let named = self.named(file, tenant);
            let is_asked_for = self.filter.matches(&named);
            self.last = Some(Chosen {
                file: Arc::clone(file),
                tenant: Arc::clone(tenant),
                named: is_asked_for.then(|| match self.filter.only_users {
                    true => self.user_of(&named),
                    false => named,
                }),
            });
        }
        self.last.as_ref()?.named.as_ref()
    }

    fn user_of(&mut self, tenant: &Tenant) -> Arc<Tenant> {
        self.shared(Tenant {
            uid: tenant.uid,
            user: tenant.user.clone(),
            ..Tenant::default()
        })
    }

    fn shared(&mut self, tenant: Tenant) -> Arc<Tenant> {
        let shared = self.known.entry(tenant);
        Arc::clone(shared.or_insert_with_key(|tenant| Arc::new(tenant.clone())))
    }

    fn named(&mut self, file: &File, tenant: &Arc<Tenant>) -> Arc<Tenant> {
        let Some(rules) = &self.filter.rules else {
            return Arc::clone(tenant);
        };
        let mount = file.mount.as_deref();
        let volume = mount.and_then(|mount| self.filter.volumes.of(mount));
        let named = rules.named(&Known {
            mount,
            volume: volume.map(|name| name.for_rules()),
            path: file.path.as_deref(),
            tenant,
        });
        self.shared(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::identity::{Dev, FileKey};

    #[test]
    fn a_tenant_is_selected_by_its_name_or_where_it_has_none_by_user_or_cgroup() {
        let is_selected =
            |asked: &str, tenant: &Tenant| TenantFilter::new(&[asked.into()], None).matches(tenant);
        let unnamed = Tenant {
            user: Some("ann".into()),
            .."1000:/system.slice/db.service".parse().unwrap()
        };
        for asked in [
            "ann",
            "1000",
            "/system.slice/db.service",
            "*/db.service",
            "1000:/system.slice/db.service",
            "ann:*",
            "*",
        ] {
            assert!(is_selected(asked, &unnamed), "{asked}");
        }
        assert!(!is_selected("bob", &unnamed) && !is_selected("100", &unnamed));
        let named = Tenant {
            name: Some("acme".into()),
            ..unnamed.clone()
        };
        assert!(is_selected("ac*", &named) && !is_selected("ann", &named));
        assert!(!is_selected("*", &Tenant::default()));
        assert!(TenantFilter::default().matches(&Tenant::default()));
        let odd = Tenant {
            name: Some("a[b".into()),
            ..Tenant::default()
        };
        assert!(is_selected("a[b", &odd) && !is_selected("a[b", &named));
    }

    #[test]
    fn tenants_that_are_selected_become_users() {
        let filter = TenantFilter::new(&["db".into()], None);
        let filter = filter.of_users(true);
        assert!(filter.needs_tenants());
        let mut chooser = filter.chooser();
        let file = Arc::new(File {
            key: FileKey(1),
            dev: Dev(49),
            fileid: 1,
            mount: None,
            path: None,
            path_inferred: None,
            level: Default::default(),
        });
        let tenant = |name: &str, cgroup: &str| {
            Arc::new(Tenant {
                uid: Some(1000),
                user: Some("ann".into()),
                cgroup: Some(cgroup.into()),
                name: Some(name.into()),
                ..Tenant::default()
            })
        };
        let users = [tenant("db", "/a"), tenant("db", "/b")].map(|tenant| {
            let user = chooser.choose(&file, &tenant).cloned();
            user.unwrap().named().unwrap()
        });
        assert_eq!(users, ["ann", "ann"]);
        assert_eq!(chooser.choose(&file, &tenant("web", "/a")), None);
    }
}
