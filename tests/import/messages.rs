//! Messages of imported captures, as `trackiops analyze` reads them.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::packets::{START_S, pcap, some_requests};
use super::{Row, rows, text, trackiops};

fn import(capture: &Path, messages: &Path, store: &Path) -> Output {
    let words = [
        "import",
        "pcap",
        text(capture),
        "--messages",
        text(messages),
    ];
    trackiops(&[&words[..], &["--store", text(store)]].concat())
}

fn analyzed(analysis: &str, messages: &Path, table: &str, more: &[&str]) -> Vec<Row> {
    let words = [
        "analyze",
        analysis,
        text(messages),
        "--format",
        "csv",
        "--table",
        table,
    ];
    rows(&[&words[..], more].concat())
}

/// The values of two columns, side by side.
fn pairs(rows: &[Row], columns: [&str; 2]) -> Vec<[String; 2]> {
    let pair = |row: &Row| columns.map(|column| row[column].clone());
    rows.iter().map(pair).collect()
}

#[test]
fn calls_replies_and_attributes_of_a_capture_can_be_analyzed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (capture, messages) = (path("a.pcap"), path("messages"));
    // The second call and the reply to the last call are missing: xids 1 to 4.
    let mut packets = some_requests();
    packets.remove(7);
    packets.remove(2);
    fs::write(&capture, pcap(START_S, &packets)).unwrap();
    let output = import(&capture, &messages, &path("store"));
    assert!(output.status.success(), "{output:?}");

    let xids = analyzed("xids", &messages, "counts", &[]);
    let counts = pairs(&xids, ["what", "value"]);
    // Too few messages to determine the missing ones.
    assert!(
        counts.contains(&["unknown".to_owned(), "3".to_owned()]),
        "{counts:?}"
    );

    let latencies = analyzed(
        "latency",
        &messages,
        "latencies",
        &["--of", "messages", "--by", "op"],
    );
    let shown = pairs(&latencies, ["op", "n"]);
    let expected = [["fsinfo", "1"], ["read", "1"], ["*", "2"]];
    assert_eq!(shown, expected, "{latencies:?}");

    // The whole capture has names and sizes.
    let (capture, messages) = (path("b.pcap"), path("whole"));
    fs::write(&capture, pcap(START_S, &some_requests())).unwrap();
    let output = import(&capture, &messages, &path("other store"));
    assert!(output.status.success(), "{output:?}");
    let paths = analyzed("paths", &messages, "paths", &[]);
    let hex = |text: &str| {
        text.bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let expected = [hex("file"), format!("FH:{}/a b", hex("root"))];
    assert_eq!(pairs(&paths, ["fh", "path"]), [expected]);

    let refused = import(&capture, &messages, &path("store"));
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("records.parquet"), "{said}");
}
