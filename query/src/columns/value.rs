//! Values of columns, and what they count.

use std::borrow::Cow;

use trackiops_schemas::time::UtcMs;
use trackiops_schemas::unit::Unit;

/// The value of a column in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'r> {
    /// Not known.
    Null,
    /// Text.
    Text(Cow<'r, str>),
    /// A count.
    Count(u64),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Flag(bool),
    /// A figure.
    Figure(f64),
    /// A point in time.
    Time(UtcMs),
    /// A point in time that is no window's, us since the epoch.
    TimeUs(i64),
    /// A list of the same fields each, as the column's type has them; of what has no fields each is one value.
    List(Vec<Vec<Value<'r>>>),
}

impl<'r> Value<'r> {
    /// Text that is known.
    pub fn text(text: impl Into<Cow<'r, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Text, where it is known.
    pub(super) fn some_text(text: Option<&'r str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// A count, where it is known.
    pub(super) fn some_count(count: Option<u64>) -> Self {
        count.map_or(Self::Null, Self::Count)
    }

    /// A figure to three decimals, where it is known; of a share six.
    pub(super) fn some_figure(figure: Option<f64>, unit: Unit) -> Self {
        let scale = match unit {
            Unit::Share => 1e6,
            _ => 1e3,
        };
        let rounded = figure.map(|figure| (figure * scale).round() / scale);
        rounded.map_or(Self::Null, Self::Figure)
    }

    /// The value with other texts, also those of lists.
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

    /// As a number, where it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Int(int) => Some(*int as f64),
            Self::Figure(figure) => Some(*figure),
            _ => None,
        }
    }
}

/// A rate over the time that was recorded; not known where none was.
pub fn per_second(count: u64, covered_ms: u64) -> Option<f64> {
    (covered_ms > 0).then(|| count as f64 * 1000.0 / covered_ms as f64)
}

/// The part of a whole; not known where there is none.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_divided_by_time_that_was_not_recorded() {
        assert_eq!(per_second(5, 0), None);
        assert_eq!(per_second(5, 500), Some(10.0));
    }
}
