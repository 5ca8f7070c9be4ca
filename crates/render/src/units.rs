//! Numbers in readable units.

use trackiops_schemas::unit::Unit;

/// Formats a number of a unit.
pub fn show(unit: Unit, number: f64) -> String {
    match unit {
        Unit::None | Unit::Count => format!("{number:.0}"),
        Unit::Bytes => bytes(number.round() as u64),
        Unit::BytesPerSecond => bytes_per_second(number),
        Unit::PerSecond => rate(number),
        Unit::Milliseconds => latency(number * 1e3),
        Unit::Microseconds => latency(number),
        Unit::Nanoseconds => latency(number / 1e3),
        Unit::Share => share(number),
        Unit::Ratio => format!("{number:.2}"),
        Unit::Joules => scaled(
            number,
            &[(1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")],
        ),
        Unit::KilowattHours => scaled(
            number,
            &[(1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"), (1e-6, "mWh")],
        ),
        Unit::Grams => scaled(number, &[(1e6, "t"), (1e3, "kg"), (1.0, "g"), (1e-3, "mg")]),
        Unit::GramsPerKilowattHour => scaled(number, &[(1.0, "g/kWh")]),
    }
}

/// A number of things: `1 row`, `2 rows`.
pub fn plural(n: u64, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Three significant digits for numbers from 1 on; all digits of a longer integer part.
fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The value in the largest unit that does not exceed it.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let at_least_one = units.iter().find(|(scale, _)| value >= *scale);
    match at_least_one.or(units.last()) {
        Some((scale, unit)) => format!("{} {unit}", three_digits(value / scale)),
        None => three_digits(value),
    }
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * 1024.0;
const GIB: f64 = MIB * 1024.0;
const TIB: f64 = GIB * 1024.0;

/// Formats requests per second.
pub fn rate(per_second: f64) -> String {
    three_digits(per_second)
}

/// Formats a number of bytes.
pub fn bytes(count: u64) -> String {
    if (count as f64) < KIB {
        return format!("{count} B");
    }
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    scaled(count as f64, &units)
}

/// Formats bytes per second.
pub fn bytes_per_second(per_second: f64) -> String {
    let units = [(GIB, "GiB/s"), (MIB, "MiB/s"), (KIB, "KiB/s"), (1.0, "B/s")];
    scaled(per_second, &units)
}

/// Formats a latency in us.
pub fn latency(us: f64) -> String {
    scaled(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// Formats any time in us, from nanoseconds to hours, for the marks of an axis.
pub fn time(us: f64) -> String {
    let units = [
        (3.6e9, "h"),
        (6e7, "min"),
        (1e6, "s"),
        (1e3, "ms"),
        (1.0, "us"),
        (1e-3, "ns"),
    ];
    scaled(us, &units)
}

/// Formats a share from 0 to 1.
pub fn share(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough_and_units_fit() {
        assert_eq!(
            [rate(0.0421), rate(9.999), rate(99.96), rate(12_345.6)],
            ["0.04", "10.0", "100", "12346"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(5 << 40)],
            ["0 B", "1023 B", "1.00 KiB", "5.00 TiB"]
        );
        assert_eq!(
            [bytes_per_second(0.5), bytes_per_second(1.5e6)],
            ["0.50 B/s", "1.43 MiB/s"]
        );
        assert_eq!(
            [
                latency(0.3),
                latency(450.0),
                latency(12_345.0),
                latency(2.5e6)
            ],
            ["0.30 us", "450 us", "12.3 ms", "2.50 s"]
        );
        let marks = [0.001, 0.25, 512.0, 67_108_864.0, 7.2e9];
        assert_eq!(
            marks.map(time),
            ["1.00 ns", "250 ns", "512 us", "1.12 min", "2.00 h"]
        );
    }
}
