//! Which request of a capture is which one of a store.

use std::collections::HashMap;

use super::captured::Transfer;
use super::recorded::Recorded;

/// Ends of one request are at most this far apart on the two sides, ns. Later a transaction id may have come round.
const APART_NS: u64 = 60_000_000_000;

/// Requests of a capture, each of which is taken once.
pub struct Matching<'c> {
    transfers: &'c [Transfer],
    /// Places of those that wait, by id and direction.
    waiting: HashMap<(u32, bool), Vec<usize>>,
}

impl<'c> Matching<'c> {
    /// All of them wait.
    pub fn new(transfers: &'c [Transfer]) -> Self {
        let mut waiting: HashMap<_, Vec<_>> = HashMap::new();
        for (place, transfer) in transfers.iter().enumerate() {
            let key = (transfer.xid, transfer.is_write);
            waiting.entry(key).or_default().push(place);
        }
        Self { transfers, waiting }
    }

    /// Takes the one that is this request. Connections count their ids independently of each other, so of several with the id the one
    /// of the same server and offset comes first, and then the one that ended nearest.
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

    /// Those that were not taken, in the capture's order.
    pub fn rest(self) -> impl Iterator<Item = &'c Transfer> {
        let mut places: Vec<usize> = self.waiting.into_values().flatten().collect();
        places.sort_unstable();
        let transfers = self.transfers;
        places.into_iter().map(move |place| &transfers[place])
    }
}
