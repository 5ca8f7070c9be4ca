//! Parses numbers with units: `20ms`, `1.5GiB`, `5%`.

use std::fmt::{self, Display};

use crate::column::Unit;

/// A number and the unit after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Literal {
    pub(crate) number: f64,
    /// One of [`UNITS`]; `None` stands for the unit of the column.
    pub(crate) unit: Option<&'static str>,
}

/// The quantity of a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measures {
    Time,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Share,
}

/// Units, their quantities, and their size in the unit that columns use. A single letter is binary, as in dd, du and qemu.
pub(crate) const UNITS: [(&str, Measures, f64); 30] = [
    ("ns", Measures::Time, 1e-3),
    ("us", Measures::Time, 1.0),
    ("ms", Measures::Time, 1e3),
    ("s", Measures::Time, 1e6),
    ("min", Measures::Time, 60e6),
    ("B", Measures::Bytes, 1.0),
    ("KiB", Measures::Bytes, 1024.0),
    ("MiB", Measures::Bytes, 1_048_576.0),
    ("GiB", Measures::Bytes, 1_073_741_824.0),
    ("TiB", Measures::Bytes, 1_099_511_627_776.0),
    ("K", Measures::Bytes, 1024.0),
    ("M", Measures::Bytes, 1_048_576.0),
    ("G", Measures::Bytes, 1_073_741_824.0),
    ("T", Measures::Bytes, 1_099_511_627_776.0),
    ("kB", Measures::Bytes, 1e3),
    ("MB", Measures::Bytes, 1e6),
    ("GB", Measures::Bytes, 1e9),
    ("TB", Measures::Bytes, 1e12),
    ("B/s", Measures::BytesPerSecond, 1.0),
    ("KiB/s", Measures::BytesPerSecond, 1024.0),
    ("MiB/s", Measures::BytesPerSecond, 1_048_576.0),
    ("GiB/s", Measures::BytesPerSecond, 1_073_741_824.0),
    ("K/s", Measures::BytesPerSecond, 1024.0),
    ("M/s", Measures::BytesPerSecond, 1_048_576.0),
    ("G/s", Measures::BytesPerSecond, 1_073_741_824.0),
    ("kB/s", Measures::BytesPerSecond, 1e3),
    ("MB/s", Measures::BytesPerSecond, 1e6),
    ("GB/s", Measures::BytesPerSecond, 1e9),
    ("/s", Measures::PerSecond, 1.0),
    ("%", Measures::Share, 0.01),
];

impl Measures {
    /// Whether a column in `unit` accepts it. Bytes are also valid for throughput, because the column implies "per
    /// second".
    fn fits(self, unit: Unit) -> bool {
        match unit {
            Unit::Microseconds => self == Self::Time,
            Unit::Bytes => self == Self::Bytes,
            Unit::BytesPerSecond => matches!(self, Self::Bytes | Self::BytesPerSecond),
            Unit::PerSecond => self == Self::PerSecond,
            Unit::Share => self == Self::Share,
            // Only reports have these columns, and conditions do not apply to their rows.
            Unit::Ratio
            | Unit::Joules
            | Unit::KilowattHours
            | Unit::Grams
            | Unit::GramsPerKilowattHour => false,
            Unit::Count | Unit::Milliseconds | Unit::Nanoseconds | Unit::None => false,
        }
    }
}

impl Literal {
    /// The number in the base unit of its quantity.
    pub(crate) fn scaled(self) -> f64 {
        let of_unit = UNITS.iter().find(|(name, ..)| Some(*name) == self.unit);
        of_unit.map_or(self.number, |(.., scale)| self.number * scale)
    }

    /// The number in the unit of a column; `None` if it measures another quantity.
    pub(crate) fn number_in(self, unit: Unit) -> Option<f64> {
        let Some(written) = self.unit else {
            return Some(self.number);
        };
        let (_, measures, scale) = UNITS.iter().find(|(name, ..)| *name == written)?;
        measures.fits(unit).then(|| self.number * scale)
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.unit.unwrap_or_default())
    }
}

/// Finds a unit. Falls back to a match that ignores case.
pub(crate) fn unit(written: &str) -> Option<&'static str> {
    let plain = written.replace(['\u{b5}', '\u{3bc}'], "u");
    let exact = UNITS.iter().find(|(name, ..)| *name == plain);
    let alike = || {
        UNITS
            .iter()
            .find(|(name, ..)| name.eq_ignore_ascii_case(&plain))
    };
    exact.or_else(alike).map(|(name, ..)| *name)
}

/// Length in bytes of the number at the start of the text: digits, a point, an exponent.
pub(crate) fn number_length(text: &str) -> usize {
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = |from: usize| {
        let rest = &text[from..];
        from + rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())
    };
    let mut end = digits(sign);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let signed = usize::from(text[end + 1..].starts_with(['-', '+']));
        let exponent = digits(end + 1 + signed);
        if exponent > end + 1 + signed {
            end = exponent;
        }
    }
    end
}

/// The text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a size: write a number of bytes or a number and a unit, such as 4096, 10MiB, 1.5GiB or 20GB \
     (a letter alone is binary: 10M is 10MiB)"
)]
pub struct SizeError(String);

/// Parses a size in bytes: `4096`, `10MiB`, `1.5GiB`, `20GB`, `10M`.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let refused = || SizeError(text.to_owned());
    let written = text.trim();
    let (number, rest) = written.split_at(number_length(written));
    let number = number.parse().map_err(|_| refused())?;
    let unit = match rest.trim_start() {
        "" => None,
        rest => Some(unit(rest).ok_or_else(refused)?),
    };
    let bytes = Literal { number, unit }.number_in(Unit::Bytes);
    let bytes = bytes.ok_or_else(refused)?.round();
    // `u64::MAX as f64` rounds up to 2^64; the exclusive range keeps only values that fit.
    match (0.0..u64::MAX as f64).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_decimal_or_bytes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("512B", 512),
            ("20GB", 20_000_000_000),
            ("20GiB", 20 << 30),
            ("10M", 10 << 20),
            ("10MiB", 10 << 20),
            ("10mb", 10_000_000),
            ("64 K", 64 << 10),
            ("1T", 1 << 40),
            ("1.5GiB", 3 << 29),
            (" 1e6 ", 1_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_examples() {
        for text in [
            "",
            "MiB",
            "-1",
            "1e400",
            "99999999999999999999G",
            "10 parsec",
            "10ms",
            "5%",
            "1MiB/s",
            "nan",
            "1_000",
            "64MiB 3",
        ] {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("1.5GiB"),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn whole_sizes_are_exact(number in 0_u64..1 << 20, place in 0_usize..5) {
            let (unit, scale) = [("", 1), ("K", 1 << 10), ("MiB", 1 << 20), ("GB", 1_000_000_000), ("kB", 1000)][place];
            prop_assert_eq!(parse_size(&format!("{number}{unit}")), Ok(number * scale));
        }

        #[test]
        fn no_text_is_too_strange(text in any::<String>()) {
            let _ = parse_size(&text);
        }
    }
}
