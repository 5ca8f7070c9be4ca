//! Host cubes, rates and packet cubes, and the tables and figures derived from them.

use std::path::Path;

use serde_json::Value;

use super::blocks::Differences;
use super::compare::Printed;
use super::distributions;
use super::edge::{CsvRow, csv_rows};
use super::program::{self, Rows};
use super::sequentiality::json;
use super::tables::{self, Keyed, decimals, number, text};

const HOST_AXES: [&str; 5] = ["host", "time", "direction", "op", "message"];
const PACKET_AXES: [&str; 5] = ["src_ip", "src_port", "dst_ip", "dst_port", "transport"];
const MIB: f64 = 1_048_576.0;
/// With this many decimals, numbers are exact.
const MANY_DECIMALS: i32 = 9;

/// Seconds of `host_cube_2s`.
fn seconds(file: &Path) -> String {
    let stem = file.file_stem().expect("a name").to_string_lossy();
    let last = stem.rsplit('_').next().expect("a word");
    last.strip_suffix('s').expect("seconds").to_owned()
}

/// Flags that omit rows that an expected cube lacks.
fn pruning(rows: &[CsvRow]) -> Vec<String> {
    let axes: Vec<_> = HOST_AXES
        .into_iter()
        .filter(|axis| rows[0].contains_key(*axis))
        .collect();
    let is_named = |row: &CsvRow, axis: &str| row[axis] != "*";
    let is_partial = |row: &&CsvRow| axes.iter().any(|axis| !is_named(row, axis));
    let partial: Vec<_> = rows.iter().filter(is_partial).collect();
    let mut flags = Vec::new();
    for axis in ["host", "time"]
        .into_iter()
        .filter(|axis| axes.contains(axis))
    {
        let named: Vec<_> = partial.iter().filter(|row| is_named(row, axis)).collect();
        let others = || {
            axes.iter()
                .filter(|other| **other != axis && **other != "time")
        };
        let has_detail = named
            .iter()
            .any(|row| others().any(|other| is_named(row, other)));
        if named.is_empty() {
            flags.push(format!("--only-whole={axis}"));
        } else if axis == "host" && !has_detail {
            flags.push(format!("--alone={axis}"));
        }
    }
    flags
}

fn printed(rows: &[CsvRow], name: &str) -> Printed {
    match decimals(rows, name) {
        many if many >= MANY_DECIMALS => Printed::Double,
        few => Printed::Decimals(few),
    }
}

/// Compares `host_cube_<g>s.csv`.
pub fn compare_cube(trace: &Path, file: &Path) -> Differences {
    let rows = csv_rows(file);
    let interval = format!("--interval={}", seconds(file));
    let flags = pruning(&rows);
    let mut args = vec![
        "cube",
        "--of=messages",
        "--by=host,time,direction,op,message",
        &interval,
    ];
    args.extend(flags.iter().map(String::as_str));
    let found = program::rows(trace, &args, "cube");
    let found: Keyed = found
        .iter()
        .map(|row| {
            let key = HOST_AXES.map(|axis| text(row, axis)).to_vec();
            (key, vec![number(row, "count"), number(row, "mean_bytes")])
        })
        .collect();
    let expected = tables::of_csv(file, &HOST_AXES, &["count", "mean_payload_bytes"]);
    let printed = [Printed::Double, printed(&rows, "mean_payload_bytes")];
    tables::compare(&found, &expected, &printed)
}

/// Compares `host_cube_<g>s.json`: counts of the cube's content.
pub fn compare_cube_counts(trace: &Path, file: &Path) -> Differences {
    let expected = json(file);
    let interval = format!("--interval={}", seconds(file));
    let axes = "--by=host,time,direction,op,message";
    let cube = program::rows(trace, &["cube", "--of=messages", axes, &interval], "counts");
    let rates = program::rows(trace, &["rates", "--of=messages", &interval], "counts");
    let s = expected["group_seconds"].as_f64().expect("seconds");
    let mut differences = Vec::new();
    for (name, found) in [
        ("times", program::count(&cube, "values of time")),
        ("hosts", program::count(&cube, "values of host")),
        ("operations", program::count(&cube, "values of op")),
        (
            "complete_groups",
            program::count(&rates, "complete_intervals"),
        ),
        ("empty_groups", program::count(&rates, "empty_intervals")),
        ("first_group", program::count(&rates, "first_interval")),
        ("last_group", program::count(&rates, "last_interval")),
    ] {
        let expected = expected[name].as_f64().expect("a number");
        Printed::Double.check(name, found, expected, &mut differences);
    }
    if seconds(file).parse() != Ok(s as u64) {
        differences.push(format!("{s} is not the length in the name of the file"));
    }
    differences
}

/// Compares `host_rates_<g>s.csv` and `host_rate_quantiles_<g>s.csv`.
pub fn compare_rates(trace: &Path, file: &Path) -> Differences {
    let rows = csv_rows(file);
    let interval = format!("--interval={}", seconds(file));
    let flags = pruning(&rows);
    // No row of rates is always present.
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let axes =
        match flags.contains(&"--only-whole=host") || rows.iter().all(|row| row["host"] == "*") {
            true => "--by=direction,op,message",
            false => "--by=host,direction,op,message",
        };
    let mut args = vec!["rates", "--of=messages", axes, &interval];
    args.extend(flags.into_iter().filter(|flag| flag.starts_with("--alone")));
    let found = program::rows(trace, &args, "rates");
    let columns = rows[0].keys();
    let bytes = columns
        .clone()
        .find(|name| name.contains("payload"))
        .expect("a column");
    let messages = columns
        .clone()
        .find(|name| name.contains("messages_per_s"))
        .expect("a column");
    let unit = if bytes.contains("mib") { MIB } else { 1.0 };
    let axes = ["host", "direction", "op", "message"];
    let is_of_quantiles = rows[0].contains_key("quantile");
    if !is_of_quantiles {
        let found = merged(&found, &axes, |row| vec![number(row, "mean")], unit);
        let expected = tables::of_csv(file, &axes, &[messages, bytes]);
        let printed = [printed(&rows, messages), printed(&rows, bytes)];
        return tables::compare(&found, &expected, &printed);
    }
    let keys = ["host", "direction", "op", "message", "quantile"];
    let expected = tables::of_csv(file, &keys, &[messages, bytes]);
    let mut differences = Vec::new();
    let all = merged(
        &found,
        &axes,
        |row| {
            let quantiles = distributions::numbers(&row["quantiles"]);
            let ends = [number(row, "min"), number(row, "max")];
            [vec![ends[0]], quantiles, vec![ends[1]]].concat()
        },
        unit,
    );
    for (key, expected) in &expected {
        let quantile: f64 = key[4].parse().expect("a number");
        let Some(values) = all.get(&key[..4]) else {
            differences.push(format!("{key:?} is missing"));
            continue;
        };
        let place = (quantile * 100.0).round() as usize;
        let half = values.len() / 2;
        for (found, expected) in [values[place], values[half + place]].iter().zip(expected) {
            Printed::Digits(8).check(&format!("{key:?}"), *found, *expected, &mut differences);
        }
    }
    let known: std::collections::BTreeSet<_> =
        expected.keys().map(|key| key[..4].to_vec()).collect();
    let more = all.keys().filter(|key| !known.contains(*key));
    differences.extend(more.map(|key| format!("{key:?} is not expected")));
    differences
}

/// Values of both rates by key: messages, then bytes.
fn merged(rows: &Rows, axes: &[&str], values: impl Fn(&Value) -> Vec<f64>, unit: f64) -> Keyed {
    let mut all = Keyed::new();
    for (rate, unit) in [("count_per_s", 1.0), ("bytes_per_s", unit)] {
        for row in rows.iter().filter(|row| row["rate"] == rate) {
            let key = axes.iter().map(|axis| text(row, axis)).collect();
            let values = values(row).into_iter().map(|value| value / unit);
            all.entry(key).or_default().extend(values);
        }
    }
    all
}

/// Compares `packet_cube.csv`; `packet_cube.json` has the least size of a row.
pub fn compare_packets(trace: &Path, file: &Path) -> Differences {
    let about = json(&file.with_extension("json"));
    let least = format!("--min-bytes={}", about["min_bytes"]);
    let args = ["cube", "--of=packets", &least];
    if file.extension().is_some_and(|ending| ending == "json") {
        let counts = program::rows(trace, &args, "counts");
        let mut differences = Vec::new();
        let expected = about["entries"].as_f64().expect("a number");
        Printed::Double.check(
            "entries",
            program::count(&counts, "keys"),
            expected,
            &mut differences,
        );
        return differences;
    }
    let rows = csv_rows(file);
    let found = program::rows(trace, &args, "cube");
    let found: Keyed = found
        .iter()
        .map(|row| {
            let key = PACKET_AXES.map(|axis| text(row, axis)).to_vec();
            (key, vec![number(row, "count"), number(row, "bytes") / MIB])
        })
        .collect();
    let expected = tables::of_csv(file, &PACKET_AXES, &["packets", "mib"]);
    tables::compare(&found, &expected, &[Printed::Double, printed(&rows, "mib")])
}

/// Compares `derived/table1_operations.csv`: operations are half of the messages sent.
pub fn compare_table_1(trace: &Path, file: &Path) -> Differences {
    let found = program::rows(
        trace,
        &["cube", "--of=messages", "--by=direction,op"],
        "cube",
    );
    let sent = found.iter().filter(|row| row["direction"] == "send");
    let found: Keyed = sent
        .map(|row| {
            let op = match &*text(row, "op") {
                "*" => "total".to_owned(),
                op => op.to_owned(),
            };
            let numbers = vec![number(row, "count") / 2.0, number(row, "mean_bytes") * 2.0];
            (vec![op], numbers)
        })
        .collect();
    let expected = tables::of_csv(
        file,
        &["op"],
        &["operations", "payload_bytes_per_operation"],
    );
    tables::compare(&found, &expected, &[Printed::Double; 2])
}

/// Compares `derived/table2_figures3_4.json`.
pub fn compare_table_2(trace: &Path, file: &Path) -> Differences {
    let expected = json(file);
    let mut differences = Vec::new();
    let hosts = program::rows(
        trace,
        &["cube", "--of=messages", "--by=host,direction,message"],
        "cube",
    );
    let of = |message: &str| -> std::collections::BTreeSet<String> {
        let named = hosts
            .iter()
            .filter(|row| row["host"] != "*" && row["direction"] == "send");
        named
            .filter(|row| row["message"] == message)
            .map(|row| text(row, "host"))
            .collect()
    };
    let (clients, servers) = (of("request"), of("response"));
    for (what, found) in [
        ("clients", clients.len()),
        ("servers", servers.len()),
        ("caches", clients.intersection(&servers).count()),
    ] {
        let expected = expected[what].as_f64().expect("a number");
        Printed::Double.check(what, found as f64, expected, &mut differences);
    }
    for (name, expected) in expected.as_object().expect("an object") {
        let Some((rate, seconds)) = name.rsplit_once("_per_s_") else {
            continue;
        };
        let seconds = seconds.trim_end_matches('s');
        let args = [
            "rates",
            "--of=messages",
            "--by=direction,op",
            &format!("--interval={seconds}"),
        ];
        let rows = program::rows(trace, &args, "rates");
        let (op, column, factor) = match rate.strip_suffix("operations") {
            Some(op) => (op, "count_per_s", 0.5),
            None => (
                rate.strip_suffix("payload_mib").expect("a rate"),
                "bytes_per_s",
                1.0 / MIB,
            ),
        };
        let op = match op.trim_end_matches('_') {
            "" => "*",
            op => op,
        };
        let row = rows
            .iter()
            .find(|row| row["direction"] == "send" && row["op"] == op && row["rate"] == column);
        match row {
            Some(row) => {
                let row = scaled(row, factor);
                distributions::compare(
                    name,
                    &row,
                    expected,
                    [Printed::Double; 2],
                    &mut differences,
                );
            }
            None => differences.push(format!("{name} is missing")),
        }
    }
    differences
}

/// A row of a distribution, times a factor.
fn scaled(row: &Value, factor: f64) -> Value {
    let mut row = row.clone();
    for name in ["mean", "stddev", "min", "max"] {
        row[name] = (number(&row, name) * factor).into();
    }
    let quantiles = distributions::numbers(&row["quantiles"]);
    row["quantiles"] = quantiles.into_iter().map(|value| value * factor).collect();
    row
}
