//! The TCP connections of the NFS client in a network namespace.
//!
//! The kernel lists them below `kernel/sunrpc/xprt-switches` of a sysfs of that namespace, with their addresses while
//! they are connected (net/sunrpc/sysfs.c). Kernels that do not show both addresses leave all connections unknown.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trackiops_schemas::tcp::TcpSums;

use crate::clock::{MonotonicNs, is_due};
use crate::connections::sock_diag::{Ends, SocketReading};

/// Path below a sysfs.
const DIRECTORY: &str = "kernel/sunrpc/xprt-switches";
/// How often the connections are listed, beside whenever a switch came or went: a switch may get further connections.
const LIST_EVERY: Duration = Duration::from_secs(30);
/// Most connections of a namespace. Further ones are unknown.
const MOST: usize = 1024;
/// Longest file: a page.
const FILE_BYTES: u64 = 4096;
/// The port of NFS. The kernel shows 0 for connections with TLS.
const NFS_PORT: u16 = 2049;

/// The connections of one network namespace, from reading to reading.
pub struct Transports {
    directory: PathBuf,
    /// By name in rows, such as `tcp-3`.
    known: BTreeMap<String, Transport>,
    listed: Option<MonotonicNs>,
    /// Links of the directory at that time: their number changes with the number of switches.
    links: u64,
}

/// A connection that the client makes, and makes again after it was lost.
struct Transport {
    directory: PathBuf,
    /// Addresses with which its socket was last found.
    ends: Option<Ends>,
    /// The last reading, and the server at that time: the kernel uses a connection's number again.
    last: Option<(SocketAddr, SocketReading)>,
}

impl Transports {
    /// The connections that this sysfs lists.
    pub fn below(sysfs: &Path) -> Self {
        Self {
            directory: sysfs.join(DIRECTORY),
            known: BTreeMap::new(),
            listed: None,
            links: 0,
        }
    }

    /// Whether the last list had none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Reads all connections. Returns those that were in use since their last reading. `look_up` answers for each
    /// address in its place.
    pub fn read(
        &mut self,
        now: MonotonicNs,
        mut look_up: impl FnMut(&[Ends]) -> Vec<Option<SocketReading>>,
    ) -> Vec<(String, TcpSums)> {
        let links = fs::metadata(&self.directory).map_or(0, |metadata| metadata.nlink());
        if is_due(&mut self.listed, now, LIST_EVERY) || links != self.links {
            self.links = links;
            self.listed = Some(now);
            self.list();
        }
        let mut used = Vec::new();
        let mut left: Vec<_> = self.known.iter_mut().collect();
        // First by the addresses of the last reading, which seldom change. Then by those that the kernel shows now.
        for is_first in [true, false] {
            if !is_first {
                for (_, transport) in &mut left {
                    transport.ends = ends(&transport.directory);
                }
            }
            let (asked, others): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|(_, transport)| transport.ends.is_some());
            left = others;
            let addresses: Vec<_> = asked.iter().filter_map(|(_, of)| of.ends).collect();
            let readings = look_up(&addresses).into_iter();
            for (((name, transport), ends), reading) in
                asked.into_iter().zip(addresses).zip(readings)
            {
                match reading {
                    // Another connection may have got the port, and its socket: ask the kernel whose it is.
                    Some(reading) if !is_first || transport.has_socket(reading.cookie) => {
                        let sums = transport.follow(ends.server, reading);
                        used.extend(sums.map(|sums| (name.clone(), sums)));
                    }
                    _ => {
                        transport.ends = None;
                        left.push((name, transport));
                    }
                }
            }
        }
        used
    }

    fn list(&mut self) {
        let mut known = mem::take(&mut self.known);
        for directory in below(&self.directory).flat_map(|switch| below(&switch)) {
            if self.known.len() >= MOST {
                return;
            }
            let Some(name) = directory
                .file_name()
                .and_then(|name| name_of(name.to_str()?))
            else {
                continue;
            };
            let same = known.remove(&name);
            let same = same.filter(|transport| transport.directory == directory);
            let transport = same.unwrap_or(Transport {
                directory,
                ends: None,
                last: None,
            });
            self.known.insert(name, transport);
        }
    }
}

impl Transport {
    /// Whether the last reading was of this socket.
    fn has_socket(&self, cookie: u64) -> bool {
        self.last.is_some_and(|(_, last)| last.cookie == cookie)
    }

    /// Takes over a reading. Returns the differences from the one before, if the connection was in use. Differences count
    /// from the first reading on, so that one has none.
    fn follow(&mut self, server: SocketAddr, now: SocketReading) -> Option<TcpSums> {
        let (before_server, before) = self.last.replace((server, now))?;
        if server != before_server {
            return None;
        }
        if now.cookie == before.cookie {
            let was_used = now.info.was_used_since(&before.info);
            return was_used.then(|| now.info.since(&before.info));
        }
        // The counters of a new socket begin at 0.
        Some(TcpSums {
            reconnects: 1,
            ..now.info.since(&Default::default())
        })
    }
}

/// The name in rows of the directory of a TCP connection: `tcp-3` for `xprt-3-tcp`.
fn name_of(directory: &str) -> Option<String> {
    let (number, protocol) = directory.strip_prefix("xprt-")?.split_once('-')?;
    let number: u32 = number.parse().ok()?;
    (protocol == "tcp").then(|| format!("tcp-{number}"))
}

fn below(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The addresses of a connection; `None` while it is not connected.
fn ends(directory: &Path) -> Option<Ends> {
    let info = text(&directory.join("xprt_info"))?;
    let port = |key: &str| -> Option<u16> {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(key)?.parse().ok())
    };
    // Only a socket of the client has one. The address of something else is not asked for.
    let client_port = port("src_port=").filter(|port| *port != 0)?;
    let server_port = match port("dst_port=")? {
        0 => NFS_PORT,
        port => port,
    };
    let address = |name: &str| -> Option<IpAddr> { text(&directory.join(name))?.parse().ok() };
    let (client, server) = (address("srcaddr")?, address("dstaddr")?);
    (client.is_ipv4() == server.is_ipv4()).then(|| Ends {
        client: SocketAddr::new(client, client_port),
        server: SocketAddr::new(server, server_port),
    })
}

/// The text of a file. The kernel may end it with a zero byte.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    let is_end = |c: char| c == '\0' || c.is_whitespace();
    Some(text.trim_matches(is_end).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::sock_diag::reading;

    const SECOND: u64 = 1_000_000_000;

    struct Kernel {
        root: tempfile::TempDir,
        transports: Transports,
        seconds: u64,
    }

    impl Kernel {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let transports = Transports::below(root.path());
            Self {
                root,
                transports,
                seconds: 0,
            }
        }

        fn directory(&self, name: &str) -> PathBuf {
            self.root.path().join(DIRECTORY).join(name)
        }

        fn put(&self, name: &str, files: [(&str, &str); 3]) {
            let directory = self.directory(name);
            fs::create_dir_all(&directory).unwrap();
            for (file, text) in files {
                fs::write(directory.join(file), text).unwrap();
            }
        }

        /// A connection from a port to a server, as the kernel shows it.
        fn connect(&self, name: &str, port: u16, server: &str) {
            let info = format!("last_used=4294\nmain_xprt=1\nsrc_port={port}\ndst_port=2049\n");
            self.put(
                name,
                [
                    ("srcaddr", "10.0.0.1\n\0"),
                    ("dstaddr", &format!("{server}\n\0")),
                    ("xprt_info", &info),
                ],
            );
        }

        /// Reads a second later; the kernel has these sockets by the client's port. Returns what was read, and how
        /// many sockets were asked for at a time.
        fn read(
            &mut self,
            sockets: &[(u16, SocketReading)],
        ) -> (Vec<(String, TcpSums)>, Vec<usize>) {
            self.seconds += 1;
            let mut asked = Vec::new();
            let found = |ends: &Ends| {
                let mut sockets = sockets.iter();
                let socket = sockets.find(|(port, _)| *port == ends.client.port());
                socket.map(|(_, reading)| *reading)
            };
            let look_up = |ends: &[Ends]| {
                asked.push(ends.len());
                ends.iter().map(found).collect()
            };
            let now = MonotonicNs(self.seconds * SECOND);
            let moved = self.transports.read(now, look_up);
            (moved, asked)
        }

        /// Name, segments, retransmissions and reconnects of each connection that has moved data.
        fn moved(&mut self, sockets: &[(u16, SocketReading)]) -> Vec<(String, [u64; 3])> {
            let (moved, _) = self.read(sockets);
            let of = |(name, tcp): (String, TcpSums)| {
                (name, [tcp.segments, tcp.retrans, tcp.reconnects])
            };
            moved.into_iter().map(of).collect()
        }
    }

    fn told(name: &str, counts: [u64; 3]) -> Vec<(String, [u64; 3])> {
        vec![(name.to_owned(), counts)]
    }

    #[test]
    fn counters_are_differences_and_begin_again_with_a_new_socket() {
        let mut kernel = Kernel::new();
        kernel.connect("switch-0/xprt-3-tcp", 875, "10.0.0.5");
        assert_eq!(kernel.moved(&[(875, reading(1, 100, 7))]), []);
        let moved = kernel.moved(&[(875, reading(1, 130, 9))]);
        assert_eq!(moved, told("tcp-3", [30, 2, 0]));
        // It is idle.
        assert_eq!(kernel.moved(&[(875, reading(1, 130, 9))]), []);
        // The client connects again from the same port, as it does where it can.
        let moved = kernel.moved(&[(875, reading(2, 5, 1))]);
        assert_eq!(moved, told("tcp-3", [5, 1, 1]));
        // And from another one.
        kernel.connect("switch-0/xprt-3-tcp", 901, "10.0.0.5");
        let moved = kernel.moved(&[(901, reading(3, 8, 0))]);
        assert_eq!(moved, told("tcp-3", [8, 0, 1]));
    }

    #[test]
    fn while_a_server_is_away_nothing_is_known_and_its_return_is_a_reconnect() {
        let mut kernel = Kernel::new();
        let name = "switch-0/xprt-3-tcp";
        kernel.connect(name, 875, "10.0.0.5");
        kernel.moved(&[(875, reading(1, 100, 0))]);
        let closed = ("srcaddr", "<closed>\n");
        kernel.put(
            name,
            [
                closed,
                ("dstaddr", "10.0.0.5\n"),
                ("xprt_info", "<closed>\n"),
            ],
        );
        let (moved, asked) = kernel.read(&[]);
        assert_eq!((moved, asked), (vec![], vec![1, 0]));
        let (_, asked) = kernel.read(&[]);
        assert_eq!(asked, [0, 0], "no address is known");
        kernel.connect(name, 875, "10.0.0.5");
        let moved = kernel.moved(&[(875, reading(2, 9, 0))]);
        assert_eq!(moved, told("tcp-3", [9, 0, 1]));
    }

    #[test]
    fn a_port_that_another_connection_gets_is_not_counted_twice() {
        let mut kernel = Kernel::new();
        kernel.connect("switch-0/xprt-3-tcp", 875, "10.0.0.5");
        kernel.connect("switch-0/xprt-4-tcp", 876, "10.0.0.5");
        kernel.moved(&[(875, reading(1, 1, 0)), (876, reading(2, 1, 0))]);
        // The first one is closed, and the second one connects again from its port.
        kernel.connect("switch-0/xprt-4-tcp", 875, "10.0.0.5");
        let closed = ["srcaddr", "dstaddr", "xprt_info"].map(|file| (file, "<closed>\n"));
        kernel.put("switch-0/xprt-3-tcp", closed);
        let moved = kernel.moved(&[(875, reading(9, 5, 0))]);
        assert_eq!(moved, told("tcp-4", [5, 0, 1]));
    }

    #[test]
    fn a_number_that_another_server_gets_is_no_reconnect() {
        let mut kernel = Kernel::new();
        kernel.connect("switch-0/xprt-3-tcp", 875, "10.0.0.5");
        kernel.moved(&[(875, reading(1, 100, 0))]);
        kernel.connect("switch-0/xprt-3-tcp", 875, "10.0.0.6");
        // The look-up by the former addresses finds nothing, then the new ones are read.
        kernel.moved(&[]);
        assert_eq!(kernel.moved(&[(875, reading(2, 50, 4))]), []);
        let moved = kernel.moved(&[(875, reading(2, 60, 4))]);
        assert_eq!(moved, told("tcp-3", [10, 0, 0]));
        // In another switch it is another connection, too.
        fs::rename(kernel.directory("switch-0"), kernel.directory("switch-1")).unwrap();
        kernel.seconds += LIST_EVERY.as_secs();
        assert_eq!(kernel.moved(&[(875, reading(3, 70, 4))]), []);
    }

    #[test]
    fn connections_are_found_when_a_switch_comes_and_else_from_time_to_time() {
        let mut kernel = Kernel::new();
        assert_eq!(kernel.read(&[]).1, [0, 0]);
        assert!(kernel.transports.is_empty());
        kernel.connect("switch-0/xprt-3-tcp", 875, "10.0.0.5");
        let sockets = [(875, reading(1, 1, 0)), (876, reading(2, 1, 0))];
        assert_eq!(kernel.read(&sockets).1, [0, 1]);
        kernel.connect("switch-0/xprt-4-tcp", 876, "10.0.0.5");
        assert_eq!(kernel.read(&sockets).1, [1, 0]);
        kernel.seconds += LIST_EVERY.as_secs();
        assert_eq!(kernel.read(&sockets).1, [1, 1]);
        assert_eq!(kernel.read(&sockets).1, [2, 0], "all at once");
        fs::remove_dir_all(kernel.directory("")).unwrap();
        assert_eq!(kernel.read(&sockets).1, [0, 0]);
        assert!(kernel.transports.is_empty());
    }

    #[test]
    fn only_tcp_connections_with_known_addresses_are_asked_for() {
        let mut kernel = Kernel::new();
        for name in [
            "xprt-1-udp",
            "xprt-2-rdma",
            "xprt-3-local",
            "xprt-x-tcp",
            "tcp",
        ] {
            kernel.connect(&format!("switch-0/{name}"), 875, "10.0.0.5");
        }
        kernel.connect("switch-0/xprt-4-tcp", 0, "10.0.0.5");
        kernel.connect("switch-0/xprt-5-tcp", 875, "fd00::5");
        kernel.connect("switch-0/xprt-6-tcp", 875, "fe80::1%eth0");
        kernel.connect("switch-0/xprt-7-tcp", 875, &"5".repeat(9000));
        assert_eq!(kernel.read(&[]).1, [0, 0]);
        let directory = kernel.directory("switch-0/xprt-8-tcp");
        let hidden = ("xprt_info", "src_port=875\ndst_port=0\n");
        let addresses = [("srcaddr", "fd00::1\n"), ("dstaddr", "fd00::5\n"), hidden];
        kernel.put("switch-0/xprt-8-tcp", addresses);
        let ends = ends(&directory).unwrap();
        assert_eq!(ends.client.to_string(), "[fd00::1]:875");
        assert_eq!(ends.server.to_string(), "[fd00::5]:2049");
    }
}
