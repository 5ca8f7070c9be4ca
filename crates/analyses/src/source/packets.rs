//! Packets of a capture, in order of time.

use super::columns::{Numbers, Texts};
use super::files::{self, PACKETS};
use super::names::{Name, Names};
use super::requests::is_within;
use super::{Seen, Source};
use crate::error::AnalysisError;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its time, ns since the epoch.
    pub time_ns: i64,
    /// Its time in ticks of the capture's clock; see [`Packets::ticks_per_s`].
    pub ticks: i64,
    /// The sender.
    pub from: Name,
    /// The sender's port, if it has one.
    pub from_port: Option<u16>,
    /// The receiver.
    pub to: Name,
    /// The receiver's port, if it has one.
    pub to_port: Option<u16>,
    /// udp, tcp or other.
    pub transport: Name,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// Names that packets refer to by number.
#[derive(Clone, Debug)]
pub struct Packets {
    /// Ticks of the capture's clock in a second.
    pub ticks_per_s: u64,
    /// Clients and servers.
    pub hosts: Names,
    /// Transports.
    pub transports: Names,
    /// Facts about the rows that were read.
    pub seen: Seen,
}

const COLUMNS: [&str; 8] = [
    "time_ns",
    RAW_TIME,
    "src_ip",
    "src_port",
    "dst_ip",
    "dst_port",
    "transport",
    "wire_bytes",
];

/// Column of times in units of the capture.
const RAW_TIME: &str = "time_raw";
/// Metadata key of this unit.
const RAW_UNIT: &str = "unit_of_raw_time";
/// Ticks of each unit in a second.
const RAW_UNITS: [(&str, u64); 2] = [("ns", NS_PER_S), ("2^-32 s", 1 << 32)];
const NS_PER_S: u64 = 1_000_000_000;

impl Default for Packets {
    fn default() -> Self {
        Self {
            ticks_per_s: NS_PER_S,
            hosts: Names::default(),
            transports: Names::default(),
            seen: Seen::default(),
        }
    }
}

impl Packets {
    /// Passes on all packets of a source.
    pub fn read(
        &mut self,
        source: &Source,
        analysis: &'static str,
        mut each: impl FnMut(&Packet, &Self),
    ) -> Result<(), AnalysisError> {
        let range = source.range();
        for path in source.files(PACKETS, analysis)? {
            let unit = files::metadata_of(&path, RAW_UNIT)?;
            let known = RAW_UNITS
                .iter()
                .find(|(name, _)| unit.as_deref() == Some(*name));
            self.ticks_per_s = known.map_or(NS_PER_S, |(_, ticks)| *ticks);
            files::read(&path, &COLUMNS, |batch| {
                let raw = Numbers::of(batch, RAW_TIME)?;
                let numbers = |name| Numbers::of(batch, name);
                let texts = |name| Texts::of(batch, name);
                let (times, bytes) = (Numbers::times(batch, "time_ns")?, numbers("wire_bytes")?);
                let (from_ports, to_ports) = (numbers("src_port")?, numbers("dst_port")?);
                let (from, to) = (texts("src_ip")?, texts("dst_ip")?);
                let transports = texts("transport")?;
                let port =
                    |ports: &Numbers, row| ports.get(row).and_then(|port| port.try_into().ok());
                for row in 0..batch.num_rows() {
                    let Some(time_ns) = times.get(row).filter(|ns| is_within(*ns, range)) else {
                        continue;
                    };
                    let packet = Packet {
                        time_ns,
                        ticks: raw.get(row).filter(|_| known.is_some()).unwrap_or(time_ns),
                        from: self.hosts.of(from.get(row).unwrap_or_default()),
                        from_port: port(&from_ports, row),
                        to: self.hosts.of(to.get(row).unwrap_or_default()),
                        to_port: port(&to_ports, row),
                        transport: self.transports.of(transports.get(row).unwrap_or("other")),
                        bytes: bytes.count(row).unwrap_or_default(),
                    };
                    self.seen.add(time_ns);
                    each(&packet, self);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
