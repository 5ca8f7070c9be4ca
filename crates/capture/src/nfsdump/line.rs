//! A line of nfsdump: `time source destination U|T C2|C3|R2|R3 xid procedure name`, then the fields of the procedure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::NotUnderstood;
use crate::message::{Peers, Transport};
use crate::nfs::procedure_name;

/// The beginning of a line, which all procedures share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// When the message was captured, ns since the epoch.
    pub time_ns: i64,
    /// Client and server.
    pub peers: Peers,
    /// Whether it is a call.
    pub is_call: bool,
    /// Version of NFS, 2 or 3.
    pub version: u32,
    /// Transaction id.
    pub xid: u32,
    /// Number of the procedure.
    pub procedure: u32,
    /// The text after the name of the procedure.
    pub rest: &'a [u8],
}

impl<'a> Line<'a> {
    /// Reads a line.
    pub fn parse(line: &'a [u8]) -> Result<Self, NotUnderstood> {
        let mut rest = line;
        let mut word = || next_word(&mut rest);
        let time_ns = time_ns(word()).ok_or(NotUnderstood::Time)?;
        let source = address(word()).ok_or(NotUnderstood::Address)?;
        let destination = address(word()).ok_or(NotUnderstood::Address)?;
        let transport = match word() {
            b"T" => Transport::Tcp,
            b"U" => Transport::Udp,
            _ => return Err(NotUnderstood::Transport),
        };
        let (is_call, version) = match word() {
            b"C2" => (true, 2),
            b"C3" => (true, 3),
            b"R2" => (false, 2),
            b"R3" => (false, 3),
            _ => return Err(NotUnderstood::Direction),
        };
        let xid = hex(word()).ok_or(NotUnderstood::Xid)?;
        let xid = u32::try_from(xid).map_err(|_| NotUnderstood::Xid)?;
        let procedure = hex(word()).and_then(|number| u32::try_from(number).ok());
        let procedure = procedure
            .filter(|number| procedure_name(version, *number).is_some())
            .ok_or(NotUnderstood::Procedure)?;
        // nfsdump's own name (`readdirp`, `fsstat`): the number before it already says which procedure it is.
        if !word().first().is_some_and(u8::is_ascii_alphabetic) {
            return Err(NotUnderstood::Procedure);
        }
        let (client, server) = match is_call {
            true => (source, destination),
            false => (destination, source),
        };
        Ok(Self {
            time_ns,
            peers: Peers {
                client,
                server,
                transport,
            },
            is_call,
            version,
            xid,
            procedure,
            rest,
        })
    }
}

/// Takes the next word; empty at the end. A word that begins with `"` ends with the next `"` before a space.
pub fn next_word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let begin = rest.iter().position(|byte| *byte != b' ');
    let text = begin.map_or(&[][..], |begin| &rest[begin..]);
    let is_end = |at: usize| text.get(at).is_none_or(|byte| *byte == b' ');
    let end = match text.first() {
        Some(b'"') => (1..text.len()).find(|at| text[*at] == b'"' && is_end(at + 1)),
        _ => None,
    };
    let end = match end {
        Some(quote) => quote + 1,
        None => (0..text.len()).find(|at| is_end(*at)).unwrap_or(text.len()),
    };
    let (word, after) = text.split_at(end);
    *rest = after;
    word
}

/// An unsigned hexadecimal number: nfsdump writes nearly all numbers so.
pub fn hex(word: &[u8]) -> Option<u64> {
    let is_hex = word.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(word).ok().filter(|_| is_hex)?;
    u64::from_str_radix(text, 16).ok()
}

/// `1004562602.021187`: seconds since the epoch.
fn time_ns(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let (seconds, fraction) = text.split_once('.')?;
    let is_number = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(seconds, 10) || !is_number(fraction, 9) {
        return None;
    }
    let scale = 10_i64.pow(9 - fraction.len() as u32);
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i64 = fraction.parse().ok()?;
    Some(seconds * 1_000_000_000 + fraction * scale)
}

/// `31.03f7`: an IPv4 address, or the number that replaced it, and a port. Both are hexadecimal.
fn address(word: &[u8]) -> Option<SocketAddr> {
    let dot = word.iter().position(|byte| *byte == b'.')?;
    let (host, port) = (hex(&word[..dot])?, hex(&word[dot + 1..])?);
    let host = Ipv4Addr::from(u32::try_from(host).ok()?);
    Some(SocketAddr::new(IpAddr::V4(host), u16::try_from(port).ok()?))
}
