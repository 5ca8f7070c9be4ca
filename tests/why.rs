//! `trackiops why`: its output for people and for programs, and its exit status.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use trackiops_schemas::row::ClosedWindow;
use trackiops_testkit::incidents::{
    SECONDS, backup_requests, is_planted, noisy_neighbour, office, office_over, recorded,
    slow_network, written_over,
};
use trackiops_testkit::stores::{options, record, record_with_requests};
use trackiops_testkit::windows::connection;

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(words).arg("--store").arg(dir.join("store"));
    command.env("TZ", "UTC0").output().unwrap()
}

fn stored(windows: &[ClosedWindow]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    record(&dir.path().join("store"), options("h"), windows);
    dir
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_planted_neighbour_is_named_in_one_look() {
    let dir = stored(&noisy_neighbour());
    let said = run(dir.path(), &["why"]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    for part in [
        "2026-11-21 03:10:00 to 03:11:00: reads",
        "on nas:/data took",
        "in the network or the server",
        "`/srv/scratch/backup.tar` (0:/backup.service) wrote",
        "`/srv/db/orders.db` (1000:/db.service) lost",
        "Cause: a noisy neighbour (high confidence).",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = run(
        dir.path(),
        &["why", "--json", "--since", "2026-11-21 03:10"],
    );
    let moment: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(moment["cause"], "noisy-neighbour");
    assert_eq!(moment["confidence"], "high");
    assert_eq!(moment["load"]["name"], "/srv/scratch/backup.tar");
    assert_eq!(moment["load"]["lost_s"], Value::Null);
    assert_eq!(moment["victims"][0]["path"], "/srv/db/orders.db");
    for of in [&moment["load"], &moment["victims"][0]] {
        for name in ["bytes_per_second", "iops", "p99_us"] {
            assert!(of[name].as_f64().unwrap() > 0.0, "{name}: {of}");
        }
    }
    assert_eq!(moment["until"], "2026-11-21T03:11:00.000Z");
}

#[test]
fn the_process_of_a_culprit_is_named_in_every_door() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let (windows, requests) = (noisy_neighbour(), backup_requests());
    record_with_requests(&store, options("h"), &windows, &requests);
    let said = text(&run(dir.path(), &["why"]).stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "`/srv/scratch/backup.tar` (0:/backup.service, tar[4711]) wrote";
    assert!(said.contains(sentence), "{said}");
    let said = run(dir.path(), &["why", "--json"]).stdout;
    let moment: Value = serde_json::from_slice(&said).unwrap();
    let load = &moment["load"];
    assert_eq!(load["process"], "tar");
    assert_eq!(load["pid"], 4711);
    assert_eq!(load["cgroup"], "/backup.service");
    // Events and the page have this text, too.
    assert!(moment["text"].as_str().unwrap().contains(sentence));
    let frame = run(
        dir.path(),
        &["top", "--once", "--since", "2026-11-21 03:11:30"],
    );
    let line = "03:10:00 to 03:11:00: a noisy neighbour (/srv/scratch/backup.tar, tar[4711]): ";
    assert!(text(&frame.stdout).starts_with(line), "{frame:?}");
    let head = head_of_report(dir.path(), &[]);
    assert!(head.contains(sentence), "{head}");
    assert!(head.contains("<td>tar[4711] wrote"), "{head}");
    let hidden = head_of_report(dir.path(), &["--anonymize", &key_in(dir.path())]);
    assert!(!hidden.contains("tar[4711]"), "{hidden}");
}

#[test]
fn an_export_has_a_verdict_without_processes() {
    let dir = stored(&noisy_neighbour());
    let export = dir.path().join("export.parquet").display().to_string();
    let exported = run(dir.path(), &["export", "--output", &export]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let said = Command::new(env!("CARGO_BIN_EXE_trackiops"))
        .args(["why", "--json", "--store", &export])
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let moment: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(moment["load"]["name"], "/srv/scratch/backup.tar");
    assert_eq!(moment["load"]["process"], Value::Null);
}

#[test]
fn a_slow_network_is_named_with_its_evidence() {
    let dir = stored(&slow_network());
    let said = text(&run(dir.path(), &["why"]).stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        ", in the network)",
        "The connections show that it was the network (RTT 400 us to 4",
        "retransmitted).",
        "Cause: the network (medium confidence).",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = run(dir.path(), &["why", "--json"]);
    let moment: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(moment["cause"], "network");
    assert_eq!(moment["network_or_server"], "network");
    assert_eq!(moment["tcp_rtt_us_before"], 400.0);
    assert_eq!(moment["tcp_retrans_share_before"], 0.0);
    let connection = &moment["connections"][0];
    assert_eq!(connection["transport"], "tcp-0");
    assert_eq!(connection["mounts"][0], "nas:/data");
    assert_eq!(connection["tcp_rtt_us_before"], 400.0);
    assert_eq!(connection["tcp_rtt_us_min_before"], 400.0);
    assert!(connection["tcp_retrans_share"].as_f64().unwrap() > 0.02);
    assert_eq!(connection["tcp_reconnects"], 0.0);
}

#[test]
fn nothing_is_said_of_nothing() {
    let dir = stored(&recorded(3, 300, |_, second| office(second, 1.0)));
    let said = run(dir.path(), &["why"]);
    assert_eq!(
        (said.status.code(), text(&said.stdout)),
        (Some(1), String::new())
    );
    let why = "nothing was slow from 2026-11-21 03:00:00 to 03:05:00";
    assert!(text(&said.stderr).contains(why), "{}", text(&said.stderr));
    let said = run(dir.path(), &["why", "--since", "2026-11-22"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("nothing was recorded"));
    let said = run(dir.path(), &["why", "--until", "soon"]);
    assert_eq!(said.status.code(), Some(2));
}

/// The head of the report of a store.
fn head_of_report(dir: &Path, more: &[&str]) -> String {
    let page = dir.join("incident.html");
    let words = [&["report", "incident", "-o", page.to_str().unwrap()], more].concat();
    let said = run(dir, &words);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    let (verdict, _) = page.split_once("<div id=\"app\">").unwrap();
    verdict.split_once("<body>").unwrap().1.to_owned()
}

/// A key for pseudonyms.
fn key_in(dir: &Path) -> String {
    let key = dir.join("key").display().to_string();
    let made = Command::new(env!("CARGO_BIN_EXE_trackiops"))
        .args(["anonymize-key", &key])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    key
}

#[test]
fn a_report_has_the_connections_of_a_slow_network() {
    let dir = stored(&slow_network());
    let head = head_of_report(dir.path(), &[]);
    for part in [
        "The connections show that it was the network",
        "<th scope=\"col\">least RTT</th>",
        "<td>tcp-0</td>\n<td>nas:/data</td>\n<td>400 us to ",
        "<td>0.0% to ",
        "<td>0 to 0</td>\n<td>the network</td>",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    let hidden = head_of_report(dir.path(), &["--anonymize", &key_in(dir.path())]);
    assert!(hidden.contains("<td>tcp-0</td>"), "{hidden}");
    assert!(!hidden.contains("nas"), "{hidden}");
    // Nothing is known of connections here.
    let dir = stored(&noisy_neighbour());
    assert!(!head_of_report(dir.path(), &[]).contains("least RTT"));
}

#[test]
fn a_report_begins_with_the_verdict() {
    let dir = stored(&noisy_neighbour());
    let report = |more: &[&str]| head_of_report(dir.path(), more);
    let marked = run(
        dir.path(),
        &["mark", "--at", "2026-11-21 03:09", "orders close"],
    );
    assert!(marked.status.success(), "{}", text(&marked.stderr));
    let verdict = report(&["--note", "Ticket 17: <slow>"]);
    for part in [
        "took",
        "<p>Ticket 17: &lt;slow&gt;</p>",
        "`/srv/scratch/backup.tar` (0:/backup.service) wrote",
        "a noisy neighbour",
        "<th scope=\"col\">bytes/s</th><th scope=\"col\">IOPS</th><th scope=\"col\">p99</th><th scope=\"col\">lost</th>",
        "<td>culprit</td>\n<td>/srv/scratch/backup.tar</td>",
        "<td>victim</td>\n<td>/srv/db/orders.db</td>",
        "2026-11-21 03:09:00: orders close",
    ] {
        assert!(verdict.contains(part), "{part}: {verdict}");
    }
    let verdict = report(&["--anonymize", &key_in(dir.path())]);
    assert!(verdict.contains("a noisy neighbour"), "{verdict}");
    for name in ["backup", "orders", "nas", "srv"] {
        assert!(!verdict.contains(name), "{name}: {verdict}");
    }
    let quiet = report(&["--until", "2026-11-21 03:05"]);
    assert!(quiet.contains("Nothing was slow in this time."), "{quiet}");
}

#[test]
fn the_screen_begins_with_it() {
    let dir = stored(&noisy_neighbour());
    for (since, line) in [
        (
            "2026-11-21 03:11:30",
            "03:10:00 to 03:11:00: a noisy neighbour (/srv/scratch/backup.tar): ",
        ),
        (
            "2026-11-21 03:05",
            "nothing was slow in the 10 min until 2026-11-21 03:05:10",
        ),
    ] {
        let said = run(dir.path(), &["top", "--once", "--since", since]);
        let frame = text(&said.stdout);
        assert!(frame.starts_with(line), "{frame}");
    }
}

#[test]
fn the_screen_says_network_or_server_or_that_it_cannot_tell() {
    let slow_for_all = recorded(3, SECONDS, |number, second| {
        office(second, if is_planted(number) { 3.0 } else { 1.0 });
    });
    let slow_server = office_over(20.0, |is_on| {
        let us = if is_on { 14_000 } else { 700 };
        vec![
            written_over("tcp-0", "nas:/data", us),
            connection("tcp-0", 400, 0, 1000),
        ]
    });
    for (windows, cause) in [
        (slow_network(), "the network: "),
        (slow_server, "the server: "),
        (
            slow_for_all,
            "the server or the network, cannot tell which: ",
        ),
    ] {
        let dir = stored(&windows);
        let words = ["top", "--once", "--since", "2026-11-21 03:11:30"];
        let frame = text(&run(dir.path(), &words).stdout);
        let (line, _) = frame.split_once('\n').unwrap();
        assert!(line.contains(&format!(": {cause}")), "{frame}");
    }
}
