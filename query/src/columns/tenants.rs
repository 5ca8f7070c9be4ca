//! Columns of the tenant.

use std::sync::Arc;

use arrow::datatypes::DataType;
use trackiops_schemas::columns::{CGROUP, UID, USER};
use trackiops_schemas::identity::Tenant;

use super::{Column, Unit, Value};

/// Uid, user and cgroup as they are stored, then all of them as one text for `--columns`.
pub(super) fn tenants<R: 'static>(of: fn(&R) -> &Arc<Tenant>) -> ([Column<R>; 3], Column<R>) {
    let uid = Column::new(UID, DataType::Int64, Unit::None, move |row: &R| {
        of(row)
            .uid
            .map_or(Value::Null, |uid| Value::Int(uid.into()))
    });
    let user = Column {
        // The user's name is valid only with a uid: a row of several users has neither.
        needs: vec![USER.to_owned(), UID.to_owned()],
        ..Column::text(USER, move |row: &R| {
            Value::some_text(of(row).user.as_deref())
        })
    };
    let cgroup = Column::text(CGROUP, move |row: &R| {
        Value::some_text(of(row).cgroup.as_deref())
    });
    let packed = Column {
        is_usual: false,
        needs: vec![UID.to_owned(), CGROUP.to_owned()],
        ..Column::text("tenant", move |row: &R| match of(row) {
            tenant if tenant.is_known() => Value::text(tenant.to_string()),
            _ => Value::Null,
        })
    };
    ([uid, user, cgroup], packed)
}
