//! OpenMetrics, and the older text format of Prometheus.

use std::fmt::Write as _;

use trackiops_schemas::histogram::{Histogram, octave_of};

use crate::metrics::catalogue::{Family, Kind};
use crate::metrics::exposition::{CLASSIC_BOUNDS, Exposition, Sample, Value};

/// Writes the text format of Prometheus, or OpenMetrics.
pub fn write(exposition: &Exposition<'_>, is_openmetrics: bool) -> String {
    let mut out = String::new();
    for (family, samples) in &exposition.families {
        put_head(&mut out, family, is_openmetrics);
        for sample in samples {
            put_sample(&mut out, family, sample);
        }
    }
    if is_openmetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn put_head(out: &mut String, family: &Family, is_openmetrics: bool) {
    let kind = match family.kind {
        Kind::Info if !is_openmetrics => Kind::Gauge,
        kind => kind,
    };
    let name = match is_openmetrics {
        true => family.name.to_owned(),
        false => family.sample_name(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {}", family.help);
    let _ = writeln!(out, "# TYPE {name} {}", kind.name());
    if let (Some(unit), true) = (family.unit, is_openmetrics) {
        let _ = writeln!(out, "# UNIT {name} {}", unit.name());
    }
}

fn put_sample(out: &mut String, family: &Family, sample: &Sample<'_>) {
    let name = family.sample_name();
    let mut line = |ending: &str, bound: Option<&str>, value: &dyn std::fmt::Display| {
        out.push_str(&name);
        out.push_str(ending);
        put_labels(out, family, sample, bound);
        let _ = writeln!(out, " {value}");
    };
    match &sample.value {
        Value::Count(count) => line("", None, count),
        Value::Number(number) => line("", None, number),
        Value::Latencies {
            buckets,
            sum_seconds,
        } => {
            for (below, (_, bound, _)) in cumulative(buckets).into_iter().zip(CLASSIC_BOUNDS) {
                line("_bucket", Some(bound), &below);
            }
            line("_bucket", Some("+Inf"), &buckets.total());
            line("_sum", None, sum_seconds);
            line("_count", None, &buckets.total());
        }
    }
}

fn put_labels(out: &mut String, family: &Family, sample: &Sample<'_>, bound: Option<&str>) {
    let labels = family.labels.iter().copied();
    let labels = labels.zip(sample.labels.iter().map(|label| &**label));
    let mut separator = '{';
    for (name, value) in labels.chain(bound.map(|bound| ("le", bound))) {
        out.push(separator);
        separator = ',';
        out.push_str(name);
        out.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
    if separator == ',' {
        out.push('}');
    }
}

/// The number of requests up to each of [`CLASSIC_BOUNDS`]. It is exact, because these are bounds of buckets.
pub fn cumulative(histogram: &Histogram) -> [u64; CLASSIC_BOUNDS.len()] {
    let mut counts = [0; CLASSIC_BOUNDS.len()];
    for (bucket, count) in histogram.buckets() {
        // Octave `i` ends at 2^(i+1) us.
        let end = octave_of(*bucket) + 1;
        if let Some(at) = CLASSIC_BOUNDS
            .iter()
            .position(|(octave, ..)| end <= *octave)
        {
            counts[at] += count;
        }
    }
    let mut below = 0_u64;
    counts.map(|count| {
        below = below.saturating_add(count);
        below
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn classic_buckets_hold_what_is_within_their_bounds(latencies in prop::collection::vec(0..40_000_000_000_u64, 0..80)) {
            let mut histogram = Histogram::default();
            latencies.iter().for_each(|ns| histogram.record(*ns));
            for (below, (octave, ..)) in cumulative(&histogram).into_iter().zip(CLASSIC_BOUNDS) {
                let bound_ns = 1000 << octave;
                let within = latencies.iter().filter(|ns| **ns <= bound_ns);
                prop_assert_eq!(below, within.count() as u64, "{}", octave);
            }
        }
    }
}
