//! The subject of a row of a report.

use std::sync::Arc;

use arrow::datatypes::DataType;
use trackiops_query::columns::{Column, Unit, Value, tenants};
use trackiops_query::group::{Entity, TenantKey};
use trackiops_query::{AnswerRow, Projection};
use trackiops_schemas::columns::{FILE_KEY, HOST, MOUNT, PATH};
use trackiops_schemas::identity::{FileKey, Tenant};
use trackiops_schemas::row::Row;

use crate::by::ReportBy;

/// The key of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectKey {
    /// `None` for the sum of all files of a host, or of all hosts.
    pub of: Option<Entity>,
    /// The host, if the report keeps hosts apart.
    pub host: Option<Arc<str>>,
    /// The tenant, if the report keeps tenants apart.
    pub tenant: Option<TenantKey>,
}

/// A file, directory, mount, host or tenant, with its latest names.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The host; `None` if hosts are added up.
    pub host: Option<Arc<str>>,
    /// `server:/export`, if known and if the subject is on one.
    pub mount: Option<Arc<str>>,
    /// Path of a file or directory, if known.
    pub path: Option<Arc<str>>,
    /// Its number in the catalog, if it is a file.
    pub file: Option<FileKey>,
    /// The tenant. Unknown fields, and fields that differ between several tenants, are `None`.
    pub tenant: Arc<Tenant>,
    /// The name for people.
    pub name: Arc<str>,
}

/// Whether a row of a mount has only requests that the kernel counted and no probe saw. Those to devices belong to no mount, and have no latency.
pub fn is_only_missed(mount: Option<&str>, row: &Row) -> bool {
    let has_times = row.read.timed() > 0 || row.write.timed() > 0;
    let has_calls = row.app_read.calls > 0 || row.app_write.calls > 0;
    mount.is_none() && !has_times && !has_calls && row.ops.as_slice().is_empty()
}

/// The stored columns that [`Subject::of`] reads.
pub fn needs() -> Projection {
    Projection::new([
        "mount",
        "path",
        "uid",
        "user",
        "cgroup",
        "container",
        "tenant_name",
        "labels",
    ])
}

impl Subject {
    /// The subject of a row, and its key.
    pub fn of(row: &AnswerRow, by: ReportBy) -> (SubjectKey, Self) {
        let host = by.hosts.then(|| Arc::clone(&row.host));
        let is_host = matches!(row.of, Entity::Host(_));
        let key = SubjectKey {
            of: (!is_host).then(|| row.of.clone()),
            host: host.clone(),
            tenant: by.by.tenant(&row.tenant),
        };
        let tenant = match by.by.tenants {
            true => Arc::clone(&row.tenant),
            false => Arc::default(),
        };
        let mut subject = Self {
            name: Arc::default(),
            host,
            mount: row.mount().map(Into::into),
            path: row.path().map(Into::into),
            file: row.file.as_ref().map(|file| file.key),
            tenant,
        };
        let of = (!is_host).then(|| row.name());
        let tenant = by.by.tenants.then(|| {
            let named = subject.tenant.named();
            named.unwrap_or_else(|| "(unknown)".to_owned())
        });
        let host = subject.host.as_deref().map(str::to_owned);
        let parts: Vec<_> = tenant.into_iter().chain(of).chain(host).collect();
        subject.name = parts.join(" ").into();
        (key, subject)
    }

    /// A tenant without its mount, for a list of one mount's tenants.
    pub fn without_mount(self) -> Self {
        match (&self.path, self.tenant.named()) {
            (None, Some(tenant)) => {
                let names = [Some(tenant.as_str()), self.host.as_deref()];
                let name: Vec<_> = names.into_iter().flatten().collect();
                let name = name.join(" ").into();
                Self { name, ..self }
            }
            _ => self,
        }
    }
}

impl Subject {
    /// All texts by which a user may name it: those for people, and those for programs.
    pub fn names(&self) -> Vec<String> {
        let tenant = self.tenant.is_known().then(|| self.tenant.to_string());
        let parts = [&self.path, &self.mount, &self.host];
        let parts = parts.into_iter().flatten().map(|text| text.to_string());
        [self.name.to_string()]
            .into_iter()
            .chain(tenant)
            // If several parts are known, none of them alone is a name.
            .chain(parts.take(usize::from(!self.tenant.is_known())))
            .collect()
    }
}

/// Its columns. People see only `name`.
pub fn columns<R: 'static>(of: fn(&R) -> &Subject) -> Vec<Column<R>> {
    fn some(text: &Option<Arc<str>>) -> Value<'_> {
        Value::some_text(text.as_deref())
    }
    let mut columns = vec![
        Column::text(HOST, move |row: &R| some(&of(row).host)),
        Column::text(MOUNT, move |row: &R| some(&of(row).mount)),
        Column::text(PATH, move |row: &R| some(&of(row).path)),
        Column::new(FILE_KEY, DataType::Int64, Unit::None, move |row: &R| {
            of(row).file.map_or(Value::Null, |key| Value::Key(key.0))
        }),
    ];
    let (stored, _) = tenants(move |row: &R| &of(row).tenant);
    columns.extend(stored);
    let name = Column::text("name", move |row: &R| Value::text(&*of(row).name));
    columns.push(name.only_if_asked());
    columns
}
