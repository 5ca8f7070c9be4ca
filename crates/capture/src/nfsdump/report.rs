//! Accounts for every message of a text.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most clients with separate counts.
const MOST_CLIENTS: usize = 1 << 12;

/// Messages of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTally {
    /// Calls, including retransmissions.
    pub calls: u64,
    /// Replies.
    pub replies: u64,
    /// Calls with a reply.
    pub requests: u64,
    /// Calls that were sent again.
    pub retransmissions: u64,
    /// Calls without a reply.
    pub unanswered: u64,
    /// Replies without a call.
    pub orphans: u64,
    /// Replies to calls that were already answered.
    pub repeated_replies: u64,
}

impl ClientTally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        let Self {
            calls,
            replies,
            requests,
            retransmissions,
            unanswered,
            orphans,
            repeated_replies,
        } = other;
        self.calls += calls;
        self.replies += replies;
        self.requests += requests;
        self.retransmissions += retransmissions;
        self.unanswered += unanswered;
        self.orphans += orphans;
        self.repeated_replies += repeated_replies;
    }
}

/// Accounts for every message.
#[derive(Clone, Debug, Default)]
pub struct DumpReport {
    /// By client.
    pub clients: BTreeMap<IpAddr, ClientTally>,
    /// The sum over clients beyond the limit.
    pub others: ClientTally,
    /// Messages that were captured earlier than the message before them in the text.
    pub backwards: u64,
    /// Messages that were captured only in part.
    pub short: u64,
    /// Times of the earliest and the latest message, ns since the epoch.
    pub time_range_ns: Option<(i64, i64)>,
}

impl DumpReport {
    /// The sum over all clients.
    pub fn total(&self) -> ClientTally {
        let mut total = self.others;
        self.clients.values().for_each(|tally| total.add(tally));
        total
    }

    /// The tally of a client.
    pub(super) fn tally(&mut self, client: IpAddr) -> &mut ClientTally {
        if self.clients.len() < MOST_CLIENTS || self.clients.contains_key(&client) {
            return self.clients.entry(client).or_default();
        }
        &mut self.others
    }

    /// Extends the time range to a message at `time_ns`.
    pub(super) fn time(&mut self, time_ns: i64) {
        let (first, last) = self.time_range_ns.unwrap_or((time_ns, time_ns));
        self.time_range_ns = Some((first.min(time_ns), last.max(time_ns)));
    }
}
