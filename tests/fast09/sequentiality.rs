//! Sequentiality: `sequentiality_<order>[_<slop>].json` of the paper's tool, `derived/requests_sequentiality_..._<size>_gap<N>.json`, and
//! edge cases.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

use super::blocks::Differences;
use super::compare::Printed;
use super::{distributions, program};

/// Flags for a file name: `overlapping_10ms_no_size_gap30`.
fn flags(name: &str) -> Vec<String> {
    let mut flags = Vec::new();
    let mut flag = |name: &str, value: &str| flags.push(format!("--{name}={value}"));
    let mut words = name.split('_');
    match words.next() {
        Some("request") => flag("order", "request"),
        Some("reply") => flag("order", "reply"),
        Some("overlapping") => {
            flag("order", "overlap");
            flag(
                "slop",
                words.next().expect("a slop").trim_start_matches('_'),
            );
        }
        other => panic!("{other:?} is no order"),
    }
    let rest: Vec<_> = words.collect();
    let gap = rest.iter().find_map(|word| word.strip_prefix("gap"));
    if let Some(gap) = gap {
        flag("gap", &format!("{gap}s"));
    }
    if rest.windows(2).any(|pair| pair == ["no", "size"]) {
        flags.push("--ignore-sizes".to_owned());
    }
    flags
}

/// The program's name of a value.
fn metric(name: &str) -> String {
    name.to_lowercase().replace(' ', "_")
}

/// Compares with a file of expected distributions.
pub fn compare(trace: &Path, file: &Path) -> Differences {
    let stem = file.file_stem().expect("a name").to_string_lossy();
    let (kind, options) = stem.split_once("sequentiality_").expect("the kind");
    let printed = match kind {
        "" => [Printed::Digits(6), Printed::Digits(8)],
        _ => [Printed::Double; 2],
    };
    let expected: Value =
        serde_json::from_reader(BufReader::new(File::open(file).expect("it opens")))
            .expect("it is JSON");
    let flags = flags(options);
    let mut args = vec!["sequentiality"];
    args.extend(flags.iter().map(String::as_str));
    compare_with(&trace.join("requests.parquet"), &args, &expected, printed)
}

fn compare_with(
    source: &Path,
    args: &[&str],
    expected: &Value,
    printed: [Printed; 2],
) -> Differences {
    let mut differences = Vec::new();
    let counts = program::rows(source, args, "counts");
    for (what, name) in [
        ("reordered", "reordered"),
        ("operations", "requests"),
        ("unknown_file_size", "unknown_file_size"),
    ] {
        if let Some(expected) = expected[what].as_f64() {
            Printed::Double.check(
                what,
                program::count(&counts, name),
                expected,
                &mut differences,
            );
        }
    }
    let found = program::rows(source, args, "distributions");
    let all = expected["distributions"]
        .as_object()
        .expect("distributions");
    let known = all.iter().filter(|(_, of)| of["n"].as_u64() != Some(0));
    let mut names: Vec<_> = known.clone().map(|(name, _)| metric(name)).collect();
    for (name, expected) in known {
        match found.iter().find(|row| row["metric"] == metric(name)) {
            Some(row) => {
                distributions::compare(name, row, expected, printed, &mut differences);
            }
            None => differences.push(format!("{name} is missing")),
        }
    }
    names.sort();
    let mut found_names: Vec<_> = found
        .iter()
        .map(|row| row["metric"].as_str().unwrap().to_owned())
        .collect();
    found_names.sort();
    if names != found_names {
        differences.push(format!("values of {found_names:?} instead of {names:?}"));
    }
    differences
}

/// Compares an edge case, whose values are few and listed one by one.
pub fn compare_edge(source: &Path, order: &str, expected: &Value) -> Differences {
    let flags = flags(order);
    // Divisible by all small numbers of values, so each value is a quantile.
    const PARTS: usize = 2520;
    let quantiles = format!("--quantiles={PARTS}");
    let mut args = vec!["sequentiality", &quantiles];
    args.extend(flags.iter().map(String::as_str));
    let mut differences = Vec::new();
    let counts = program::rows(source, &args, "counts");
    for what in ["reordered", "unknown_file_size"] {
        let expected = expected[what].as_f64().expect("a number");
        Printed::Double.check(
            what,
            program::count(&counts, what),
            expected,
            &mut differences,
        );
    }
    let found = program::rows(source, &args, "distributions");
    let all = expected["values"].as_object().expect("values");
    if found.len() != all.len() {
        differences.push(format!("{} values instead of {}", found.len(), all.len()));
    }
    for (name, expected) in all {
        let mut expected = distributions::numbers(expected);
        expected.sort_by(f64::total_cmp);
        let row = found.iter().find(|row| row["metric"] == metric(name));
        let found = row.map(|row| {
            let quantiles = distributions::numbers(&row["quantiles"]);
            let count = row["n"].as_u64().expect("a count") as usize;
            assert_eq!(PARTS % count, 0, "{count} values");
            let places = (1..count).map(|rank| quantiles[rank * PARTS / count - 1]);
            places.chain(row["max"].as_f64()).collect::<Vec<_>>()
        });
        if found.as_ref() != Some(&expected) {
            differences.push(format!("{name}: {found:?} instead of {expected:?}"));
        }
    }
    differences
}

/// Reads a file of JSON.
pub fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("it can be read");
    serde_json::from_str(&text).expect("it is JSON")
}
