//! Addresses of hosts, by /etc/hosts and the name servers in /etc/resolv.conf.
//!
//! The release is linked statically. glibc's resolver would then load modules of the machine, which must be of the same glibc.

mod messages;

use std::io;
use std::iter::once;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use crate::http::SeenFiles;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use self::messages::{A, AAAA, answer_to, is_cut_off, query};

/// Time for an answer of a name server. A datagram that is lost costs a push, and the next push makes up for it. All
/// servers together have less time than a push.
const PATIENCE: Duration = Duration::from_secs(2);
const DNS_PORT: u16 = 53;
/// Most name servers that are asked, as in glibc.
const MOST_SERVERS: usize = 3;

/// A name has no address.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    #[error("there is no host {0}")]
    Unknown(String),
    #[error("cannot find {name}: {why}")]
    NoAnswer { name: String, why: String },
}

/// The addresses of a host, the preferred one first.
pub async fn addresses(name: &str) -> Result<Vec<IpAddr>, NameError> {
    let found = in_hosts(&text("/etc/hosts"), name);
    match found.is_empty() {
        // Also where no file says so (RFC 6761).
        true if name == "localhost" => {
            Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
        }
        true => Settings::parse(&text("/etc/resolv.conf")).ask(name).await,
        false => Ok(found),
    }
}

/// The text of a file, which may be missing.
fn text(path: &str) -> String {
    let bytes = SeenFiles::default().read(Path::new(path));
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// The addresses of a host in hosts(5).
fn in_hosts(hosts: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let lines = hosts.lines().filter_map(|line| {
        let line = line.split('#').next()?;
        let mut words = line.split_whitespace();
        let ip = words.next()?.parse().ok()?;
        words
            .any(|word| word.eq_ignore_ascii_case(name))
            .then_some(ip)
    });
    lines.collect()
}

/// The settings of resolv.conf(5).
#[derive(Debug)]
struct Settings {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// Names with fewer dots are looked for in `search` first.
    dots: usize,
}

impl Settings {
    fn parse(text: &str) -> Self {
        let mut settings = Self {
            servers: Vec::new(),
            search: Vec::new(),
            dots: 1,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let ip = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    let server = ip.map(|ip| SocketAddr::new(ip, DNS_PORT));
                    settings.servers.extend(server);
                }
                Some("search" | "domain") => settings.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let dots = words.find_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    settings.dots = dots.unwrap_or(settings.dots);
                }
                _ => {}
            }
        }
        settings.servers.truncate(MOST_SERVERS);
        if settings.servers.is_empty() {
            let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DNS_PORT);
            settings.servers.push(local);
        }
        settings
    }

    /// The full names that a name may mean.
    fn full_names(&self, name: &str) -> Vec<String> {
        if let Some(full) = name.strip_suffix('.') {
            return vec![full.to_owned()];
        }
        let below = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let alone = once(name.to_owned());
        match name.matches('.').count() >= self.dots {
            true => alone.chain(below).collect(),
            false => below.chain(alone).collect(),
        }
    }

    async fn ask(&self, name: &str) -> Result<Vec<IpAddr>, NameError> {
        let mut failure = None;
        // Each is waited for once, and not for every name.
        let mut silent = Vec::new();
        for full_name in self.full_names(name) {
            for server in &self.servers {
                if silent.contains(server) {
                    continue;
                }
                match look_up(*server, &full_name).await {
                    Ok(found) if found.is_empty() => break,
                    Ok(found) => return Ok(found),
                    Err(why) => {
                        if why.kind() == io::ErrorKind::TimedOut {
                            silent.push(*server);
                        }
                        failure = Some(format!("name server {}: {why}", server.ip()));
                    }
                }
            }
        }
        let name = name.to_owned();
        Err(match failure {
            Some(why) => NameError::NoAnswer { name, why },
            None => NameError::Unknown(name),
        })
    }
}

/// The addresses that a name server knows of a name. Addresses of one kind are enough: some servers fail where a name has
/// none of the other kind.
async fn look_up(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    let (Some(v4), Some(v6)) = (query(name, A), query(name, AAAA)) else {
        return Ok(Vec::new());
    };
    match tokio::join!(answer_of(server, &v4), answer_of(server, &v6)) {
        (Ok(mut found), Ok(more)) => {
            found.extend(more);
            Ok(found)
        }
        (Ok(found), Err(why)) | (Err(why), Ok(found)) if found.is_empty() => Err(why),
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(why), Err(_)) => Err(why),
    }
}

/// The addresses in a name server's answer, which comes by TCP where it does not fit into a datagram.
async fn answer_of(server: SocketAddr, query: &[u8]) -> io::Result<Vec<IpAddr>> {
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
    let by_udp = timeout(PATIENCE, by_udp(server, query)).await;
    match by_udp.map_err(|_| silent())?? {
        Some(found) => Ok(found),
        None => {
            let by_tcp = timeout(PATIENCE, by_tcp(server, query)).await;
            by_tcp.map_err(|_| silent())?
        }
    }
}

/// `None` if the answer is cut off.
async fn by_udp(server: SocketAddr, query: &[u8]) -> io::Result<Option<Vec<IpAddr>>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The kernel chooses a random port for each query, which a forged answer has to guess, beside the query's number.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let message = &buffer[..length];
        if let Some(answer) = answer_to(query, message) {
            return match is_cut_off(message) {
                true => Ok(None),
                false => answer.map(Some).map_err(io::Error::other),
            };
        }
    }
}

async fn by_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<IpAddr>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    let message = [&length.to_be_bytes()[..], query].concat();
    stream.write_all(&message).await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    let answer = answer_to(query, &message);
    answer
        .unwrap_or_else(|| Err("it answers another question".to_owned()))
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::net::TcpListener;

    use super::messages::{HEADER_BYTES, answer, kind};
    use super::*;

    #[test]
    fn hosts_have_addresses_in_a_file() {
        let hosts = "127.0.0.1 localhost\n::1 localhost # b\n10.0.0.1\ta.example A b\nbad c\n";
        let of = |name: &str| in_hosts(hosts, name);
        assert_eq!(of("localhost").len(), 2);
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        for name in ["a.example", "a", "B", "a.example."] {
            assert_eq!(of(name), [ip], "{name}");
        }
        assert!(of("c").is_empty() && of("example").is_empty());
    }

    #[test]
    fn names_are_completed_as_resolv_conf_says() {
        let settings = Settings::parse(
            "# x\nnameserver 10.96.0.10\nnameserver fe80::1%eth0\nnameserver ::1\nsearch a.svc svc\noptions edns0 ndots:2\n",
        );
        let servers: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["10.96.0.10:53", "[::1]:53"]);
        assert_eq!(settings.full_names("b.c"), ["b.c.a.svc", "b.c.svc", "b.c"]);
        assert_eq!(settings.full_names("b.c.d")[0], "b.c.d");
        assert_eq!(settings.full_names("b."), ["b"]);
        let nothing = Settings::parse("");
        assert_eq!(nothing.servers[0].to_string(), "127.0.0.1:53");
    }

    /// The answer with an address of this kind.
    fn known(query: &[u8]) -> Vec<u8> {
        match kind(query) {
            A => answer(query, &[10, 0, 0, 1], A),
            _ => answer(query, &Ipv6Addr::LOCALHOST.octets(), AAAA),
        }
    }

    /// The same for a.example alone. There are no other names.
    fn only_one_name(query: &[u8]) -> Vec<u8> {
        let mut message = known(query);
        let is_known = query[HEADER_BYTES..].starts_with(b"\x01a\x07example\x00");
        message[3] = if is_known { 0 } else { 3 };
        message
    }

    fn both() -> [IpAddr; 2] {
        [
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv6Addr::LOCALHOST.into(),
        ]
    }

    /// A name server that answers datagrams like this. Its address has no other ports in use.
    async fn serve(reply: fn(&[u8]) -> Vec<u8>) -> Settings {
        let server = UdpSocket::bind("127.0.53.1:0").await.unwrap();
        let settings = Settings {
            servers: vec![server.local_addr().unwrap()],
            search: Vec::new(),
            dots: 1,
        };
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, from) = server.recv_from(&mut buffer).await.unwrap();
                let message = reply(&buffer[..length]);
                // An answer to nothing, before the right one.
                server.send_to(b"x", from).await.unwrap();
                server.send_to(&message, from).await.unwrap();
            }
        });
        settings
    }

    #[tokio::test]
    async fn a_name_server_is_asked_for_both_kinds_of_addresses() {
        let settings = serve(only_one_name).await;
        assert_eq!(settings.ask("a.example").await.unwrap(), both());
        let unknown = settings.ask("b.example").await.unwrap_err();
        assert_eq!(unknown.to_string(), "there is no host b.example");
    }

    #[tokio::test]
    async fn one_kind_of_addresses_is_enough() {
        let settings = serve(|query| {
            let mut message = known(query);
            message[3] = if kind(query) == A { 0 } else { 2 };
            message
        });
        let found = settings.await.ask("a.example").await.unwrap();
        assert_eq!(found, both()[..1]);
        let settings = serve(|query| {
            let mut message = known(query);
            message[3] = 2;
            message
        });
        let error = settings.await.ask("a.example").await.unwrap_err();
        let expected = "cannot find a.example: name server 127.0.53.1: it answers with error 2";
        assert_eq!(error.to_string(), expected);
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_off_comes_by_tcp() {
        let settings = serve(|query| {
            let mut cut_off = query.to_vec();
            cut_off[2] |= 0x82;
            cut_off
        });
        let settings = settings.await;
        let server = TcpListener::bind(settings.servers[0]).await.unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = server.accept().await.unwrap();
                let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
                stream.read_exact(&mut query).await.unwrap();
                let message = known(&query);
                stream.write_u16(message.len() as u16).await.unwrap();
                stream.write_all(&message).await.unwrap();
            }
        });
        assert_eq!(settings.ask("a.example").await.unwrap(), both());
    }

    #[tokio::test]
    async fn a_silent_server_is_waited_for_once() {
        let silent = UdpSocket::bind("127.0.53.1:0").await.unwrap();
        let mut settings = serve(only_one_name).await;
        settings.servers.insert(0, silent.local_addr().unwrap());
        settings.search = vec!["b".to_owned(), "c".to_owned(), "d".to_owned()];
        settings.dots = 2;
        let begun = Instant::now();
        assert_eq!(settings.ask("a.example").await.unwrap(), both());
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
    }
}
