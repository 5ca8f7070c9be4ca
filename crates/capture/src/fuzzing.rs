//! Entry points for `fuzz/` only: they pass arbitrary bytes to the readers of captures and of nfsdump text.

use std::ops::ControlFlow;

use crate::message::{Receiver, Request};
use crate::{Decoder, DumpDecoder, DumpMessage, Packet, read_lines, read_packets};

struct Sum(u64);

impl Receiver for Sum {
    fn request(&mut self, request: Request) {
        self.0 = self.0.wrapping_add(request.latency_ns().unwrap_or(1));
    }
}

/// Reads a capture, and checks that its account adds up.
pub fn capture(file: &[u8]) {
    let mut decoder = Decoder::new(Sum(0), &[]);
    let take = |packet: Packet<'_>| {
        decoder.packet(&packet);
        ControlFlow::Continue(())
    };
    let _ = read_packets(file, take, || false);
    let (_, report) = decoder.finish();
    assert!(report.total().is_complete(), "{:?}", report.total());
}

/// Reads bytes as payloads of TCP segments and datagrams between two hosts. Each payload begins with its length, a byte for its direction,
/// and its sequence number.
pub fn stream(bytes: &[u8]) {
    let mut decoder = Decoder::new(Sum(0), &[]);
    let mut rest = bytes;
    let mut frame = Vec::new();
    let mut time_ns = 0;
    while let Some((&[high, low, way, sequence], after)) = rest.split_first_chunk::<4>() {
        let len = usize::from(u16::from_be_bytes([high, low]) & 0x0fff).min(after.len());
        let (payload, after) = after.split_at(len);
        rest = after;
        time_ns += 1 << (way >> 3);
        segment(&mut frame, payload, way, u32::from(sequence));
        let bytes = frame.len() as u32;
        let kept = if way & 4 == 0 {
            frame.len()
        } else {
            frame.len() / 2
        };
        decoder.packet(&Packet {
            time_ns,
            link_type: 101,
            data: &frame[..kept],
            bytes,
        });
    }
    let (_, report) = decoder.finish();
    assert!(report.total().is_complete(), "{:?}", report.total());
}

/// Reads nfsdump text, and checks that its account adds up.
pub fn dump(text: &[u8]) {
    let mut decoder = DumpDecoder::new(Sum(0));
    let take = |line: &[u8]| {
        if let Ok(message) = DumpMessage::parse(line) {
            decoder.message(message);
        }
        ControlFlow::Continue(())
    };
    let _ = read_lines(text, take, || false);
    let total = decoder.finish().1.total();
    let answered = total.requests + total.repeated_replies + total.orphans;
    assert_eq!(total.replies, answered, "{total:?}");
    let called = total.requests + total.unanswered + total.retransmissions;
    assert_eq!(total.calls, called, "{total:?}");
}

fn segment(frame: &mut Vec<u8>, payload: &[u8], way: u8, sequence: u32) {
    frame.clear();
    let is_tcp = way & 2 == 0;
    let transport = if is_tcp { 20 } else { 8 };
    let total = (20 + transport + payload.len()) as u16;
    let (source, destination) = if way & 1 == 0 {
        (700, 2049)
    } else {
        (2049, 700)
    };
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0]);
    frame.extend([10, 0, 0, 1 + (way & 1), 10, 0, 0, 2 - (way & 1)]);
    frame.extend(u16::to_be_bytes(source));
    frame.extend(u16::to_be_bytes(destination));
    if is_tcp {
        frame.extend((sequence * 16).to_be_bytes());
        frame.extend((sequence * 16).to_be_bytes());
        let flags = if sequence == 0 { 0x02 } else { 0x10 };
        frame.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
    } else {
        frame.extend(((8 + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend(payload);
}
