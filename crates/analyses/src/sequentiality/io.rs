//! A request in the form that runs need.

use crate::source::Request;

/// A request in the form that runs need: 40 bytes, because a long group has millions of them. Ordered by start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Io {
    /// Its start, ns.
    pub start_ns: i64,
    /// Its end, ns.
    pub end_ns: i64,
    /// First byte.
    pub offset: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// A READ.
    pub is_read: bool,
}

impl Io {
    /// The fields of a request that runs need.
    pub fn new(request: &Request, start_ns: i64) -> Self {
        Self {
            start_ns,
            end_ns: request.end_ns,
            offset: request.offset,
            bytes: request.bytes,
            is_read: request.is_read,
        }
    }

    /// The byte after its last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}
