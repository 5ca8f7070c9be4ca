//! Columns of the tenant.

use std::sync::Arc;

use arrow::datatypes::DataType;
use trackiops_schemas::columns::{CGROUP, CONTAINER, LABELS, TENANT_NAME, UID, USER};
use trackiops_schemas::container::{ContainerOf, namespace_and_pod};
use trackiops_schemas::identity::Tenant;

use crate::column::{Column, Unit, Value};

/// Id of the cgroup's container, found in the cgroup's path.
pub const CONTAINER_ID: &str = "container_id";
/// Namespace of the container's pod.
pub const NAMESPACE: &str = "namespace";
/// Name of the container's pod.
pub const POD: &str = "pod";

/// The stored columns of the tenant, then derived ones for `--columns`: parts of the container, and the tenant by which
/// rows are grouped.
pub fn tenants<R: 'static>(
    of: impl Fn(&R) -> &Arc<Tenant> + Copy + Send + Sync + 'static,
) -> ([Column<R>; 6], [Column<R>; 4]) {
    let uid = Column::new(UID, DataType::Int64, Unit::None, move |row: &R| {
        of(row)
            .uid
            .map_or(Value::Null, |uid| Value::Int(uid.into()))
    });
    let user = Column {
        // The user's name is only valid with a uid: a row of several users has neither.
        needs: vec![USER.to_owned(), UID.to_owned()],
        ..Column::text(USER, move |row: &R| {
            Value::some_text(of(row).user.as_deref())
        })
    };
    let cgroup = Column::text(CGROUP, move |row: &R| {
        Value::some_text(of(row).cgroup.as_deref())
    });
    let of_container = vec![CONTAINER.to_owned(), CGROUP.to_owned()];
    let container = Column {
        // Only valid with the cgroup, like the user's name with a uid.
        needs: of_container.clone(),
        ..Column::text(CONTAINER, move |row: &R| {
            Value::some_text(of(row).container.as_deref())
        })
    };
    let id = Column {
        is_usual: false,
        needs: vec![CGROUP.to_owned()],
        ..Column::text(CONTAINER_ID, move |row: &R| {
            let cgroup = of(row).cgroup.as_deref().map(ContainerOf::cgroup);
            Value::some_text(cgroup.and_then(|of| of.id))
        })
    };
    let part = |name, part: fn(&str) -> Option<&str>| Column {
        is_usual: false,
        needs: of_container.clone(),
        ..Column::text(name, move |row: &R| {
            Value::some_text(of(row).container.as_deref().and_then(part))
        })
    };
    let namespace = part(NAMESPACE, |names| namespace_and_pod(names).0);
    let pod = part(POD, |names| namespace_and_pod(names).1);
    let name = Column::text(TENANT_NAME, move |row: &R| {
        Value::some_text(of(row).name.as_deref())
    });
    let labels = Column {
        // Only valid with the tenant's name, like the user's name with a uid.
        needs: vec![LABELS.to_owned(), TENANT_NAME.to_owned()],
        ..Column::text(LABELS, move |row: &R| {
            Value::some_text(of(row).labels.as_deref())
        })
    };
    let group = Column {
        is_usual: false,
        needs: [TENANT_NAME, UID, USER, CGROUP, CONTAINER]
            .map(str::to_owned)
            .into(),
        ..Column::text("tenant", move |row: &R| {
            let tenant = of(row);
            match &tenant.name {
                Some(name) => Value::text(&**name),
                None if tenant.is_known() => Value::text(tenant.to_string()),
                None => Value::Null,
            }
        })
    };
    // Programs get what identifies the tenant, people its names.
    let group = group.shown_as(move |row: &R| {
        let named = of(row).named();
        named.map_or(Value::Null, Value::text)
    });
    let stored = [uid, user, cgroup, container, name, labels];
    (stored, [namespace, pod, id, group])
}
