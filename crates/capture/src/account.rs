//! Accounts for every byte of a connection.

/// One direction of a connection. Byte counts are TCP or UDP payload bytes, with their length on the wire.
///
/// `payload_bytes` is the sum of `parsed_bytes`, `skipped_bytes`, `not_understood_bytes`, `repeated_bytes` and `cut_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets with a payload.
    pub packets: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// Bytes of messages that were read, including record marks.
    pub parsed_bytes: u64,
    /// Bytes that were skipped inside messages that were read: mostly file data.
    pub skipped_bytes: u64,
    /// Bytes without a message, and bytes of messages that could not be read.
    pub not_understood_bytes: u64,
    /// Bytes that were already seen: retransmissions, and packets that the capture contains twice.
    pub repeated_bytes: u64,
    /// Bytes that were on the wire but not stored (snaplen).
    pub cut_bytes: u64,
    /// Bytes that the sender sent and the capture lacks. No other sum includes them.
    pub lost_bytes: u64,
    /// Runs of lost bytes.
    pub holes: u64,
    /// Calls.
    pub calls: u64,
    /// Replies.
    pub replies: u64,
}

impl Account {
    /// Adds another account.
    pub fn add(&mut self, other: &Self) {
        // List every field, so that a new one cannot be forgotten.
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

    /// The difference from an earlier state of the same account.
    pub fn since(&self, earlier: &Self) -> Self {
        // List every field, so that a new one cannot be forgotten.
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

    /// Whether the sums cover every byte.
    pub fn is_complete(&self) -> bool {
        self.payload_bytes
            == self.parsed_bytes
                + self.skipped_bytes
                + self.not_understood_bytes
                + self.repeated_bytes
                + self.cut_bytes
    }
}
