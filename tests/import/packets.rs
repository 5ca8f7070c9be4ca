//! Makes captures of NFSv3 over UDP.

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn opaque(text: &[u8]) -> Vec<u8> {
    let mut bytes = words(&[text.len() as u32]);
    bytes.extend(text);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn call(xid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let header = words(&[
        xid, 0, 2, 100_003, 3, procedure, 1, 20, 0, 0, 1000, 100, 0, 0, 0,
    ]);
    [&header, arguments].concat()
}

fn reply(xid: u32, results: &[u8]) -> Vec<u8> {
    [&words(&[xid, 1, 0, 0, 0, 0]), results].concat()
}

/// NFSv3 attributes of a regular file with this number.
fn attributes(fileid: u32) -> Vec<u8> {
    words(&[
        1, 0o644, 1, 0, 0, 0, 9000, 0, 9000, 0, 0, 0, 7, 0, fileid, 1, 0, 1, 0, 1, 0,
    ])
}

/// A COMPOUND of NFSv4.0, with its arguments, and its results.
pub struct Compound {
    operations: Vec<(u32, Vec<u8>, Vec<u8>)>,
}

impl Compound {
    /// A COMPOUND about the directory or file with this handle.
    pub fn about(handle: &[u8]) -> Self {
        let operations = vec![(22, opaque(handle), Vec::new())];
        Self { operations }
    }

    fn and(mut self, number: u32, arguments: Vec<u8>, results: Vec<u8>) -> Self {
        self.operations.push((number, arguments, results));
        self
    }

    pub fn lookup(self, name: &[u8]) -> Self {
        self.and(15, opaque(name), Vec::new())
    }

    pub fn open(self, name: &[u8]) -> Self {
        let arguments = [
            words(&[1, 1, 0, 7, 7]),
            opaque(b"owner"),
            words(&[0, 0]),
            opaque(name),
        ];
        // Its stateid, a change of the directory, flags, no attributes, no delegation.
        self.and(18, arguments.concat(), words(&[0; 4 + 5 + 3]))
    }

    pub fn get_handle(self, handle: &[u8]) -> Self {
        self.and(10, Vec::new(), opaque(handle))
    }

    pub fn read(self, bytes: u32) -> Self {
        let results = [words(&[1]), opaque(&vec![7; bytes as usize])].concat();
        self.and(25, words(&[0, 0, 0, 0, 0, 0, bytes]), results)
    }

    /// The datagrams of its call and its reply.
    pub fn datagrams(&self, xid: u32) -> [Vec<u8>; 2] {
        let count = self.operations.len() as u32;
        let header = words(&[
            xid, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 1000, 100, 0, 0, 0, 0, 0, count,
        ]);
        let (mut call, mut replied) = (header, words(&[0, 0, count]));
        for (number, arguments, results) in &self.operations {
            call.extend([words(&[*number]), arguments.clone()].concat());
            replied.extend([words(&[*number, 0]), results.clone()].concat());
        }
        [
            datagram(true, &call),
            datagram(false, &reply(xid, &replied)),
        ]
    }
}

/// A datagram between client and server, in a raw IP packet.
pub fn datagram(to_server: bool, message: &[u8]) -> Vec<u8> {
    datagram_with([10, 0, 0, 1], to_server, message)
}

fn datagram_with(client: [u8; 4], to_server: bool, message: &[u8]) -> Vec<u8> {
    let len = 28 + message.len() as u16;
    let server = [10, 0, 0, 2];
    let (from, to) = if to_server {
        (client, server)
    } else {
        (server, client)
    };
    let ports: [u16; 2] = if to_server { [700, 2049] } else { [2049, 700] };
    let mut packet = [
        &[0x45, 0][..],
        &len.to_be_bytes(),
        &[0, 0, 0, 0, 64, 17, 0, 0],
        &from,
        &to,
    ]
    .concat();
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend((len - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(message);
    packet
}

/// A pcap file with times in ns; a packet each ms.
pub fn pcap(start_s: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header();
    for (place, packet) in packets.iter().enumerate() {
        put_packet(&mut file, (start_s, place as u32 * 1_000_000), packet);
    }
    file
}

fn pcap_header() -> Vec<u8> {
    let header = [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65535, 101];
    header.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn put_packet(file: &mut Vec<u8>, (s, ns): (u32, u32), packet: &[u8]) {
    let len = packet.len() as u32;
    let header = [s, ns, len, len];
    file.extend(header.iter().flat_map(|word| word.to_le_bytes()));
    file.extend(packet);
}

/// A READ of 16 bytes.
pub struct Read {
    pub client: [u8; 4],
    pub file: u32,
    /// s and ns since the epoch.
    pub time: (u32, u32),
}

/// A pcap file with these READs, each with its reply.
pub fn reads(reads: impl Iterator<Item = Read>) -> Vec<u8> {
    let mut capture = pcap_header();
    for (xid, Read { client, file, time }) in (1..).zip(reads) {
        let arguments = [opaque(&file.to_be_bytes()), words(&[0, 0, 16])].concat();
        let results = [
            words(&[0, 1]),
            attributes(file),
            words(&[16, 1, 16]),
            vec![7; 16],
        ];
        let call = datagram_with(client, true, &call(xid, 6, &arguments));
        let reply = datagram_with(client, false, &reply(xid, &results.concat()));
        put_packet(&mut capture, time, &call);
        put_packet(&mut capture, time, &reply);
    }
    capture
}

/// Start of captures, s since the epoch.
pub const START_S: u32 = 1_795_305_600;

/// FSINFO of the root, LOOKUP of a file, a READ of 4096 bytes that ends the file, and a WRITE that fails for want of space.
pub fn some_requests() -> Vec<Vec<u8>> {
    requests_with(1000, 4)
}

/// Like [`some_requests`], with different read bytes, and another xid for the WRITE.
pub fn requests_with(read_bytes: u32, write_xid: u32) -> Vec<Vec<u8>> {
    let (root, file) = (opaque(b"root"), opaque(b"file"));
    let found = [
        words(&[0]),
        file.clone(),
        words(&[1]),
        attributes(42),
        words(&[0]),
    ]
    .concat();
    let read = [
        words(&[0, 1]),
        attributes(42),
        words(&[read_bytes, 1, read_bytes]),
        vec![7; read_bytes as usize],
    ]
    .concat();
    let messages = [
        (call(1, 19, &root), reply(1, &words(&[0, 0]))),
        (
            call(2, 3, &[root, opaque(b"a b")].concat()),
            reply(2, &found),
        ),
        (
            call(3, 6, &[file.clone(), words(&[0, 8000, 4096])].concat()),
            reply(3, &read),
        ),
        (
            call(
                write_xid,
                7,
                &[file, words(&[0, 0, 8, 2, 8, 0, 0])].concat(),
            ),
            reply(write_xid, &words(&[28, 0, 0])),
        ),
    ];
    messages
        .iter()
        .flat_map(|(call, reply)| [datagram(true, call), datagram(false, reply)])
        .collect()
}
