//! Looks for servers that do not answer. A separate thread does this, so the recorder continues
//! when reading the kernel's lists takes long.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use trackiops_schemas::pending::{Pending, STALLED_MS};
use trackiops_threads::fail_point;

use crate::clock::{ClockSample, MonotonicNs};
use crate::stalls::pending::WaitingRequests;

/// Time between looks while no request waits.
const LOOK_EVERY: Duration = Duration::from_millis(750);
/// Most clients and tasks that are read in [`LOOK_EVERY`], which takes about 1 % of a CPU. If there
/// are more, looks are rarer.
const LOOK_AT: usize = 256;
/// How long a look counts as recent.
const FRESH: Duration = Duration::from_secs(2);
/// Most looks that wait for the recorder; further ones are dropped.
const LOOKS: usize = 16;
const STACK_BYTES: usize = 256 << 10;

/// The result of a look.
#[derive(Clone, Debug)]
pub struct LookoutReport {
    at: MonotonicNs,
    /// `None` if the lists could not be read.
    pub pending: Option<Pending>,
}

/// The looking thread. It ends when this is dropped.
pub struct Lookout {
    looks: Receiver<LookoutReport>,
    last: Option<LookoutReport>,
}

impl Lookout {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (sender, looks) = sync_channel(LOOKS);
        let thread = thread::Builder::new()
            .name("trackiops-look".to_owned())
            .stack_size(STACK_BYTES);
        trackiops_threads::spawn_observer(thread, move || look_out(&sender))?;
        Ok(Self { looks, last: None })
    }

    /// The next look since the last call, if there is one.
    pub fn next(&mut self) -> Option<LookoutReport> {
        let look = self.looks.try_recv().ok()?;
        self.last = Some(look.clone());
        Some(look)
    }

    /// The result of the last look, if it is recent.
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

/// The pause after a look that showed `pending` and read `looked_at` clients and tasks. If
/// a request waits already, the next look comes as soon as its server would count as stalled.
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
        assert_eq!(crate::panic_tests::died(), "trackiops-look");
    }

    #[cfg(feature = "fail-points")]
    #[test]
    fn a_panic_of_the_lookout_is_reported() {
        let test = "as_child_the_lookout_panics";
        crate::panic_tests::run(module_path!(), test, "2 lookout: look");
    }
}
