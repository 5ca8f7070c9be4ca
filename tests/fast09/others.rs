//! Latencies, xids, sizes, files, joined operations, paths, rates of packets, and calls of clients.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::blocks::Differences;
use super::compare::Printed;
use super::distributions::{self, RANK_ERROR};
use super::edge::csv_rows;
use super::program;
use super::sequentiality::json;
use super::tables::{self, Keyed, number, text};

const MIB: f64 = 1_048_576.0;

/// Compares `server_latency.csv`.
pub fn compare_latency(trace: &Path, file: &Path) -> Differences {
    let found = program::rows(trace, &["latency", "--of=messages"], "latencies");
    let found: Keyed = found
        .iter()
        .map(|row| {
            let key = ["server", "op"].map(|name| text(row, name)).to_vec();
            let numbers = ["n", "duplicated_operations", "mean", "p50", "p90"];
            (key, numbers.map(|name| number(row, name)).to_vec())
        })
        .collect();
    let numbers = [
        "operations",
        "duplicated_operations",
        "mean_ms",
        "p50_ms",
        "p90_ms",
    ];
    let expected = tables::of_csv(file, &["server", "op"], &numbers);
    let ms = Printed::Decimals(3);
    // Times are rounded to ns, so a mean may round to the other side of a tie.
    let printed = [
        Printed::Double,
        Printed::Double,
        Printed::About(0.5e-3 + 2e-6),
        ms,
        ms,
    ];
    tables::compare(&found, &expected, &printed)
}

/// Compares `server_latency.json`.
pub fn compare_missing(trace: &Path, file: &Path) -> Differences {
    let counts = program::rows(trace, &["latency", "--of=messages"], "counts");
    compare_counts(&counts, &json(file), Printed::Decimals(3))
}

/// Compares a table of counts with an object.
pub fn compare_counts(counts: &program::Rows, expected: &Value, printed: Printed) -> Differences {
    let mut differences = Vec::new();
    for (name, expected) in expected.as_object().expect("an object") {
        if let Some(expected) = expected.as_f64() {
            printed.check(
                name,
                program::count(counts, name),
                expected,
                &mut differences,
            );
        }
    }
    differences
}

/// Compares `missing_ops.json`, or an edge case with the size of its batch.
pub fn compare_xids(source: &Path, expected: &Value, batch: Option<u64>) -> Differences {
    let batch = batch.map(|batch| format!("--batch={batch}"));
    let mut args = vec!["xids"];
    args.extend(batch.as_deref());
    let mut differences = compare_counts(
        &program::rows(source, &args, "counts"),
        expected,
        Printed::Double,
    );
    let skipped = program::rows(source, &args, "skipped");
    let found: BTreeMap<_, _> = skipped
        .iter()
        .map(|row| {
            (
                text(row, "op"),
                (row["times"].as_u64(), row["skipped"].as_u64()),
            )
        })
        .collect();
    let expected = expected["skip_after"].as_object().into_iter().flatten();
    let expected: BTreeMap<_, _> = expected
        .map(|(op, of)| (op.clone(), (of["times"].as_u64(), of["skipped"].as_u64())))
        .collect();
    if found != expected {
        differences.push(format!("skipped after {found:?} instead of {expected:?}"));
    }
    differences
}

/// Compares `io_distributions.json`.
pub fn compare_sizes(trace: &Path, file: &Path) -> Differences {
    let mut differences = Vec::new();
    for (name, expected) in json(file).as_object().expect("distributions") {
        let parts = format!("--quantiles={}", distributions::parts(expected));
        let rows = program::rows(trace, &["sizes", &parts], "distributions");
        let row = rows.iter().find(|row| row["what"] == *name);
        let printed = [Printed::Digits(6), Printed::Digits(8)];
        match row {
            Some(row) => distributions::compare(name, row, expected, printed, &mut differences),
            None if expected["n"] == 0 => {}
            None => differences.push(format!("{name} is missing")),
        }
    }
    differences
}

/// Compares `unique_files.json`.
pub fn compare_files(trace: &Path, file: &Path) -> Differences {
    let expected = json(file);
    let args = ["files", "--of=messages"];
    let counts = program::rows(trace, &args, "counts");
    let rows = program::rows(trace, &args, "distributions");
    let mut differences = Vec::new();
    let row = |what: &str| {
        rows.iter()
            .find(|row| row["what"] == what)
            .cloned()
            .unwrap_or_default()
    };
    let own = &expected["own_attributes_only"];
    for (name, expected) in [
        ("files_and_parents", &expected["files"]),
        ("files", &own["files"]),
    ] {
        let expected = expected.as_f64().expect("a number");
        Printed::Double.check(
            name,
            program::count(&counts, name),
            expected,
            &mut differences,
        );
    }
    let with_parents = row("size_with_parents");
    for (what, row, expected) in [
        ("with parents", &with_parents, &expected["size_exact"]),
        ("own", &row("size"), &own["size_exact"]),
    ] {
        distributions::compare(what, row, expected, [Printed::Double; 2], &mut differences);
    }
    let more = program::rows(
        trace,
        &["files", "--of=messages", "--quantiles=10000"],
        "distributions",
    );
    let of_all = more.iter().find(|row| row["what"] == "size_with_parents");
    compare_ranks(
        of_all,
        &expected["size_reference_approximate"],
        &mut differences,
    );
    differences
}

/// Compares approximate quantiles of the reference: their ranks are off by at most [`RANK_ERROR`].
fn compare_ranks(fine: Option<&Value>, expected: &Value, differences: &mut Differences) {
    let fine = distributions::numbers(&fine.cloned().unwrap_or_default()["quantiles"]);
    let step = expected["quantile_step"].as_f64().expect("a step");
    let at = |q: f64| {
        let place = (q * (fine.len() + 1) as f64).round() as usize;
        fine.get(place.saturating_sub(1).min(fine.len().saturating_sub(1)))
            .copied()
            .unwrap_or(f64::NAN)
    };
    for (place, value) in distributions::numbers(&expected["quantiles"])
        .into_iter()
        .enumerate()
    {
        let q = (place + 1) as f64 * step;
        let (low, high) = (at(q - RANK_ERROR), at(q + RANK_ERROR));
        // The value has 8 digits.
        let off = value.abs() * 1e-7;
        if !(low - off <= value && value <= high + off) {
            differences.push(format!(
                "approximate quantile {q}: {value} is not in {low} to {high}"
            ));
        }
    }
}

/// Compares `file_rollup.csv`, `file_op_rollup.csv` and `filesystem_rollup.csv`.
pub fn compare_rollup(trace: &Path, file: &Path) -> Differences {
    let name = file.file_name().expect("a name").to_string_lossy();
    let (by, keys, columns): (_, &[&str], &[&str]) = match &*name {
        "file_rollup.csv" => ("file", &["server", "fh"], &["server", "fh"]),
        "file_op_rollup.csv" => ("op,file", &["server", "op", "fh"], &["server", "op", "fh"]),
        _ => (
            "filesystem",
            &["server", "fs_part_of_fh"],
            &["server", "filesystem"],
        ),
    };
    let found = program::rows(trace, &["operations", "--by", by], "sums");
    let found: Keyed = found
        .iter()
        .map(|row| {
            let key = columns.iter().map(|name| text(row, name)).collect();
            let mib = number(row, "reply_payload_bytes") / MIB;
            (
                key,
                vec![
                    number(row, "operations"),
                    mib,
                    number(row, "mean_latency_us"),
                ],
            )
        })
        .collect();
    let numbers = ["operations", "reply_payload_mib", "mean_latency_us"];
    let expected = tables::of_csv(file, keys, &numbers);
    // Times are rounded to ns.
    let printed = [Printed::Double, Printed::Decimals(3), Printed::About(0.002)];
    tables::compare(&found, &expected, &printed)
}

/// Compares `operations_on_files.csv`, in order: rows of the handles in that file.
pub fn compare_operations(trace: &Path, file: &Path) -> Differences {
    let expected = csv_rows(file);
    let handles: BTreeSet<_> = expected.iter().map(|row| row["fh"].clone()).collect();
    let handles: Vec<_> = handles
        .iter()
        .map(|handle| format!("--handle={handle}"))
        .collect();
    let mut args = vec!["operations"];
    args.extend(handles.iter().map(String::as_str));
    let found = program::rows(trace, &args, "operations");
    let mut differences = Vec::new();
    if found.len() != expected.len() {
        differences.push(format!(
            "{} rows instead of {}",
            found.len(),
            expected.len()
        ));
    }
    for (found, expected) in found.iter().zip(&expected) {
        let known = |name: &str| match &found[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        for name in ["client", "server", "op", "ftype", "fh", "name", "file_size"] {
            if known(name) != expected[name] {
                differences.push(format!(
                    "{name}: {} instead of {}",
                    known(name),
                    expected[name]
                ));
            }
        }
        for (name, printed) in [("end_time_ns", "end_time_s"), ("mtime_ns", "mtime_s")] {
            let ns = found[name].as_i64().unwrap_or_default();
            if (ns - nanoseconds(&expected[printed])).abs() > 1 {
                differences.push(format!("{name}: {ns} instead of {}", expected[printed]));
            }
        }
    }
    differences
}

/// Seconds with nine decimals, in ns.
fn nanoseconds(text: &str) -> i64 {
    text.replacen('.', "", 1).parse().expect("nine decimals")
}

/// Compares `paths.csv`.
pub fn compare_paths(trace: &Path, file: &Path) -> Differences {
    let expected = csv_rows(file);
    let handles: Vec<_> = expected
        .iter()
        .map(|row| format!("--handle={}", row["fh"]))
        .collect();
    let mut args = vec!["paths"];
    args.extend(handles.iter().map(String::as_str));
    let found = program::rows(trace, &args, "paths");
    let differing = expected.iter().zip(&found).filter(|(expected, found)| {
        text(found, "fh") != expected["fh"] || text(found, "path") != expected["path"]
    });
    let mut differences: Vec<_> = differing
        .map(|(expected, found)| format!("{found} instead of {}", expected["path"]))
        .collect();
    if found.len() != expected.len() {
        differences.push(format!(
            "{} paths instead of {}",
            found.len(),
            expected.len()
        ));
    }
    differences
}

/// Compares `packet_rates.json`.
pub fn compare_bursts(trace: &Path, file: &Path) -> Differences {
    let expected = json(file);
    let rates = expected["rates"].as_array().expect("rates");
    let without = distributions::numbers(&expected["windows_without_result_s"]);
    let windows = rates.iter().filter_map(|rate| rate["window_s"].as_f64());
    let mut windows: Vec<_> = windows
        .chain(without.clone())
        .map(|s| (s * 1000.0).round() as u64)
        .collect();
    windows.sort_unstable();
    windows.dedup();
    let windows: Vec<_> = windows.iter().map(|ms| format!("{ms}ms")).collect();
    let windows = format!("--window={}", windows.join(","));
    let args = ["burst", "--of=packets", &windows];
    let found = program::rows(trace, &args, "bursts");
    let mut differences = Vec::new();
    for window_s in without {
        if found
            .iter()
            .any(|row| row["window_s"].as_f64() == Some(window_s))
        {
            differences.push(format!("{window_s} s has a result"));
        }
    }
    for expected in rates {
        let metric = expected["metric"].as_str().expect("a name");
        let name = if metric == "kpps" {
            "thousand packets/s"
        } else {
            metric
        };
        let window = &expected["window_s"];
        let what = format!("{metric} {window}");
        let is_same = |row: &&Value| row["rate"] == name && row["window_s"] == *window;
        let Some(row) = found.iter().find(is_same) else {
            differences.push(format!("{what} is missing"));
            continue;
        };
        Printed::Double.check(
            &what,
            number(row, "step_s"),
            number(expected, "step_s"),
            &mut differences,
        );
        let [reference, exact] = [&expected["reference"], &expected["exact"]];
        if exact.is_null() {
            let printed = [Printed::Digits(6), Printed::Digits(8)];
            distributions::compare(&what, row, reference, printed, &mut differences);
            continue;
        }
        distributions::compare(&what, row, exact, [Printed::Double; 2], &mut differences);
        let fine = program::rows(
            trace,
            &[&args[..], &["--quantiles=10000"]].concat(),
            "bursts",
        );
        compare_ranks(fine.iter().find(is_same), reference, &mut differences);
    }
    differences
}

/// Compares `calls_per_client.csv`.
pub fn compare_calls(trace: &Path, file: &Path) -> Differences {
    const OPS: [&str; 7] = [
        "read", "write", "lookup", "getattr", "access", "create", "remove",
    ];
    let args = ["cube", "--of=messages", "--by=host,direction,op,message"];
    let rows = program::rows(trace, &args, "cube");
    let mut found = Keyed::new();
    let calls = rows.iter().filter(|row| {
        row["direction"] == "send" && row["message"] == "request" && row["host"] != "*"
    });
    for row in calls {
        let numbers = found
            .entry(vec![text(row, "host")])
            .or_insert_with(|| vec![0.0; 9]);
        let (op, count) = (text(row, "op"), number(row, "count"));
        match OPS.iter().position(|known| *known == op) {
            _ if op == "*" => numbers[0] = count,
            Some(place) => {
                numbers[1] += count;
                numbers[2 + place] = count;
            }
            None => {}
        }
    }
    let numbers = [&["calls", "interesting"][..], &OPS].concat();
    let expected = tables::of_csv(file, &["client"], &numbers);
    tables::compare(&found, &expected, &[Printed::Double; 9])
}
