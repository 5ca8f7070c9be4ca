//! Looks out for servers that do not answer, on a thread of its own: whatever should hold up reading the kernel's lists,
//! it does not hold up the recorder.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use trackiops_schemas::pending::{Pending, STALLED_MS};
use trackiops_threads::fail_point;

use crate::clock::{ClockSample, MonotonicNs};
use crate::stalls::pending::WaitingRequests;

/// How often the lists are looked at where nothing waits.
const LOOK_EVERY: Duration = Duration::from_millis(750);
/// Clients and tasks that are read in this time at most, some 1 % of a CPU; where there are more, looks are rarer.
const LOOK_AT: usize = 256;
/// A look is that of now for so long.
const FRESH: Duration = Duration::from_secs(2);
/// Looks that may wait for the recorder; more are dropped.
const LOOKS: usize = 16;
const STACK_BYTES: usize = 256 << 10;

/// What a look showed.
#[derive(Clone, Debug)]
pub struct LookoutReport {
    at: MonotonicNs,
    /// `None` where nobody could look.
    pub pending: Option<Pending>,
}

/// The thread that looks. It ends when this is dropped.
pub struct Lookout {
    looks: Receiver<LookoutReport>,
    last: Option<LookoutReport>,
}

impl Lookout {
    /// Begins to look.
    pub fn start() -> io::Result<Self> {
        let (sender, looks) = sync_channel(LOOKS);
        let thread = thread::Builder::new()
            .name("trackiops-look".to_owned())
            .stack_size(STACK_BYTES);
        trackiops_threads::spawn(thread, move || look_out(&sender))?;
        Ok(Self { looks, last: None })
    }

    /// The next look, if there was one since.
    pub fn next(&mut self) -> Option<LookoutReport> {
        let look = self.looks.try_recv().ok()?;
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

fn look_out(looks: &SyncSender<LookoutReport>) {
    let mut waiting = WaitingRequests::below(Path::new("/"));
    loop {
        fail_point::hit("lookout: look");
        let at = ClockSample::take().now;
        let pending = waiting.look(at).ok();
        let rest = pause_after(pending.as_ref(), waiting.looked_at());
        if let Err(TrySendError::Disconnected(_)) = looks.try_send(LookoutReport { at, pending }) {
            return;
        }
        thread::sleep(rest);
    }
}

/// Until the next look, after one that showed this, and for which so many clients and tasks were read. What has waited since an
/// earlier look is seen again as soon as it is stalled: that is to be told within a second.
fn pause_after(pending: Option<&Pending>, looked_at: usize) -> Duration {
    match pending.map_or(0, |pending| pending.age_ms_max) {
        age_ms @ 1..STALLED_MS if looked_at < LOOK_AT => {
            LOOK_EVERY.min(Duration::from_millis(STALLED_MS - age_ms))
        }
        _ => LOOK_EVERY * u32::try_from(1 + looked_at / LOOK_AT).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_frequent_as_need_be_and_not_more_than_they_may() {
        let rest = |age_ms_max, looked_at| {
            let pending = Pending {
                age_ms_max,
                ..Pending::default()
            };
            super::pause_after(Some(&pending), looked_at).as_millis()
        };
        assert_eq!(rest(0, 100), 750);
        assert_eq!(rest(751, 100), 249);
        assert_eq!(rest(999, 100), 1);
        assert_eq!(rest(1000, 100), 750, "it is stalled already");
        assert_eq!(rest(751, 1000), 3000, "not more than they may");
        assert_eq!(super::pause_after(None, 0), LOOK_EVERY);
    }

    #[cfg(feature = "fail-points")]
    #[test]
    #[ignore = "is run by the other, to panic"]
    fn as_child_the_lookout_panics() {
        let _lookout = Lookout::start().unwrap();
        assert_eq!(crate::panics::died(), "trackiops-look");
    }

    #[cfg(feature = "fail-points")]
    #[test]
    fn a_panic_of_the_lookout_is_reported() {
        let test = "lookout::tests::as_child_the_lookout_panics";
        crate::panics::run(test, "2 lookout: look");
    }
}
