//! Which reply belongs to which call of a connection: by the direction of the call and its transaction id.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::AHashMap;

use crate::message::{Call, Receiver};

/// A call is forgotten after so long, ns of the capture's time.
const LONGEST_WAIT_NS: i64 = 300_000_000_000;
/// Calls of a connection that are remembered, at most.
const MOST_CALLS: usize = 1 << 14;
/// So many are remembered that were answered, for replies that come twice.
const MOST_ANSWERED: usize = 1 << 10;

/// What a call takes of memory, and each of its operations, about.
const CALL_BYTES: usize = 512;

/// Which of a connection's two ends called, and with which transaction id.
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
    /// In the order in which they came.
    order: VecDeque<(Key, u64, i64)>,
    serials: u64,
    /// What `calls` takes of memory.
    kept_bytes: usize,
}

fn weight(call: &Call) -> usize {
    CALL_BYTES * (1 + call.operations.len())
}

/// What a reply is.
pub enum Answer {
    /// The first one to a call, which was sent again so often.
    First(Arc<Call>, u32),
    /// Another one.
    Repeated,
    /// One whose call is not known.
    Orphan,
}

impl Pairing {
    /// Takes a call, and returns whether it is a retransmission.
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
            // Another call with its id. Forgotten here, so that it is unanswered once.
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

    /// The call to which a reply with this transaction id belongs.
    pub fn call_of(&self, from_first: bool, xid: u32) -> Option<&Arc<Call>> {
        self.calls
            .get(&(from_first, xid))
            .map(|pending| &pending.call)
    }

    /// Whether a call waits for a reply.
    pub fn is_pending(&self, from_first: bool, xid: u32) -> bool {
        self.calls.contains_key(&(from_first, xid))
    }

    /// A reply to a call of that end.
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

    /// The connection is over: no reply will come.
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

    /// What it takes of memory, about.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

/// Counts calls that are not answered.
pub struct Counting<'a, R> {
    /// Who is given them.
    pub receiver: &'a mut R,
    /// Their number.
    pub unanswered: u64,
}

impl<R: Receiver> Receiver for Counting<'_, R> {
    fn unanswered(&mut self, call: &Arc<Call>) {
        self.unanswered += 1;
        self.receiver.unanswered(call);
    }
}
