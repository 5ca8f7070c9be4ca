//! Cases that the reference captures lack: NFSv4.1, RPCSEC_GSS, TLS, records of several fragments, streams with holes, pcapng.
#![allow(clippy::expect_used)] // helpers of tests are tests

mod support;

use std::ops::ControlFlow;

use support::{Found, OwnPacket, found};
use trackiops_capture::{
    Decoder, Handle, Opaque, Packet, Protection, Report, RpcStatus, Skipped, operation_name,
    read_packets,
};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn opaque(text: &[u8]) -> Vec<u8> {
    let mut bytes = words(&[text.len() as u32]);
    bytes.extend(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

const AUTH_SYS: [u32; 7] = [1, 20, 0, 0, 1000, 100, 0];

/// An NFS call with this credential.
fn call(xid: u32, version: u32, procedure: u32, credential: &[u32], arguments: &[u8]) -> Vec<u8> {
    let header = words(&[xid, 0, 2, 100_003, version, procedure]);
    [&header, &words(credential), &words(&[0, 0]), arguments].concat()
}

fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    [&words(&[xid, 1, 0, 0, 0, 0]), results].concat()
}

fn record(message: &[u8]) -> Vec<u8> {
    [&words(&[message.len() as u32 | 1 << 31]), message].concat()
}

/// A connection between a client and its server, packet by packet.
struct Connection {
    packets: Vec<OwnPacket>,
    /// Sequence numbers of client and server.
    next: [u32; 2],
}

impl Connection {
    fn begin() -> Self {
        let mut connection = Self {
            packets: Vec::new(),
            next: [u32::MAX - 50, 9],
        };
        connection.packet(0, 0x02, &[]);
        connection.next[0] = connection.next[0].wrapping_add(1);
        connection.packet(1, 0x12, &[]);
        connection.next[1] += 1;
        connection
    }

    fn packet(&mut self, from: usize, flags: u8, payload: &[u8]) {
        let ends = [([10, 0, 0, 1], 700_u16), ([10, 0, 0, 2], 2049)];
        let ((source, source_port), (target, target_port)) = (ends[from], ends[1 - from]);
        let mut data = vec![0x45, 0];
        data.extend((40 + payload.len() as u16).to_be_bytes());
        data.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        data.extend(source.iter().chain(&target));
        data.extend(source_port.to_be_bytes());
        data.extend(target_port.to_be_bytes());
        data.extend(self.next[from].to_be_bytes());
        data.extend(self.next[1 - from].to_be_bytes());
        data.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        data.extend(payload);
        let time_ns = self.packets.len() as i64 * 1000;
        self.packets.push(OwnPacket {
            time_ns,
            link_type: 101,
            bytes: data.len() as u32,
            data,
        });
        self.next[from] = self.next[from].wrapping_add(payload.len() as u32);
    }

    /// Sends bytes in segments of `segment` bytes.
    fn send(&mut self, from: usize, bytes: &[u8], segment: usize) {
        bytes
            .chunks(segment)
            .for_each(|chunk| self.packet(from, 0x10, chunk));
    }

    fn exchange(&mut self, call: &[u8], reply: &[u8]) {
        self.send(0, &record(call), 1000);
        self.send(1, &record(reply), 1000);
    }

    fn found(&self) -> (Found, Report) {
        found(&self.packets)
    }
}

const STATEID: [u32; 4] = [1, 2, 3, 4];

/// SEQUENCE, PUTFH, OPEN by name, GETFH, GETATTR, and a WRITE whose data comes before another GETATTR.
fn compound() -> (Vec<u8>, Vec<u8>) {
    let sequence = words(&[53, 1, 2, 3, 4, 7, 0, 0, 0]);
    let open = [
        words(&[18, 0, 1, 0, 0, 7]),
        opaque(b"owner"),
        words(&[0, 0]),
        opaque(b"new file"),
    ]
    .concat();
    let write = [
        words(&[38]),
        words(&STATEID),
        words(&[1, 0, 2]),
        opaque(&[7; 5001]),
    ]
    .concat();
    let getattr = words(&[9, 2, 0x0010_001a, 0x0030_a23a]);
    let operations = [
        sequence,
        [words(&[22]), opaque(b"directory")].concat(),
        open,
        words(&[10]),
        getattr.clone(),
        write,
        getattr,
    ];
    let arguments = [opaque(b"tag"), words(&[1, 7]), operations.concat()].concat();
    let opened = [
        words(&[18, 0]),
        words(&STATEID),
        words(&[1, 0, 1, 0, 2, 0, 1, 0x10, 2]),
        words(&STATEID),
        words(&[0, 1, 0, 4096, 0, 0, 0]),
        opaque(b"EVERYONE@"),
    ];
    let attributes = |size| {
        [words(&[
            9,
            0,
            2,
            0x0010_001a,
            0x0030_a23a,
            32,
            1,
            0,
            3,
            0,
            size,
            0,
            42,
            0,
        ])]
        .concat()
    };
    let results = [
        words(&[53, 0, 1, 2, 3, 4, 7, 0, 0, 0, 0]),
        words(&[22, 0]),
        opened.concat(),
        [words(&[10, 0]), opaque(b"file")].concat(),
        attributes(0),
        words(&[38, 0, 5001, 2, 0, 0]),
        attributes(5001),
    ];
    let results = [words(&[0]), opaque(b"tag"), words(&[7]), results.concat()].concat();
    (call(5, 4, 1, &AUTH_SYS, &arguments), reply(5, &results))
}

#[test]
fn operations_of_a_compound_are_about_the_file_that_was_current() {
    let (call, reply) = compound();
    let mut connection = Connection::begin();
    connection.exchange(&call, &reply);
    let (found, report) = connection.found();
    let [request] = &found.requests[..] else {
        panic!("{report:?}")
    };
    assert_eq!((request.call.opaque, request.reply.opaque), (None, None));
    assert_eq!(request.call.minor_version, Some(1));
    assert_eq!(request.call.credential.uid, Some(1000));
    let names: Vec<_> = request
        .call
        .operations
        .iter()
        .map(|o| operation_name(4, o.number).expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "SEQUENCE", "PUTFH", "OPEN", "GETFH", "GETATTR", "WRITE", "GETATTR"
        ]
    );
    let open = &request.call.operations[2];
    assert_eq!(open.name.as_deref(), Some(&b"new file"[..]));
    assert_eq!(open.handle, Some(Handle(b"directory"[..].into())));
    let write = &request.call.operations[5];
    assert_eq!(
        (write.offset, write.count, write.is_stable),
        (Some(1 << 32), Some(5001), Some(true))
    );
    let results = &request.reply.operations;
    for place in [2, 3, 4, 5, 6] {
        assert_eq!(
            results[place].handle,
            Some(Handle(b"file"[..].into())),
            "{place}"
        );
    }
    assert_eq!(results[5].count, Some(5001));
    let attributes = results[6].attributes.expect("attributes");
    assert_eq!(
        (attributes.size_bytes, attributes.fileid),
        (Some(5001), Some(42))
    );
    // The data was skipped.
    assert!(report.total().skipped_bytes > 3000, "{:?}", report.total());
    assert_eq!(report.total().not_understood_bytes, 0);
}

#[test]
fn records_may_have_fragments_anywhere_and_segments_may_end_anywhere() {
    let (call, reply) = compound();
    for cut in [1, 3, 4, 7, 50, 999] {
        let mut stream = Vec::new();
        let chunks: Vec<_> = call.chunks(cut * 40).collect();
        for (place, chunk) in chunks.iter().enumerate() {
            let last = u32::from(place + 1 == chunks.len()) << 31;
            stream.extend(words(&[chunk.len() as u32 | last]));
            stream.extend(*chunk);
        }
        let mut connection = Connection::begin();
        connection.send(0, &stream, cut);
        connection.send(1, &record(&reply), cut);
        let (found, report) = connection.found();
        assert_eq!(found.requests.len(), 1, "{cut}: {report:?}");
        assert_eq!(found.requests[0].call.operations.len(), 7, "{cut}");
    }
}

#[test]
fn a_hole_in_data_costs_nothing_and_one_in_a_header_its_message() {
    let (call, reply) = compound();
    let again = |message: &[u8], xid: u32| [&words(&[xid]), &message[4..]].concat();
    let mut connection = Connection::begin();
    for xid in 0..10 {
        connection.exchange(&again(&call, xid), &again(&reply, xid));
    }
    let (whole, _) = connection.found();
    assert_eq!(whole.requests.len(), 10);
    // Each exchange takes seven packets: six segments for the call and one for the reply. The first two packets open the connection.
    let without = |lost: usize| {
        let kept = connection
            .packets
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != lost);
        found(kept.map(|(_, packet)| packet))
    };
    let (in_data, report) = without(2 + 7 * 3 + 2);
    assert_eq!(
        (
            in_data.requests.len(),
            report.total().lost_bytes,
            report.total().holes
        ),
        (10, 1000, 1)
    );
    assert_eq!(report.total().not_understood_bytes, 0);
    let (in_header, report) = without(2 + 7 * 3);
    assert_eq!(in_header.requests.len(), 9, "{report:?}");
    assert_eq!(
        in_header
            .replies
            .iter()
            .filter(|(reply, ..)| reply.call.is_none())
            .count(),
        1
    );
    let (in_reply, _) = without(2 + 7 * 3 + 6);
    assert_eq!((in_reply.requests.len(), in_reply.calls.len()), (9, 10));
}

/// A credential of RPCSEC_GSS: procedure, service.
fn gss(procedure: u32, service: u32) -> [u32; 8] {
    [6, 24, 1, procedure, 9, service, 4, 0xabcd]
}

#[test]
fn krb5_and_krb5i_are_read_and_krb5p_is_named() {
    let handle = opaque(b"handle");
    let found_file = [words(&[0]), handle.clone(), words(&[0, 0])].concat();
    let lookup = [handle, opaque(b"name")].concat();
    let wrapped =
        |body: &[u8]| [opaque(&[&words(&[9]), body].concat()), opaque(b"checksum")].concat();
    let mut connection = Connection::begin();
    connection.exchange(
        &call(1, 3, 0, &gss(1, 1), &opaque(b"token")),
        &reply(1, &opaque(b"token")),
    );
    connection.exchange(&call(2, 3, 3, &gss(0, 1), &lookup), &reply(2, &found_file));
    connection.exchange(
        &call(3, 3, 3, &gss(0, 2), &wrapped(&lookup)),
        &reply(3, &wrapped(&found_file)),
    );
    connection.exchange(
        &call(4, 3, 3, &gss(0, 3), &opaque(b"secret")),
        &reply(4, &opaque(b"secret")),
    );
    let (found, report) = connection.found();
    let seen: Vec<_> = found
        .requests
        .iter()
        .map(|request| {
            let name = request
                .call
                .operations
                .first()
                .and_then(|operation| operation.name.as_deref());
            let handle = request
                .reply
                .operations
                .first()
                .and_then(|result| result.handle.clone());
            (
                request.call.credential.protection,
                name,
                handle.is_some(),
                request.call.opaque,
            )
        })
        .collect();
    let name = Some(&b"name"[..]);
    assert_eq!(
        seen,
        [
            (Protection::Setup, None, false, Some(Opaque::SecuritySetup)),
            (Protection::None, name, true, None),
            (Protection::Integrity, name, true, None),
            (Protection::Privacy, None, false, Some(Opaque::Encrypted)),
        ]
    );
    assert_eq!(report.connections[0].tally.opaque[&Opaque::Encrypted], 2);
}

#[test]
fn nothing_is_read_after_tls_begins() {
    let mut connection = Connection::begin();
    let asked = call(1, 3, 0, &[7, 0], &[]);
    let started = [words(&[1, 1, 0, 0]), opaque(b"STARTTLS"), words(&[0])].concat();
    connection.exchange(&asked, &started);
    connection.send(0, &[0x16; 300], 100);
    let (null, nothing) = (call(2, 3, 0, &AUTH_SYS, &[]), reply(2, &[]));
    connection.exchange(&null, &nothing);
    let (found, report) = connection.found();
    assert_eq!(found.requests.len(), 1);
    assert!(report.connections[0].tally.is_tls);
    let bytes = 300 + null.len() + nothing.len() + 8;
    assert_eq!(report.total().not_understood_bytes, bytes as u64);
}

#[test]
fn calls_that_are_refused_are_answered_without_results() {
    let mut connection = Connection::begin();
    let null = call(1, 3, 0, &AUTH_SYS, &[]);
    connection.exchange(&null, &words(&[1, 1, 1, 1, 5]));
    connection.exchange(
        &call(2, 4, 1, &AUTH_SYS, &words(&[0, 0, 0])),
        &words(&[2, 1, 0, 0, 0, 2, 3, 3]),
    );
    let (found, _) = connection.found();
    let statuses: Vec<_> = found
        .requests
        .iter()
        .map(|request| request.reply.status)
        .collect();
    assert_eq!(statuses, [RpcStatus::Denied(1), RpcStatus::NotExecuted(2)]);
}

#[test]
fn a_transaction_id_belongs_to_another_call_after_a_new_connection() {
    let mut connection = Connection::begin();
    let handle = opaque(b"handle");
    let ask = |procedure| record(&call(1, 3, procedure, &AUTH_SYS, &handle));
    connection.send(0, &ask(1), 1000);
    let mut second = Connection::begin();
    second.next = [5, 70_000];
    second.packets.clear();
    second.packet(0, 0x02, &[]);
    second.next[0] += 1;
    second.send(0, &ask(5), 1000);
    second.send(1, &record(&reply(1, &words(&[2, 0]))), 1000);
    let (found, report) = found(connection.packets.iter().chain(&second.packets));
    assert_eq!(found.requests.len(), 1, "{report:?}");
    assert_eq!(
        (found.requests[0].call.procedure, found.unanswered.len()),
        (5, 1)
    );
}

#[test]
fn a_call_to_any_port_is_found_and_other_traffic_is_counted() {
    let mut connection = Connection::begin();
    connection.exchange(
        &call(1, 3, 1, &AUTH_SYS, &opaque(b"handle")),
        &reply(1, &words(&[2])),
    );
    for packet in &mut connection.packets {
        let source = if packet.data[20..22] == [8, 1] {
            20
        } else {
            22
        };
        packet.data[source..source + 2].copy_from_slice(&[0x12, 0x34]);
    }
    let (found, report) = connection.found();
    assert_eq!(found.requests.len(), 1);
    assert_eq!(report.skipped[&Skipped::OtherTraffic].frames, 2);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

#[test]
fn interfaces_of_pcapng_have_resolutions_and_offsets_of_their_own() {
    let little =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let interface =
        |link: u32, options: &[u8]| block(1, &[little(&[link, 65535]), options.to_vec()].concat());
    // if_tsresol (9) and if_tsoffset (14).
    let resolution = |value: u8| [&[9, 0, 1, 0, value, 0, 0, 0][..], &[0; 4]].concat();
    let offset = [&[14, 0, 8, 0][..], &100_i64.to_le_bytes(), &[0; 4]].concat();
    let packet = |interface: u32, time: u64| {
        let header = little(&[interface, (time >> 32) as u32, time as u32, 1, 60]);
        block(6, &[header, vec![0x45]].concat())
    };
    let file = [
        block(0x0a0d_0d0a, &little(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX])),
        interface(1, &[]),
        interface(101, &resolution(9)),
        interface(113, &resolution(0x80 | 10)),
        interface(276, &offset),
        packet(0, 5_000_001),
        packet(1, 5_000_000_001),
        packet(2, 5 * 1024 + 512),
        packet(3, 5_000_001),
    ]
    .concat();
    let mut seen = Vec::new();
    let take = |packet: Packet<'_>| {
        seen.push((
            packet.link_type,
            packet.time_ns,
            packet.data.len(),
            packet.bytes,
        ));
        ControlFlow::Continue(())
    };
    let end = read_packets(&file[..], take, || false);
    assert_eq!(end.expect("a capture").damage, None);
    assert_eq!(
        seen,
        [
            (1, 5_000_001_000, 1, 60),
            (101, 5_000_000_001, 1, 60),
            (113, 5_500_000_000, 1, 60),
            (276, 105_000_001_000, 1, 60),
        ]
    );
}

#[test]
fn compressed_captures_are_read_as_they_come() {
    use std::io::Write;
    let header = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 1, 1, 2, 3, 3];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    // The version consists of two 16-bit numbers.
    file[4..8].copy_from_slice(&[0, 2, 0, 4]);
    file.extend([9; 3]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&file).expect("memory");
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&file).expect("memory");
    let files = [
        file.clone(),
        gzip.finish().expect("memory"),
        bzip2.finish().expect("memory"),
        zstd::encode_all(&file[..], 1).expect("memory"),
    ];
    for file in files {
        let mut decoder = Decoder::new((), &[]);
        let take = |packet: Packet<'_>| {
            assert_eq!((packet.time_ns, packet.data), (1_000_002_000, &[9; 3][..]));
            decoder.packet(&packet);
            ControlFlow::Continue(())
        };
        let end = read_packets(&file[..], take, || false);
        assert_eq!(end.expect("a capture").packets, 1);
    }
}
