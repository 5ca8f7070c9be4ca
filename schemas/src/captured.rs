//! Where the bytes of captured connections went. Windows imported from a packet capture have it in their health.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::counter_macro::counters;

/// Streams of a window that have their own sums. The bytes of all further streams are added up in one sum.
pub const MOST_STREAMS: usize = 128;

/// The transport protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrier {
    /// TCP.
    Tcp,
    /// UDP: two addresses with ports.
    Udp,
}

/// The direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamDirection {
    /// From the client to the server.
    Calls,
    /// From the server to the client.
    Replies,
}

/// A text that is neither name.
#[derive(Debug, thiserror::Error)]
#[error("unknown word")]
pub struct UnknownWord;

macro_rules! words {
    ($type:ident { $($variant:ident: $word:literal),* }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text { $($word => Ok(Self::$variant),)* _ => Err(UnknownWord) }
            }
        }
    };
}

words!(Carrier {
    Tcp: "tcp",
    Udp: "udp"
});
words!(StreamDirection {
    Calls: "calls",
    Replies: "replies"
});

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    /// The caller.
    pub client: SocketAddr,
    /// The server that answered.
    pub server: SocketAddr,
    /// Its transport protocol.
    pub carrier: Carrier,
    /// Its direction.
    pub direction: StreamDirection,
}

counters! {
    /// Where the bytes of a stream went. Over all windows of the stream:
    ///
    /// ```text
    /// payload_bytes = parsed_bytes + skipped_bytes + not_understood_bytes + repeated_bytes + cut_bytes
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StreamBytes {
        /// Packets with a payload.
        packets: "packets", Count, sum;
        /// Bytes of their payloads, by their length on the wire.
        payload_bytes: "payload_bytes", Bytes, sum;
        /// Bytes of messages that were parsed.
        parsed_bytes: "parsed_bytes", Bytes, sum;
        /// Bytes skipped within parsed messages, mostly file data.
        skipped_bytes: "skipped_bytes", Bytes, sum;
        /// Bytes in which no message was found, and bytes of messages that could not be parsed.
        not_understood_bytes: "not_understood_bytes", Bytes, sum;
        /// Bytes that the capture already had.
        repeated_bytes: "repeated_bytes", Bytes, sum;
        /// Bytes that were on the wire but not stored in the capture.
        cut_bytes: "cut_bytes", Bytes, sum;
        /// Bytes that were sent but are missing from the capture.
        lost_bytes: "lost_bytes", Bytes, sum;
        /// Calls, or replies.
        messages: "messages", Count, sum;
    }
    and {}
}

impl StreamBytes {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
    }
}

/// The streams of a window; empty if the window was recorded. Merging adds up each stream, up to [`MOST_STREAMS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    streams: BTreeMap<Option<Stream>, StreamBytes>,
}

impl Captured {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The streams with their sums, in order. The stream `None` holds the sum of all streams beyond [`MOST_STREAMS`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Option<&Stream>, &StreamBytes)> + Clone {
        let streams = self.streams.iter();
        streams.map(|(stream, bytes)| (stream.as_ref(), bytes))
    }

    /// Adds bytes of a stream.
    pub fn add(&mut self, stream: Option<Stream>, bytes: &StreamBytes) {
        let is_known = self.streams.contains_key(&stream);
        let has_room = self.streams.len() < MOST_STREAMS;
        let stream = stream.filter(|_| is_known || has_room);
        self.streams.entry(stream).or_default().merge(bytes);
    }

    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        for (stream, bytes) in &other.streams {
            self.add(*stream, bytes);
        }
    }

    /// The sum of all streams.
    pub fn total(&self) -> StreamBytes {
        let mut total = StreamBytes::default();
        self.streams.values().for_each(|bytes| total.merge(bytes));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(port: u16) -> Stream {
        Stream {
            client: SocketAddr::from(([10, 0, 0, 1], port)),
            server: SocketAddr::from(([10, 0, 0, 2], 2049)),
            carrier: Carrier::Tcp,
            direction: StreamDirection::Calls,
        }
    }

    fn captured() -> impl Strategy<Value = Captured> {
        let stream_bytes = (prop::option::of(0_u16..9), 0_u64..1 << 40);
        prop::collection::vec(stream_bytes, 0..9).prop_map(|streams| {
            let mut captured = Captured::default();
            for (port, lost_bytes) in streams {
                let bytes = StreamBytes {
                    lost_bytes,
                    ..StreamBytes::default()
                };
                captured.add(port.map(stream), &bytes);
            }
            captured
        })
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_commutative(a in captured(), b in captured(), c in captured()) {
            let merged = |x: &Captured, y: &Captured| { let mut m = x.clone(); m.merge(y); m };
            prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        }
    }

    #[test]
    fn streams_beyond_the_limit_are_added_up() {
        let mut captured = Captured::default();
        let bytes = StreamBytes {
            packets: 1,
            ..StreamBytes::default()
        };
        for port in 0..1000 {
            captured.add(Some(stream(port)), &bytes);
        }
        assert_eq!(captured.iter().len(), MOST_STREAMS + 1);
        assert_eq!(captured.total().packets, 1000);
    }

    #[test]
    fn words_read_back() {
        for carrier in [Carrier::Tcp, Carrier::Udp] {
            assert_eq!(carrier.to_string().parse::<Carrier>().unwrap(), carrier);
        }
        for way in [StreamDirection::Calls, StreamDirection::Replies] {
            assert_eq!(way.to_string().parse::<StreamDirection>().unwrap(), way);
        }
        assert!("x".parse::<Carrier>().is_err());
    }
}
