//! A request as runs see it.

use crate::source::Request;

/// A request as runs see it. 40 bytes: a long group has millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// When it started, ns.
    pub start_ns: i64,
    /// When it ended, ns.
    pub end_ns: i64,
    /// First byte.
    pub offset: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// A READ.
    pub is_read: bool,
}

impl Io {
    /// What runs need of a request.
    pub fn new(request: &Request, start_ns: i64) -> Self {
        Self {
            start_ns,
            end_ns: request.end_ns,
            offset: request.offset,
            bytes: request.bytes,
            is_read: request.is_read,
        }
    }

    /// The byte after its last.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}
