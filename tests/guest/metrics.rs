//! Metrics in Prometheus, scraped and pushed, match the answers of `query`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::run::{Run, number, scripts};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let program = scripts().join("prometheus.py");
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/contrib/prometheus/trackiops.rules.yml"
    );
    let added = ["--add", program.to_str().unwrap(), "--add", rules];
    Run::script("metrics", &[&["--deb", "prometheus"][..], &added].concat())
});

/// Largest relative difference of a native histogram from `query`. Bounds in seconds are 0.41 % too low, and Prometheus interpolates in a
/// bucket where `query` takes its middle.
const QUANTILE_ERROR: f64 = 0.02;

fn asked() -> Value {
    RUN.json("asked.json")
}

/// Sums of the mount over the whole recording, by column.
fn recorded() -> BTreeMap<String, f64> {
    let answers = RUN.query(&["--by", "mount", "--step", "all"]);
    let of_mount = answers
        .iter()
        .find(|answer| answer["mount"] == "127.0.0.1:/exp");
    let of_mount = of_mount.expect("nothing of the mount");
    let numbers = of_mount.iter().filter(|(_, value)| value.is_number());
    numbers
        .map(|(column, _)| (column.clone(), number(of_mount, column)))
        .collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_counters_of_prometheus_are_those_of_the_store() {
    let (asked, recorded) = (asked(), recorded());
    for way in ["scraped"] {
        let of = |name: &str| {
            asked[way][name]
                .as_f64()
                .unwrap_or_else(|| panic!("{way}: no {name}"))
        };
        for direction in ["read", "write"] {
            let column = |name: &str| recorded[&format!("{direction}_{name}")];
            let metric = |name: &str| of(&format!("{direction}_{name}"));
            assert!(column("requests") > 500.0, "{recorded:?}");
            assert_eq!(metric("requests"), column("requests"), "{way} {direction}");
            assert_eq!(
                metric("transferred_bytes"),
                column("bytes"),
                "{way} {direction}"
            );
            let timed = column("requests") - column("untimed") - column("folded");
            assert_eq!(metric("count"), timed, "{way} {direction}");
            // Columns round to microseconds, row by row.
            let rest = column("latency_us_sum") - column("queue_us_sum") - column("rtt_us_sum");
            for (name, us) in [
                ("sum", column("latency_us_sum")),
                ("queue_seconds", column("queue_us_sum")),
                ("network_seconds", column("rtt_us_sum")),
                ("completion_seconds", rest),
            ] {
                let difference = (metric(name) - us / 1e6).abs();
                assert!(
                    difference < 1e-3,
                    "{way} {direction} {name}: {} {us}",
                    metric(name)
                );
            }
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_quantiles_of_prometheus_are_within_their_error() {
    let (asked, recorded) = (asked(), recorded());
    for way in ["scraped"] {
        for direction in ["read", "write"] {
            for (quantile, percentile) in [("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99")] {
                let of = asked[way][format!("{direction}_p{quantile}")].as_f64();
                let told = of.unwrap_or_else(|| panic!("{way}: no {direction} {quantile}")) * 1e6;
                let truth = recorded[&format!("{direction}_latency_us_{percentile}")];
                println!("{way} {direction} {percentile}: {told:.1} us, query {truth:.1} us");
                assert!(
                    (told / truth - 1.0).abs() <= QUANTILE_ERROR,
                    "{told} {truth}"
                );
            }
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_rates_are_those_of_the_load() {
    let asked = asked();
    // At most 3 jobs with 20 reads and 20 writes a second each.
    let rates = ["read", "write"].map(|direction| {
        let rate = asked["scraped"][format!("{direction}_rate")]
            .as_f64()
            .unwrap();
        let [since, until] = [0, 1].map(|of| asked["rates_of"][of].as_str().unwrap());
        let range = ["--since", since, "--until", until];
        let of = [
            "--by",
            "mount",
            "--step",
            "all",
            "--mount",
            "127.0.0.1:/exp",
        ];
        let answers = RUN.query(&[&of[..], &range].concat());
        let mean = number(&answers[0], &format!("{direction}_requests")) / 15.0;
        println!("{direction}: rate {rate:.1}/s, in the store {mean:.1}/s");
        assert!((rate / mean - 1.0).abs() < 0.15, "{rate} {mean}");
        rate
    });
    assert!(rates.iter().all(|rate| *rate > 10.0), "{rates:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_names_pass_promtool_and_info_joins() {
    let asked = asked();
    assert_eq!(RUN.text("lint"), "", "promtool has something to say");
    assert!(
        RUN.text("rules").contains("SUCCESS"),
        "{}",
        RUN.text("rules")
    );
    let names = asked["metric_names"].as_array().unwrap();
    assert!(names.len() > 40, "{names:?}");
    let [joined] = &asked["joined"].as_array().unwrap()[..] else {
        panic!("{}", asked["joined"]);
    };
    assert_eq!(
        (&joined["metric"]["server"], &joined["metric"]["export"]),
        (&"127.0.0.1".into(), &"/exp".into())
    );
    let files = asked["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(files.contains(&"/mnt/nfs/steady.0.0".into()), "{files:?}");
    let slowest = asked["slowest_scrape"].as_f64().unwrap();
    println!(
        "{} samples, slowest scrape {:.1} ms",
        asked["series"],
        slowest * 1000.0
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_restart_resets_nothing_and_an_end_is_seen() {
    let (asked, after, gone) = (asked(), RUN.json("resets.json"), RUN.json("gone.json"));
    assert_eq!(after["resets"], Value::Array(Vec::new()));
    assert!(after["requests"].as_f64() >= asked["scraped"]["read_requests"].as_f64());
    assert_eq!(gone["up"], 1.0 - 1.0);
    assert_eq!(gone["requests"], Value::Array(Vec::new()));
    assert!(
        gone["pending"]
            .as_array()
            .unwrap()
            .contains(&"TrackIOpsRecorderGone".into()),
        "{gone}"
    );
    assert_eq!(asked["alerts"], Value::Array(Vec::new()));
    let own = &asked["own"];
    for name in [
        "recorder_bpf_seconds_total",
        "recorder_cpu_seconds_total",
        "recorder_resident_memory_bytes",
        "ring_used_ratio",
    ] {
        assert!(own[name].as_f64().unwrap() > 0.0, "{name}: {own}");
    }
    assert_eq!(own["store_writable"], 1.0);
}

/// The last push, read with OpenTelemetry's own classes.
fn pushed() -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let output = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let requirements = "tests/python/otlp_requirements.txt";
    let python = output(&format!("{root}scripts/python.sh"), &[requirements]);
    let decode = format!("{root}tests/python/otlp.py");
    let pushed = RUN.out.join("pushed");
    let decoded = output(python.trim(), &[&decode, pushed.to_str().unwrap()]);
    serde_json::from_str(&decoded).unwrap()
}

/// A number: JSON of protobuf writes 64-bit ones as text.
fn wide(value: &Value) -> f64 {
    let of_text = |text: &str| text.parse().unwrap();
    value
        .as_str()
        .map_or_else(|| value.as_f64().unwrap_or_default(), of_text)
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_pushes_are_read_by_opentelemetry() {
    let (pushed, recorded) = (pushed(), recorded());
    let metrics = pushed["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
        .as_array()
        .unwrap();
    let metric = |name: &str| {
        let found = metrics.iter().find(|metric| metric["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let of = |points: &Value, direction: &str| -> Value {
        let is = |point: &&Value| {
            let attributes = point["attributes"].as_array().unwrap();
            let has = |value: &str| {
                attributes
                    .iter()
                    .any(|of| of["value"]["stringValue"] == value)
            };
            has("127.0.0.1:/exp") && has(direction)
        };
        points.as_array().unwrap().iter().find(is).unwrap().clone()
    };
    for direction in ["read", "write"] {
        let column = |name: &str| recorded[&format!("{direction}_{name}")];
        for (name, unit, expected) in [
            ("trackiops.requests", Value::Null, column("requests")),
            ("trackiops.transferred", "By".into(), column("bytes")),
        ] {
            let metric = metric(name);
            assert_eq!(metric["unit"], unit, "{name}");
            assert_eq!(
                metric["sum"]["aggregationTemporality"],
                "AGGREGATION_TEMPORALITY_CUMULATIVE"
            );
            assert_eq!(metric["sum"]["isMonotonic"], true);
            let point = of(&metric["sum"]["dataPoints"], direction);
            assert_eq!(wide(&point["asInt"]), expected, "{name} {direction}");
        }
        let latency = metric("trackiops.latency");
        assert_eq!(latency["unit"], "s");
        let point = of(&latency["exponentialHistogram"]["dataPoints"], direction);
        let timed = column("requests") - column("untimed") - column("folded");
        assert_eq!((wide(&point["count"]), wide(&point["scale"])), (timed, 5.0));
        let counts = point["positive"]["bucketCounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(wide);
        assert_eq!(counts.clone().sum::<f64>(), timed);
        for (share, percentile) in [(0.5, "p50"), (0.99, "p99")] {
            let mut below = 0.0;
            let at = counts.clone().position(|count| {
                below += count;
                below >= (share * timed).ceil()
            });
            let bucket = wide(&point["positive"]["offset"]) + at.unwrap() as f64;
            let middle = 2_f64.powf((bucket + 0.5) / 32.0) * 1e6;
            let truth = recorded[&format!("{direction}_latency_us_{percentile}")];
            println!("pushed {direction} {percentile}: {middle:.1} us, query {truth:.1} us");
            assert!((middle / truth - 1.0).abs() < 0.005, "{middle} {truth}");
        }
    }
}
