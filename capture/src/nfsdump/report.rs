//! What became of every message of a text.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// So many clients have counts of their own.
const MOST_CLIENTS: usize = 1 << 12;

/// Messages of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTally {
    /// Calls, each time that they were sent.
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
    /// Replies to calls that were answered before.
    pub repeated_replies: u64,
}

impl ClientTally {
    /// Adds another one.
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

/// What became of every message.
#[derive(Clone, Debug, Default)]
pub struct DumpReport {
    /// By client.
    pub clients: BTreeMap<IpAddr, ClientTally>,
    /// Of clients beyond those.
    pub others: ClientTally,
    /// Messages that were captured before the one that stands before them.
    pub backwards: u64,
    /// Messages of which the text has only the beginning.
    pub short: u64,
    /// Time of the earliest message and of the latest, ns since the epoch.
    pub time_range_ns: Option<(i64, i64)>,
}

impl DumpReport {
    /// All clients together.
    pub fn total(&self) -> ClientTally {
        let mut total = self.others;
        self.clients.values().for_each(|tally| total.add(tally));
        total
    }

    /// Of a client.
    pub(super) fn tally(&mut self, client: IpAddr) -> &mut ClientTally {
        if self.clients.len() < MOST_CLIENTS || self.clients.contains_key(&client) {
            return self.clients.entry(client).or_default();
        }
        &mut self.others
    }

    /// There was a message at this time.
    pub(super) fn time(&mut self, time_ns: i64) {
        let (first, last) = self.time_range_ns.unwrap_or((time_ns, time_ns));
        self.time_range_ns = Some((first.min(time_ns), last.max(time_ns)));
    }
}
