//! Captures that were made to crash readers, and captures with random damage.
#![allow(clippy::expect_used)] // helpers of tests are tests

mod support;

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use support::{OwnPacket, found, found_in};

/// Test files of tcpdump and Zeek.
#[test]
fn captures_that_break_readers_are_read_to_their_end() {
    let Some(folder) = support::captures() else {
        return;
    };
    let mut files = 0;
    for entry in fs::read_dir(folder.join("malformed")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let began = Instant::now();
        let (found, report) = found_in(&support::read(&path));
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        println!(
            "{name}: {} packets, {} calls, {} replies",
            report.packets.frames,
            found.calls.len(),
            found.replies.len()
        );
        assert!(report.packets.frames > 0, "{name}");
        assert!(began.elapsed() < Duration::from_secs(5), "{name}");
        files += 1;
    }
    assert!(files > 0);
}

#[test]
fn a_file_that_is_no_capture_is_refused() {
    for file in [&b""[..], b"PAR1", &[0; 100], b"BZh91AY"] {
        let take = |_: trackiops_capture::Packet<'_>| std::ops::ControlFlow::Continue(());
        assert!(trackiops_capture::read_packets(file, take, || false).is_err());
    }
}

fn segment(connection: u32, sequence: u32, flags: u8, payload: usize) -> OwnPacket {
    let mut data = vec![0x45, 0];
    data.extend(u16::try_from(40 + payload).expect("a packet").to_be_bytes());
    data.extend([0, 0, 0, 0, 64, 6, 0, 0, 10]);
    data.extend(&connection.to_be_bytes()[1..]);
    data.extend([192, 168, 0, 1, 3, 0, 8, 1]);
    data.extend(sequence.to_be_bytes());
    data.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    data.resize(data.len() + payload, 0);
    OwnPacket {
        time_ns: i64::from(connection),
        link_type: 101,
        bytes: data.len() as u32,
        data,
    }
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    let kib = line.split_whitespace().next().expect("a number");
    kib.parse::<u64>().expect("a number") / 1024
}

/// Each connection begins, and continues after a hole that is never acknowledged. Without a limit, 3 GB would wait.
#[test]
fn connections_that_wait_for_ever_do_not_fill_the_memory() {
    let packets = (0..50_000).flat_map(|connection| {
        [
            segment(connection, 0, 2, 0),
            segment(connection, 100, 0, 60_000),
        ]
    });
    let mut decoder = trackiops_capture::Decoder::new((), &[]);
    for packet in packets {
        decoder.packet(&packet.packet());
    }
    let ((), report) = decoder.finish();
    assert_eq!(report.total().payload_bytes, 50_000 * 60_000);
    assert!(report.total().is_complete());
    assert_eq!(report.total().lost_bytes, 50_000 * 99);
    assert!(peak_mib() < 600, "{} MiB", peak_mib());
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_the_account_adds_up(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let packet = OwnPacket { time_ns: 0, link_type: 1, bytes: bytes.len() as u32, data: bytes };
        found([&packet]);
    }
}
