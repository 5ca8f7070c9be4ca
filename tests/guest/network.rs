//! What TCP knows of connections equals what `ss` says, also in another network namespace.

use std::sync::LazyLock;

use crate::run::{Answer, Run, kernel, number};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("network", &[]));

/// The connections of `network.sh`, each with a pattern of its mount.
const CONNECTIONS: [(&str, &str); 2] = [("own", "127.0.0.2:/exp"), ("other", "10.9.9.9:/exp*")];

/// The columns of a connection between two times that the script noted. All rows of its operations repeat them.
fn connection(mount: &str, from: &str, to: &str) -> Answer {
    let times = RUN.text("times");
    let at = |name: &str| -> String {
        let mut lines = times.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(noted, _)| *noted == name);
        found
            .unwrap_or_else(|| panic!("{name}: {times}"))
            .1
            .to_owned()
    };
    let (since, until) = (at(from), at(to));
    let range = ["--since", &since, "--until", &until];
    let of_mount = ["--by", "transport", "--step", "all", "--mount", mount];
    let rows = RUN.query(&[&of_mount[..], &range[..]].concat());
    let of_connection = |row: &Answer| -> Answer {
        let columns = row.iter();
        let columns = columns.filter(|(name, _)| *name == "transport" || name.starts_with("tcp_"));
        columns
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let mut known: Vec<Answer> = rows.iter().map(of_connection).collect();
    known.dedup();
    assert_eq!(known.len(), 1, "{mount}: {known:?}");
    known.remove(0)
}

/// Smoothed RTT in us and retransmitted segments of a connection, as `ss` said at a time.
fn said_by_ss(name: &str, connection: &str) -> (f64, u64) {
    let said = RUN.text(&format!("ss.{name}.{connection}"));
    let word = |key: &str| {
        let mut words = said.split_whitespace();
        words.find_map(|word| word.strip_prefix(key))
    };
    let rtt_ms = word("rtt:").and_then(|rtt| rtt.split('/').next()?.parse::<f64>().ok());
    let rtt_ms = rtt_ms.unwrap_or_else(|| panic!("{name}: {said}"));
    // `ss` leaves it out while it is 0.
    let retrans = word("retrans:").and_then(|retrans| retrans.split('/').nth(1)?.parse().ok());
    (rtt_ms * 1000.0, retrans.unwrap_or(0))
}

/// Whether the kernel shows the addresses of connections.
fn is_known() -> bool {
    kernel() != "5.10"
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_round_trip_times_are_those_of_the_network() {
    for (name, mount) in CONNECTIONS {
        let row = connection(mount, "began", "delayed");
        if !is_known() {
            let mut columns = row.iter().filter(|(name, _)| name.starts_with("tcp_"));
            assert!(columns.all(|(_, value)| value.is_null()), "{row:?}");
            continue;
        }
        let (rtt_us, _) = said_by_ss("delayed", name);
        let mean_us = number(&row, "tcp_rtt_us_mean");
        assert!(
            (39_000.0..80_000.0).contains(&mean_us) && (mean_us / rtt_us - 1.0).abs() < 0.3,
            "{name}: {mean_us} us, {rtt_us} us by ss"
        );
        let min_us = number(&row, "tcp_rtt_us_min");
        assert!(
            (39_000.0..=mean_us).contains(&min_us),
            "{name}: {min_us} us"
        );
        assert!(number(&row, "tcp_readings") >= 2.0, "{row:?}");
        // A request has a segment. Further operations are few.
        let segments = number(&row, "tcp_segments");
        assert!((60.0..90.0).contains(&segments), "{name}: {segments}");
        for column in ["tcp_retrans", "tcp_retrans_bytes", "tcp_reconnects"] {
            assert_eq!(row[column], 0, "{name}: {column}");
        }
        for column in ["tcp_cwnd_mean", "tcp_send_window_mean"] {
            assert!(number(&row, column) > 0.0, "{name}: {column}");
        }
        let window = &row["tcp_receive_window_mean"];
        assert_eq!(window.is_null(), kernel() == "6.1", "{name}: {window}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_retransmissions_are_those_that_the_kernel_counts() {
    if !is_known() {
        return;
    }
    let (name, mount) = CONNECTIONS[0];
    let row = connection(mount, "delayed", "lost");
    let [before, after] = ["delayed", "lost"].map(|time| said_by_ss(time, name).1);
    assert!(after > before, "nothing was lost");
    assert_eq!(row["tcp_retrans"], after - before, "{row:?}");
    let share = number(&row, "tcp_retrans_share");
    assert!((0.01..0.5).contains(&share), "{share}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_server_that_starts_again_is_one_reconnect() {
    if !is_known() {
        return;
    }
    for (name, mount) in CONNECTIONS {
        let row = connection(mount, "lost", "again");
        assert_eq!(row["tcp_reconnects"], 1, "{name}: {row:?}");
        let mean_us = number(&row, "tcp_rtt_us_mean");
        assert!(
            (39_000.0..100_000.0).contains(&mean_us),
            "{name}: {mean_us}"
        );
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_without_connections_nothing_asks_for_them() {
    let threads = RUN.text("threads");
    assert!(threads.contains("trackiops-look"), "{threads}");
    assert!(!threads.contains("trackiops-tcp"), "{threads}");
}
