//! The timer by which the recorder reads rings that do not wake it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Readable at every multiple of `every` from now on. A timer of tokio would take four waits and an
/// extra wake-up for each.
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

/// Reads the timer, because the kernel starts the next interval only after that.
pub fn rearm(timer: &OwnedFd) -> io::Result<()> {
    match retry_on_intr(|| rustix::io::read(timer, &mut [0; 8])) {
        // The wake-up had another reason.
        Err(Errno::AGAIN) | Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
