//! The kernel's lists of RPC tasks, in sunrpc's part of debugfs (net/sunrpc/debugfs.c): per RPC
//! client a file with a line for each task that is not done, oldest first.
//!
//! Reading a list contacts no server. But it delays requests of the client that begin
//! or end: the kernel writes the requested lines under the client's spin lock. Each line
//! takes at least 20 us, for the names of two functions. So only one line is requested at a
//! time. An open file keeps its client alive even after the unmount, so none stays open.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::{Errno, read};

use crate::names::mount_names::is_usual;

/// Path below the root.
const DIRECTORY: &str = "sys/kernel/debug/sunrpc/rpc_clnt";
/// Most tasks read of a client in one look. The kernel finds each line by counting from the first.
const TASKS: usize = 1024;
/// Bytes requested at a time: fewer than any line has.
const AT_ONCE: usize = 64;
/// Room for entries of a directory, bytes.
const ENTRIES: usize = 4096;

/// The visibility of the RPC tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RpcTasks {
    /// Readable, in this directory.
    At(PathBuf),
    /// Mounted, but this process may not read them.
    Denied,
    /// debugfs is not mounted, or the kernel has none.
    NoDebugfs,
    /// debugfs is mounted, but has no RPC clients: sunrpc is not loaded, or was built without them.
    NotThere,
}

impl RpcTasks {
    /// Looks for them below `root`.
    pub fn find(root: &Path) -> Self {
        let directory = root.join(DIRECTORY);
        let debugfs = root.join("sys/kernel/debug");
        match std::fs::read_dir(&directory) {
            Ok(_) => Self::At(directory),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Self::Denied,
            Err(_) if std::fs::read_dir(debugfs).is_ok_and(|entries| entries.count() > 0) => {
                Self::NotThere
            }
            Err(_) => Self::NoDebugfs,
        }
    }
}

/// An RPC client. The kernel reuses its number, but not its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    /// Its number.
    pub number: u32,
    /// Inode number of its directory.
    pub inode: u64,
}

/// A task of the NFS program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcTask {
    /// Unique among a client's present tasks; soon reused.
    pub id: u32,
    /// Number of the transmission; 0 while it has none. It stays the same when the request is
    /// sent again without an answer. It changes when the task starts over after an answer.
    pub xid: u32,
    /// 3 or 4.
    pub version: u8,
    /// The server has asked to retry later. (A task that waits to reconnect
    /// is in the same queue, but keeps its transmission.)
    pub put_off: bool,
}

/// Parses `13 c885 0 0x10 0x51708611 12988 nfs4_open_ops [nfsv4] nfsv4 OPEN a:call_status [sunrpc] q:xprt_pending`.
/// `None` for tasks of other programs: locks, mounts, port maps, callbacks.
pub(crate) fn parse_task(line: &str) -> Option<RpcTask> {
    let mut words = line.split_ascii_whitespace();
    let id = words.next()?.parse().ok()?;
    // Skips flags, status, client.
    let xid = words.nth(3)?.strip_prefix("0x")?;
    // Skips the time left and the operations, and their module if they are in one.
    let program = words.nth(2).filter(|word| !word.starts_with('['));
    let program = program.or_else(|| words.next())?;
    let version = program.strip_prefix("nfsv")?.parse().ok()?;
    let (_, queue) = line.split_once(" q:")?;
    let xid = u32::from_str_radix(xid, 16).ok()?;
    Some(RpcTask {
        id,
        xid,
        version,
        put_off: xid == 0 && queue.trim_end() == "delayq",
    })
}

/// The lists of all clients.
pub struct TaskLists {
    directory: PathBuf,
    entries: Vec<MaybeUninit<u8>>,
    text: Vec<u8>,
}

impl TaskLists {
    /// The lists below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            directory: root.join(DIRECTORY),
            entries: vec![MaybeUninit::uninit(); ENTRIES],
            text: Vec::new(),
        }
    }

    /// Reads every list. `each` gets the directory of clients, and every client with at most [`TASKS`] of its tasks of
    /// the NFS program.
    pub fn read(
        &mut self,
        mut each: impl FnMut(BorrowedFd<'_>, ClientId, &[RpcTask]),
    ) -> Result<(), Errno> {
        let directory = open(CWD, &self.directory, OFlags::DIRECTORY)?;
        let mut entries = RawDir::new(&directory, &mut self.entries);
        let mut tasks = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            let Ok(number) = u32::from_str_radix(name, 16) else {
                continue;
            };
            tasks.clear();
            // A client that is gone meanwhile has no tasks.
            let _ = read_tasks(&directory, name, &mut self.text, &mut tasks);
            let inode = entry.ino();
            each(directory.as_fd(), ClientId { number, inode }, &tasks);
        }
        Ok(())
    }
}

fn read_tasks(
    directory: &OwnedFd,
    name: &str,
    text: &mut Vec<u8>,
    tasks: &mut Vec<RpcTask>,
) -> Result<(), Errno> {
    let file = open(directory, format!("{name}/tasks"), OFlags::empty())?;
    let mut kept = 0;
    while tasks.len() < TASKS {
        text.resize(kept + AT_ONCE, 0);
        let got = read(&file, &mut text[kept..])?;
        if got == 0 {
            break;
        }
        // A read may end within a line.
        let filled = kept + got;
        let whole = text[..filled]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let lines = str::from_utf8(&text[..whole]).unwrap_or_default().lines();
        tasks.extend(lines.filter_map(parse_task));
        text.copy_within(whole..filled, 0);
        kept = filled - whole;
    }
    tasks.truncate(TASKS);
    Ok(())
}

/// The address of a client's server. Reading it holds the connection, and the last holder of a
/// connection may have to wait for its end. So call this only on a thread that may block.
pub fn server(directory: BorrowedFd<'_>, client: u32) -> Option<Server> {
    let path = format!("{client:x}/xprt/info");
    let file = open(directory, path, OFlags::empty()).ok()?;
    let mut text = [0; 512];
    let got = read(&file, &mut text).ok()?;
    parse_server(str::from_utf8(&text[..got]).ok()?)
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub address: String,
    /// Its port, if it is not the default.
    pub port: Option<String>,
}

/// In the form of rows.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        self.port
            .iter()
            .try_for_each(|port| write!(f, ",port={port}"))
    }
}

/// Finds `netid: tcp`, `addr:  127.0.0.1` and `port:  2049`.
pub(crate) fn parse_server(info: &str) -> Option<Server> {
    let value = |key: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::trim)
    };
    let is_rdma = value("netid:").is_some_and(|netid| netid.starts_with("rdma"));
    let port = value("port:").filter(|port| !port.is_empty() && !is_usual(port, is_rdma));
    Some(Server {
        address: value("addr:")
            .filter(|address| !address.is_empty())?
            .to_owned(),
        port: port.map(str::to_owned),
    })
}

fn open(
    directory: impl AsFd,
    path: impl rustix::path::Arg,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    openat(directory, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tasks_of_the_nfs_program_are_told_from_the_rest() {
        let task = |line: &str| parse_task(line).map(|t| (t.id, t.xid, t.version, t.put_off));
        let waiting = "   13 c885      0 0x10 0x51708611    12988 nfs4_open_ops [nfsv4] nfsv4 OPEN a:call_status [sunrpc] q:xprt_pending";
        assert_eq!(task(waiting), Some((13, 0x5170_8611, 4, false)));
        let built_in = "65535 8001    -11 0xa 0x0        0 nfs_pgio_common_ops nfsv3 READ a:call_reserveresult q:ForeChannel Slot table";
        assert_eq!(task(built_in), Some((65535, 0, 3, false)));
        let put_off = "7 8801 -10008 0xa 0x0 0 nfs_pgio_common_ops [nfs] nfsv4 READ a:rpc_prepare_task [sunrpc] q:delayq";
        assert_eq!(task(put_off), Some((7, 0, 4, true)));
        let refused = "7 8801 -111 0xa 0x9 0 nfs_pgio_common_ops [nfs] nfsv3 READ a:call_bind [sunrpc] q:delayq";
        assert_eq!(task(refused), Some((7, 9, 3, false)));
        for program in ["nfsaclv3", "lockdv4", "rpcbindv2", "nfs4_cbv1", "mountv3"] {
            let line = waiting.replace(" nfsv4 ", &format!(" {program} "));
            assert_eq!(task(&line), None, "{program}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let root = tempfile::tempdir().unwrap();
        let debugfs = root.path().join("sys/kernel/debug");
        let find = || RpcTasks::find(root.path());
        assert_eq!(find(), RpcTasks::NoDebugfs);
        // The kernel provides an empty directory as its mount point.
        std::fs::create_dir_all(&debugfs).unwrap();
        assert_eq!(find(), RpcTasks::NoDebugfs);
        std::fs::create_dir(debugfs.join("tracing")).unwrap();
        assert_eq!(find(), RpcTasks::NotThere);
        let clients = root.path().join(DIRECTORY);
        std::fs::create_dir_all(&clients).unwrap();
        assert_eq!(find(), RpcTasks::At(clients));
    }

    #[test]
    fn a_list_of_many_pages_is_read_up_to_a_bound() {
        let root = tempfile::tempdir().unwrap();
        let client = root.path().join(DIRECTORY).join("1f");
        std::fs::create_dir_all(&client).unwrap();
        let line = |id: usize| {
            format!(
                "{id:5} 8001 0 0x1f 0x{id:x} 9 nfs_pgio_common_ops [nfs] nfsv3 READ a:call_status [sunrpc] q:xprt_pending\n"
            )
        };
        for count in [0, 1, 100, TASKS + 500] {
            let text: String = (0..count).map(line).collect();
            std::fs::write(client.join("tasks"), text).unwrap();
            let mut seen = Vec::new();
            TaskLists::below(root.path())
                .read(|_, client, tasks| {
                    assert_eq!(client.number, 0x1f);
                    seen.extend(tasks.iter().map(|task| task.id as usize));
                })
                .unwrap();
            assert!(seen.iter().copied().eq(0..count.min(TASKS)));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_lines_never_panic(line in ".{0,200}") {
            parse_task(&line);
            parse_server(&line);
        }
    }
}
