//! The fields of OpenTelemetry's `ExportMetricsServiceRequest` that TrackIOps uses (opentelemetry-proto,
//! `opentelemetry/proto/metrics/v1/metrics.proto`).

use prost::Message as _;

use trackiops_schemas::histogram::SCALE;

use crate::metrics::catalogue::{Family, Kind};
use crate::metrics::exposition::{Exposition, Sample, Value};
use crate::metrics::native::{of_opentelemetry, runs};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;

/// The origin of a push.
pub struct From<'s> {
    /// The host, if there is a recorder.
    pub host: Option<&'s str>,
    /// Now, ns since 1970.
    pub now_ns: u64,
}

/// Encodes a push.
pub fn write(exposition: &Exposition<'_>, from: &From<'_>) -> Vec<u8> {
    let times = (exposition.begin_ns, from.now_ns);
    let metrics = exposition.families.iter();
    let metrics = metrics.map(|(family, samples)| metric(family, samples, times));
    let mut attributes = vec![attribute("service.name", "trackiops")];
    attributes.extend(from.host.map(|host| attribute("host.name", host)));
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "trackiops".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                metrics: metrics.collect(),
            }],
        }],
    };
    request.encode_to_vec()
}

/// `trackiops_queue_seconds` becomes `trackiops.queue` with a unit. Collectors that translate it for Prometheus add the unit again.
fn name(family: &Family) -> String {
    let unit = family.unit.map(|unit| format!("_{}", unit.name()));
    let name = unit.and_then(|unit| family.name.strip_suffix(&unit));
    let name = name.unwrap_or(family.name).replacen('_', ".", 1);
    match family.kind {
        Kind::Info => name + "_info",
        _ => name,
    }
}

fn metric(family: &Family, samples: &[Sample<'_>], times: (u64, u64)) -> Metric {
    let data = match family.kind {
        Kind::Histogram => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: samples
                .iter()
                .filter_map(|sample| latencies(family, sample, times))
                .collect(),
            aggregation_temporality: CUMULATIVE,
        }),
        kind => {
            let points = samples.iter().map(|sample| number(family, sample, times));
            let data_points = points.collect();
            match kind {
                Kind::Counter => Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: CUMULATIVE,
                    is_monotonic: true,
                }),
                _ => Data::Gauge(Gauge { data_points }),
            }
        }
    };
    Metric {
        name: name(family),
        description: family.help.to_owned(),
        unit: family.unit.map_or("", |unit| unit.code()).to_owned(),
        data: Some(data),
    }
}

fn number(family: &Family, sample: &Sample<'_>, (begin_ns, now_ns): (u64, u64)) -> NumberDataPoint {
    let value = match sample.value {
        Value::Count(count) => NumberValue::Int(i64::try_from(count).unwrap_or(i64::MAX)),
        Value::Number(number) => NumberValue::Double(number),
        Value::Latencies { sum_seconds, .. } => NumberValue::Double(sum_seconds),
    };
    NumberDataPoint {
        start_time_unix_nano: match family.kind {
            Kind::Counter => begin_ns,
            _ => 0,
        },
        time_unix_nano: now_ns,
        attributes: attributes(family, sample),
        value: Some(value),
    }
}

fn latencies(
    family: &Family,
    sample: &Sample<'_>,
    (begin_ns, now_ns): (u64, u64),
) -> Option<ExponentialHistogramDataPoint> {
    let Value::Latencies {
        buckets,
        sum_seconds,
    } = &sample.value
    else {
        return None;
    };
    // Without the gaps that Prometheus uses.
    let mut positive = Buckets::default();
    for (first, counts) in runs(buckets) {
        if positive.bucket_counts.is_empty() {
            positive.offset = of_opentelemetry(first);
        }
        let gap = of_opentelemetry(first) - positive.offset;
        let gap = usize::try_from(gap).unwrap_or_default();
        positive.bucket_counts.resize(gap, 0);
        positive.bucket_counts.extend(counts);
    }
    Some(ExponentialHistogramDataPoint {
        attributes: attributes(family, sample),
        start_time_unix_nano: begin_ns,
        time_unix_nano: now_ns,
        count: buckets.total(),
        sum: Some(*sum_seconds),
        scale: SCALE,
        zero_count: 0,
        positive: Some(positive),
    })
}

fn attributes(family: &Family, sample: &Sample<'_>) -> Vec<KeyValue> {
    let labels = family.labels.iter().zip(&sample.labels);
    labels.map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            string_value: Some(value.to_owned()),
        }),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExportMetricsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 10")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "10")]
    ExponentialHistogram(ExponentialHistogram),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(oneof = "NumberValue", tags = "4, 6")]
    value: Option<NumberValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum NumberValue {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExponentialHistogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<ExponentialHistogramDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExponentialHistogramDataPoint {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(sint32, tag = "6")]
    scale: i32,
    #[prost(fixed64, tag = "7")]
    zero_count: u64,
    #[prost(message, optional, tag = "8")]
    positive: Option<Buckets>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Buckets {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint64, repeated, tag = "2")]
    bucket_counts: Vec<u64>,
}
