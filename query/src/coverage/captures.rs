//! Streams of imported captures, and where their bytes went.

use std::collections::BTreeMap;

use trackiops_schemas::captured::{Captured, Stream, StreamBytes};

use crate::interval::Interval;

/// A stream: one direction of a connection. `stream` is `None` for all streams without separate sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedStream {
    /// The stream.
    pub stream: Option<Stream>,
    /// From the first to the last window with bytes of it.
    pub range: Interval,
    /// Where its bytes went.
    pub bytes: StreamBytes,
}

/// Bytes that captures lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// From the first to the last window with bytes that are lost or not understood.
    pub range: Interval,
    /// All bytes of the captures.
    pub bytes: StreamBytes,
}

impl Lacking {
    /// Adds the missing bytes of other captures.
    pub fn merge(&mut self, other: &Self) {
        self.range = self.range.hull(other.range);
        self.bytes.merge(&other.bytes);
    }
}

/// The streams of a host.
#[derive(Debug, Default)]
pub struct Captures {
    streams: BTreeMap<Option<Stream>, (Interval, StreamBytes)>,
    lacking: Option<Interval>,
}

impl Captures {
    /// Adds a window. Several journals may have the same window.
    pub fn add(&mut self, window: Interval, captured: &Captured) {
        for (stream, bytes) in captured.iter() {
            let known = self.streams.entry(stream.copied());
            let (range, sum) = known.or_insert((window, StreamBytes::default()));
            *range = range.hull(window);
            sum.merge(bytes);
            if bytes.lost_bytes > 0 || bytes.not_understood_bytes > 0 {
                let range = self.lacking.get_or_insert(window);
                *range = range.hull(window);
            }
        }
    }

    /// The bytes that they lack; `None` if nothing is missing.
    pub fn lacking(&self) -> Option<Lacking> {
        let mut lacking = Lacking {
            range: self.lacking?,
            bytes: StreamBytes::default(),
        };
        for (_, bytes) in self.streams.values() {
            lacking.bytes.merge(bytes);
        }
        Some(lacking)
    }

    /// The streams, in order of clients and servers.
    pub fn finish(self) -> Vec<CapturedStream> {
        let streams = self.streams.into_iter();
        let streams = streams.map(|(stream, (range, bytes))| CapturedStream {
            stream,
            range,
            bytes,
        });
        streams.collect()
    }
}
