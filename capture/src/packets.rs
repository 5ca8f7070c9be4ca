//! Packets of a capture: pcap (us, ns, both byte orders) and pcapng (several interfaces, resolutions, offsets); as they are, gz or zst.

use std::io::{self, Read};
use std::ops::ControlFlow;

use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use crate::compression::decompressed;

/// What is read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// A larger packet, or block of pcapng, is none.
const LARGEST_BLOCK: usize = 16 << 20;
const NS: i128 = 1_000_000_000;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured, ns since the epoch.
    pub time_ns: i64,
    /// Number of its link type.
    pub link_type: i32,
    /// Its bytes, as far as they were stored.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub bytes: u32,
}

/// Why a file, or the rest of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PacketsError {
    /// It is no capture.
    #[error("this is neither pcap nor pcapng; captures may be compressed with gzip or zstd")]
    NotACapture,
    /// It is compressed with bzip2.
    #[error(
        "this is compressed with bzip2, which is not read: pipe it through `bunzip2` to standard input"
    )]
    Bzip2,
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
}

/// How the reading of a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnd {
    /// Packets that were read.
    pub packets: u64,
    /// Why what follows was not read, if the file does not end there.
    pub damage: Option<String>,
}

/// An interface of pcapng.
#[derive(Clone, Copy)]
struct Interface {
    link_type: i32,
    units_per_second: i128,
    offset_s: i128,
}

/// Reads the packets of a capture, as long as `take` says so.
pub fn read_packets(
    input: impl Read + Send,
    mut take: impl FnMut(Packet<'_>) -> ControlFlow<()>,
) -> Result<FileEnd, PacketsError> {
    let input = decompressed(input)?;
    let mut reader = match create_reader(BUFFER_BYTES, Full(input)) {
        Ok(reader) => reader,
        Err(PcapError::ReadError) => {
            return Err(io::Error::other("its compression is damaged").into());
        }
        Err(_) => return Err(PacketsError::NotACapture),
    };
    let mut file = File::default();
    let mut end = FileEnd::default();
    let mut capacity = BUFFER_BYTES;
    let mut incomplete_at = None;
    loop {
        let step = match reader.next() {
            Ok((len, block)) => {
                if let Some(packet) = file.packet(&block) {
                    end.packets += 1;
                    if take(packet).is_break() {
                        return Ok(end);
                    }
                }
                Step::Packet(len)
            }
            Err(error) => Step::of(&error),
        };
        let consumed = reader.consumed();
        match step {
            Step::Packet(len) => {
                reader.consume(len);
                continue;
            }
            Step::End => return Ok(end),
            Step::More if incomplete_at != Some(consumed) => incomplete_at = Some(consumed),
            Step::More | Step::Grow if capacity < LARGEST_BLOCK && !reader.reader_exhausted() => {
                capacity *= 2;
                reader.grow(capacity);
            }
            Step::More | Step::Grow | Step::Cut => {
                end.damage = Some("it ends in the middle of a packet".to_owned());
                return Ok(end);
            }
            Step::Damage => {
                end.damage = Some(format!("byte {consumed} begins no packet"));
                return Ok(end);
            }
        }
        if reader.refill().is_err() {
            end.damage = Some(format!("it cannot be read after byte {consumed}"));
            return Ok(end);
        }
    }
}

/// What is next to do.
enum Step {
    Packet(usize),
    More,
    Grow,
    End,
    Cut,
    Damage,
}

impl Step {
    fn of(error: &PcapError<&[u8]>) -> Self {
        match error {
            PcapError::Eof => Self::End,
            PcapError::Incomplete(_) => Self::More,
            PcapError::BufferTooSmall => Self::Grow,
            PcapError::UnexpectedEof => Self::Cut,
            _ => Self::Damage,
        }
    }
}

/// Fills the buffer as long as there is something: a pipe gives what it has.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < buffer.len() {
            match self.0.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before it is not lost.
                Err(_) if len > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

/// What packets of a file have in common.
#[derive(Default)]
struct File {
    link_type: i32,
    is_ns: bool,
    interfaces: Vec<Interface>,
}

impl File {
    fn packet<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Option<Packet<'a>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.link_type = link_type(header.network.0);
                self.is_ns = header.is_nanosecond_precision();
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let unit = if self.is_ns { 1 } else { 1000 };
                let time =
                    i64::from(packet.ts_sec) * 1_000_000_000 + i64::from(packet.ts_usec) * unit;
                Some(Packet {
                    time_ns: time,
                    link_type: self.link_type,
                    data: packet.data,
                    bytes: packet.origlen,
                })
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                self.interfaces.push(Interface {
                    link_type: link_type(interface.linktype.0),
                    units_per_second: units_per_second(interface.if_tsresol),
                    offset_s: i128::from(interface.if_tsoffset),
                });
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let interface = self.interfaces.get(packet.if_id as usize)?;
                let units = i128::from(packet.ts_high) << 32 | i128::from(packet.ts_low);
                let time_ns = interface.offset_s * NS + units * NS / interface.units_per_second;
                Some(Packet {
                    time_ns: i64::try_from(time_ns).ok()?,
                    link_type: interface.link_type,
                    data: packet.packet_data(),
                    bytes: packet.origlen,
                })
            }
            _ => None,
        }
    }
}

/// Upper bits of the field say whether frames end with a checksum.
fn link_type(field: i32) -> i32 {
    field & 0xffff
}

/// Resolution of times (`if_tsresol`): a power of 10, or of 2 if the highest bit is set.
fn units_per_second(resolution: u8) -> i128 {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 {
        10_i128.pow(exponent.min(19))
    } else {
        1_i128 << exponent.min(63)
    }
}
