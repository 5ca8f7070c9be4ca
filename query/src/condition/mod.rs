//! Conditions on rows: `read_p99 > 20ms and read_requests >= 100`.

mod parser;

use std::fmt::{self, Display};

use crate::column::{Column, ColumnError, Columns, Record, Unit};
use crate::literal::Literal;

/// A parsed condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// All of these must hold.
    All(Vec<Condition>),
    /// At least one of these must hold.
    Any(Vec<Condition>),
    /// Compares a column with a value.
    Compare {
        /// Name of the column, long or short.
        column: String,
        /// The comparison.
        operator: Operator,
        /// The value.
        value: Literal,
    },
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=` or `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl Operator {
    /// Longer ones first, because the parser takes the first match. `Display` takes the last text of an operator, so it
    /// writes `=`.
    const ALL: [(&'static str, Self); 7] = [
        (">=", Self::GreaterOrEqual),
        ("<=", Self::LessOrEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        (">", Self::Greater),
        ("<", Self::Less),
        ("=", Self::Equal),
    ];

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = Self::ALL
            .iter()
            .rev()
            .find(|(_, operator)| operator == self);
        f.write_str(written.map_or("", |(text, _)| text))
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, between) = match self {
            Self::Compare {
                column,
                operator,
                value,
            } => return write!(f, "{column} {operator} {value}"),
            Self::All(parts) => (parts, " and "),
            Self::Any(parts) => (parts, " or "),
        };
        for (i, part) in parts.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { between })?;
            match part {
                Self::Compare { .. } => write!(f, "{part}")?,
                _ => write!(f, "({part})")?,
            }
        }
        Ok(())
    }
}

/// Why a condition is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// A part is missing.
    #[error(
        "`{text}`: {missing} is missing {place}; write a comparison such as `read_p99 > 20ms`, several with `and`, `or` and brackets"
    )]
    Syntax {
        /// The whole text.
        text: String,
        /// The missing part.
        missing: &'static str,
        /// The place, as text.
        place: String,
    },
    /// A number has an unknown unit.
    #[error(
        "`{text}`: there is no unit `{unit}`; times are in us, ms, s, bytes in KiB, MiB, GiB or kB, MB, GB, throughput in these with /s, \
         shares in %"
    )]
    Unit {
        /// The whole text.
        text: String,
        /// The unit.
        unit: String,
    },
    /// A number is too large for a float.
    #[error("`{text}`: {number} is too large; write a smaller number")]
    TooLarge {
        /// The whole text.
        text: String,
        /// The number with its unit, as written.
        number: String,
    },
    /// Brackets are nested too deeply.
    #[error("`{0}`: there are too many brackets in each other")]
    TooDeep(String),
    /// The column is unknown or has no numbers.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// The unit does not fit the column.
    #[error("`{value}` does not fit {column}, which {has}")]
    Misfit {
        /// The value.
        value: String,
        /// The column.
        column: String,
        /// Values that the column accepts.
        has: &'static str,
    },
}

impl Condition {
    /// Names of the compared columns, long or short.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Compare { column, .. } => vec![column],
        }
    }
}

/// A condition bound to the columns of one kind of row.
#[derive(Clone, Debug)]
pub(crate) enum Bound<R> {
    All(Vec<Bound<R>>),
    Any(Vec<Bound<R>>),
    Compare(Column<R>, Operator, f64),
}

impl<R: Record> Bound<R> {
    /// Looks up the columns. Fails for unknown columns, columns without numbers, and units that do not fit.
    pub(crate) fn new(condition: &Condition) -> Result<Self, ConditionError> {
        let parts =
            |parts: &[Condition]| -> Result<Vec<_>, _> { parts.iter().map(Self::new).collect() };
        match condition {
            Condition::All(conditions) => Ok(Self::All(parts(conditions)?)),
            Condition::Any(conditions) => Ok(Self::Any(parts(conditions)?)),
            Condition::Compare {
                column,
                operator,
                value,
            } => {
                let column = Columns::<R>::number(column)?;
                let Some(number) = value.number_in(column.unit) else {
                    return Err(ConditionError::Misfit {
                        value: value.to_string(),
                        has: takes(column.unit),
                        column: column.name,
                    });
                };
                Ok(Self::Compare(column, *operator, number))
            }
        }
    }

    /// Whether a row meets the condition. Unknown values never match.
    pub(crate) fn holds(&self, row: &R) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(row)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(row)),
            Self::Compare(column, operator, right) => {
                let left = column.value(row).number();
                left.is_some_and(|left| operator.holds(left, *right))
            }
        }
    }

    /// Calls `each` with every compared column.
    pub(crate) fn columns<'b>(&'b self, each: &mut dyn FnMut(&'b Column<R>)) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.columns(each));
            }
            Self::Compare(column, ..) => each(column),
        }
    }
}

/// Text about the values that a column accepts.
fn takes(unit: Unit) -> &'static str {
    match unit {
        Unit::Microseconds => "is a time: write 20ms, 450us or 1.5s",
        Unit::Bytes => "is bytes: write 64KiB, 10MB or 4096",
        Unit::BytesPerSecond => "is bytes per second: write 10MiB/s or 1e6",
        Unit::PerSecond => "is a rate per second: write 100 or 100/s",
        Unit::Share => "is a share: write 25% or 0.25",
        Unit::Ratio
        | Unit::Joules
        | Unit::KilowattHours
        | Unit::Grams
        | Unit::GramsPerKilowattHour => "has no units here: write a plain number",
        Unit::Count | Unit::Milliseconds | Unit::Nanoseconds | Unit::None => {
            "is a count: write a number alone"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::UNITS;
    use proptest::prelude::*;
    use trackiops_schemas::row::Row;
    use trackiops_schemas::time::UtcMs;

    use crate::answer::AnswerRow;
    use crate::group::Entity;
    use crate::lost::Lost;

    /// A row of 10 reads of 4096 bytes, 1 to 10 ms each, in 2 s.
    fn row() -> AnswerRow {
        let mut row = Row::default();
        for ms in 1..=10 {
            row.read.requests += 1;
            row.read.bytes += 4096;
            row.read.latency_ns_sum += ms * 1_000_000;
            row.read.latency.record(ms * 1_000_000);
        }
        AnswerRow {
            time: UtcMs(0),
            host: "h".into(),
            of: Entity::Host(0),
            volume: None,
            file: None,
            tenant: Default::default(),
            level: Default::default(),
            sum: row.into(),
            has_both_sides: true,
            lost: Lost::default(),
            covered_ms: 2000,
        }
    }

    fn bound(text: &str) -> Result<Bound<AnswerRow>, ConditionError> {
        Bound::new(&text.parse()?)
    }

    #[test]
    fn comparisons_hold_or_do_not() {
        for (text, expected) in [
            ("read_requests = 10", true),
            ("read_requests != 10", false),
            ("read_requests>9 and read_requests<11", true),
            ("read_mean == 5.5ms", true),
            ("read_mean > 5 ms", true),
            ("read_mean >= 5.5e3", true),
            ("read_p99 > 0.011s", false),
            ("read_p99 <= 10.2ms AND read_p99 > 9.8ms", true),
            ("read_throughput >= 20KiB/s", true),
            ("read_throughput >= 20kib", true),
            ("read_bytes = 40 KiB", true),
            ("read_bytes < 41kB", true),
            ("r-iops <= 5/s", true),
            ("read_untimed_share < 1%", true),
            ("read_untimed_share >= 0.5", false),
            // There were no writes: their latency is unknown, so it never matches.
            ("write_p99 > 0 or write_p99 <= 0", false),
            ("write_p99 != 1ms", false),
            (
                "write_requests = 0 and (read_errors > 0 or bytes > 1)",
                true,
            ),
            (
                "write_requests = 0 && read_errors > 0 || requests > 1",
                true,
            ),
            (
                "write_requests > 0 and read_errors = 0 or requests = 1",
                false,
            ),
        ] {
            let bound = bound(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(bound.holds(&row()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_condition_is_told_where_and_why() {
        for (text, words) in [
            ("", "a column is missing at the end"),
            ("read_p99", "one of > >= < <= = != is missing at the end"),
            ("read_p99 >", "a number is missing at the end"),
            ("read_p99 > ms", "a number is missing before `ms`"),
            (
                "read_p99 > 20ms read_p50 > 1ms",
                "`and` or `or` is missing before `read_p50 > 1ms`",
            ),
            ("(read_p99 > 20ms", "`)` is missing at the end"),
            ("read_p99 > 20ms)", "`and` or `or` is missing before `)`"),
            (
                "20ms < read_p99",
                "a column is missing before `20ms < read_p99`",
            ),
            ("read_p99 > 20parsec", "there is no unit `parsec`"),
            ("read_p99 > 20MiB", "is a time: write 20ms"),
            ("read_bytes > 20ms", "is bytes"),
            ("read_requests > 20%", "is a count"),
            ("read_p98 > 20ms", "did you mean"),
            ("path = 3", "is no number"),
            ("requests > 1e999", ": 1e999 is too large"),
            ("requests < -1e999", ": -1e999 is too large"),
            ("bytes > 1e308 TB or bytes > 1", ": 1e308TB is too large"),
        ] {
            let error = bound(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let deep = format!("{}read_p99 > 1{}", "(".repeat(99), ")".repeat(99));
        assert_eq!(
            deep.parse::<Condition>(),
            Err(ConditionError::TooDeep(deep.clone()))
        );
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        let units: Vec<_> = UNITS.iter().map(|(name, ..)| *name).collect();
        let value = (
            0_u32..1_000_000,
            prop::option::of(prop::sample::select(units)),
        );
        let operators: Vec<_> = Operator::ALL
            .iter()
            .map(|(_, operator)| *operator)
            .collect();
        let compare = ("[a-z_]{1,9}", prop::sample::select(operators), value);
        let compare =
            compare.prop_filter("a word", |(column, ..)| column != "and" && column != "or");
        let compare = compare.prop_map(|(column, operator, (number, unit))| Condition::Compare {
            column,
            operator,
            value: Literal {
                number: f64::from(number) / 8.0,
                unit,
            },
        });
        compare.prop_recursive(4, 24, 4, |inner| {
            let parts = || prop::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                parts().prop_map(Condition::All),
                parts().prop_map(Condition::Any)
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(condition in conditions()) {
            prop_assert_eq!(condition.to_string().parse(), Ok(condition));
        }

        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            let _ = text.parse::<Condition>();
        }

        #[test]
        fn no_text_of_its_own_words_is_too_strange(
            words in prop::collection::vec(prop::sample::select(vec!["(", ")", "and", "or", "p9", ">", "=", "1", "e", ".", "ms", "%", " ", "é"]), 0..12)
        ) {
            let _ = words.concat().parse::<Condition>();
        }
    }
}
