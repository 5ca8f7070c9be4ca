//! Who or what a row of a report is about.

use std::sync::Arc;

use arrow::datatypes::DataType;
use trackiops_query::columns::{Column, Unit, Value, tenants};
use trackiops_query::group::{Entity, TenantKey};
use trackiops_query::{AnswerRow, Projection};
use trackiops_schemas::columns::{FILE_KEY, HOST, MOUNT, PATH};
use trackiops_schemas::identity::{FileKey, Tenant};

use crate::by::ReportBy;

/// What tells a subject from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubjectKey {
    /// `None` if all files of a host are added up, and those of all hosts.
    pub of: Option<Entity>,
    /// The host, if hosts are apart.
    pub host: Option<Arc<str>>,
    /// The tenant, if tenants are apart.
    pub tenant: Option<TenantKey>,
}

/// A file, directory, mount, host or tenant, with the names that it had last.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The host; `None` if hosts are added up.
    pub host: Option<Arc<str>>,
    /// `server:/export`, where known and where the subject is on one.
    pub mount: Option<Arc<str>>,
    /// Path of a file or directory, where known.
    pub path: Option<Arc<str>>,
    /// Its number in the catalog, if it is a file.
    pub file: Option<FileKey>,
    /// The tenant; what is unknown, or differs between several tenants, is `None`.
    pub tenant: Arc<Tenant>,
    /// As people call it.
    pub name: Arc<str>,
}

/// The stored columns that a subject is made of.
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
    /// The subject of a row, and what tells it from others.
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

    /// For a list of a mount's tenants: a tenant by its own name.
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
    /// All texts that a user may name it by: what people see, and what programs do.
    pub fn names(&self) -> Vec<String> {
        let tenant = self.tenant.is_known().then(|| self.tenant.to_string());
        let parts = [&self.path, &self.mount, &self.host];
        let parts = parts.into_iter().flatten().map(|text| text.to_string());
        [self.name.to_string()]
            .into_iter()
            .chain(tenant)
            // Of several parts none alone is its name.
            .chain(parts.take(usize::from(!self.tenant.is_known())))
            .collect()
    }
}

/// Its columns; people see `name` alone.
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
