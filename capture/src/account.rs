//! Where every byte of a connection went.

/// One direction of a connection. Bytes are those of the transport's payload, as long as they were on the wire.
///
/// `payload_bytes` is the sum of `parsed_bytes`, `skipped_bytes`, `not_understood_bytes`, `repeated_bytes` and `cut_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets with a payload.
    pub packets: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Bytes that were read of messages, with record marks.
    pub parsed_bytes: u64,
    /// Bytes that were stepped over in messages of which the rest was read: file data above all.
    pub skipped_bytes: u64,
    /// Bytes in which no message was found, or of one that could not be read.
    pub not_understood_bytes: u64,
    /// Bytes that were there before: retransmissions, packets that the capture has twice.
    pub repeated_bytes: u64,
    /// Bytes that were on the wire and not stored (snaplen).
    pub cut_bytes: u64,
    /// Bytes that the sender sent and the capture does not have at all, and that are in no other sum.
    pub lost_bytes: u64,
    /// How often bytes were lost in a row.
    pub holes: u64,
    /// Calls.
    pub calls: u64,
    /// Replies.
    pub replies: u64,
}

impl Account {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        // Every field, so that a new one is not forgotten.
        let Self {
            packets,
            payload_bytes,
            parsed_bytes,
            skipped_bytes,
            not_understood_bytes,
            repeated_bytes,
            cut_bytes,
            lost_bytes,
            holes,
            calls,
            replies,
        } = other;
        self.packets += packets;
        self.payload_bytes += payload_bytes;
        self.parsed_bytes += parsed_bytes;
        self.skipped_bytes += skipped_bytes;
        self.not_understood_bytes += not_understood_bytes;
        self.repeated_bytes += repeated_bytes;
        self.cut_bytes += cut_bytes;
        self.lost_bytes += lost_bytes;
        self.holes += holes;
        self.calls += calls;
        self.replies += replies;
    }

    /// What came since an earlier state of the same account.
    pub fn since(&self, earlier: &Self) -> Self {
        // Every field, so that a new one is not forgotten.
        let Self {
            packets,
            payload_bytes,
            parsed_bytes,
            skipped_bytes,
            not_understood_bytes,
            repeated_bytes,
            cut_bytes,
            lost_bytes,
            holes,
            calls,
            replies,
        } = earlier;
        Self {
            packets: self.packets - packets,
            payload_bytes: self.payload_bytes - payload_bytes,
            parsed_bytes: self.parsed_bytes - parsed_bytes,
            skipped_bytes: self.skipped_bytes - skipped_bytes,
            not_understood_bytes: self.not_understood_bytes - not_understood_bytes,
            repeated_bytes: self.repeated_bytes - repeated_bytes,
            cut_bytes: self.cut_bytes - cut_bytes,
            lost_bytes: self.lost_bytes - lost_bytes,
            holes: self.holes - holes,
            calls: self.calls - calls,
            replies: self.replies - replies,
        }
    }

    /// Whether every byte is in one of the sums.
    pub fn is_complete(&self) -> bool {
        self.payload_bytes
            == self.parsed_bytes
                + self.skipped_bytes
                + self.not_understood_bytes
                + self.repeated_bytes
                + self.cut_bytes
    }
}
