//! Packets of a capture: pcap (us, ns, both byte orders) and pcapng (several interfaces, resolutions, offsets); plain, gz or zst.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::thread;

use pcap_parser::nom::{self, IResult};
use pcap_parser::{
    Block, LegacyPcapBlock, PcapError, parse_block_be, parse_block_le, parse_pcap_frame,
    parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header, parse_sectionheaderblock,
};

use crate::compression::decompressed;
use crate::read_ahead::Window;

/// A larger packet, or block of pcapng, is damage.
const LARGEST_BLOCK: usize = 16 << 20;
/// Most interfaces of a section. A small compressed file may describe any number.
const MOST_INTERFACES: usize = 1 << 16;
const NS: i128 = 1_000_000_000;
/// The packet block of pcapng before 2010.
const OBSOLETE_PACKET: u32 = 2;

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured, ns since the epoch.
    pub time_ns: i64,
    /// Number of its link type.
    pub link_type: i32,
    /// Its bytes, as far as the capture stored them.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub bytes: u32,
}

/// Why a file, or the rest of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PacketsError {
    /// The file is not a capture.
    #[error("this is neither pcap nor pcapng; captures may be compressed with gzip, bzip2 or zstd")]
    NotACapture,
    /// Reading the file failed.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
}

/// How the reading of a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnd {
    /// Packets that were read.
    pub packets: u64,
    /// Packets of pcapng without a readable time, such as simple packets and packets of interfaces that are not described, and their bytes on
    /// the wire. They are not passed on.
    pub untimed: (u64, u64),
    /// Why the rest of the file was not read.
    pub damage: Option<String>,
}

/// An interface of pcapng.
#[derive(Clone, Copy)]
struct Interface {
    link_type: i32,
    units_per_second: i128,
    offset_s: i128,
}

/// Reads the packets of a capture until `take` breaks. `is_over` also ends the reading between blocks without packets, which a small
/// compressed file may make endless.
pub fn read_packets(
    input: impl Read + Send,
    take: impl FnMut(Packet<'_>) -> ControlFlow<()>,
    is_over: impl Fn() -> bool,
) -> Result<FileEnd, PacketsError> {
    let input = decompressed(input)?;
    thread::scope(|scope| read(Window::new(scope, input)?, take, is_over))
}

fn read(
    mut window: Window,
    mut take: impl FnMut(Packet<'_>) -> ControlFlow<()>,
    is_over: impl Fn() -> bool,
) -> Result<FileEnd, PacketsError> {
    let more = window.more();
    more.map_err(|_| io::Error::other("its compression is damaged"))?;
    let mut file = File::begin(window.data()).ok_or(PacketsError::NotACapture)?;
    let mut end = FileEnd::default();
    while !is_over() {
        let consumed = window.consumed();
        let (len, content) = match file.next(window.data()) {
            Next::Block(len, content) => (len, content),
            Next::More => match window.more() {
                Ok(true) if window.data().len() <= LARGEST_BLOCK => continue,
                Ok(_) => {
                    let is_cut = !window.data().is_empty();
                    end.damage = is_cut.then(|| "it ends in the middle of a packet".to_owned());
                    return Ok(end);
                }
                Err(_) => {
                    end.damage = Some(format!("it cannot be read after byte {consumed}"));
                    return Ok(end);
                }
            },
            Next::Damage => {
                end.damage = Some(format!("byte {consumed} begins no packet"));
                return Ok(end);
            }
        };
        match content {
            Content::Packet(packet) => {
                end.packets += 1;
                if take(packet).is_break() {
                    return Ok(end);
                }
            }
            Content::Untimed { bytes } => {
                end.untimed.0 += 1;
                end.untimed.1 += u64::from(bytes);
            }
            Content::Other => {}
        }
        window.consume(len);
    }
    Ok(end)
}

/// Whether a process information block of pcapng is too short for a block: pcap-parser 0.17 subtracts without a check.
fn is_too_short(data: &[u8]) -> bool {
    match data.first_chunk::<8>() {
        Some([1, 0, 0, 0x80, len @ ..]) => u32::from_le_bytes(*len) < 12,
        Some([0x80, 0, 0, 1, len @ ..]) => u32::from_be_bytes(*len) < 12,
        _ => false,
    }
}

/// The next part of a file.
enum Next<'a> {
    /// A block of this length, and its content.
    Block(usize, Content<'a>),
    /// The window does not contain a whole block.
    More,
    /// Not a block.
    Damage,
}

/// The content of a block.
enum Content<'a> {
    Packet(Packet<'a>),
    /// A packet without a readable time.
    Untimed {
        bytes: u32,
    },
    Other,
}

type ParseRecord = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// Facts that all packets of a file share.
enum File {
    Pcap {
        parse: ParseRecord,
        link_type: i32,
        is_ns: bool,
        /// Length of the file header, until it has been consumed.
        header: usize,
    },
    Pcapng {
        is_big_endian: bool,
        interfaces: Vec<Interface>,
    },
}

impl File {
    /// Recognises the format of a file by its first bytes.
    fn begin(data: &[u8]) -> Option<Self> {
        if parse_sectionheaderblock(data).is_ok() {
            return Some(Self::Pcapng {
                is_big_endian: false,
                interfaces: Vec::new(),
            });
        }
        let (_, header) = parse_pcap_header(data).ok()?;
        Some(Self::Pcap {
            parse: match (header.is_modified_format(), header.is_bigendian()) {
                (true, _) => parse_pcap_frame_modified,
                (_, true) => parse_pcap_frame_be,
                (_, false) => parse_pcap_frame,
            },
            link_type: link_type(header.network.0),
            is_ns: header.is_nanosecond_precision(),
            header: header.size(),
        })
    }

    fn next<'a>(&mut self, data: &'a [u8]) -> Next<'a> {
        if data.is_empty() {
            return Next::More;
        }
        let parsed = match self {
            Self::Pcap { header, .. } if *header > 0 => {
                return Next::Block(std::mem::take(header), Content::Other);
            }
            Self::Pcap {
                parse,
                link_type,
                is_ns,
                ..
            } => parse(data).map(|(rest, record)| {
                let unit = if *is_ns { 1 } else { 1000 };
                let packet = Packet {
                    time_ns: i64::from(record.ts_sec) * 1_000_000_000
                        + i64::from(record.ts_usec) * unit,
                    link_type: *link_type,
                    data: record.data,
                    bytes: record.origlen,
                };
                (rest, Content::Packet(packet))
            }),
            Self::Pcapng { .. } if is_too_short(data) => return Next::Damage,
            Self::Pcapng {
                is_big_endian,
                interfaces,
            } => {
                let parse = match is_big_endian {
                    true => parse_block_be,
                    false => parse_block_le,
                };
                parse(data).map(|(rest, block)| {
                    if let Block::SectionHeader(section) = &block {
                        *is_big_endian = section.big_endian();
                    }
                    (rest, in_block(interfaces, &block))
                })
            }
        };
        match parsed {
            Ok((rest, content)) => Next::Block(data.len() - rest.len(), content),
            Err(nom::Err::Incomplete(_)) => Next::More,
            Err(_) => Next::Damage,
        }
    }
}

/// Returns the packet of a pcapng block. From other blocks, takes the facts about interfaces.
fn in_block<'a>(interfaces: &mut Vec<Interface>, block: &Block<'a>) -> Content<'a> {
    match block {
        Block::SectionHeader(_) => {
            interfaces.clear();
            Content::Other
        }
        Block::InterfaceDescription(interface) => {
            if interfaces.len() < MOST_INTERFACES {
                interfaces.push(Interface {
                    link_type: link_type(interface.linktype.0),
                    units_per_second: units_per_second(interface.if_tsresol),
                    offset_s: i128::from(interface.if_tsoffset),
                });
            }
            Content::Other
        }
        Block::EnhancedPacket(packet) => {
            let units = i128::from(packet.ts_high) << 32 | i128::from(packet.ts_low);
            let interface = interfaces.get(packet.if_id as usize);
            let found =
                interface.and_then(|interface| Some((interface, interface.time_ns(units)?)));
            let Some((interface, time_ns)) = found else {
                return Content::Untimed {
                    bytes: packet.origlen,
                };
            };
            // The same as `packet_data`, whose result cannot be borrowed for as long as the data.
            let stored = packet.data.len().min(packet.caplen as usize);
            Content::Packet(Packet {
                time_ns,
                link_type: interface.link_type,
                data: &packet.data[..stored],
                bytes: packet.origlen,
            })
        }
        Block::SimplePacket(packet) => Content::Untimed {
            bytes: packet.origlen,
        },
        Block::Unknown(block) if block.block_type == OBSOLETE_PACKET => Content::Untimed {
            bytes: block.data.len() as u32,
        },
        _ => Content::Other,
    }
}

impl Interface {
    /// Converts a time in units since the epoch.
    fn time_ns(&self, units: i128) -> Option<i64> {
        let ns = self.offset_s * NS + units * NS / self.units_per_second;
        i64::try_from(ns).ok()
    }
}

/// The upper bits of the field say whether frames end with a checksum.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_block_that_is_shorter_than_blocks_are_ends_the_file() {
        let words = [
            0x0a0d_0d0a_u32,
            28,
            0x1a2b_3c4d,
            1,
            u32::MAX,
            u32::MAX,
            28,
            0x8000_0001,
            4,
            0,
            0,
        ];
        for bytes_of in [u32::to_le_bytes, u32::to_be_bytes] {
            let file: Vec<u8> = words.into_iter().flat_map(bytes_of).collect();
            let take = |_: Packet<'_>| ControlFlow::Continue(());
            let end = read_packets(&file[..], take, || false).unwrap();
            let damage = end.damage.unwrap();
            assert_eq!(damage, "byte 28 begins no packet");
        }
    }

    #[test]
    fn interfaces_beyond_the_limit_are_not_kept_and_their_packets_are_counted() {
        let section = [0x0a0d_0d0a_u32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
        let interface = [1, 20, 101, 0, 20];
        let packet = |interface: usize| [6, 32, interface as u32, 0, 1, 0, 60, 32];
        let mut words = section.to_vec();
        (0..=MOST_INTERFACES).for_each(|_| words.extend(interface));
        words.extend(packet(MOST_INTERFACES - 1));
        words.extend(packet(MOST_INTERFACES));
        let file: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let take = |_: Packet<'_>| ControlFlow::Continue(());
        let end = read_packets(&file[..], take, || false).unwrap();
        assert_eq!((end.packets, end.untimed), (1, (1, 60)), "{end:?}");
    }

    /// A pcapng file of sections without packets, without an end.
    struct Sections(Vec<u8>);

    impl Read for Sections {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0.rotate_left(len);
            Ok(len)
        }
    }

    #[test]
    fn blocks_without_packets_are_left_when_the_reading_is_over() {
        let words = [0x0a0d_0d0a_u32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
        let section = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 100_000
        };
        let take = |_: Packet<'_>| -> ControlFlow<()> { panic!("no block is a packet") };
        let end = read_packets(Sections(section), take, is_over).unwrap();
        assert_eq!(end, FileEnd::default());
        assert_eq!(asked.get(), 100_001);
    }
}
