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
    /// When it was seen, ns since the epoch.
    pub time_ns: i64,
    /// Who sent it.
    pub from: Name,
    /// From which port, if it has one.
    pub from_port: Option<u16>,
    /// Who got it.
    pub to: Name,
    /// At which port, if it has one.
    pub to_port: Option<u16>,
    /// udp, tcp or other.
    pub transport: Name,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// Names of what packets refer to by number.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// Clients and servers.
    pub hosts: Names,
    /// Transports.
    pub transports: Names,
    /// What was read.
    pub seen: Seen,
}

const COLUMNS: [&str; 7] = [
    "time_ns", "src_ip", "src_port", "dst_ip", "dst_port", "transport", "wire_bytes",
];

impl Packets {
    /// Passes on all packets of a source.
    pub fn read(
        &mut self,
        source: &Source,
        analysis: &'static str,
        mut each: impl FnMut(&Packet),
    ) -> Result<(), AnalysisError> {
        let range = source.range();
        for path in source.files(PACKETS, analysis)? {
            files::read(&path, &COLUMNS, |batch| {
                let numbers = |name| Numbers::of(batch, name);
                let texts = |name| Texts::of(batch, name);
                let (times, bytes) = (Numbers::times(batch, "time_ns")?, numbers("wire_bytes")?);
                let (from_ports, to_ports) = (numbers("src_port")?, numbers("dst_port")?);
                let (from, to) = (texts("src_ip")?, texts("dst_ip")?);
                let transports = texts("transport")?;
                let port = |ports: &Numbers, row| ports.get(row).and_then(|port| port.try_into().ok());
                for row in 0..batch.num_rows() {
                    let Some(time_ns) = times.get(row).filter(|ns| is_within(*ns, range)) else {
                        continue;
                    };
                    let packet = Packet {
                        time_ns,
                        from: self.hosts.of(from.get(row).unwrap_or_default()),
                        from_port: port(&from_ports, row),
                        to: self.hosts.of(to.get(row).unwrap_or_default()),
                        to_port: port(&to_ports, row),
                        transport: self.transports.of(transports.get(row).unwrap_or("other")),
                        bytes: bytes.count(row).unwrap_or_default(),
                    };
                    self.seen.add(time_ns);
                    each(&packet);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
