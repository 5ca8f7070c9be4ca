//! NFS messages, as seeds for targets that read captures.

const NFS: u32 = 100_003;
const LAST_FRAGMENT: u32 = 1 << 31;

/// A call and its reply.
pub struct Exchange {
    call: Vec<u8>,
    reply: Vec<u8>,
}

/// Calls of each version, with their replies.
pub fn exchanges() -> Vec<Exchange> {
    let handle = words(&[8, 1, 2]);
    let attributes = words(&[
        1, 1, 0o644, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 7, 0, 9, 1, 0, 1, 0, 1, 0,
    ]);
    let found = [words(&[0]), handle.clone(), attributes.clone(), words(&[0])].concat();
    let read = [words(&[0]), attributes.clone(), words(&[4, 1, 4, 0])].concat();
    let written = [words(&[0, 0]), attributes.clone(), words(&[4, 2, 0, 0])].concat();
    let entry = [
        words(&[1, 0, 9]),
        text("a"),
        words(&[0, 1]),
        attributes.clone(),
        words(&[1]),
        handle.clone(),
    ]
    .concat();
    let listed = [words(&[0, 0, 0, 0]), entry, words(&[0, 1])].concat();
    let fattr = words(&[1, 0x0010_001a, 28, 1, 0, 3, 0, 5, 0, 9]);
    let compound = |operations: &[Vec<u8>]| {
        [words(&[0, 1, operations.len() as u32]), operations.concat()].concat()
    };
    let answered = |operations: &[Vec<u8>]| {
        [words(&[0, 0, operations.len() as u32]), operations.concat()].concat()
    };
    let stateid = [1, 2, 3, 4];
    let put = [words(&[22]), handle.clone()].concat();
    let sequence = words(&[53, 1, 2, 3, 4, 1, 0, 0, 0]);
    let open = [words(&[18, 0, 1, 0, 0, 7, 4, 9, 0, 0]), text("a")].concat();
    let opened = [
        words(&[18, 0]),
        words(&stateid),
        words(&[1, 0, 1, 0, 2, 0, 0, 0]),
    ]
    .concat();
    let write = [words(&[38]), words(&stateid), words(&[0, 0, 2, 4, 0])].concat();
    vec![
        exchange(1, 3, 0, &[], &[]),
        exchange(2, 3, 3, &[handle.clone(), text("a")].concat(), &found),
        exchange(
            3,
            3,
            6,
            &[handle.clone(), words(&[0, 0, 4])].concat(),
            &read,
        ),
        exchange(
            4,
            3,
            7,
            &[handle.clone(), words(&[0, 0, 4, 2, 4, 0])].concat(),
            &written,
        ),
        exchange(
            5,
            3,
            17,
            &[handle.clone(), words(&[0, 0, 0, 0, 512, 4096])].concat(),
            &listed,
        ),
        exchange(
            6,
            2,
            6,
            &words(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 4, 4]),
            &words(&[5]),
        ),
        exchange(
            7,
            4,
            1,
            &compound(&[
                sequence,
                put.clone(),
                open,
                words(&[10]),
                words(&[9, 1, 0x0010_001a]),
            ]),
            &answered(&[
                words(&[53, 0, 1, 2, 3, 4, 1, 0, 0, 0, 0]),
                words(&[22, 0]),
                opened,
                [words(&[10, 0]), handle].concat(),
                [words(&[9, 0]), fattr].concat(),
            ]),
        ),
        exchange(
            8,
            4,
            1,
            &compound(&[put, write]),
            &answered(&[words(&[22, 0]), words(&[38, 0, 4, 2, 0, 0])]),
        ),
    ]
}

fn exchange(xid: u32, version: u32, procedure: u32, arguments: &[u8], results: &[u8]) -> Exchange {
    let header = words(&[
        xid, 0, 2, NFS, version, procedure, 1, 20, 0, 0, 1000, 100, 0, 0, 0,
    ]);
    Exchange {
        call: [&header, arguments].concat(),
        reply: [&words(&[xid, 1, 0, 0, 0, 0]), results].concat(),
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = words(&[text.len() as u32]);
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The exchanges as segments of a stream; see `trackiops_capture::fuzzing::stream`.
pub fn stream(exchanges: &[Exchange]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sequences = [0_usize; 2];
    for exchange in exchanges {
        for (way, message) in [(0_u8, &exchange.call), (1, &exchange.reply)] {
            let mark = (message.len() as u32 | LAST_FRAGMENT).to_be_bytes();
            let mut record = [&mark, &message[..]].concat();
            // In that format, a sequence number is one byte and counts units of 16.
            record.resize(record.len().next_multiple_of(16), 0);
            let sequence = &mut sequences[usize::from(way)];
            bytes.extend((record.len() as u16).to_be_bytes());
            bytes.extend([way, (*sequence / 16) as u8]);
            *sequence += record.len();
            bytes.extend(record);
        }
    }
    bytes
}

/// The exchanges as datagrams, in a pcap file.
pub fn pcap(exchanges: &[Exchange]) -> Vec<u8> {
    let header = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 101];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (place, packet) in packets(exchanges).iter().enumerate() {
        let len = packet.len() as u32;
        let header = [1_795_305_600, place as u32, len, len];
        file.extend(header.iter().flat_map(|word: &u32| word.to_le_bytes()));
        file.extend(packet);
    }
    file
}

/// The exchanges as datagrams, in a pcapng file.
pub fn pcapng(exchanges: &[Exchange]) -> Vec<u8> {
    let mut file = block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX], &[]);
    file.extend(block(1, &[101, 65535], &[]));
    for packet in packets(exchanges) {
        let len = packet.len() as u32;
        file.extend(block(6, &[0, 0x0006_60b0, 7, len, len], &packet));
    }
    file
}

fn block(kind: u32, header: &[u32], data: &[u8]) -> Vec<u8> {
    let padded = data.len().next_multiple_of(4);
    let len = (12 + header.len() * 4 + padded) as u32;
    let mut block: Vec<u8> = [kind, len]
        .iter()
        .chain(header)
        .flat_map(|word| word.to_le_bytes())
        .collect();
    block.extend(data);
    block.resize(block.len() + padded - data.len(), 0);
    block.extend(len.to_le_bytes());
    block
}

fn packets(exchanges: &[Exchange]) -> Vec<Vec<u8>> {
    let messages = exchanges.iter().flat_map(|exchange| {
        [
            (&exchange.call, [700_u16, 2049]),
            (&exchange.reply, [2049, 700]),
        ]
    });
    let packet = |(message, ports): (&Vec<u8>, [u16; 2])| {
        let len = 28 + message.len() as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(len.to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        packet.extend(
            ports
                .iter()
                .flat_map(|port| [10, 0, 0, (port & 0xff) as u8]),
        );
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend((len - 20).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(message);
        packet
    };
    messages.map(packet).collect()
}
