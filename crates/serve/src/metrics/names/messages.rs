//! Messages of name servers (RFC 1035).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes before the question.
pub const HEADER_BYTES: usize = 12;
/// Types of records.
pub const A: u16 = 1;
pub const AAAA: u16 = 28;

/// A message that asks for the records of a name. `None` if the name is too long.
pub fn query(name: &str, kind: u16) -> Option<Vec<u8>> {
    // Its hasher has random keys.
    let id = RandomState::new().build_hasher().finish();
    let mut query = id.to_be_bytes()[..2].to_vec();
    // Recursion is desired; one question; no other records.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok()?;
        if !(1..=63).contains(&length) {
            return None;
        }
        query.push(length);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(kind.to_be_bytes());
    // The class of the Internet.
    query.extend([0, 1]);
    (query.len() <= HEADER_BYTES + 255 + 4).then_some(query)
}

/// The addresses in an answer. `None` if it answers another question.
pub fn answer_to(query: &[u8], message: &[u8]) -> Option<Result<Vec<IpAddr>, String>> {
    let is_same = |range: std::ops::Range<usize>| message.get(range.clone()) == query.get(range);
    let is_answer = message.get(2)? & 0x80 != 0;
    if !is_answer || !is_same(0..2) || !is_same(HEADER_BYTES..query.len()) {
        return None;
    }
    Some(match message.get(3)? & 0xf {
        0 => records(message, query.len()).ok_or_else(|| "its answer is damaged".to_owned()),
        // There is no such name.
        3 => Ok(Vec::new()),
        code => Err(format!("it answers with error {code}")),
    })
}

/// Whether an answer did not fit into its datagram.
pub fn is_cut_off(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & 2 != 0)
}

/// The addresses in the records from `at` on, whichever name of the host they have.
fn records(message: &[u8], mut at: usize) -> Option<Vec<IpAddr>> {
    let number = |at: usize| {
        let bytes = message.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    };
    let mut found = Vec::new();
    for _ in 0..number(6)? {
        at = after_name(message, at)?;
        let (kind, length) = (number(at)?, usize::from(number(at + 8)?));
        let data = message.get(at + 10..at + 10 + length)?;
        match kind {
            A => found.push(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
            AAAA => found.push(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
            _ => {}
        }
        at += 10 + length;
    }
    Some(found)
}

/// Where a name ends.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match message.get(at)? {
            0 => return Some(at + 1),
            // The rest of the name stands elsewhere.
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(*length),
        }
    }
}

/// An answer with an alias and an address, for tests.
#[cfg(test)]
pub fn answer(query: &[u8], address: &[u8], kind: u16) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2] |= 0x80;
    message[7] = 2;
    let record = |kind: u16, data: &[u8]| {
        let mut record = vec![0xc0, HEADER_BYTES as u8];
        record.extend(kind.to_be_bytes());
        record.extend([0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        record.extend(data);
        record
    };
    message.extend(record(5, b"\x01b\xc0\x0c"));
    message.extend(record(kind, address));
    message
}

/// The kind of records that a query asks for, for tests.
#[cfg(test)]
pub fn kind(query: &[u8]) -> u16 {
    u16::from(query[query.len() - 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_the_question_counts() {
        let query = query("a.example", A).unwrap();
        let good = answer(&query, &[10, 0, 0, 1], A);
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(answer_to(&query, &good), Some(Ok(vec![ip])));
        assert_eq!(answer_to(&query, &query), None, "a question");
        for (at, bit) in [(0, 1), (14, 1)] {
            let mut other = good.clone();
            other[at] ^= bit;
            assert_eq!(answer_to(&query, &other), None, "{at}");
        }
        let mut failed = good.clone();
        failed[3] = 3;
        assert_eq!(answer_to(&query, &failed), Some(Ok(Vec::new())));
        failed[3] = 2;
        assert!(answer_to(&query, &failed).unwrap().is_err());
        // However much of it is missing, and whatever is in it.
        for length in 0..good.len() {
            let cut = answer_to(&query, &good[..length]);
            assert!(!matches!(cut, Some(Ok(_))), "{length}");
        }
        for at in query.len()..good.len() {
            for byte in 0..=255 {
                let mut wrong = good.clone();
                wrong[at] = byte;
                let _ = answer_to(&query, &wrong);
            }
        }
        assert!(super::query(&"a".repeat(64), A).is_none());
        assert!(super::query(&"a.".repeat(200), A).is_none());
    }
}
