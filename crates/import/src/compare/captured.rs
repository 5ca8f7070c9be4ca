//! READs and WRITEs of a capture.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

use trackiops_capture::{Decoder, Handle, Packet, Receiver, Request, read_packets};

use super::error::CompareError;
use crate::captures::operations::Found;
use crate::process::CutShort;
use crate::source::Source;

/// A READ or WRITE with its reply.
pub struct Transfer {
    /// The caller.
    pub client: IpAddr,
    /// The server.
    pub server: IpAddr,
    /// Transaction id.
    pub xid: u32,
    /// Whether it is a WRITE; otherwise it is a READ.
    pub is_write: bool,
    /// Index in [`Captured::handles`].
    pub handle: u32,
    /// Number of the file, if the reply has it.
    pub fileid: Option<u64>,
    /// First byte.
    pub offset: u64,
    /// Requested bytes, if the capture has them.
    pub asked_bytes: Option<u32>,
    /// Transferred bytes and error (positive, or 0), if the capture has them.
    pub outcome: Option<(u32, i32)>,
    /// Last byte of the reply, ns since the epoch.
    pub end_ns: i64,
    /// From the first byte of the call to the last byte of the reply, ns.
    pub latency_ns: Option<u64>,
    /// From the first byte of the call to the first byte of the reply, ns.
    pub answered_ns: Option<i64>,
    /// How often the call was sent again.
    pub retransmissions: u32,
}

/// The content of a capture.
#[derive(Default)]
pub struct Captured {
    /// READs and WRITEs, roughly in order of their ends.
    pub transfers: Vec<Transfer>,
    /// Handles of files, each once.
    pub handles: Vec<Handle>,
    places: HashMap<Handle, u32>,
    /// Times of the first and the last packet, ns since the epoch.
    pub range_ns: (i64, i64),
    /// Bytes that were sent, but are not in the capture or cannot be read there.
    pub unread_bytes: u64,
}

impl Captured {
    /// Reads the files of one capture, in order of time. `warn` receives the files whose ends cannot be read.
    pub fn read(
        sources: &[Source],
        ports: &[u16],
        mut warn: impl FnMut(CutShort),
    ) -> Result<Self, CompareError> {
        let mut decoder = Decoder::new(Self::default(), ports);
        for source in sources {
            let take = |packet: Packet<'_>| {
                decoder.packet(&packet);
                ControlFlow::Continue(())
            };
            let end = read_packets(source.open()?, take, || false);
            let end = end.map_err(|error| CompareError::Capture {
                name: source.name.clone(),
                source: error,
            })?;
            if let Some(why) = end.damage {
                warn(CutShort {
                    name: source.name.clone(),
                    why,
                    packets: end.packets,
                });
            }
        }
        let (captured, report) = decoder.finish();
        let total = report.total();
        let Some(range_ns) = report.time_range_ns else {
            return Err(CompareError::NoPackets);
        };
        Ok(Self {
            range_ns,
            unread_bytes: total.lost_bytes + total.not_understood_bytes,
            ..captured
        })
    }

    fn place_of(&mut self, handle: &Handle) -> u32 {
        if let Some(place) = self.places.get(handle) {
            return *place;
        }
        let place = u32::try_from(self.handles.len()).unwrap_or(u32::MAX);
        self.handles.push(handle.clone());
        self.places.insert(handle.clone(), place);
        place
    }
}

impl Receiver for Captured {
    fn request(&mut self, request: Request) {
        let Some(found) = Found::new(&request) else {
            return;
        };
        let peers = request.call.peers;
        for transfer in found.transfers() {
            let Some(offset) = transfer.operation.offset else {
                continue;
            };
            let outcome = found.outcome_for_client(&transfer);
            let handle = self.place_of(&transfer.handle);
            self.transfers.push(Transfer {
                client: peers.client.ip(),
                server: peers.server.ip(),
                xid: request.call.xid,
                is_write: transfer.is_write,
                handle,
                fileid: found.fileid_of(&transfer.handle),
                offset,
                asked_bytes: transfer.operation.count,
                outcome: outcome.map(|(bytes, error)| (bytes, -error)),
                end_ns: request.end_ns,
                latency_ns: request.latency_ns(),
                answered_ns: answered_ns(&request),
                retransmissions: request.retransmissions,
            });
        }
    }
}

/// `None` if the clock went back.
fn answered_ns(request: &Request) -> Option<i64> {
    let ns = request.reply.begin_ns.checked_sub(request.call.begin_ns)?;
    (ns >= 0).then_some(ns)
}
