//! Values of columns.

use std::borrow::Cow;

use trackiops_schemas::time::UtcMs;
use trackiops_schemas::unit::Unit;

/// Value of a column in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'r> {
    /// Unknown.
    Null,
    /// Text.
    Text(Cow<'r, str>),
    /// A count.
    Count(u64),
    /// An integer.
    Int(i64),
    /// The key of a file. It is text in JSON, because JSON readers round numbers above 2^53.
    Key(i64),
    /// The number of a file on its server. It is text in JSON, and a signed number in other formats.
    Fileid(u64),
    /// A boolean.
    Flag(bool),
    /// A number in the column's unit.
    Figure(f64),
    /// An exact decimal number: units of its last decimal, and its number of decimals.
    Decimal(i128, u8),
    /// A point in time, ms.
    Time(UtcMs),
    /// A point in time, us since the epoch; the start of a window is [`Self::Time`].
    TimeUs(i64),
    /// Elements of a list. Each has the fields of the column's type, or one value if the type has no fields.
    List(Vec<Vec<Value<'r>>>),
}

impl<'r> Value<'r> {
    /// A known text.
    pub fn text(text: impl Into<Cow<'r, str>>) -> Self {
        Self::Text(text.into())
    }

    /// A text, or `Null`.
    pub fn some_text(text: Option<&'r str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// A count, or `Null`.
    pub fn some_count(count: Option<u64>) -> Self {
        count.map_or(Self::Null, Self::Count)
    }

    /// A figure rounded to three decimals, or a share to six; or `Null`.
    pub fn some_figure(figure: Option<f64>, unit: Unit) -> Self {
        let scale = match unit {
            Unit::Share => 1e6,
            _ => 1e3,
        };
        let rounded = figure.map(|figure| (figure * scale).round() / scale);
        rounded.map_or(Self::Null, Self::Figure)
    }

    /// Applies `map` to all texts, including those in lists.
    pub fn map_texts(self, map: &impl Fn(&str) -> Cow<'_, str>) -> Self {
        match self {
            Self::Text(text) => Self::text(map(&text).into_owned()),
            Self::List(elements) => {
                let of = |element: Vec<Self>| {
                    let values = element.into_iter().map(|value| value.map_texts(map));
                    values.collect()
                };
                Self::List(elements.into_iter().map(of).collect())
            }
            other => other,
        }
    }

    /// The value as a number; `None` if it is not one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Int(int) => Some(*int as f64),
            Self::Figure(figure) => Some(*figure),
            Self::Decimal(units, decimals) => Some(*units as f64 / 10_f64.powi((*decimals).into())),
            _ => None,
        }
    }
}

/// Text of an exact decimal number: `-1.50`.
pub fn decimal_text(units: i128, decimals: u8) -> String {
    let width = usize::from(decimals) + 1;
    let digits = format!("{:0>width$}", units.unsigned_abs());
    let (whole, part) = digits.split_at(digits.len() - usize::from(decimals));
    let sign = if units < 0 { "-" } else { "" };
    match part {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    }
}

/// Rate over the recorded time; `None` if nothing was recorded.
pub fn per_second(count: u64, covered_ms: u64) -> Option<f64> {
    (covered_ms > 0).then(|| count as f64 * 1000.0 / covered_ms as f64)
}

/// Ratio; `None` if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_exactly() {
        for (units, decimals, text) in [
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-150, 2, "-1.50"),
            (1234, 0, "1234"),
            (123_456_789_012_345_678_901, 3, "123456789012345678.901"),
        ] {
            assert_eq!(decimal_text(units, decimals), text);
        }
    }

    #[test]
    fn nothing_is_divided_by_time_that_was_not_recorded() {
        assert_eq!(per_second(5, 0), None);
        assert_eq!(per_second(5, 500), Some(10.0));
    }
}
