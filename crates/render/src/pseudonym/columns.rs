//! Replaces the names in rows, by the rule of each column.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use arrow::error::ArrowError;
use trackiops_schemas::columns::{
    CGROUP, CLAIM, CLIENT, CONTAINER, DEV, DIRECTION, FILE_KEY, FILEID, FILTER, HOST, LABELS,
    LEVEL, MOUNT, MOUNTS, OP, PATH, PROCESS, SERVER, SOURCE, TENANT_NAME, TRANSPORT, UID, USER,
    VOLUME, health_schema, request_schema,
};

use super::tokens::{Pseudonyms, Unknown};
use trackiops_query::answer::AnswerRow;
use trackiops_query::columns::{CONTAINER_ID, Columns, NAMESPACE, POD};
use trackiops_query::operations::OperationAnswer;

/// Rule of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The whole text is one name.
    Word,
    /// A path.
    Path,
    /// `server:/export`.
    Mount,
    /// A path, or the number of a cgroup whose path is unknown.
    Cgroup,
    /// The number of a user.
    Uid,
    /// A number that confirms a guessed name. Keys of files are hashes of `server:/export` and fileid, and fileids identify files
    /// to anyone who can ask the server.
    Id(&'static str),
    /// Text of a fixed vocabulary: device numbers, procedures of NFS, connections (`tcp-3`). It stays as it is, and so do values
    /// that are not text.
    Plain,
}

/// The rule of a column, or of a field within a list. `None` for text without a known rule.
fn role(name: &str, data_type: &DataType) -> Option<Role> {
    Some(match name {
        HOST | SERVER | FILTER | USER | PROCESS | TENANT_NAME | LABELS | NAMESPACE | POD
        | CONTAINER_ID | VOLUME => Role::Word,
        PATH | CONTAINER | CLAIM => Role::Path,
        MOUNT | MOUNTS => Role::Mount,
        CGROUP => Role::Cgroup,
        UID => Role::Uid,
        FILE_KEY => Role::Id(FILE_KEY),
        FILEID => Role::Id(FILEID),
        // Numbers of RPC clients have the same name.
        CLIENT if matches!(data_type, DataType::Utf8) => Role::Word,
        DEV | OP | TRANSPORT | DIRECTION | LEVEL | SOURCE => Role::Plain,
        _ if matches!(data_type, DataType::Utf8) => return None,
        _ => Role::Plain,
    })
}

/// Columns of all exports, for formats that do not contain types.
pub fn known_schemas() -> Vec<SchemaRef> {
    vec![
        Columns::<AnswerRow>::usual().schema(),
        Columns::<OperationAnswer>::usual().schema(),
        health_schema(),
        request_schema(),
    ]
}

/// Rows cannot be translated.
#[derive(Debug, thiserror::Error)]
pub enum TranslateError {
    /// The key did not make this text.
    #[error("column {column}: {unknown}")]
    Unknown {
        /// The column.
        column: String,
        /// The text.
        unknown: Unknown,
    },
    /// A column has no rule.
    #[error("the column {0} is text of which it is not known whether it holds names; leave it out")]
    NoRule(String),
    /// The translated rows do not form a batch.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Translates all rows: names to pseudonyms or back, as `with` says.
pub fn apply(batch: &RecordBatch, with: &mut Pseudonyms) -> Result<RecordBatch, TranslateError> {
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(batch.columns());
    let arrays = fields.map(|(field, array)| translate(field.name(), array, with));
    let arrays = arrays.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(schema, arrays)?)
}

fn translate(
    name: &str,
    array: &ArrayRef,
    with: &mut Pseudonyms,
) -> Result<ArrayRef, TranslateError> {
    match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let elements = translate(name, list.values(), with)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let item = Arc::clone(item);
            return Ok(Arc::new(ListArray::try_new(
                item, offsets, elements, nulls,
            )?));
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let arrays = fields.iter().zip(columns);
            let arrays = arrays.map(|(field, array)| translate(field.name(), array, with));
            let arrays = arrays.collect::<Result<_, _>>()?;
            let nulls = array.nulls().cloned();
            return Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                arrays,
                nulls,
            )?));
        }
        _ => {}
    }
    let role = role(name, array.data_type());
    let role = role.ok_or_else(|| TranslateError::NoRule(name.to_owned()))?;
    let unknown = |unknown| TranslateError::Unknown {
        column: name.to_owned(),
        unknown,
    };
    Ok(match (role, array.data_type()) {
        (Role::Uid, DataType::Int64) => {
            let uids = array.as_primitive::<Int64Type>();
            // A null may hide a number of another row. It is translated, too, so that it comes back.
            let made = (0..uids.len()).map(|row| match u32::try_from(uids.value(row)) {
                Ok(uid) => Ok(with.uid(uid).into()),
                Err(_) if uids.is_null(row) => Ok(0),
                Err(_) => Err(unknown(Unknown(uids.value(row).to_string()))),
            });
            let made = made.collect::<Result<Vec<i64>, _>>()?;
            Arc::new(Int64Array::try_new(made.into(), uids.nulls().cloned())?)
        }
        (Role::Id(column), DataType::Int64) => {
            let ids = array.as_primitive::<Int64Type>().iter();
            let ids = ids.map(|id| id.map(|id| with.id(column, id.cast_unsigned()).cast_signed()));
            Arc::new(ids.collect::<Int64Array>())
        }
        (role, DataType::Utf8) if role != Role::Plain => {
            let mut texts = Vec::with_capacity(array.len());
            for text in array.as_string::<i32>() {
                let made = text.map(|text| match role {
                    Role::Path => with.path(text),
                    Role::Mount => with.mount(text),
                    Role::Cgroup => with.cgroup(text),
                    _ => with.word(text),
                });
                texts.push(made.transpose().map_err(unknown)?);
            }
            Arc::new(StringArray::from(texts))
        }
        _ => Arc::clone(array),
    })
}

/// Whether a column has text of a fixed vocabulary.
pub(super) fn is_vocabulary(name: &str) -> bool {
    role(name, &DataType::Utf8) == Some(Role::Plain)
}

/// Calls `each` with the column's name and the text of every value.
pub(super) fn texts(batch: &RecordBatch, each: &mut dyn FnMut(&str, &str)) {
    let schema = batch.schema();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        texts_of(field.name(), array, each);
    }
}

fn texts_of(name: &str, array: &ArrayRef, each: &mut dyn FnMut(&str, &str)) {
    match array.data_type() {
        DataType::Utf8 => {
            for text in array.as_string::<i32>().iter().flatten() {
                each(name, text);
            }
        }
        DataType::List(_) => texts_of(name, array.as_list::<i32>().values(), each),
        DataType::Struct(fields) => {
            for (field, array) in fields.iter().zip(array.as_struct().columns()) {
                texts_of(field.name(), array, each);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pseudonym::key::Key;
    use crate::pseudonym::tokens::Way;

    /// Checks that text of a column has a rule, even within lists.
    fn check(name: &str, data_type: &DataType) {
        match data_type {
            DataType::List(item) => check(name, item.data_type()),
            DataType::Struct(fields) => {
                for field in fields {
                    check(field.name(), field.data_type());
                }
            }
            data_type => assert!(role(name, data_type).is_some(), "{name} has no rule"),
        }
    }

    #[test]
    fn uids_and_users_come_back_and_nulls_stay() {
        let key = Key::new(&[7; Key::BYTES]);
        let batch = |uids: Vec<Option<i64>>, users: Vec<Option<&str>>| {
            let uids: ArrayRef = Arc::new(Int64Array::from(uids));
            let users: ArrayRef = Arc::new(StringArray::from(users));
            RecordBatch::try_from_iter([(UID, uids), (USER, users)]).unwrap()
        };
        let mut hide = Pseudonyms::new(&key, Way::Hide);
        let plain = batch(
            vec![Some(1000), None, Some(0), Some(1000)],
            vec![Some("alice"), None, Some("root"), Some("alice")],
        );
        let hidden = apply(&plain, &mut hide).unwrap();
        let uids = hidden[UID].as_primitive::<Int64Type>();
        assert_eq!(uids.nulls(), plain[UID].nulls());
        assert!(uids.value(0) == uids.value(3) && uids.value(0) != 1000);
        let users = hidden[USER].as_string::<i32>();
        assert!(users.value(0) == users.value(3) && users.value(0) != "alice");
        let back = apply(&hidden, &mut Pseudonyms::new(&key, Way::Reveal)).unwrap();
        assert_eq!(back, plain);
        let error = apply(&batch(vec![Some(1 << 32)], vec![None]), &mut hide).unwrap_err();
        assert!(error.to_string().contains("4294967296"), "{error}");
    }

    #[test]
    fn every_column_that_is_text_has_a_rule() {
        for schema in known_schemas() {
            for field in schema.fields() {
                check(field.name(), field.data_type());
            }
        }
        assert_eq!(role("nickname", &DataType::Utf8), None);
    }
}
