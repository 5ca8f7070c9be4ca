//! Converts calls with their replies: each becomes an operation, READs and WRITEs, and names of files.

use trackiops_capture::{Account, Peers, Receiver, Request, Transport};
use trackiops_schemas::captured::{Carrier, Stream, StreamBytes, StreamDirection};
use trackiops_schemas::ops::Operation;

use super::files::Files;
use super::operations::Found;
use crate::hosts::{Completed, Done, Hosts};

impl Receiver for Hosts<Files> {
    fn account(&mut self, peers: &Peers, is_from_client: bool, last_ns: i64, more: &Account) {
        let stream = Stream {
            client: peers.client,
            server: peers.server,
            carrier: match peers.transport {
                Transport::Tcp => Carrier::Tcp,
                Transport::Udp => Carrier::Udp,
            },
            direction: match is_from_client {
                true => StreamDirection::Calls,
                false => StreamDirection::Replies,
            },
        };
        let Account {
            packets,
            payload_bytes,
            parsed_bytes,
            skipped_bytes,
            not_understood_bytes,
            repeated_bytes,
            cut_bytes,
            lost_bytes,
            holes: _,
            calls,
            replies,
        } = *more;
        let bytes = StreamBytes {
            packets,
            payload_bytes,
            parsed_bytes,
            skipped_bytes,
            not_understood_bytes,
            repeated_bytes,
            cut_bytes,
            lost_bytes,
            messages: calls + replies,
        };
        self.add_captured(last_ns, stream, &bytes);
    }

    fn request(&mut self, request: Request) {
        let Some(found) = Found::new(&request) else {
            return;
        };
        let peers = &request.call.peers;
        let (host, server) = (peers.client.ip().to_string(), peers.server.ip());
        let begin_ns = request.call.begin_ns;
        let mut records = Vec::new();
        let mut files = self.names();
        found.names(&mut files);
        found.records(&mut files, &mut records);
        let file = found
            .file()
            .map(|(handle, attributes)| files.id(server, handle, attributes));
        drop(files);
        let transport = self.transport(&host, begin_ns, peers);
        let names = found.operations().into_iter().enumerate();
        let operations = names.map(|(place, op)| Done {
            // Count the bytes of the messages only once.
            sums: if place == 0 {
                found.sums()
            } else {
                found.sums_beside()
            },
            file: file
                .filter(|_| !Found::is_transfer(&op))
                .map(|file| (file, found.tenant())),
            operation: Operation {
                mount: Some(Files::mount(server)),
                op,
                transport: transport.clone(),
            },
        });
        let completed = Completed {
            begin_ns,
            end_ns: request.end_ns,
            operations: &operations.collect::<Vec<_>>(),
            records: &records,
        };
        self.add(&host, &completed);
    }
}
