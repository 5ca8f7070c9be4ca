//! Values of a table's row.

use std::fmt::Display;
use std::str::FromStr;

use chrono::DateTime;
use chrono::NaiveDateTime;
use trackiops_schemas::shortened::short_name;

use super::mapping::{Columns, Field, Unit};

/// A row.
pub trait Row {
    /// The value of a column; `None` if it is empty or null.
    fn value(&self, column: usize) -> Option<&str>;
    /// Its position, for messages.
    fn place(&self) -> String;
}

/// Why a value of a row cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}, column `{column}`: {why}")]
pub struct ValueError {
    place: String,
    column: String,
    why: String,
}

/// The fields of a row.
pub struct Values<'a> {
    /// The row.
    pub row: &'a dyn Row,
    /// The columns of the fields.
    pub columns: &'a Columns,
    /// Names of its columns.
    pub header: &'a [String],
}

impl Values<'_> {
    /// The text of a field, if there is one.
    pub fn text(&self, field: Field) -> Option<&str> {
        self.row.value(self.columns.place(field)?.column)
    }

    /// The text of a field that every row must have.
    pub fn needed(&self, field: Field) -> Result<&str, ValueError> {
        self.text(field)
            .ok_or_else(|| self.error(field, &"it is empty"))
    }

    /// An error about a field's value.
    pub fn error(&self, field: Field, why: &dyn Display) -> ValueError {
        let place = self.columns.place(field);
        let column = place.and_then(|place| self.header.get(place.column));
        let column = short_name(column.map_or("", String::as_str));
        ValueError {
            place: self.row.place(),
            column: column.into_owned(),
            why: why.to_string(),
        }
    }

    /// A number, or another value with a text form.
    pub fn parsed<T: FromStr>(&self, field: Field, what: &str) -> Result<Option<T>, ValueError> {
        let Some(text) = self.text(field) else {
            return Ok(None);
        };
        let parsed = text.parse().map(Some);
        parsed.map_err(|_| {
            let text = short_name(text);
            self.error(field, &format!("`{text}` is not {what}"))
        })
    }

    /// A count of bytes or the like.
    pub fn count(&self, field: Field) -> Result<Option<u32>, ValueError> {
        self.parsed(field, "a whole number below 4294967296")
    }

    /// A flag: true or false, 1 or 0.
    pub fn flag(&self, field: Field) -> Result<Option<bool>, ValueError> {
        let Some(text) = self.text(field) else {
            return Ok(None);
        };
        match &*text.to_ascii_lowercase() {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => {
                let text = short_name(text);
                Err(self.error(field, &format!("`{text}` is neither true nor false")))
            }
        }
    }

    /// A time since the epoch.
    pub fn time_ns(&self, field: Field) -> Result<Option<Ns>, ValueError> {
        self.ns(field)
    }

    fn ns(&self, field: Field) -> Result<Option<Ns>, ValueError> {
        let (Some(text), Some(place)) = (self.text(field), self.columns.place(field)) else {
            return Ok(None);
        };
        let ns = match place.unit {
            Unit::Ns(unit) => decimal(text, unit),
            Unit::Rfc3339 => rfc3339(text),
        };
        let text = short_name(text);
        match (ns, place.unit) {
            (Some(ns), _) => Ok(Some(ns)),
            (None, Unit::Ns(_)) => Err(self.error(field, &format!("`{text}` is not a number"))),
            (None, Unit::Rfc3339) => Err(self.error(
                field,
                &format!(
                    "`{text}` is not a date as in RFC 3339; for numbers name the unit in --map, such as time=COLUMN:ms"
                ),
            )),
        }
    }

    /// A non-negative duration, ns.
    pub fn length_ns(&self, field: Field) -> Result<Option<u64>, ValueError> {
        match self.ns(field)? {
            None => Ok(None),
            Some(Err(OutOfRange)) => Err(self.error(field, &"it is longer than 292 years")),
            Some(Ok(ns)) => match u64::try_from(ns) {
                Ok(ns) => Ok(Some(ns)),
                Err(_) => Err(self.error(field, &"it is negative")),
            },
        }
    }
}

/// A time or duration, ns. No store can represent the year 1 or 9999, for example.
pub type Ns = Result<i64, OutOfRange>;

/// A time or duration that does not fit into 64 bits of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// A decimal number of units of `unit` ns.
fn decimal(text: &str, unit: i64) -> Option<Ns> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_negative = whole.starts_with('-');
    let whole: i128 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Further digits are below 1 ns: a unit is 10^9 ns at most.
    let digits = &fraction[..fraction.len().min(9)];
    let scale = 10_i64.pow(digits.len() as u32);
    let part: i64 = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    let part = i128::from(part) * i128::from(unit) / i128::from(scale);
    let whole = whole.saturating_mul(unit.into());
    let ns = match is_negative {
        true => whole.saturating_sub(part),
        false => whole.saturating_add(part),
    };
    Some(i64::try_from(ns).map_err(|_| OutOfRange))
}

/// A date and time; UTC without an offset.
fn rfc3339(text: &str) -> Option<Ns> {
    let with_offset = DateTime::parse_from_rfc3339(text);
    if let Ok(time) = with_offset {
        return Some(time.timestamp_nanos_opt().ok_or(OutOfRange));
    }
    let text = text.replacen(' ', "T", 1);
    let utc = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    Some(utc.and_utc().timestamp_nanos_opt().ok_or(OutOfRange))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(
            decimal("1006231504.285023001", 1_000_000_000),
            Some(Ok(1_006_231_504_285_023_001))
        );
        assert_eq!(decimal("12.5", 1_000), Some(Ok(12_500)));
        assert_eq!(decimal("7.9", 1), Some(Ok(7)));
        assert_eq!(decimal("-1.5", 1_000), Some(Ok(-1_500)));
        assert_eq!(rfc3339("1970-01-01T01:00:00.000000001+01:00"), Some(Ok(1)));
        assert_eq!(rfc3339("1970-01-01 00:00:01"), Some(Ok(1_000_000_000)));
        assert_eq!(decimal("99999999999999999999", 1), Some(Err(OutOfRange)));
        for sentinel in ["0001-01-01T00:00:00Z", "9999-12-31 23:59:59"] {
            assert_eq!(rfc3339(sentinel), Some(Err(OutOfRange)));
        }
        for wrong in ["", "x", "1.x", "1e9"] {
            assert_eq!(decimal(wrong, 1_000_000), None, "{wrong}");
        }
    }
}
