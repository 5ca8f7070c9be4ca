//! Removes packets from a good capture. The result must be a part of the truth, and every byte must be accounted for.
#![allow(clippy::expect_used)] // helpers of tests are tests

mod support;

use std::collections::BTreeMap;

use support::{Found, OwnPacket, counted, found, packets};
use trackiops_capture::{Call, OperationCall, OperationReply, Report};

/// Small enough to be read often: TCP with data, UDP with fragments, and only small messages.
const CAPTURES: [&str; 4] = [
    "2sessions-tcp-wsize32k-tcp-wsize512k.pcap.bz2",
    "eth-ipv4-udp-nfsv3-dup-retransm.pcap.bz2",
    "eth-ipv4-udp-nfsv3.pcap.bz2",
    "zeek-nfs_base.pcap.bz2",
];

fn each(mut check: impl FnMut(&str, &[OwnPacket], &Found)) {
    let Some(folder) = support::captures() else {
        return;
    };
    for name in CAPTURES {
        let packets = packets(&support::read(&folder.join(name)));
        let (truth, _) = found(&packets);
        check(name, &packets, &truth);
    }
}

/// A call without the time at which it was seen.
fn of_call(call: &Call) -> (String, u32, u32, u32, Option<u32>, String) {
    let operations: &[OperationCall] = &call.operations;
    (
        format!("{:?}", call.peers),
        call.xid,
        call.version,
        call.procedure,
        call.credential.uid,
        format!("{operations:?}"),
    )
}

fn is_read(operations: &[OperationReply]) -> String {
    format!("{operations:?}")
}

/// Checks that everything found is true: calls, replies, and each field of requests.
fn check_is_part(what: &str, part: &Found, truth: &Found) {
    let calls = |found: &Found| counted(found.calls.iter().map(|(call, ..)| of_call(call)));
    let of_truth = calls(truth);
    for (call, ..) in part.calls.iter().filter(|(call, ..)| call.opaque.is_none()) {
        assert!(of_truth.contains_key(&of_call(call)), "{what}: {call:?}");
    }
    let requests: BTreeMap<_, _> = truth
        .requests
        .iter()
        .map(|request| (of_call(&request.call), is_read(&request.reply.operations)))
        .collect();
    for request in &part.requests {
        if request.call.opaque.is_none() && request.reply.opaque.is_none() {
            let reply = requests.get(&of_call(&request.call));
            assert_eq!(reply, Some(&is_read(&request.reply.operations)), "{what}");
        }
    }
    assert!(part.requests.len() <= truth.requests.len(), "{what}");
}

fn check_payload(what: &str, report: &Report, truth: &Report) {
    let (ours, all) = (report.total(), truth.total());
    assert_eq!(ours.payload_bytes, all.payload_bytes, "{what}");
}

#[test]
fn a_capture_that_lacks_packets_has_a_part_of_the_requests() {
    each(|name, packets, truth| {
        for nth in [2, 3, 7, 13, 50, 200] {
            for first in 0..3.min(nth) {
                let kept = packets
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| index % nth != first);
                let (part, report) = found(kept.map(|(_, packet)| packet));
                check_is_part(&format!("{name}, without each {nth}th"), &part, truth);
                if nth >= 50 {
                    // A hole loses only the messages that it touches.
                    let lost = truth.requests.len() - part.requests.len();
                    let most = 2 * packets.len() / nth + 2;
                    assert!(
                        lost <= most,
                        "{name}, {nth}: {lost} requests lost of at most {most}; {:?}",
                        report.total()
                    );
                }
            }
        }
    });
}

#[test]
fn packets_that_come_twice_change_nothing() {
    each(|name, packets, truth| {
        let twice = packets.iter().flat_map(|packet| [packet, packet]);
        let (found, report) = found(twice);
        check_is_part(name, &found, truth);
        assert_eq!(found.calls.len(), truth.calls.len(), "{name}");
        assert_eq!(found.requests.len(), truth.requests.len(), "{name}");
        assert!(
            report.total().repeated_bytes > 0 || name.contains("udp"),
            "{name}"
        );
    });
}

#[test]
fn packets_in_another_order_have_the_same_requests() {
    each(|name, packets, truth| {
        for nth in [2, 3, 10] {
            let mut swapped = packets.to_vec();
            swapped
                .chunks_exact_mut(nth)
                .for_each(|chunk| chunk.swap(0, 1));
            let (part, report) = found(&swapped);
            check_is_part(&format!("{name}, swapped"), &part, truth);
            let (_, all) = found(packets);
            check_payload(name, &report, &all);
        }
    });
}

#[test]
fn packets_that_were_cut_have_what_stands_in_front() {
    each(|name, packets, truth| {
        for snaplen in [128, 200, 60, 40, 20] {
            let mut cut = packets.to_vec();
            cut.iter_mut()
                .for_each(|packet| packet.data.truncate(snaplen));
            let (part, report) = found(&cut);
            check_is_part(&format!("{name}, cut to {snaplen}"), &part, truth);
            if snaplen >= 60 {
                let (_, all) = found(packets);
                check_payload(name, &report, &all);
            }
            if snaplen == 200 && name.contains("udp") {
                // Calls and replies begin with packets, so the snaplen keeps all fields that are read.
                assert_eq!(part.requests.len(), truth.requests.len(), "{name}");
            }
        }
    });
}

#[test]
fn a_capture_may_begin_and_end_anywhere() {
    each(|name, packets, truth| {
        let step = (packets.len() / 40).max(1);
        for begin in (1..packets.len()).step_by(step) {
            let (part, _) = found(&packets[begin..]);
            check_is_part(&format!("{name}, from {begin}"), &part, truth);
            let (part, _) = found(&packets[..begin]);
            check_is_part(&format!("{name}, until {begin}"), &part, truth);
        }
        // Every request that begins after the first half must be in the second half.
        let half = packets.len() / 2;
        let after_ns = packets[half].time_ns;
        let (part, _) = found(&packets[half..]);
        let late = truth
            .requests
            .iter()
            .filter(|request| request.call.begin_ns > after_ns);
        assert!(part.requests.len() >= late.count(), "{name}");
    });
}

#[test]
fn one_direction_has_calls_and_no_requests() {
    each(|name, packets, truth| {
        let calls_only = |packet: &&OwnPacket| {
            let port = |at: usize| packet.data.get(at..at + 2) == Some(&[8, 1]);
            // Source port, after the headers of Ethernet and of IPv4 without options.
            !port(34)
        };
        let (part, _) = found(packets.iter().filter(calls_only));
        check_is_part(name, &part, truth);
        assert_eq!(part.requests.len(), 0, "{name}");
        assert_eq!(part.calls.len(), truth.calls.len(), "{name}");
        let (part, report) = found(packets.iter().filter(|packet| !calls_only(packet)));
        check_is_part(name, &part, truth);
        assert_eq!((part.calls.len(), part.requests.len()), (0, 0), "{name}");
        assert!(report.total().replies > 0, "{name}");
    });
}

#[test]
fn vlan_tags_and_other_links_change_nothing() {
    each(|name, packets, truth| {
        let with = |change: &dyn Fn(&mut OwnPacket)| {
            let mut changed = packets.to_vec();
            changed.iter_mut().for_each(|packet| {
                let before = packet.data.len();
                change(packet);
                packet.bytes = packet.bytes + packet.data.len() as u32 - before as u32;
            });
            let (found, _) = found(&changed);
            check_is_part(name, &found, truth);
            assert_eq!(found.requests.len(), truth.requests.len(), "{name}");
        };
        with(&|packet| drop(packet.data.splice(12..12, [0x81, 0, 0, 7])));
        with(&|packet| {
            drop(
                packet
                    .data
                    .splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0, 7]),
            )
        });
        with(&|packet| {
            packet.link_type = 113;
            packet.data.splice(..12, [0; 14]);
        });
        with(&|packet| {
            packet.link_type = 276;
            let kind = [packet.data[12], packet.data[13]];
            packet.data.splice(..14, kind.into_iter().chain([0; 18]));
        });
        let ip = |packet: &&OwnPacket| packet.data.get(12..14) == Some(&[8, 0]);
        let mut raw: Vec<OwnPacket> = packets.iter().filter(ip).cloned().collect();
        for packet in &mut raw {
            packet.link_type = 101;
            packet.data.drain(..14);
            packet.bytes -= 14;
        }
        assert_eq!(found(&raw).0.requests.len(), truth.requests.len(), "{name}");
    });
}
