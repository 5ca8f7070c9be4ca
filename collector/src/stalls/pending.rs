//! How long the requests in the kernel's lists of RPC tasks have waited. The lists hold no times,
//! so the age of a request counts from the look that first saw it.

use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ahash::AHashMap;
use rustix::io::Errno;
use trackiops_schemas::pending::{Pending, PendingClient};

use crate::clock::MonotonicNs;
use crate::names::mount_names;
use crate::names::mountinfo::{Port, mounts_at};
use crate::stalls::rpc_tasks::{ClientId, RpcTask, Server, TaskLists, server};

/// The waiting requests, from look to look.
pub struct WaitingRequests {
    root: PathBuf,
    lists: TaskLists,
    clients: AHashMap<ClientId, Client>,
}

#[derive(Default)]
struct Client {
    tasks: AHashMap<u32, WaitingTask>,
    /// Read when the client has its first task.
    server: OnceCell<Option<Server>>,
    /// Looked up while the server is stalled.
    mounts: Vec<String>,
    /// When the client was last looked at, and whether this look has seen it.
    looked: MonotonicNs,
    seen: bool,
}

struct WaitingTask {
    xid: u32,
    since: MonotonicNs,
    seen: MonotonicNs,
}

/// How long a request is remembered after looks have stopped showing it: reading a list that changes may miss
/// some of its entries.
const REMEMBERED: Duration = Duration::from_secs(2);

impl WaitingRequests {
    /// The requests of the kernel whose files are below `root`.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            lists: TaskLists::below(root),
            clients: AHashMap::new(),
        }
    }

    /// Looks at the lists. Fails if they cannot be read.
    pub fn look(&mut self, now: MonotonicNs) -> Result<Pending, Errno> {
        let Self {
            root,
            lists,
            clients,
        } = self;
        let mut pending = Pending::default();
        lists.read(|directory, id, tasks| {
            let client = clients.entry(id).or_default();
            client.seen = true;
            if let Some(waiting) = client.look(root, directory, id, tasks, now) {
                pending.requests_max += waiting.requests_max;
                pending.age_ms_max = pending.age_ms_max.max(waiting.age_ms_max);
                pending.clients.push(waiting);
            }
        })?;
        clients.retain(|_, client| std::mem::take(&mut client.seen));
        pending
            .clients
            .sort_by(|a, b| (a.client, &a.server).cmp(&(b.client, &b.server)));
        Ok(pending)
    }

    /// Clients and tasks that were read at the last look.
    pub fn looked_at(&self) -> usize {
        let tasks = self.clients.values().map(|client| client.tasks.len());
        self.clients.len() + tasks.sum::<usize>()
    }
}

impl Client {
    fn look(
        &mut self,
        root: &Path,
        directory: BorrowedFd<'_>,
        id: ClientId,
        tasks: &[RpcTask],
        now: MonotonicNs,
    ) -> Option<PendingClient> {
        let last = std::mem::replace(&mut self.looked, now);
        let (mut requests_max, mut version, mut oldest) = (0, 0, now);
        for task in tasks.iter().filter(|task| !task.put_off) {
            let wait = self.tasks.entry(task.id).or_insert(WaitingTask {
                xid: task.xid,
                since: now,
                seen: now,
            });
            let sent_again = wait.xid == task.xid && wait.xid != 0;
            let waits_on = wait.xid == 0 && wait.seen == last;
            // Otherwise it was answered and has started over, or it is another request.
            if !sent_again && !waits_on {
                wait.since = now;
            }
            wait.xid = task.xid;
            wait.seen = now;
            oldest = oldest.min(wait.since);
            requests_max += 1;
            version = task.version;
        }
        let remembered = REMEMBERED.as_nanos() as u64;
        self.tasks
            .retain(|_, wait| now.0 - wait.seen.0 <= remembered);
        if requests_max == 0 {
            self.mounts.clear();
            return None;
        }
        let server = self.server.get_or_init(|| server(directory, id.number));
        let mut pending = PendingClient {
            client: id.number,
            server: server.as_ref().map(ToString::to_string),
            mounts: Vec::new(),
            requests_max,
            age_ms_max: now.0.saturating_sub(oldest.0) / 1_000_000,
        };
        if !pending.is_stalled() {
            self.mounts.clear();
        } else if let (true, Some(server)) = (self.mounts.is_empty(), server) {
            self.mounts = names_at(root, server, version);
        }
        pending.mounts.clone_from(&self.mounts);
        Some(pending)
    }
}

/// The names of the mounts from a server, sorted.
fn names_at(root: &Path, Server { address, port }: &Server, version: u8) -> Vec<String> {
    let mounts = mounts_at(root, (address, Port::Is(port.as_deref())), version);
    let mounts = mounts.iter();
    let mut names: Vec<_> = mounts
        .map(|mount| mount_names::name(&mount.source, &mount.options, None))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::rpc_tasks::parse_server;
    use std::fs;

    const SECOND: u64 = 1_000_000_000;

    /// A kernel's files, with one client.
    struct Kernel(tempfile::TempDir);

    impl Kernel {
        fn new() -> Self {
            let kernel = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(kernel.client("a")).unwrap();
            kernel
        }

        fn client(&self, name: &str) -> PathBuf {
            let clients = self.0.path().join("sys/kernel/debug/sunrpc/rpc_clnt");
            clients.join(name)
        }

        /// Sets the tasks, with their transmissions and queues.
        fn tasks(&self, tasks: &[(u32, u32, &str)]) {
            let line = |(id, xid, queue): &(u32, u32, &str)| {
                format!(
                    "{id:5} 8001 0 0xa 0x{xid:x} 9 nfs_pgio_common_ops [nfs] nfsv3 READ a:call_status [sunrpc] q:{queue}\n"
                )
            };
            let text: String = tasks.iter().map(line).collect();
            fs::write(self.client("a").join("tasks"), text).unwrap();
        }
    }

    fn look(waiting: &mut WaitingRequests, second: u64) -> (u64, u64) {
        let pending = waiting.look(MonotonicNs(second * SECOND)).unwrap();
        (pending.requests_max, pending.age_ms_max)
    }

    #[test]
    fn a_request_ages_until_it_is_answered() {
        let kernel = Kernel::new();
        let mut waiting = WaitingRequests::below(kernel.0.path());
        kernel.tasks(&[]);
        assert_eq!(look(&mut waiting, 10), (0, 0));
        // The task waits for a slot, is sent, and is sent again.
        kernel.tasks(&[(1, 0, "xprt_backlog")]);
        assert_eq!(look(&mut waiting, 11), (1, 0));
        kernel.tasks(&[(1, 0x99, "xprt_pending")]);
        assert_eq!(look(&mut waiting, 12), (1, 1000));
        kernel.tasks(&[(1, 0x99, "delayq"), (2, 0x9a, "xprt_sending")]);
        assert_eq!(look(&mut waiting, 13), (2, 2000));
        // A page of the list was missed.
        kernel.tasks(&[(1, 0x99, "delayq")]);
        assert_eq!(look(&mut waiting, 14), (1, 3000));
        kernel.tasks(&[(1, 0x99, "delayq"), (2, 0x9a, "xprt_sending")]);
        assert_eq!(look(&mut waiting, 15), (2, 4000));
        // Task 1 has started over, or another request has its number now.
        kernel.tasks(&[(1, 0x9b, "xprt_pending"), (2, 0x9a, "xprt_sending")]);
        assert_eq!(look(&mut waiting, 16), (2, 3000));
        kernel.tasks(&[(1, 0, "xprt_backlog")]);
        assert_eq!(look(&mut waiting, 17), (1, 0));
        // The server is alive and has deferred the request, so it does not wait for an answer.
        kernel.tasks(&[(1, 0, "delayq")]);
        assert_eq!(look(&mut waiting, 18), (0, 0));
        kernel.tasks(&[(1, 0, "xprt_backlog")]);
        assert_eq!(look(&mut waiting, 19), (1, 0));
    }

    #[test]
    fn another_client_of_the_same_number_is_another_one() {
        let kernel = Kernel::new();
        let mut waiting = WaitingRequests::below(kernel.0.path());
        kernel.tasks(&[(1, 0, "xprt_backlog")]);
        assert_eq!(look(&mut waiting, 1), (1, 0));
        fs::rename(kernel.client("a"), kernel.client("a.gone")).unwrap();
        fs::create_dir(kernel.client("a")).unwrap();
        kernel.tasks(&[(1, 0, "xprt_backlog")]);
        assert_eq!(look(&mut waiting, 3), (1, 0));
        assert_eq!(look(&mut waiting, 4), (1, 1000));
        fs::remove_dir_all(kernel.client("a")).unwrap();
        assert_eq!(look(&mut waiting, 5), (0, 0));
        assert!(waiting.clients.is_empty());
    }

    /// `tests/rpc_tasks/` has the lists of four kernels, 4 s after a server with mounts of v3, v4.0,
    /// v4.1 and v4.2 was cut off. Each has at least one call on each mount, and a lease renewal on each but
    /// v3.
    #[test]
    fn what_kernels_show_of_a_hung_server_is_understood() {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rpc_tasks");
        let mut read = 0;
        for kernel in fs::read_dir(kernels).unwrap() {
            let root = kernel.unwrap().path();
            let mut waiting = WaitingRequests::below(&root);
            assert_eq!(look(&mut waiting, 1), (15, 0), "{}", root.display());
            let pending = waiting.look(MonotonicNs(4 * SECOND)).unwrap();
            assert_eq!((pending.requests_max, pending.age_ms_max), (15, 3000));
            assert_eq!(pending.clients.len(), 7);
            for client in pending.clients {
                assert_eq!(client.server.as_deref(), Some("127.0.0.1"));
                assert_eq!(client.mounts, ["127.0.0.1:/exp"]);
            }
            assert!(waiting.clients.len() > 7, "clients without a task, too");
            read += 1;
        }
        assert_eq!(read, 4);
    }

    #[test]
    fn a_stalled_client_is_told_with_its_server_and_mounts() {
        let kernel = Kernel::new();
        let root = kernel.0.path();
        let mut waiting = WaitingRequests::below(root);
        fs::create_dir_all(kernel.client("a").join("xprt")).unwrap();
        fs::write(
            kernel.client("a").join("xprt/info"),
            "netid: tcp\naddr:  10.0.0.5\nport:  2049\nstate: 0x12\n",
        )
        .unwrap();
        fs::create_dir_all(root.join("proc/1")).unwrap();
        let mount = |dev, point, source, vers, addr| {
            format!("36 22 0:{dev} / {point} rw - nfs {source} rw,vers={vers},hard,addr={addr}\n")
        };
        let tunnel = mount(53, "/t", "nas:/t", "3", "10.0.0.5").replace(",hard", ",port=20049");
        let mounts = [
            mount(49, "/b", "nas:/b", "3", "10.0.0.5"),
            mount(50, "/a", "nas:/a", "3", "10.0.0.5"),
            mount(51, "/c", "nas:/c", "4.2", "10.0.0.5"),
            mount(52, "/d", "other:/d", "3", "10.0.0.50"),
            tunnel,
        ];
        fs::write(root.join("proc/1/mountinfo"), mounts.concat()).unwrap();
        kernel.tasks(&[(1, 7, "xprt_pending"), (2, 8, "xprt_pending")]);
        let mut client = |second| {
            let mut pending = waiting.look(MonotonicNs(second * SECOND)).unwrap();
            pending.clients.pop().unwrap()
        };
        let mut expected = PendingClient {
            client: 10,
            server: Some("10.0.0.5".to_owned()),
            mounts: Vec::new(),
            requests_max: 2,
            age_ms_max: 0,
        };
        assert_eq!(client(1), expected);
        expected.age_ms_max = 2000;
        expected.mounts = vec!["nas:/a".to_owned(), "nas:/b".to_owned()];
        assert_eq!(client(3), expected);
        let text = "netid: tcp\naddr:  10.0.0.5\nport:  20049\n";
        let tunnel = parse_server(text).unwrap();
        assert_eq!(tunnel.to_string(), "10.0.0.5,port=20049");
        assert_eq!(names_at(root, &tunnel, 3), ["nas:/t,port=20049"]);
    }
}
