//! Compares distributions.

use serde_json::Value;

use super::compare::Printed;

/// Largest error of ranks that the reference promises.
pub const RANK_ERROR: f64 = 0.005;

/// Number of parts into which the quantiles of an expected distribution divide.
pub fn parts(expected: &Value) -> u64 {
    let step = expected["quantile_step"].as_f64().expect("a step");
    (1.0 / step).round() as u64
}

/// Compares a row of a table of distributions with an expected distribution.
pub fn compare(
    what: &str,
    found: &Value,
    expected: &Value,
    [summary, quantiles]: [Printed; 2],
    differences: &mut Vec<String>,
) {
    if found["n"] != expected["n"] {
        let (found, expected) = (&found["n"], &expected["n"]);
        differences.push(format!("{what} n: {found} instead of {expected}"));
        return;
    }
    for name in ["mean", "stddev", "min", "max"] {
        if let Some(expected) = expected[name].as_f64() {
            let found = found[name].as_f64().unwrap_or(f64::NAN);
            summary.check(&format!("{what} {name}"), found, expected, differences);
        }
    }
    let [found_values, values] = [found, expected].map(|of| numbers(&of["quantiles"]));
    if found_values.len() != values.len() {
        let (found, expected) = (found_values.len(), values.len());
        differences.push(format!("{what}: {found} quantiles instead of {expected}"));
    }
    for (place, (found, expected)) in found_values.iter().zip(&values).enumerate() {
        let what = format!("{what} quantile {}", place + 1);
        quantiles.check(&what, *found, *expected, differences);
    }
    // Not all distributions have tails.
    let tails = expected["tails"]
        .as_array()
        .filter(|tails| !tails.is_empty());
    let Some(tails) = tails else {
        return;
    };
    let found = numbers(&found["tail_percents"])
        .into_iter()
        .zip(numbers(&found["tails"]));
    let found: Vec<_> = found.collect();
    if found.len() != tails.len() {
        let (found, expected) = (found.len(), tails.len());
        differences.push(format!("{what}: {found} tails instead of {expected}"));
    }
    for ((percent, value), expected) in found.into_iter().zip(tails) {
        let expected = numbers(expected);
        Printed::Double.check(&format!("{what} tail"), percent, expected[0], differences);
        let what = format!("{what} tail {percent}");
        quantiles.check(&what, value, expected[1], differences);
    }
}

/// Numbers of a list.
pub fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_f64).collect()
}
