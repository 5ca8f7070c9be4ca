//! The macro `counters!`. From a table of counters it makes a row's fields, merging, columns, journal encoding, batches
//! and store checks.
//!
//! To add a counter, add it to a table: [`crate::row`] for files and health, [`crate::ops`] for operations of mounts,
//! [`crate::file_ops`] for operations of files, [`crate::tcp`] for connections.

use arrow::datatypes::{DataType, Field};

use crate::unit::{Unit, ns_from_us, us_from_ns};

/// A counter of rows of the type `R`.
#[derive(Debug)]
pub struct Counter<R> {
    /// Its column; for a direction, without the direction prefix.
    pub name: &'static str,
    /// The unit of the column. A counter in microseconds holds nanoseconds in memory.
    pub unit: Unit,
    /// Its value in a row.
    pub get: fn(&R) -> u64,
    /// The directions that have this counter; empty for all.
    pub(crate) only: &'static [&'static str],
}

impl<R> Counter<R> {
    /// Whether it holds nanoseconds in memory. Columns round each row to microseconds, so rounded rows do not add up
    /// exactly.
    pub fn is_time(&self) -> bool {
        self.unit == Unit::Microseconds
    }

    /// Whether a direction has this counter.
    pub fn is_of(&self, direction: &str) -> bool {
        self.only.is_empty() || self.only.contains(&direction)
    }

    /// A value as its column holds it.
    #[inline]
    pub fn stored(&self, value: u64) -> u64 {
        match self.is_time() {
            true => us_from_ns(value),
            false => value,
        }
    }

    /// The value in memory for a value of its column.
    #[inline]
    pub fn of_stored(&self, value: u64) -> u64 {
        match self.is_time() {
            true => ns_from_us(value),
            false => value,
        }
    }

    /// Its column, with a prefix to its name.
    pub fn field(&self, prefix: &str) -> Field {
        self.unit.of(Field::new(
            format!("{prefix}{}", self.name),
            DataType::Int64,
            false,
        ))
    }
}

/// Adds two counts, up to the largest value of a column. A forged file may hold any count, so the sum must not
/// overflow.
#[inline]
pub(crate) fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(i64::MAX.cast_unsigned())
}

/// Adds two values, saturating: a damaged file may hold any number of nanoseconds.
#[inline]
pub(crate) fn saturating_sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

/// Keeps the larger value.
#[inline]
pub(crate) fn max(a: u64, b: u64) -> u64 {
    a.max(b)
}

/// Keeps the smaller value. 0 stands for none.
#[inline]
pub(crate) fn least(a: u64, b: u64) -> u64 {
    match (a, b) {
        (0, known) | (known, 0) => known,
        _ => a.min(b),
    }
}

/// Makes the struct of a row from its table of counters: `field: "column", unit, merge;`. A counter of a single
/// direction adds `only "direction"`. Other fields follow the table.
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident {
            $(
                $(#[$document:meta])*
                $field:ident: $column:literal, $unit:ident, $merge:ident $(, only $only:literal)?;
            )*
        }
        and {
            $( $(#[$other_document:meta])* $other:ident: $type:ty, )*
        }
    ) => {
        $(#[$attribute])*
        pub struct $row {
            $( $(#[$document])* pub $field: u64, )*
            $( $(#[$other_document])* pub $other: $type, )*
        }

        impl $row {
            /// Number of its counters.
            pub const COUNT: usize = [$($column),*].len();

            /// Its counters, in the order of its columns and of the journal.
            pub const COUNTERS: [$crate::counter_macro::Counter<Self>; Self::COUNT] = [
                $($crate::counter_macro::Counter {
                    name: $column,
                    unit: $crate::unit::Unit::$unit,
                    get: |row| row.$field,
                    only: &[$($only)?],
                },)*
            ];

            /// The values of [`Self::COUNTERS`].
            #[inline]
            pub fn counters(&self) -> [u64; Self::COUNT] {
                [$(self.$field),*]
            }

            /// The row with these values of [`Self::COUNTERS`]; all other fields are empty.
            #[inline]
            pub fn of_counters(counters: [u64; Self::COUNT]) -> Self {
                let [$($field),*] = counters;
                Self { $($field,)* $($other: Default::default(),)* }
            }

            /// Adds the counters of another partial aggregate.
            #[inline]
            fn merge_counters(&mut self, other: &Self) {
                $(self.$field = $crate::counter_macro::$merge(self.$field, other.$field);)*
            }
        }
    };
}

pub(crate) use counters;
