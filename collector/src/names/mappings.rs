//! Files that processes have mapped, looked up on a separate thread, which may block.
//! `/proc/PID/maps` is read under the lock of the process's address space. Suppose one thread of the
//! process writes to a mapped file on a hung server, and another one maps or unmaps memory:
//! then that lock is held until the server is back.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use trackiops_threads::fail_point;

use crate::names::open_files::{OpenFile, mapped};

/// How long to wait for an answer, so that names are nearly always known when a window closes.
const PATIENCE: Duration = Duration::from_millis(20);
const STACK_BYTES: usize = 256 << 10;

/// Asks for the mapped files of processes, one batch at a time.
pub struct Mappings {
    /// The processes to ask about next.
    wanted: HashSet<u32>,
    thread: Option<Thread>,
    /// Whether a batch was sent and is not yet answered.
    asked: bool,
}

struct Thread {
    processes: Sender<Vec<u32>>,
    found: Receiver<Vec<OpenFile>>,
}

impl Mappings {
    /// Starts the thread.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            thread: Some(Thread::start(mapped)?),
            ..Self::none()
        })
    }

    /// Without a thread: finds nothing.
    fn none() -> Self {
        Self {
            wanted: HashSet::new(),
            thread: None,
            asked: false,
        }
    }

    /// Asks about a process at the next [`Self::look`].
    pub fn want(&mut self, pid: u32) {
        self.wanted.insert(pid);
    }

    /// The files found since the last call. Waits at most [`PATIENCE`], and only for a batch
    /// that this call has sent.
    pub fn look(&mut self) -> Vec<OpenFile> {
        let Some(thread) = &self.thread else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if self.asked {
            match thread.found.try_recv() {
                Ok(files) => found = files,
                Err(TryRecvError::Empty) => return found,
                Err(TryRecvError::Disconnected) => {
                    self.thread = None;
                    return found;
                }
            }
            self.asked = false;
        }
        if !self.wanted.is_empty() {
            let wanted = mem::take(&mut self.wanted);
            self.asked = thread.processes.send(wanted.into_iter().collect()).is_ok();
            if let Ok(files) = thread.found.recv_timeout(PATIENCE) {
                self.asked = false;
                found.extend(files);
            }
        }
        found
    }
}

impl Thread {
    /// `mapped` returns the files that a process has mapped. The thread ends when the sender is dropped.
    fn start(mapped: fn(u32) -> Vec<OpenFile>) -> io::Result<Self> {
        let (processes, asked) = channel::<Vec<u32>>();
        let (answer, found) = channel();
        let thread = thread::Builder::new()
            .name("trackiops-maps".to_owned())
            .stack_size(STACK_BYTES);
        trackiops_threads::spawn_observer(thread, move || {
            for processes in asked {
                fail_point::hit("mappings: look");
                let files = processes.into_iter().flat_map(mapped).collect();
                if answer.send(files).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { processes, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use trackiops_schemas::identity::Dev;

    const NONE: [u64; 0] = [];

    fn file(pid: u32) -> Vec<OpenFile> {
        if pid == 0 {
            thread::sleep(Duration::from_millis(500));
        }
        vec![OpenFile {
            dev: Dev(49),
            fileid: u64::from(pid),
            path: "/mnt/a".to_owned(),
        }]
    }

    fn mappings() -> Mappings {
        Mappings {
            thread: Some(Thread::start(file).unwrap()),
            ..Mappings::none()
        }
    }

    fn fileids(found: Vec<OpenFile>) -> Vec<u64> {
        found.into_iter().map(|file| file.fileid).collect()
    }

    #[test]
    fn a_process_that_cannot_be_looked_into_holds_up_nobody() {
        let mut mappings = mappings();
        mappings.want(0);
        let began = Instant::now();
        assert_eq!(fileids(mappings.look()), NONE);
        for pid in [7, 8] {
            mappings.want(pid);
            assert_eq!(fileids(mappings.look()), NONE);
        }
        assert!(began.elapsed() < Duration::from_millis(400));
        let mut found = Vec::new();
        while found.len() < 3 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(10));
            found.extend(fileids(mappings.look()));
        }
        found.sort_unstable();
        assert_eq!(found, [0, 7, 8]);
        assert!(!mappings.asked && mappings.wanted.is_empty());
    }

    #[cfg(feature = "fail-points")]
    #[test]
    #[ignore = "is run by the other, to panic"]
    fn as_child_the_thread_that_reads_mappings_panics() {
        let mut mappings = mappings();
        mappings.want(7);
        mappings.look();
        assert_eq!(crate::panic_tests::died(), "trackiops-maps");
        mappings.want(8);
        assert_eq!(fileids(mappings.look()), NONE, "nobody waits for it");
    }

    #[cfg(feature = "fail-points")]
    #[test]
    fn a_panic_of_the_thread_that_reads_mappings_is_reported() {
        let test = "as_child_the_thread_that_reads_mappings_panics";
        crate::panic_tests::run(module_path!(), test, "1 mappings: look");
    }
}
