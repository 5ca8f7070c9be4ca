//! Test captures, and what the decoder finds in them.
#![allow(dead_code)] // each test uses a part

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use trackiops_capture::{
    Call, Decoder, Packet, Receiver, Reply, Report, Request, Seen, read_packets,
};

/// The folder with captures that are not in the repository: `TRACKIOPS_FAST09`, or a folder next to the repository.
pub fn captures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fast09");
    let folder = std::env::var_os("TRACKIOPS_FAST09").map_or(beside, PathBuf::from);
    let captures = folder.join("pcap");
    if captures.is_dir() {
        return Some(captures);
    }
    println!(
        "skipped: {} is not there; TRACKIOPS_FAST09 says where the captures are",
        captures.display()
    );
    None
}

/// Reads a file, and decompresses bzip2.
pub fn read(path: &Path) -> Vec<u8> {
    if path.extension().is_none_or(|extension| extension != "bz2") {
        return fs::read(path).expect("the capture can be read");
    }
    let output = Command::new("bunzip2").arg("-c").arg(path).output();
    let output = output.expect("bunzip2 is installed");
    assert!(output.status.success(), "{}", path.display());
    output.stdout
}

/// A packet in memory.
#[derive(Clone, Debug)]
pub struct OwnPacket {
    pub time_ns: i64,
    pub link_type: i32,
    pub data: Vec<u8>,
    pub bytes: u32,
}

impl OwnPacket {
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            time_ns: self.time_ns,
            link_type: self.link_type,
            data: &self.data,
            bytes: self.bytes,
        }
    }
}

/// All packets of a capture.
pub fn packets(file: &[u8]) -> Vec<OwnPacket> {
    let mut packets = Vec::new();
    let take = |packet: Packet<'_>| {
        packets.push(OwnPacket {
            time_ns: packet.time_ns,
            link_type: packet.link_type,
            data: packet.data.to_vec(),
            bytes: packet.bytes,
        });
        ControlFlow::Continue(())
    };
    let end = read_packets(file, take, || false);
    assert_eq!(end.expect("a capture").damage, None);
    packets
}

/// Everything that the decoder finds.
#[derive(Default)]
pub struct Found {
    pub calls: Vec<(Arc<Call>, Seen, bool)>,
    pub replies: Vec<(Reply, Seen, bool)>,
    pub requests: Vec<Request>,
    pub unanswered: Vec<Arc<Call>>,
}

impl Receiver for Found {
    fn call(&mut self, call: &Arc<Call>, seen: Seen, is_retransmission: bool) {
        self.calls.push((Arc::clone(call), seen, is_retransmission));
    }
    fn reply(&mut self, reply: &Reply, seen: Seen, is_repeated: bool) {
        self.replies.push((reply.clone(), seen, is_repeated));
    }
    fn request(&mut self, request: Request) {
        self.requests.push(request);
    }
    fn unanswered(&mut self, call: &Arc<Call>) {
        self.unanswered.push(Arc::clone(call));
    }
}

/// Decodes packets, and checks that the account adds up.
pub fn found<'a>(packets: impl IntoIterator<Item = &'a OwnPacket>) -> (Found, Report) {
    let mut decoder = Decoder::new(Found::default(), &[]);
    for packet in packets {
        decoder.packet(&packet.packet());
    }
    checked(decoder)
}

/// Decodes a file. Also returns how the file ends.
pub fn found_in(file: &[u8]) -> (Found, Report) {
    let mut decoder = Decoder::new(Found::default(), &[]);
    let take = |packet: Packet<'_>| {
        decoder.packet(&packet);
        ControlFlow::Continue(())
    };
    let _ = read_packets(file, take, || false);
    checked(decoder)
}

fn checked(decoder: Decoder<Found>) -> (Found, Report) {
    let (found, report) = decoder.finish();
    for connection in &report.connections {
        for account in [&connection.sent, &connection.answered] {
            assert!(account.is_complete(), "{connection:?}");
        }
    }
    (found, report)
}

/// Counts equal items.
pub fn counted<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    counts
}
