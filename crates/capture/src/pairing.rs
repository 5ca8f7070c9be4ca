//! Pairs calls and replies of a connection by direction and transaction id.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::AHashMap;

use crate::message::{Call, Receiver};

/// A call is forgotten after this time, ns of the capture.
const LONGEST_WAIT_NS: i64 = 300_000_000_000;
/// Most calls of a connection that are remembered.
const MOST_CALLS: usize = 1 << 14;
/// Most answered calls that are remembered, to recognise repeated replies.
const MOST_ANSWERED: usize = 1 << 10;

/// Approximate memory of a call, and of each of its operations.
const CALL_BYTES: usize = 512;

/// Whether the first end of the connection called, and the transaction id.
type Key = (bool, u32);

struct Pending {
    call: Arc<Call>,
    retransmissions: u32,
    is_answered: bool,
    serial: u64,
}

/// The calls of a connection.
#[derive(Default)]
pub struct Pairing {
    calls: AHashMap<Key, Pending>,
    /// Calls in order of arrival.
    order: VecDeque<(Key, u64, i64)>,
    serials: u64,
    /// Memory that `calls` takes.
    kept_bytes: usize,
}

fn weight(call: &Call) -> usize {
    CALL_BYTES * (1 + call.operations.len())
}

/// The kind of a reply.
pub enum Answer {
    /// The first reply to a call, and how often the call was sent again.
    First(Arc<Call>, u32),
    /// A further reply to a call.
    Repeated,
    /// A reply whose call is unknown.
    Orphan,
}

impl Pairing {
    /// Adds a call. Returns whether it is a retransmission.
    pub fn call(
        &mut self,
        from_first: bool,
        call: &Arc<Call>,
        receiver: &mut impl Receiver,
    ) -> bool {
        let key = (from_first, call.xid);
        if let Some(pending) = self.calls.get_mut(&key) {
            let age_ns = call.begin_ns.saturating_sub(pending.call.begin_ns);
            if pending.call.fingerprint == call.fingerprint && age_ns < LONGEST_WAIT_NS {
                pending.retransmissions += u32::from(!pending.is_answered);
                return true;
            }
            // A different call has taken the id. Remove the old one here, so that it counts as unanswered once.
            if let Some(old) = self.calls.remove(&key) {
                self.kept_bytes = self.kept_bytes.saturating_sub(weight(&old.call));
                if !old.is_answered {
                    receiver.unanswered(&old.call);
                }
            }
        }
        self.forget_old(call.begin_ns, receiver);
        self.serials += 1;
        self.order.push_back((key, self.serials, call.begin_ns));
        let pending = Pending {
            call: Arc::clone(call),
            retransmissions: 0,
            is_answered: false,
            serial: self.serials,
        };
        self.kept_bytes += weight(call);
        self.calls.insert(key, pending);
        false
    }

    /// The call of a reply with this transaction id.
    pub fn call_of(&self, from_first: bool, xid: u32) -> Option<&Arc<Call>> {
        self.calls
            .get(&(from_first, xid))
            .map(|pending| &pending.call)
    }

    /// Whether a call waits for a reply.
    pub fn is_pending(&self, from_first: bool, xid: u32) -> bool {
        self.calls.contains_key(&(from_first, xid))
    }

    /// Takes a reply to a call of one end.
    pub fn answer(&mut self, from_first: bool, xid: u32) -> Answer {
        match self.calls.get_mut(&(from_first, xid)) {
            None => Answer::Orphan,
            Some(pending) if pending.is_answered => Answer::Repeated,
            Some(pending) => {
                pending.is_answered = true;
                Answer::First(Arc::clone(&pending.call), pending.retransmissions)
            }
        }
    }

    fn forget_old(&mut self, now_ns: i64, receiver: &mut impl Receiver) {
        while let Some(&(key, serial, begin_ns)) = self.order.front() {
            let is_current = self
                .calls
                .get(&key)
                .filter(|pending| pending.serial == serial);
            let is_over = match is_current {
                None => true,
                Some(pending) if pending.is_answered => self.order.len() > MOST_ANSWERED,
                Some(_) => {
                    self.order.len() >= MOST_CALLS
                        || now_ns.saturating_sub(begin_ns) > LONGEST_WAIT_NS
                }
            };
            if !is_over {
                return;
            }
            if let Some(pending) = is_current
                && !pending.is_answered
            {
                receiver.unanswered(&pending.call);
            }
            if is_current.is_some()
                && let Some(old) = self.calls.remove(&key)
            {
                self.kept_bytes = self.kept_bytes.saturating_sub(weight(&old.call));
            }
            self.order.pop_front();
        }
    }

    /// The connection is over: no more replies will come.
    pub fn finish(&mut self, receiver: &mut impl Receiver) {
        for (key, serial, _) in self.order.drain(..) {
            let pending = self.calls.get(&key);
            if let Some(pending) = pending.filter(|p| p.serial == serial && !p.is_answered) {
                receiver.unanswered(&pending.call);
            }
        }
        self.calls.clear();
        self.kept_bytes = 0;
    }

    /// Memory in use, approximately.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

/// A receiver that counts unanswered calls.
pub struct Counting<'a, R> {
    /// The receiver that gets the calls.
    pub receiver: &'a mut R,
    /// The number of unanswered calls.
    pub unanswered: u64,
}

impl<R: Receiver> Receiver for Counting<'_, R> {
    fn unanswered(&mut self, call: &Arc<Call>) {
        self.unanswered += 1;
        self.receiver.unanswered(call);
    }
}
