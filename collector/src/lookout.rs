//! Looks out for servers that do not answer, on a thread of its own: whatever should hold up reading the kernel's lists,
//! it does not hold up the recorder.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::pending::{Pending, STALLED_MS};

use crate::clock::{MonotonicNs, Sample};
use crate::pending::Waiting;

/// How often the lists are looked at where nothing waits.
const LOOK_EVERY: Duration = Duration::from_millis(750);
/// Looks take 1/100 of a CPU at most; where they take longer, they are rarer.
const SHARE: u32 = 100;
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
        let (at, began) = (Sample::take().now, cpu_time());
        let pending = waiting.look(at).ok();
        let took = cpu_time().saturating_sub(began);
        let rest = rest(pending.as_ref(), took);
        if let Err(TrySendError::Disconnected(_)) = looks.try_send(Look { at, pending }) {
            return;
        }
        thread::sleep(rest);
    }
}

/// Until the next look, after one that showed this and took so much of a CPU. What has waited since an earlier look is seen
/// again as soon as it is stalled: that is to be told within a second.
fn rest(pending: Option<&Pending>, took: Duration) -> Duration {
    let rest = match pending.map_or(0, |pending| pending.age_ms_max) {
        age_ms @ 1..STALLED_MS => LOOK_EVERY.min(Duration::from_millis(STALLED_MS - age_ms)),
        _ => LOOK_EVERY,
    };
    rest.max(took.saturating_mul(SHARE))
}

/// That this thread has used.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_frequent_as_need_be_and_not_more_than_they_may() {
        let rest = |age_ms_max, took_us| {
            let pending = Pending {
                age_ms_max,
                ..Pending::default()
            };
            super::rest(Some(&pending), Duration::from_micros(took_us)).as_millis()
        };
        assert_eq!(rest(0, 100), 750);
        assert_eq!(rest(751, 100), 249);
        assert_eq!(rest(999, 100), 10, "not more than they may");
        assert_eq!(rest(1000, 100), 750, "it is stalled already");
        assert_eq!(rest(0, 20_000), 2000);
        let nobody_can_look = super::rest(None, Duration::ZERO);
        assert_eq!(nobody_can_look, LOOK_EVERY);
    }
}
