//! Values as CSV and JSON write them.

use arrow::datatypes::DataType;

use crate::columns::Value;
use crate::times::rfc3339;

/// A value as JSON.
pub(super) fn json(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    Ok(match value {
        Value::Null => "null".into(),
        Value::Text(text) => serde_json::to_string(text)?,
        Value::Flag(flag) => flag.to_string(),
        Value::Count(count) => count.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Figure(figure) => serde_json::to_string(figure)?,
        Value::Time(time) => format!("\"{}\"", rfc3339(*time)),
        Value::List(elements) => list_json(data_type, elements)?,
    })
}

/// `[{"bucket":12,"count":3}]`.
fn list_json(data_type: &DataType, elements: &[Vec<Value<'_>>]) -> serde_json::Result<String> {
    let mut text = String::from("[");
    for (i, element) in elements.iter().enumerate() {
        text.push_str(if i == 0 { "{" } else { ",{" });
        for (j, (field, value)) in element_fields(data_type).iter().zip(element).enumerate() {
            let before = if j == 0 { "" } else { "," };
            let value = json(field.data_type(), value)?;
            text += &format!("{before}\"{}\":{value}", field.name());
        }
        text.push('}');
    }
    text.push(']');
    Ok(text)
}

/// The fields of an element of a list; none of what is no list of such.
pub(super) fn element_fields(data_type: &DataType) -> arrow::datatypes::Fields {
    match data_type {
        DataType::List(item) => match item.data_type() {
            DataType::Struct(fields) => fields.clone(),
            _ => Default::default(),
        },
        _ => Default::default(),
    }
}

/// A value as CSV: nothing where it is not known; a list is its JSON.
pub(super) fn csv(data_type: &DataType, value: &Value<'_>) -> serde_json::Result<String> {
    Ok(match value {
        Value::Null => String::new(),
        Value::Text(text) => text.to_string(),
        Value::Figure(figure) => figure.to_string(),
        Value::Time(time) => rfc3339(*time),
        other => json(data_type, other)?,
    })
}
