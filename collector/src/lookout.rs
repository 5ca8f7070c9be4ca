//! Looks out for servers that do not answer, on a thread of its own: whatever should hold up reading the kernel's lists,
//! it does not hold up the recorder.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use trackiops_schemas::pending::Pending;

use crate::clock::{MonotonicNs, Sample};
use crate::pending::Waiting;

/// How often the lists are looked at. A request is called stalled after a second, and that is to be told within two.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Clients and tasks that are read in this time at most, some 1 % of a CPU; where there are more, looks are rarer.
const LOOK_AT: usize = 512;
/// A look is that of now for so long.
const FRESH: Duration = Duration::from_secs(2);
/// Looks that may wait for the recorder; more are dropped.
const LOOKS: usize = 16;
const STACK_BYTES: usize = 256 << 10;

/// What a look showed.
#[derive(Clone, Debug)]
pub struct Look {
    at: MonotonicNs,
    /// `None` where nobody could look.
    pub pending: Option<Pending>,
}

/// The thread that looks. It ends when this is dropped.
pub struct Lookout {
    looks: Option<Receiver<Look>>,
    last: Option<Look>,
}

impl Lookout {
    /// Begins to look. Without a thread for it, nothing is known.
    pub fn start() -> Self {
        let (sender, looks) = sync_channel(LOOKS);
        let thread = thread::Builder::new()
            .name("trackiops-look".to_owned())
            .stack_size(STACK_BYTES);
        let started = thread.spawn(move || look_out(&sender));
        Self {
            looks: started.is_ok().then_some(looks),
            last: None,
        }
    }

    /// The next look, if there was one since.
    pub fn next(&mut self) -> Option<Look> {
        let look = self.looks.as_ref()?.try_recv().ok()?;
        self.last = Some(look.clone());
        Some(look)
    }

    /// What the last look showed, if that was just now.
    pub fn recent(&self, now: MonotonicNs) -> Option<&Pending> {
        let last = self.last.as_ref()?;
        let fresh = now.0.saturating_sub(last.at.0) <= FRESH.as_nanos() as u64;
        last.pending.as_ref().filter(|_| fresh)
    }
}

fn look_out(looks: &SyncSender<Look>) {
    let mut waiting = Waiting::below(Path::new("/"));
    loop {
        let at = Sample::take().now;
        let pending = waiting.look(at).ok();
        if let Err(TrySendError::Disconnected(_)) = looks.try_send(Look { at, pending }) {
            return;
        }
        let rest = 1 + waiting.looked_at() / LOOK_AT;
        thread::sleep(LOOK_EVERY * u32::try_from(rest).unwrap_or(u32::MAX));
    }
}
