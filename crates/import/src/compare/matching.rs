//! Matches requests of a capture with requests of a store.

use std::collections::HashMap;

use super::captured::Transfer;
use super::recorded::Recorded;

/// Both sides' ends of one request are at most this far apart, ms. After a longer time, another request may have reused the xid.
pub const APART_MS: i64 = 60_000;
const APART_NS: u64 = APART_MS.unsigned_abs() * 1_000_000;

/// Requests of a capture. Each one is taken once.
pub struct Matching<'c> {
    transfers: &'c [Transfer],
    /// Indices of untaken requests, by xid and direction.
    waiting: HashMap<(u32, bool), Vec<usize>>,
}

impl<'c> Matching<'c> {
    /// All requests are untaken.
    pub fn new(transfers: &'c [Transfer]) -> Self {
        let mut waiting: HashMap<_, Vec<_>> = HashMap::new();
        for (place, transfer) in transfers.iter().enumerate() {
            let key = (transfer.xid, transfer.is_write);
            waiting.entry(key).or_default().push(place);
        }
        Self { transfers, waiting }
    }

    /// Takes the request that matches. Connections number their xids independently. So among requests with the same xid, a request with the
    /// same server and offset comes first, then the one that ended nearest.
    pub fn take(&mut self, recorded: &Recorded) -> Option<&'c Transfer> {
        let places = self.waiting.get_mut(&(recorded.xid?, recorded.is_write))?;
        let server = recorded.server();
        let rank = |transfer: &Transfer| {
            let apart = transfer.end_ns.abs_diff(recorded.end_ns);
            let is_other = server.is_some_and(|server| server != transfer.server);
            (apart <= APART_NS).then_some((is_other, transfer.offset != recorded.offset, apart))
        };
        let ranked = places.iter().enumerate();
        let ranked = ranked.filter_map(|(at, place)| Some((rank(&self.transfers[*place])?, at)));
        let (_, at) = ranked.min()?;
        Some(&self.transfers[places.swap_remove(at)])
    }

    /// The requests that were not taken, in the order of the capture.
    pub fn rest(self) -> impl Iterator<Item = &'c Transfer> {
        let mut places: Vec<usize> = self.waiting.into_values().flatten().collect();
        places.sort_unstable();
        let transfers = self.transfers;
        places.into_iter().map(move |place| &transfers[place])
    }
}
