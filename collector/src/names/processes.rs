//! Names of processes, from `/proc/PID/comm` while they live.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::request::ProcessName;

use crate::clock::MonotonicNs;

/// Inode of the host's PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h). In other ones, the numbers in `/proc` differ from the kernel's.
const HOST_NAMESPACE: u64 = 0xeffffffc;
/// Time after which a name is read again: a process may execute another program, and numbers are reused.
const RECHECK: Duration = Duration::from_secs(1);
/// How long the name of an ended process is kept. Numbers wrap around: 32,768 of them within this time takes 3,277 new processes a second.
const KEPT: Duration = Duration::from_secs(10);
/// Most remembered processes, and most new ones looked at in a second: 160 KiB.
const MOST: usize = 4096;

/// The names of recently seen processes.
pub struct Processes {
    /// Whether `/proc` numbers processes as the kernel does.
    is_host: bool,
    /// By number.
    known: AHashMap<u32, Known>,
}

/// A process that was read.
#[derive(Clone, Copy)]
struct Known {
    /// Empty if it had ended before it was first looked at.
    name: ProcessName,
    /// When it had this name.
    seen: MonotonicNs,
    /// When it was last looked at.
    checked: MonotonicNs,
}

impl Processes {
    /// Without names yet.
    pub fn new() -> Self {
        let namespace = fs::metadata("/proc/self/ns/pid");
        Self {
            is_host: namespace.is_ok_and(|namespace| namespace.ino() == HOST_NAMESPACE),
            known: AHashMap::new(),
        }
    }

    /// The name of a process; empty if unknown.
    pub fn name(&mut self, pid: u32, now: MonotonicNs) -> ProcessName {
        if pid == 0 || !self.is_host {
            return ProcessName::default();
        }
        let is_within =
            |at: MonotonicNs, time: Duration| now.0.saturating_sub(at.0) < time.as_nanos() as u64;
        let before = self.known.get(&pid).copied();
        if let Some(known) = before.filter(|known| is_within(known.checked, RECHECK)) {
            return known.name;
        }
        if self.known.len() >= MOST {
            self.known
                .retain(|_, known| is_within(known.checked, RECHECK));
            if self.known.len() >= MOST {
                return ProcessName::default();
            }
        }
        let (name, seen) = match fs::read(format!("/proc/{pid}/comm")) {
            Ok(comm) => (
                ProcessName::new(comm.strip_suffix(b"\n").unwrap_or(&comm)),
                now,
            ),
            Err(_) => before
                .filter(|known| is_within(known.seen, KEPT))
                .map_or_else(
                    || (ProcessName::default(), now),
                    |known| (known.name, known.seen),
                ),
        };
        let checked = now;
        let known = Known {
            name,
            seen,
            checked,
        };
        self.known.insert(pid, known);
        name
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_keeps_its_name_for_a_while_when_it_has_ended() {
        let mut processes = Processes {
            is_host: true,
            known: AHashMap::new(),
        };
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        // It gets its name a moment after it exists.
        let comm = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&comm).unwrap() != "cat\n" {
            std::thread::yield_now();
        }
        let at = |seconds: u64| MonotonicNs(seconds * 1_000_000_000);
        let mut name = |seconds| processes.name(child.id(), at(seconds)).text();
        assert_eq!(name(1).as_deref(), Some("cat"));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut name = |seconds| processes.name(child.id(), at(seconds)).text();
        assert_eq!(name(9).as_deref(), Some("cat"));
        assert_eq!(name(12), None, "its number may have gone to another");
        assert_eq!(processes.name(0, at(9)).text(), None);
        processes.is_host = false;
        assert_eq!(processes.name(std::process::id(), at(9)).text(), None);
    }

    #[test]
    fn no_more_processes_are_remembered_than_there_is_room_for() {
        let mut processes = Processes {
            is_host: true,
            known: AHashMap::new(),
        };
        for pid in 0..2 * MOST as u32 {
            processes.name(u32::MAX - pid, MonotonicNs(1));
        }
        assert_eq!(processes.known.len(), MOST);
        processes.name(7, MonotonicNs(2_000_000_000));
        assert_eq!(processes.known.len(), 1);
    }
}
