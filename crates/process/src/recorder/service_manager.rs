//! Reports the state of the recorder to systemd or a similar manager: sd_notify(3).
//!
//! A manager that does not read its messages must not block the recorder, so nothing here waits.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often the ending recorder reports that it continues.
const EXTEND_EVERY: Duration = Duration::from_secs(5);
/// How long it may then be silent.
const EXTENDED: Duration = Duration::from_secs(30);
/// After this many extensions, the manager's own limit applies: sealing takes some microseconds per row.
const EXTENSIONS: u32 = 120;
/// Windows that may close late before the watchdog fires.
const WINDOWS: u32 = 3;

/// The manager that started this process, if it wants reports.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

/// Reports that the recorder is still ending, until dropped.
pub struct Ending {
    _until: Sender<()>,
}

impl ServiceManager {
    /// The manager in the environment variables.
    pub fn of_environment() -> Self {
        let address = env::var_os("NOTIFY_SOCKET").and_then(|name| address(&name).ok());
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        let is_own = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_own);
        Self {
            socket,
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// Losing a message is harmless: the next window's message repeats it.
    fn tell(&self, words: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(words.as_bytes(), address);
        }
    }

    /// The NFS client is not loaded, so there is nothing to record yet. This is not an error.
    pub fn waits(&self) {
        self.tell("READY=1\nSTATUS=waiting for the NFS client to be loaded\nWATCHDOG=1");
    }

    /// The recorder begins with windows of this length. A watchdog interval that is too short for them is extended.
    pub fn begins(&self, window: Duration) {
        let least = (WINDOWS * window).as_micros();
        if self
            .watchdog
            .is_some_and(|watchdog| watchdog.as_micros() < least)
        {
            self.tell(&format!("WATCHDOG_USEC={least}\nWATCHDOG=1"));
        }
    }

    /// All probes are attached.
    pub fn records(&self) {
        self.tell("READY=1\nSTATUS=recording\nWATCHDOG=1");
    }

    /// A window has closed, or there is still nothing to record: the recorder is healthy.
    pub fn goes_on(&self, status: Option<&str>) {
        match status {
            Some(status) => self.tell(&format!("STATUS={status}\nWATCHDOG=1")),
            None => self.tell("WATCHDOG=1"),
        }
    }

    /// Whether a manager listens.
    pub fn listens(&self) -> bool {
        self.socket.is_some()
    }

    /// Reports a reload of the configuration. The recorder must already be ready.
    pub fn reloading(&self, reload: impl FnOnce()) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
        reload();
        self.tell("READY=1");
    }

    /// The recorder ends: it seals its journals.
    pub fn ends(self) -> io::Result<Option<Ending>> {
        if self.socket.is_none() {
            return Ok(None);
        }
        let extend = format!("EXTEND_TIMEOUT_USEC={}", EXTENDED.as_micros());
        self.tell(&format!(
            "STOPPING=1\nSTATUS=writing what was recorded\n{extend}"
        ));
        let (until, ended) = channel::<()>();
        trackiops_threads::spawn(Builder::new().name("notify".to_owned()), move || {
            let goes_on = || ended.recv_timeout(EXTEND_EVERY) == Err(RecvTimeoutError::Timeout);
            for _ in (0..EXTENSIONS).take_while(|_| goes_on()) {
                self.tell(&format!("{extend}\nWATCHDOG=1"));
            }
        })?;
        Ok(Some(Ending { _until: until }))
    }
}

/// The address in systemd's notation: `@` begins an abstract name.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
