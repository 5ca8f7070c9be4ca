//! Prices, and what usage costs by them: exact decimal arithmetic.

use std::path::Path;

use crate::settings::{Known, NANO_DECIMALS, Settings, SettingsError};
use crate::usage::Usage;

const COUNTS: &[&str] = &["reads", "writes", "metadata"];
const BYTES: &[&str] = &["read", "written"];
const LEVELS: &[&str] = &["iops", "mib_per_second"];

const KNOWN: &[Known] = &[
    Known {
        table: "",
        keys: Some(&["currency", "decimals"]),
    },
    Known {
        table: "per_million",
        keys: Some(COUNTS),
    },
    Known {
        table: "per_gib",
        keys: Some(BYTES),
    },
    Known {
        table: "per_month",
        keys: Some(LEVELS),
    },
    Known {
        table: "free",
        keys: Some(&[
            "reads",
            "writes",
            "metadata",
            "gib_read",
            "gib_written",
            "iops",
            "mib_per_second",
        ]),
    },
];

/// Milliseconds of the month that prices per month are for: 30 days.
pub const MONTH_MS: i128 = 30 * 86_400_000;
const GIB: i128 = 1 << 30;
const MIB: i128 = 1 << 20;
const NANO: i128 = 1_000_000_000;
/// Most decimals of an amount.
const MOST_DECIMALS: u8 = 6;

/// Items of a bill, in the order of the lines of [`Prices`].
pub const LINES: [&str; 7] = [
    "read_requests",
    "write_requests",
    "metadata_operations",
    "read_bytes",
    "write_bytes",
    "iops",
    "throughput",
];

/// One price: for this much of a unit, after a free allowance.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// In billionths of the currency.
    nanos: i128,
    /// Units that the price is for.
    per: i128,
    /// Units that are free of charge in each period.
    free: i128,
}

impl Price {
    /// The amount in the last of `decimals` decimals, rounded half up; `None` if no integer holds it.
    fn of(self, units: i128, decimals: u8) -> Option<i128> {
        let charged = units.saturating_sub(self.free).max(0);
        let scale = 10_i128.pow(u32::from(NANO_DECIMALS - decimals));
        let divisor = self.per.checked_mul(scale)?;
        let amount = charged.checked_mul(self.nanos)?;
        Some(amount.checked_add(divisor / 2)? / divisor)
    }
}

/// The levels that a bill charges: percentiles of a period, and the recorded time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Levels {
    /// Requests per second.
    pub iops: Option<f64>,
    /// Bytes per second.
    pub throughput: Option<f64>,
    /// Recorded time, ms.
    pub recorded_ms: u64,
}

/// A file of prices.
#[derive(Clone, Debug)]
pub struct Prices {
    /// Name of the currency.
    pub currency: String,
    /// Decimals of amounts.
    pub decimals: u8,
    lines: [Price; LINES.len()],
}

impl Prices {
    /// Parses a file; `path` is for messages. An item without a price costs nothing.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let settings = Settings::parse(path, text, KNOWN)?;
        let mistake = |what: &str| SettingsError(vec![format!("{}: {what}", path.display())]);
        let Some(currency) = settings.text("", "currency")? else {
            return Err(mistake(
                "currency is missing; add currency = \"EUR\" or another one",
            ));
        };
        let decimals = settings.nanos("", "decimals")?.unwrap_or(2 * NANO);
        let decimals = match u8::try_from(decimals / NANO) {
            Ok(whole) if decimals % NANO == 0 && whole <= MOST_DECIMALS => whole,
            _ => return Err(mistake("decimals is not a whole number from 0 to 6")),
        };
        // Units: requests for counts, bytes for bytes. For levels: thousandths of IOPS, or bytes per second, each times ms.
        let price = |(table, key): (&str, &str), per: i128, free_key: &str, free_per: i128| {
            let nanos = settings.nanos(table, key)?.unwrap_or(0);
            let free = settings.nanos("free", free_key)?.unwrap_or(0);
            let free = free.saturating_mul(free_per) / NANO;
            Ok::<_, SettingsError>(Price { nanos, per, free })
        };
        let lines = [
            price(("per_million", "reads"), 1_000_000, "reads", 1)?,
            price(("per_million", "writes"), 1_000_000, "writes", 1)?,
            price(("per_million", "metadata"), 1_000_000, "metadata", 1)?,
            price(("per_gib", "read"), GIB, "gib_read", GIB)?,
            price(("per_gib", "written"), GIB, "gib_written", GIB)?,
            price(("per_month", "iops"), 1000 * MONTH_MS, "iops", 1000)?,
            price(
                ("per_month", "mib_per_second"),
                MIB * MONTH_MS,
                "mib_per_second",
                MIB,
            )?,
        ];
        Ok(Self {
            currency: currency.to_owned(),
            decimals,
            lines,
        })
    }

    /// Amounts of a period, in the last decimal, in the order of [`LINES`]; `None` if one is too large. Rounds levels to thousandths of
    /// IOPS and to whole bytes per second before it multiplies.
    pub fn charge(&self, usage: &Usage, levels: Levels) -> Option<[i128; LINES.len()]> {
        let thousandths = |level: Option<f64>| (level.unwrap_or(0.0) * 1000.0).round() as i128;
        let whole = |level: Option<f64>| level.unwrap_or(0.0).round() as i128;
        let units = [
            usage.read_requests.into(),
            usage.write_requests.into(),
            usage.metadata_operations.into(),
            usage.read_bytes.into(),
            usage.write_bytes.into(),
            thousandths(levels.iops),
            whole(levels.throughput),
        ];
        let mut amounts = [0; LINES.len()];
        for (at, units) in units.into_iter().enumerate() {
            let mut price = self.lines[at];
            let is_level = at >= 5;
            let mut charged: i128 = units;
            if is_level {
                charged = charged.saturating_sub(price.free).max(0);
                charged = charged.checked_mul(levels.recorded_ms.into())?;
                price.free = 0;
            }
            amounts[at] = price.of(charged, self.decimals)?;
        }
        Some(amounts)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn prices(text: &str) -> Prices {
        Prices::parse(Path::new("p.toml"), text).unwrap()
    }

    const USAGE: Usage = Usage {
        read_requests: 2_500_000,
        write_requests: 12_345,
        metadata_operations: 1,
        read_bytes: 3 << 30,
        write_bytes: 1,
    };

    #[test]
    fn amounts_are_exact_and_rounded_half_up_once() {
        let prices = prices(
            "currency = \"EUR\"\n[per_million]\nreads = 0.41\nwrites = 100\nmetadata = 5000\n[per_gib]\nread = 0.1\nwritten = 1\n",
        );
        let amounts = prices.charge(&USAGE, Levels::default()).unwrap();
        // 1.025 is 1.03; 1.2345 is 1.23; half a cent is a cent.
        assert_eq!(amounts, [103, 123, 1, 30, 0, 0, 0]);
    }

    #[test]
    fn levels_are_by_the_month_and_after_what_is_free() {
        let prices = prices(
            "currency = \"EUR\"\ndecimals = 3\n[per_month]\niops = 0.3\nmib_per_second = 3\n[free]\niops = 100\nmib_per_second = 0.5\nreads = 5000000\n[per_million]\nreads = 1",
        );
        let levels = Levels {
            iops: Some(1100.0),
            throughput: Some(1_572_864.0),
            recorded_ms: 864_000_000,
        };
        // A third of a month: 1000 IOPS at 0.3, and 1 MiB/s at 3.
        let amounts = prices.charge(&USAGE, levels).unwrap();
        assert_eq!(amounts, [0, 0, 0, 0, 0, 100_000, 1000]);
        let little = Levels {
            iops: Some(99.0),
            ..levels
        };
        assert_eq!(prices.charge(&USAGE, little).unwrap()[5], 0);
    }

    #[test]
    fn a_file_without_a_currency_or_with_what_is_unknown_is_refused() {
        let error = |text: &str| {
            Prices::parse(Path::new("p.toml"), text)
                .unwrap_err()
                .to_string()
        };
        assert!(error("").contains("currency is missing"));
        assert!(error("currency = 'EUR'\ndecimals = 2.5").contains("decimals"));
        assert!(
            error("currency = 'EUR'\n[per_milion]\nreads = 1")
                .contains("did you mean per_million?")
        );
        assert!(error("currency = 'EUR'\n[free]\nread = 1").contains("did you mean reads?"));
    }

    #[test]
    fn what_no_integer_holds_is_no_amount() {
        let prices = prices("currency = \"EUR\"\n[per_million]\nreads = 1000000000");
        let usage = Usage {
            read_requests: u64::MAX,
            ..USAGE
        };
        assert!(prices.charge(&usage, Levels::default()).is_some());
        let prices = self::prices("currency = \"EUR\"\n[per_month]\nmib_per_second = 1000000000");
        let levels = Levels {
            throughput: Some(1e18),
            recorded_ms: 1 << 40,
            iops: None,
        };
        assert!(prices.charge(&usage, levels).is_none());
    }
}
