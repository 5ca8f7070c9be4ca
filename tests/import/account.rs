//! The account of an import stays in the store, by connection, direction and window.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use trackiops_capture::{Account, Decoder, Packet, Peers, Receiver, read_packets};

use super::packets::{START_S, datagram, pcap, some_requests};
use super::pcap::import;
use super::{Row, rows, shared, text, trackiops};

const COLUMNS: [&str; 9] = [
    "packets",
    "payload_bytes",
    "parsed_bytes",
    "skipped_bytes",
    "not_understood_bytes",
    "repeated_bytes",
    "cut_bytes",
    "lost_bytes",
    "messages",
];

/// Client, server, transport and direction, with the values of [`COLUMNS`].
type Streams = BTreeMap<[String; 4], [u64; 9]>;

/// The account in the store, for a part of the time.
fn kept(store: &Path, when: &[&str]) -> Streams {
    let words = ["import", "account", "--csv", "--store", text(store)];
    let mut streams = Streams::new();
    for row in rows(&[&words[..], when].concat()) {
        let names = ["client", "server", "transport", "direction"];
        let stream = names.map(|name| row[name].clone());
        let known = streams.insert(stream, COLUMNS.map(|name| row[name].parse().unwrap()));
        assert_eq!(known, None, "twice: {row:?}");
    }
    streams
}

struct Requests;
impl Receiver for Requests {}

/// The account of a capture that is decoded at once.
fn expected(file: File) -> Streams {
    let mut decoder = Decoder::new(Requests, &[]);
    let take = |packet: Packet<'_>| {
        decoder.packet(&packet);
        ControlFlow::Continue(())
    };
    let end = read_packets(file, take, || false);
    end.unwrap();
    let mut streams = Streams::new();
    for connection in decoder.finish().1.connections {
        let Peers {
            client,
            server,
            transport,
        } = connection.peers;
        let both = [("calls", connection.sent), ("replies", connection.answered)];
        for (direction, account) in both {
            if account != Account::default() {
                let ends = [client.to_string(), server.to_string()];
                let [client, server] = ends;
                let stream = [client, server, transport.to_string(), direction.to_owned()];
                streams.insert(stream, values(&account));
            }
        }
    }
    streams
}

fn values(account: &Account) -> [u64; 9] {
    [
        account.packets,
        account.payload_bytes,
        account.parsed_bytes,
        account.skipped_bytes,
        account.not_understood_bytes,
        account.repeated_bytes,
        account.cut_bytes,
        account.lost_bytes,
        account.calls + account.replies,
    ]
}

#[test]
fn an_account_is_kept_by_connection_and_can_be_asked_for_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, later) = (dir.path().join("a.pcap"), dir.path().join("b.pcap"));
    let store = dir.path().join("store");
    let mut packets = some_requests();
    packets.push(datagram(true, b"this is no message of RPC"));
    fs::write(&capture, pcap(START_S, &packets)).unwrap();
    fs::write(&later, pcap(START_S + 20, &some_requests())).unwrap();
    let words = ["import", "pcap", text(&capture), text(&later)];
    let output = trackiops(&[&words[..], &["--store", text(&store)]].concat());
    assert!(output.status.success(), "{output:?}");

    let first = expected(File::open(&capture).unwrap());
    let second = expected(File::open(&later).unwrap());
    let calls = ["10.0.0.1:700", "10.0.0.2:2049", "udp", "calls"].map(str::to_owned);
    assert_eq!(first[&calls][4], 25, "not understood");
    let at = |seconds: u32| format!("@{}", START_S + seconds);
    assert_eq!(kept(&store, &["--until", &at(10)]), first);
    assert_eq!(kept(&store, &["--since", &at(10)]), second);
    let all = kept(&store, &[]);
    for (stream, values) in &all {
        let sums = first[stream].iter().zip(&second[stream]);
        let sums: Vec<u64> = sums.map(|(a, b)| a + b).collect();
        assert_eq!(values[..], sums, "{stream:?}");
    }
    assert_eq!(all.len(), 2);

    // A query for rows reports their source, and which data is missing.
    let query = trackiops(&["query", "--since", "1990-01-01", "--store", text(&store)]);
    let said = String::from_utf8(query.stderr).unwrap();
    assert!(said.contains("imported with `import pcap`"), "{said}");
    assert!(said.contains("25 B of those could not be read"), "{said}");
    let export = dir.path().join("health.csv");
    let words = [
        "export",
        "--since",
        "1990-01-01",
        "--dataset",
        "health",
        "--store",
    ];
    let output = trackiops(&[&words[..], &[text(&store), "--output", text(&export)]].concat());
    assert!(output.status.success(), "{output:?}");
    let health: Vec<Row> = csv::Reader::from_path(&export)
        .unwrap()
        .deserialize()
        .map(Result::unwrap)
        .collect();
    assert!(
        health.iter().all(|row| row["source"] == "pcap"),
        "{health:?}"
    );
}

#[test]
fn a_recording_has_no_account() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let table = "time,op,bytes\n2026-11-21T03:00:00Z,READ,1\n";
    let file = dir.path().join("a.csv");
    fs::write(&file, table).unwrap();
    let words = [
        "import",
        "csv",
        text(&file),
        "--map",
        "time=time,op=op,bytes=bytes",
    ];
    let output = trackiops(&[&words[..], &["--store", text(&store)]].concat());
    assert!(output.status.success(), "{output:?}");
    let output = trackiops(&["import", "account", "--store", text(&store)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no captured connections"), "{said}");
}

#[test]
fn the_accounts_of_captures_with_holes_are_kept_to_the_byte() {
    let Some(folder) = shared("pcap") else {
        return;
    };
    let mut lost = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path
            .to_str()
            .and_then(|path| path.strip_suffix(".pcap.bz2"))
        else {
            continue;
        };
        let dir = tempfile::tempdir().unwrap();
        let (store, unpacked) = (dir.path().join("store"), dir.path().join("unpacked"));
        let output = import(&path, &store);
        assert!(output.status.success(), "{name}: {output:?}");
        let file = File::create(&unpacked).unwrap();
        let mut bunzip2 = Command::new("bunzip2");
        bunzip2.arg("-c").arg(&path).stdout(file);
        assert!(bunzip2.status().unwrap().success());
        let kept = kept(&store, &[]);
        assert_eq!(kept, expected(File::open(&unpacked).unwrap()), "{name}");
        lost += kept.values().map(|values| values[7]).sum::<u64>();
    }
    assert!(lost > 0, "none of them has a hole");
}
