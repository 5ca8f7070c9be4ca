//! Columns of reports.

use arrow::datatypes::DataType;
use trackiops_query::columns::{Column, Unit, Value};

/// A column of numbers with fractions; `None` is unknown. Texts have as many decimals as it takes to read the same number.
pub fn figure<R: 'static>(
    name: &str,
    unit: Unit,
    get: impl Fn(&R) -> Option<f64> + Send + Sync + 'static,
) -> Column<R> {
    numbers(name, unit, get, Value::Figure)
}

/// Like [`figure`], rounded to three decimals; shares to six.
pub fn rounded<R: 'static>(
    name: &str,
    unit: Unit,
    get: impl Fn(&R) -> Option<f64> + Send + Sync + 'static,
) -> Column<R> {
    numbers(name, unit, get, move |number| {
        match Value::some_figure(Some(number), unit) {
            // Turns -0.0 into 0.0.
            Value::Figure(rounded) => Value::Figure(rounded + 0.0),
            other => other,
        }
    })
}

fn numbers<R: 'static>(
    name: &str,
    unit: Unit,
    get: impl Fn(&R) -> Option<f64> + Send + Sync + 'static,
    show: impl Fn(f64) -> Value<'static> + Send + Sync + 'static,
) -> Column<R> {
    Column::new(name, DataType::Float64, unit, move |row: &R| {
        let number = get(row).filter(|number| number.is_finite());
        number.map_or(Value::Null, &show)
    })
}

/// A column of whole numbers; `None` is unknown.
pub fn count<R: 'static>(
    name: &str,
    unit: Unit,
    get: impl Fn(&R) -> Option<u64> + Send + Sync + 'static,
) -> Column<R> {
    Column::count(name, unit, move |row: &R| Value::some_count(get(row)))
}
