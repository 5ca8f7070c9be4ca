//! The fields of `io.prometheus.client.MetricFamily` that TrackIOps uses (prometheus/client_model, `io/prometheus/client/metrics.proto`).

use prost::Message as _;

use trackiops_schemas::histogram::SCALE;

use crate::metrics::catalogue::{Family, Kind};
use crate::metrics::exposition::{CLASSIC_BOUNDS, Exposition, Sample, Value};
use crate::metrics::native::{of_prometheus, runs};
use crate::metrics::text::cumulative;

/// Writes each family after its length.
pub fn write(exposition: &Exposition<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (family, samples) in &exposition.families {
        out.extend(metric_family(family, samples).encode_length_delimited_to_vec());
    }
    out
}

fn metric_family(family: &Family, samples: &[Sample<'_>]) -> MetricFamily {
    let (kind, ending) = match family.kind {
        Kind::Counter => (0, "_total"),
        Kind::Gauge => (1, ""),
        Kind::Info => (1, "_info"),
        Kind::Histogram => (4, ""),
    };
    let samples = samples.iter();
    MetricFamily {
        name: Some(format!("{}{ending}", family.name)),
        help: Some(family.help.to_owned()),
        kind: Some(kind),
        metric: samples.map(|sample| metric(family, sample)).collect(),
        unit: family.unit.map(|unit| unit.name().to_owned()),
    }
}

fn metric(family: &Family, sample: &Sample<'_>) -> Metric {
    let labels = family.labels.iter().zip(&sample.labels);
    let mut metric = Metric {
        label: labels
            .map(|(name, value)| LabelPair {
                name: Some((*name).to_owned()),
                value: Some(value.to_string()),
            })
            .collect(),
        ..Metric::default()
    };
    let number = match sample.value {
        Value::Count(count) => count as f64,
        Value::Number(number) => number,
        Value::Latencies { .. } => {
            metric.histogram = Some(histogram(&sample.value));
            return metric;
        }
    };
    let value = Some(Number {
        value: Some(number),
    });
    match family.kind {
        Kind::Counter => metric.counter = value,
        Kind::Gauge | Kind::Info | Kind::Histogram => metric.gauge = value,
    }
    metric
}

fn histogram(value: &Value<'_>) -> Histogram {
    let Value::Latencies {
        buckets,
        sum_seconds,
    } = value
    else {
        return Histogram::default();
    };
    let classic = cumulative(buckets).into_iter().zip(CLASSIC_BOUNDS);
    let classic = classic.map(|(count, (_, _, seconds))| Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(seconds),
    });
    let mut histogram = Histogram {
        sample_count: Some(buckets.total()),
        sample_sum: Some(*sum_seconds),
        bucket: classic.collect(),
        schema: Some(SCALE),
        // The smallest threshold: the zero bucket is empty.
        zero_threshold: Some(f64::MIN_POSITIVE),
        zero_count: Some(0),
        ..Histogram::default()
    };
    let mut end = 0;
    let mut before = 0;
    for (first, counts) in runs(buckets) {
        let first = of_prometheus(first);
        let length = counts.len() as u32;
        histogram.positive_span.push(BucketSpan {
            offset: Some(first - end),
            length: Some(length),
        });
        end = first + length.cast_signed();
        for count in counts {
            let count = count.cast_signed();
            histogram.positive_delta.push(count - before);
            before = count;
        }
    }
    if histogram.positive_span.is_empty() {
        // Without a span, Prometheus takes it for a classic histogram.
        histogram.positive_span.push(BucketSpan {
            offset: Some(0),
            length: Some(0),
        });
    }
    histogram
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    /// `MetricType`.
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    unit: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// `Gauge` and `Counter`.
#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}
