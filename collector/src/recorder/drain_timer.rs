//! The timer at which the recorder reads the rings when nobody wakes it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Readable at every multiple of `every` from now on. Not a timer of tokio, which takes four waits and a wake-up
/// of its own for each.
pub fn timer(every: Duration) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let every = Timespec::try_from(every).map_err(io::Error::other)?;
    let times = Itimerspec {
        it_interval: every,
        it_value: every,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
    Ok(timer)
}

/// The kernel waits for the next time only when it is known that the last one was noticed.
pub fn rearm(timer: &OwnedFd) -> io::Result<()> {
    match retry_on_intr(|| rustix::io::read(timer, &mut [0; 8])) {
        // Something else woke us.
        Err(Errno::AGAIN) | Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
