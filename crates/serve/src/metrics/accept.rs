//! Chooses the format that a scraper wants.

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `io.prometheus.client.MetricFamily`, each after its length: the only format with native histograms.
    Protobuf,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older text format of Prometheus.
    Text,
}

impl Format {
    /// All formats, best first.
    pub const ALL: [Self; 3] = [Self::Protobuf, Self::OpenMetrics, Self::Text];

    /// The content type of an answer in this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The best format of an `Accept` header (RFC 9110, 12.5.1). Text if the header names none of the formats.
    pub fn accepted(accept: Option<&str>) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<_> = parts.map(str::to_ascii_lowercase).collect();
            let value = |key: &str| {
                let values = parameters.iter().filter_map(|of| of.split_once('='));
                let mut values = values.filter(|(name, _)| name.trim() == key);
                values
                    .next()
                    .map(|(_, value)| value.trim().trim_matches('"').to_owned())
            };
            let is = |key: &str, wanted: &str| value(key).is_none_or(|value| value == wanted);
            let format = match &*name {
                "application/vnd.google.protobuf"
                    if value("proto").as_deref() == Some("io.prometheus.client.metricfamily")
                        && is("encoding", "delimited") =>
                {
                    Self::Protobuf
                }
                "application/openmetrics-text" if is("version", "1.0.0") => Self::OpenMetrics,
                "text/plain" | "text/*" | "*/*" if is("version", "0.0.4") => Self::Text,
                _ => continue,
            };
            let quality = match value("q") {
                None => 1.0,
                Some(quality) => quality.parse().unwrap_or(0.0),
            };
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_format_that_is_accepted_is_chosen() {
        const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, format) in [
            // Prometheus 2.42 with and without native histograms.
            (
                &*format!(
                    "{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
                ),
                Format::Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            // Prometheus 3.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::OpenMetrics,
            ),
            // Prometheus 3.9 with scrape_native_histograms.
            (
                &*format!(
                    "{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
                ),
                Format::Protobuf,
            ),
            (
                &*format!("text/plain;q=0.9, {PROTOBUF}; q=0.2"),
                Format::Text,
            ),
            ("application/vnd.google.protobuf", Format::Text),
            (
                "application/openmetrics-text; version=\"2.0.0\"",
                Format::Text,
            ),
            ("*/*", Format::Text),
            ("text/html, image/*;q=nan", Format::Text),
            ("", Format::Text),
            (",;=,;q", Format::Text),
        ] {
            assert_eq!(Format::accepted(Some(accept)), format, "{accept}");
        }
        assert_eq!(Format::accepted(None), Format::Text);
    }
}
