//! Reads NFS requests from packet captures: pcap and pcapng; NFS v2, v3 and v4.0 to v4.2, over TCP and UDP, IPv4 and IPv6.
//!
//! ```text
//! file -> packets -> link -> fragments -> tcp (streams with holes) -> record (marks) -> rpc -> nfs -> pairing -> Receiver
//! ```
//!
//! Text of nfsdump takes a shorter path: line -> nfsdump -> pairing -> Receiver.
//!
//! A separate thread reads and decompresses packets. The decoder makes one pass and keeps no file data: it reads the beginning of each
//! message, and more only for names or later operations. Memory is bounded for any input. At the end, [`Account`] covers every byte.

mod account;
mod compression;
mod connection;
mod decoder;
mod fragments;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod link;
mod message;
mod nfs;
mod nfsdump;
mod packets;
mod pairing;
mod read_ahead;
mod record;
mod rpc;
mod tcp;
mod xdr;

pub use account::Account;
pub use compression::decompressed;
pub use connection::Tally;
pub use decoder::{ConnectionReport, Decoder, Frames, NFS_PORT, Report};
pub use link::Skipped;
pub use message::*;
pub use nfs::{NFS_PROGRAM, operation_name, procedure_name};
pub use nfsdump::{ClientTally, DumpDecoder, DumpMessage, DumpReport, NotUnderstood, read_lines};
pub use packets::{FileEnd, Packet, PacketsError, read_packets};
