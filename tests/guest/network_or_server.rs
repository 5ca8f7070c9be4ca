//! The time until replies of a distant server is network. Of a slow disk it is not.

use std::sync::LazyLock;

use crate::run::{Answer, Run, kernel, number};

static RUN: LazyLock<Run> =
    LazyLock::new(|| Run::script("network_or_server", &["--deb", "dmsetup"]));

/// Means over the reads of a mount between two times that the script noted, ms: until the reply, in the network, in the server, and unknown.
fn parts(mount: &str, from: &str, to: &str) -> [f64; 4] {
    let times = RUN.text("times");
    let at = |name: &str| {
        let mut lines = times.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.find(|(noted, _)| *noted == name);
        found.unwrap_or_else(|| panic!("{name}: {times}")).1
    };
    let range = ["--since", at(from), "--until", at(to)];
    let of = [
        "--by",
        "mount",
        "--mount",
        mount,
        "--step",
        "all",
        "--columns",
        "mount,read_requests,read_rtt_us_mean,read_network_us_mean,read_server_us_mean,read_rtt_unknown_us_mean",
    ];
    let rows = RUN.query(&[&of[..], &range[..]].concat());
    let [row]: [Answer; 1] = rows.try_into().unwrap();
    assert!(number(&row, "read_requests") >= 50.0, "{row:?}");
    ["rtt", "network", "server", "rtt_unknown"].map(|part| {
        let ms = number(&row, &format!("read_{part}_us_mean")) / 1000.0;
        println!("{mount} {part}: {ms:.2} ms");
        ms
    })
}

/// Whether the kernel shows the addresses of connections. Otherwise nothing is known of them.
fn is_known([rtt, network, server, unknown]: [f64; 4]) -> bool {
    if kernel() == "5.10" {
        assert_eq!([network, server, unknown], [0.0; 3]);
        return false;
    }
    assert!((network + server + unknown - rtt).abs() < 0.01, "{rtt}");
    true
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_distant_server_is_network() {
    let parts @ [rtt, network, server, _] = parts("127.0.0.2:/exp", "began", "far");
    assert!(rtt >= 40.0, "{parts:?}");
    if is_known(parts) {
        // A window whose reading came late is unknown.
        assert!((30.0..=rtt).contains(&network), "{parts:?}");
        assert!(server <= rtt - 40.0, "{parts:?}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_slow_disk_is_not_network() {
    let parts @ [rtt, network, server, unknown] = parts("127.0.0.3:/var/tmp/slow", "far", "slow");
    assert!(rtt >= 100.0, "{parts:?}");
    if is_known(parts) {
        // Acknowledgements wait for replies, so most of it is unknown beside quick operations.
        assert!(server > 0.0 && server + unknown >= 100.0, "{parts:?}");
        assert!(network <= 5.0, "{parts:?}");
    }
}
