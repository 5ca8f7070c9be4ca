//! Serves subscribers on a socket, in one thread.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trackiops_schemas::kernel_usage::KernelUsage;

use super::buffer::{Next, Publisher, Shared, State};
use super::{
    CHUNK_BYTES, Gap, Hello, Kind, MAGIC, MOST_OF_A_USER, MOST_SUBSCRIBERS, OwnUsage, Position,
    RecorderInfo, VERSION, connect_at_once,
};
use crate::sandbox::confine_to;

/// Interval of [`super::Message::Status`].
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How long the status waits for windows that are being written, and how often the server looks. Totals without such
/// windows are the sums of exactly the windows up to their position.
const WRITTEN_WITHIN: Duration = Duration::from_millis(500);
const LOOKS_EVERY: Duration = Duration::from_millis(5);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// How long subscribers may still read when the recorder ends.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Serves a recording's windows on a socket.
#[derive(Debug)]
pub struct LiveServer {
    publisher: Publisher,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The socket, and its inode.
    path: PathBuf,
    inode: u64,
}

impl LiveServer {
    /// Serves windows `after` a position on a socket at `path`. The group of the store may connect to it. Creates its
    /// directory if necessary.
    ///
    /// Errors: [`ErrorKind::AddrInUse`] if another recorder serves there, and errors of the system.
    pub fn start(path: &Path, recorder: RecorderInfo, after: Position) -> io::Result<Self> {
        let (listener, inode) = listen(path, &recorder.store)?;
        let store = recorder.store.clone();
        let (publisher, shared) = Publisher::new(recorder, after)?;
        let server = Server {
            listener,
            shared: Arc::clone(&shared),
            subscribers: Vec::new(),
            status: Arc::default(),
            totals: Arc::default(),
            accepts_again: None,
        };
        let builder = Builder::new().name("live".to_owned());
        let thread = trackiops_threads::spawn(builder, move || {
            // The thread reads no file, and writes only to its connections. This fails if the kernel lacks Landlock.
            let _ = confine_to(&store);
            server.run()
        })?;
        Ok(Self {
            publisher,
            shared,
            thread: Some(thread),
            path: path.to_owned(),
            inode,
        })
    }

    /// The handle through which the recorder publishes.
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        // Without the path, no client can connect. Another recorder may have replaced it already.
        if fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
        self.shared.lock().has_ended = true;
        self.shared.wake();
        // A panic of the thread was already reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Listens at `path`. Replaces a socket without a server.
fn listen(path: &Path, store: &Path) -> io::Result<(UnixListener, u64)> {
    let group = fs::metadata(store).map(|store| store.gid()).ok();
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty())
        && !dir.exists()
    {
        fs::DirBuilder::new().mode(0o755).create(dir)?;
    }
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "it is not a socket; remove it, or name another path",
            ));
        }
        Ok(_) => match connect_at_once(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            _ => {
                return Err(io::Error::new(
                    ErrorKind::AddrInUse,
                    "another recorder serves it",
                ));
            }
        },
        Err(_) => {}
    }
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(&new)?)?;
    let place = || -> io::Result<u64> {
        // The group is the store's, as for the store's files.
        lchown(&new, None, group)?;
        // Through the open socket itself, in case its path was replaced.
        let place = open(&new, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
        let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
        fs::set_permissions(itself, fs::Permissions::from_mode(0o660))?;
        // No client can connect before this call.
        rustix::net::listen(&socket, BACKLOG)?;
        let inode = fs::symlink_metadata(&new)?.ino();
        fs::rename(&new, path)?;
        Ok(inode)
    };
    let placed = place();
    if placed.is_err() {
        let _ = fs::remove_file(&new);
    }
    Ok((UnixListener::from(socket), placed?))
}

/// Resources of this process. A value that cannot be read is 0.
fn own_usage(kernel: KernelUsage) -> OwnUsage {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(cpu.tv_sec).unwrap_or_default();
    let ms = u64::try_from(cpu.tv_nsec).unwrap_or_default() / 1_000_000;
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split_whitespace().nth(1);
    let pages: u64 = resident
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    OwnUsage {
        cpu_ms: seconds * 1000 + ms,
        rss_bytes: pages * page_size() as u64,
        kernel,
    }
}

/// The state of the thread.
struct Server {
    listener: UnixListener,
    shared: Arc<Shared>,
    subscribers: Vec<Subscriber>,
    /// The last status, as JSON, and the totals of that time.
    status: Arc<[u8]>,
    totals: Arc<[u8]>,
    /// No connection is accepted until then, because accepting failed.
    accepts_again: Option<Instant>,
}

impl Server {
    fn run(mut self) {
        let mut status_due = Instant::now() + STATUS_EVERY;
        let mut latest = status_due + WRITTEN_WITHIN;
        while !self.shared.lock().has_ended {
            self.wait(status_due.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            let is_due = now >= status_due;
            let is_read = !self.subscribers.is_empty();
            if is_due && is_read && now < latest && self.shared.lock().is_writing() {
                status_due = now + LOOKS_EVERY;
            } else if is_due {
                status_due = now + STATUS_EVERY;
                latest = status_due + WRITTEN_WITHIN;
                if !self.subscribers.is_empty() {
                    self.take_status();
                }
                for subscriber in &mut self.subscribers {
                    subscriber.is_owed_status = true;
                    subscriber.is_owed_totals = true;
                }
            }
            self.accept();
            self.send();
        }
        let until = Instant::now() + LAST_WORDS;
        self.send();
        while !self.subscribers.is_empty() && Instant::now() < until {
            self.wait(until.saturating_duration_since(Instant::now()));
            self.send();
        }
    }

    fn take_status(&mut self) {
        let mut state = self.shared.lock();
        let mut status = state.status();
        let totals = state.totals();
        drop(state);
        status.own = own_usage(status.own.kernel);
        self.status = serde_json::to_vec(&status).unwrap_or_default().into();
        self.totals = totals.encode().into();
    }

    /// Waits until there is something to do. Removes disconnected subscribers.
    fn wait(&mut self, most: Duration) {
        let listens = match self.accepts_again.is_none_or(|at| Instant::now() >= at) {
            true => PollFlags::IN,
            false => PollFlags::empty(),
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.shared.woken(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), listens),
        ];
        fds.extend(self.subscribers.iter().map(|subscriber| {
            // Input from subscribers is never read. `poll` always reports disconnections.
            let wanted = match subscriber.is_blocked {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            };
            PollFd::from_borrowed_fd(subscriber.socket.as_fd(), wanted)
        }));
        let most = Timespec::try_from(most).ok();
        let _ = poll(&mut fds, most.as_ref());
        let over = PollFlags::HUP | PollFlags::ERR;
        let gone = fds[2..].iter().map(|fd| fd.revents().intersects(over));
        let mut gone = gone.collect::<Vec<_>>().into_iter();
        self.subscribers.retain(|_| !gone.next().unwrap_or(false));
        self.shared.take_wakes();
    }

    fn accept(&mut self) {
        // A limit, so that a client that keeps connecting does not block the others.
        for _ in 0..MOST_SUBSCRIBERS {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // For example, no descriptor is free. Pause, because the waiting connection would keep the thread busy.
                Err(_) => {
                    self.accepts_again = Some(Instant::now() + STATUS_EVERY);
                    return;
                }
            };
            let Ok(peer) = socket_peercred(&socket) else {
                continue;
            };
            let user = peer.uid.as_raw();
            let of_user = self.subscribers.iter().filter(|other| other.user == user);
            let is_full = self.subscribers.len() >= MOST_SUBSCRIBERS
                || (user != 0 && of_user.count() >= MOST_OF_A_USER);
            if is_full || socket.set_nonblocking(true).is_err() {
                continue;
            }
            self.take_status();
            let mut state = self.shared.lock();
            state.has_subscribers = true;
            let hello = Hello {
                recorder: state.recorder.clone(),
                position: state.position,
            };
            let next = state.windows.end();
            drop(state);
            self.subscribers
                .push(Subscriber::new(socket, user, &hello, next));
        }
    }

    /// Sends as much as subscribers can take. Removes disconnected subscribers, and windows that all have.
    fn send(&mut self) {
        let shared = &self.shared;
        let news = (&self.status, &self.totals);
        self.subscribers
            .retain_mut(|subscriber| subscriber.send(shared, news));
        let mut state = shared.lock();
        state.has_subscribers = !self.subscribers.is_empty();
        let needed = self.subscribers.iter().map(|subscriber| subscriber.next);
        let end = state.windows.end();
        state.windows.drop_before(needed.min().unwrap_or(end));
    }
}

/// The last status and totals.
type News<'s> = (&'s Arc<[u8]>, &'s Arc<[u8]>);

/// A connected program.
#[derive(Debug)]
struct Subscriber {
    socket: UnixStream,
    user: u32,
    /// Number of its next window.
    next: u64,
    /// The last window that it has.
    after: Position,
    is_owed_status: bool,
    is_owed_totals: bool,
    /// Version of the mounts that it has.
    mounts_version: Option<u64>,
    /// The message that is being sent. None follows after [`Kind::End`].
    sending: Option<Sending>,
    has_end: bool,
    /// A chunk. Its first `out_sent` bytes were sent.
    out: Vec<u8>,
    out_sent: usize,
    is_blocked: bool,
}

/// A message. Its first `sent` bytes are in chunks.
#[derive(Debug)]
enum Sending {
    /// The subscriber's next window. It stays only in the buffer, so that it can be dropped.
    Window { sent: usize },
    Text {
        kind: Kind,
        bytes: Arc<[u8]>,
        sent: usize,
    },
}

impl Sending {
    fn text(kind: Kind, content: &impl Serialize) -> Self {
        // Encoding numbers, texts and lists of them cannot fail.
        let bytes = serde_json::to_vec(content).unwrap_or_default();
        Self::bytes(kind, bytes.into())
    }

    fn bytes(kind: Kind, bytes: Arc<[u8]>) -> Self {
        Self::Text {
            kind,
            bytes,
            sent: 0,
        }
    }
}

impl Subscriber {
    fn new(socket: UnixStream, user: u32, hello: &Hello, next: u64) -> Self {
        Self {
            socket,
            user,
            next,
            after: hello.position,
            is_owed_status: true,
            is_owed_totals: true,
            mounts_version: None,
            sending: Some(Sending::text(Kind::Hello, hello)),
            has_end: false,
            out: [MAGIC, VERSION.to_le_bytes()].concat(),
            out_sent: 0,
            is_blocked: false,
        }
    }

    /// Sends until the socket is full or nothing is left. Returns whether the subscriber stays.
    fn send(&mut self, shared: &Shared, news: News<'_>) -> bool {
        self.is_blocked = false;
        loop {
            if self.out_sent == self.out.len() {
                self.out_sent = 0;
                self.out.clear();
                if !self.put_chunk(shared, news) {
                    return !self.has_end;
                }
            }
            match self.socket.write(&self.out[self.out_sent..]) {
                Ok(sent) => self.out_sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Puts the next chunk into `out`. Returns whether there is one.
    fn put_chunk(&mut self, shared: &Shared, news: News<'_>) -> bool {
        let state = shared.lock();
        if matches!(self.sending, Some(Sending::Window { .. }))
            && state.windows.has_dropped(self.next)
        {
            self.sending = None;
        }
        if self.sending.is_none() {
            self.sending = self.next_message(&state, news);
        }
        match &mut self.sending {
            None => false,
            Some(Sending::Window { sent }) => {
                let Next::Window(window) = state.windows.next(self.next) else {
                    return false;
                };
                drop(state);
                if put(&mut self.out, Kind::Window, &window.bytes, sent) {
                    self.next += 1;
                    self.after = window.position;
                    self.sending = None;
                }
                true
            }
            Some(Sending::Text { kind, bytes, sent }) => {
                drop(state);
                if put(&mut self.out, *kind, bytes, sent) {
                    self.has_end = *kind == Kind::End;
                    self.sending = None;
                }
                true
            }
        }
    }

    fn next_message(&mut self, state: &State, (status, totals): News<'_>) -> Option<Sending> {
        if self.has_end {
            return None;
        }
        let next = state.windows.next(self.next);
        if let Next::Dropped(windows, dropped) = next {
            let gap = Gap {
                windows,
                after: self.after,
                until: dropped.until,
                since_ms: dropped.start.0,
                until_ms: dropped.end.0,
            };
            self.next += windows;
            self.after = dropped.until;
            return Some(Sending::text(Kind::Gap, &gap));
        }
        if self.mounts_version != Some(state.mounts_version) {
            self.mounts_version = Some(state.mounts_version);
            return Some(Sending::bytes(Kind::Mounts, Arc::clone(&state.mounts)));
        }
        if self.is_owed_status {
            self.is_owed_status = false;
            return Some(Sending::bytes(Kind::Status, Arc::clone(status)));
        }
        if self.is_owed_totals && !totals.is_empty() {
            self.is_owed_totals = false;
            return Some(Sending::bytes(Kind::Totals, Arc::clone(totals)));
        }
        match next {
            Next::Window(_) => Some(Sending::Window { sent: 0 }),
            _ if state.has_ended => Some(Sending::bytes(Kind::End, Arc::default())),
            _ => None,
        }
    }
}

/// Adds the next chunk of a message whose first `sent` bytes are in chunks. Returns whether it is the last one.
fn put(out: &mut Vec<u8>, kind: Kind, message: &[u8], sent: &mut usize) -> bool {
    let left = &message[*sent..];
    let part = &left[..left.len().min(CHUNK_BYTES)];
    let is_last = part.len() == left.len();
    out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    out.extend_from_slice(&[kind as u8, u8::from(is_last)]);
    out.extend_from_slice(part);
    *sent += part.len();
    is_last
}
