//! Columns of a batch, for any type that a file uses.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use arrow::error::ArrowError;

/// Whole numbers.
pub struct Numbers(Option<Int64Array>);

/// Texts.
pub struct Texts(Option<StringArray>);

/// Flags.
pub struct Flags(Option<BooleanArray>);

impl Numbers {
    /// A column of numbers; without the column, all values are unknown.
    pub fn of(batch: &RecordBatch, name: &str) -> Result<Self, ArrowError> {
        let array = as_type(batch, name, &DataType::Int64)?;
        Ok(Self(
            array.map(|array| array.as_primitive::<Int64Type>().clone()),
        ))
    }

    /// A column of times, ns since the epoch.
    pub fn times(batch: &RecordBatch, name: &str) -> Result<Self, ArrowError> {
        let unit = batch.column_by_name(name).map(|array| array.data_type());
        let ns = match unit {
            Some(DataType::Timestamp(TimeUnit::Second, _)) => 1_000_000_000,
            Some(DataType::Timestamp(TimeUnit::Millisecond, _)) => 1_000_000,
            Some(DataType::Timestamp(TimeUnit::Microsecond, _)) => 1000,
            _ => 1,
        };
        let Self(numbers) = Self::of(batch, name)?;
        Ok(Self(numbers.map(|numbers| {
            numbers.unary(|number: i64| number.saturating_mul(ns))
        })))
    }

    /// The value in a row, if known.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        let array = self.0.as_ref().filter(|array| array.is_valid(row))?;
        Some(array.value(row))
    }

    /// The value in a row, if known and not negative.
    #[inline]
    pub fn count(&self, row: usize) -> Option<u64> {
        self.get(row).and_then(|number| u64::try_from(number).ok())
    }
}

impl Texts {
    /// A column of texts; without the column, all values are unknown.
    pub fn of(batch: &RecordBatch, name: &str) -> Result<Self, ArrowError> {
        let array = as_type(batch, name, &DataType::Utf8)?;
        Ok(Self(array.map(|array| array.as_string::<i32>().clone())))
    }

    /// The text in a row, if known.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&str> {
        let array = self.0.as_ref().filter(|array| array.is_valid(row))?;
        Some(array.value(row))
    }
}

impl Flags {
    /// A column of flags; without the column, all values are unknown.
    pub fn of(batch: &RecordBatch, name: &str) -> Result<Self, ArrowError> {
        let array = as_type(batch, name, &DataType::Boolean)?;
        Ok(Self(array.map(|array| array.as_boolean().clone())))
    }

    /// The flag in a row, if known.
    #[inline]
    pub fn get(&self, row: usize) -> Option<bool> {
        let array = self.0.as_ref().filter(|array| array.is_valid(row))?;
        Some(array.value(row))
    }
}

fn as_type(
    batch: &RecordBatch,
    name: &str,
    wanted: &DataType,
) -> Result<Option<ArrayRef>, ArrowError> {
    let Some(array) = batch.column_by_name(name) else {
        return Ok(None);
    };
    if array.data_type() == wanted {
        return Ok(Some(Arc::clone(array)));
    }
    cast(array, wanted).map(Some)
}
