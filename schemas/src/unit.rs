//! Units of columns.

use arrow::datatypes::Field;

/// Key of a field's metadata in Parquet and Arrow: [`Unit::name`] of its values.
pub const META_UNIT: &str = "unit";

/// The unit of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No unit: text, names, ids, lists.
    None,
    /// A count.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A count per second.
    PerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// A part of a whole, from 0 to 1.
    Share,
    /// A number without a dimension that may be negative or above 1, such as a correlation.
    Ratio,
    /// Joules.
    Joules,
    /// Kilowatt hours.
    KilowattHours,
    /// Grams of CO2 equivalents.
    Grams,
    /// Grams of CO2 equivalents per kilowatt hour.
    GramsPerKilowattHour,
}

impl Unit {
    /// All units that have a name.
    const NAMED: [Self; 13] = [
        Self::Count,
        Self::Bytes,
        Self::BytesPerSecond,
        Self::PerSecond,
        Self::Milliseconds,
        Self::Microseconds,
        Self::Nanoseconds,
        Self::Share,
        Self::Ratio,
        Self::Joules,
        Self::KilowattHours,
        Self::Grams,
        Self::GramsPerKilowattHour,
    ];

    /// Its name in files.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Count => Some("count"),
            Self::Bytes => Some("bytes"),
            Self::BytesPerSecond => Some("bytes/s"),
            Self::PerSecond => Some("1/s"),
            Self::Milliseconds => Some("ms"),
            Self::Microseconds => Some("us"),
            Self::Nanoseconds => Some("ns"),
            Self::Share => Some("share (0 to 1)"),
            Self::Ratio => Some("ratio"),
            Self::Joules => Some("J"),
            Self::KilowattHours => Some("kWh"),
            Self::Grams => Some("gCO2e"),
            Self::GramsPerKilowattHour => Some("gCO2e/kWh"),
        }
    }

    /// The field, with this unit in its metadata.
    pub fn of(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        if let Some(name) = self.name() {
            metadata.insert(META_UNIT.to_owned(), name.to_owned());
        }
        field.with_metadata(metadata)
    }

    /// The unit in a field's metadata.
    pub fn in_metadata(field: &Field) -> Self {
        let name = field.metadata().get(META_UNIT);
        let mut named = Self::NAMED.into_iter();
        let unit = name.and_then(|name| named.find(|unit| unit.name() == Some(name)));
        unit.unwrap_or(Self::None)
    }
}

const NS_PER_US: u64 = 1000;

/// Nearest whole number of microseconds.
pub fn us_from_ns(ns: u64) -> u64 {
    ns / NS_PER_US + u64::from(ns % NS_PER_US >= NS_PER_US / 2)
}

/// Nanoseconds of whole microseconds.
pub fn ns_from_us(us: u64) -> u64 {
    us.saturating_mul(NS_PER_US)
}

/// A number with commas as thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn nanoseconds_are_rounded_to_the_nearest_microsecond() {
        assert_eq!([499, 500, 1499].map(us_from_ns), [0, 1, 1]);
        // The largest value fits a signed column.
        assert!(i64::try_from(us_from_ns(u64::MAX)).is_ok());
        assert_eq!(ns_from_us(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_unit_is_found_in_the_metadata_again() {
        for unit in Unit::NAMED.into_iter().chain([Unit::None]) {
            let field = unit.of(Field::new("x", DataType::Int64, false));
            assert_eq!(Unit::in_metadata(&field), unit);
        }
    }
}
