//! The tables of a comparison.

use trackiops_analyses::distribution;
use trackiops_analyses::sheet::{Datum, Heading, Row, Sheet};
use trackiops_schemas::unit::Unit;

use super::comparison::{Comparison, FIELDS, PARTS, Pair};

/// Names of the tables.
pub const TABLES: [&str; 3] = ["summary", "latencies", "requests"];
/// Quantiles of a distribution, for programs.
const QUANTILES: u64 = 100;

const OPS: [&str; 2] = ["READ", "WRITE"];

/// All tables.
pub fn sheets(of: &Comparison<'_>) -> Vec<Sheet> {
    let mut sheets = vec![summary(of), latencies(of)];
    if !of.rows.is_empty() {
        sheets.push(requests(of));
    }
    sheets
}

fn summary(of: &Comparison<'_>) -> Sheet {
    let counts = ["both", "equal", "store_only", "pcap_only", "failed"];
    let counts = counts.map(|name| Heading::count(name, Unit::Count));
    let fields = FIELDS.map(|name| Heading::count(name, Unit::Count));
    let headings = [Heading::text("op")]
        .into_iter()
        .chain(counts)
        .chain(fields);
    let mut sheet = Sheet::new(
        TABLES[0],
        "requests in the time that both have; `file` to `errno` count those that differ in it",
        headings.collect(),
    );
    sheet.rows = OPS
        .iter()
        .zip(&of.totals)
        .map(|(op, totals)| {
            let counts = [
                totals.both,
                totals.equal,
                totals.only_recorded,
                totals.only_captured,
                totals.only_captured_failed,
            ];
            let counts = counts.into_iter().chain(totals.differ).map(Datum::Count);
            [Datum::text(*op)].into_iter().chain(counts).collect()
        })
        .collect();
    sheet
}

fn latencies(of: &Comparison<'_>) -> Sheet {
    let mut headings = vec![Heading::text("op"), Heading::text("part")];
    headings.extend(distribution::headings());
    let mut sheet = Sheet::new(
        TABLES[1],
        "parts of the latencies of requests that are in both, us",
        headings,
    );
    for (op, totals) in OPS.iter().zip(&of.totals) {
        for (part, values) in PARTS.iter().zip(&totals.parts_us) {
            let mut row = vec![Datum::text(*op), Datum::text(*part)];
            row.extend(distribution::cells(values, QUANTILES));
            sheet.rows.push(row);
        }
    }
    sheet
}

fn requests(of: &Comparison<'_>) -> Sheet {
    let part = |name: &str| {
        // The names that the Parquet columns have.
        let name = name.replace("network", "rtt").replace(" - ", "_minus_");
        Heading::count(format!("{name}_ns"), Unit::Nanoseconds).hidden()
    };
    let mut headings = vec![
        Heading::time("end_time"),
        Heading::text("op"),
        Heading::count("xid", Unit::None),
        Heading::text("differs"),
        Heading::count("offset_bytes", Unit::Bytes),
        Heading::count("captured_offset_bytes", Unit::Bytes).hidden(),
        Heading::count("asked_bytes", Unit::Bytes).hidden(),
        Heading::count("captured_asked_bytes", Unit::Bytes).hidden(),
        Heading::count("done_bytes", Unit::Bytes).hidden(),
        Heading::count("captured_done_bytes", Unit::Bytes).hidden(),
        Heading::count("errno", Unit::None).hidden(),
        Heading::count("captured_errno", Unit::None).hidden(),
        Heading::text("client").hidden(),
        Heading::text("server").hidden(),
        Heading::text("handle").hidden(),
        Heading::count("captured_fileid", Unit::None).hidden(),
        Heading::count("fileid", Unit::None).hidden(),
        Heading::text("host").hidden(),
        Heading::text("mount").hidden(),
        Heading::count("end_time_ns", Unit::Nanoseconds).hidden(),
        Heading::count("captured_end_time_ns", Unit::Nanoseconds).hidden(),
    ];
    headings.extend(PARTS.map(part));
    headings.push(Heading::text("path"));
    let caption = "requests with both sides: without --rows the first that differ";
    let mut sheet = Sheet::new(TABLES[2], caption, headings);
    sheet.rows = of.rows.iter().map(|pair| row(of, pair)).collect();
    sheet
}

fn row(of: &Comparison<'_>, pair: &Pair<'_>) -> Row {
    let (recorded, captured) = (pair.recorded.as_ref(), pair.captured);
    let ours =
        |get: &dyn Fn(&super::recorded::Recorded) -> Datum| recorded.map_or(Datum::Unknown, get);
    let theirs =
        |get: &dyn Fn(&super::captured::Transfer) -> Datum| captured.map_or(Datum::Unknown, get);
    let text = |text: Option<&std::sync::Arc<str>>| {
        text.map_or(Datum::Unknown, |text| Datum::Text(text.clone()))
    };
    let int = |int: Option<i64>| int.map_or(Datum::Unknown, Datum::Int);
    let is_write = captured.map_or(recorded.is_some_and(|of| of.is_write), |of| of.is_write);
    let xid = captured.map(|of| of.xid).or(recorded.and_then(|of| of.xid));
    let offset = recorded.map(|of| of.offset);
    let mut row = vec![
        Datum::time_ns(pair.end_ns()),
        Datum::text(OPS[usize::from(is_write)]),
        int(xid.map(i64::from)),
        Datum::text(differs(pair)),
        offset
            .or(captured.map(|of| of.offset))
            .map_or(Datum::Unknown, Datum::Count),
        theirs(&|of| Datum::Count(of.offset)),
        ours(&|of| Datum::Count(of.asked_bytes)),
        theirs(&|of| int(of.asked_bytes.map(i64::from))),
        ours(&|of| Datum::Count(of.done_bytes)),
        theirs(&|of| int(of.outcome.map(|(bytes, _)| i64::from(bytes)))),
        ours(&|of| Datum::Int(of.errno)),
        theirs(&|of| int(of.outcome.map(|(_, errno)| i64::from(errno)))),
        theirs(&|of| Datum::text(of.client.to_string())),
        theirs(&|of| Datum::text(of.server.to_string())),
        theirs(&|transfer| of.handle(transfer).map_or(Datum::Unknown, Datum::text)),
        theirs(&|of| of.fileid.map_or(Datum::Unknown, Datum::Fileid)),
        ours(&|of| Datum::Fileid(of.fileid)),
        ours(&|of| Datum::Text(of.place.0.clone())),
        text(recorded.and_then(|of| of.mount.as_ref())),
        int(recorded.map(|of| of.end_ns)),
        int(captured.map(|of| of.end_ns)),
    ];
    row.extend(pair.parts_ns().map(int));
    row.push(text(recorded.and_then(|of| of.path.as_ref())));
    row
}

/// Describes the differences in words.
fn differs(pair: &Pair<'_>) -> String {
    if pair.captured.is_none() {
        return "store only".to_owned();
    }
    if pair.recorded.is_none() {
        return "pcap only".to_owned();
    }
    let fields = FIELDS.iter().zip(pair.differ);
    let fields: Vec<_> = fields
        .filter_map(|(name, differs)| differs.then_some(*name))
        .collect();
    fields.join(",")
}
