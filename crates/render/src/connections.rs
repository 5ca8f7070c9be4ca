//! The connections of a slow moment: what TCP knew of them before and in it.

use serde_json::{Map, Value, json};
use trackiops_query::times::{Zone, show};
use trackiops_reports::connections::ComparedConnection;
use trackiops_reports::network_or_server::Split;
use trackiops_reports::why::Moment;
use trackiops_schemas::tcp::TcpSums;

use crate::units;

/// A figure of a connection.
struct Figure {
    /// Its name in an object, without `_before`.
    field: &'static str,
    show: fn(f64) -> String,
    get: fn(&TcpSums) -> Option<f64>,
}

/// In the order of [`COLUMNS`].
const FIGURES: [Figure; 5] = [
    Figure {
        field: "tcp_rtt_us",
        show: units::latency,
        get: |tcp| Some(tcp.per_reading(tcp.rtt_ns_sum)? / 1000.0),
    },
    Figure {
        field: "tcp_rtt_us_min",
        show: units::latency,
        // The kernel has none before the first acknowledgement.
        get: |tcp| (tcp.rtt_ns_min > 0).then_some(tcp.rtt_ns_min as f64 / 1000.0),
    },
    Figure {
        field: "tcp_retrans_share",
        show: units::share,
        get: TcpSums::retrans_share,
    },
    Figure {
        field: "tcp_lost_max",
        show: count,
        get: |tcp| Some(tcp.lost_max as f64),
    },
    Figure {
        field: "tcp_reconnects",
        show: count,
        get: |tcp| Some(tcp.reconnects as f64),
    },
];

/// The columns of [`rows`].
pub const COLUMNS: [&str; 10] = [
    "slow from",
    "host",
    "connection",
    "mounts",
    "RTT",
    "least RTT",
    "retransmitted",
    "most segments lost",
    "reconnects",
    "it was",
];

/// A row for each connection of a moment. Figures are those before and in it.
pub fn rows(of: &Moment, zone: Zone) -> Vec<[String; 10]> {
    let since = show(of.time.start, zone);
    let verdict = match of.facts.split() {
        Some(Split::Network) => "the network",
        Some(Split::Server) => "the server",
        Some(_) => "cannot tell",
        None => "-",
    };
    let row = |of: &ComparedConnection| {
        let [rtt, least, retransmitted, lost, reconnects] = FIGURES.map(|figure| {
            let [before, now] = of.tcp.map(|tcp| shown(&figure, tcp.as_ref()));
            format!("{before} to {now}")
        });
        [
            since.clone(),
            of.host.to_string(),
            of.transport.as_deref().unwrap_or("-").to_owned(),
            of.mounts.join(", "),
            rtt,
            least,
            retransmitted,
            lost,
            reconnects,
            verdict.to_owned(),
        ]
    };
    of.connections.iter().map(row).collect()
}

/// A connection as an object for programs.
pub fn object(of: &ComparedConnection) -> Value {
    let mounts: Vec<&str> = of.mounts.iter().map(|mount| &**mount).collect();
    let mut fields = Map::new();
    fields.insert("host".to_owned(), json!(&*of.host));
    fields.insert("transport".to_owned(), json!(of.transport.as_deref()));
    fields.insert("mounts".to_owned(), json!(mounts));
    for figure in FIGURES {
        for (suffix, tcp) in ["_before", ""].into_iter().zip(&of.tcp) {
            let number = tcp.as_ref().and_then(figure.get);
            // Shares have more decimals than other numbers.
            let number = number.map(|number| (number * 1e6).round() / 1e6);
            fields.insert(format!("{}{suffix}", figure.field), json!(number));
        }
    }
    Value::Object(fields)
}

fn shown(figure: &Figure, tcp: Option<&TcpSums>) -> String {
    let number = tcp.and_then(figure.get);
    number.map_or_else(|| "-".to_owned(), figure.show)
}

fn count(number: f64) -> String {
    format!("{number:.0}")
}
