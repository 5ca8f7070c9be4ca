//! Closed windows, on their way to the store. Whatever happens to the disk, the recorder goes on: windows wait in memory,
//! within a bound, and become coarser there when there are too many.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::rollup::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Backlog, Doubt, Options, StoreError, Writer};

use crate::output::say;

/// What windows that wait may take: some minutes of thousands of files.
const WAITING_BYTES: usize = 24 << 20;
/// Changes of what is mounted that may wait. Of more the oldest are left out.
const WAITING_CHANGES: usize = 256;
/// Between two attempts to write.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// For so long it is tried to write what waits when the recording ends.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// Takes windows without waiting, and tells how many wait. Writing ends when it is dropped.
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Failed attempts to write that no window tells yet.
    failures: AtomicU64,
}

/// What is mounted from then on.
type Mounted = (UtcMs, Vec<MountPoint>);

struct State {
    backlog: Backlog,
    /// Windows that are being written.
    taken: usize,
    mounted: VecDeque<Mounted>,
    has_ended: bool,
}

impl State {
    /// What was taken is written, but for these.
    fn put_back(&mut self, granularity: Granularity, windows: Vec<ClosedWindow>) {
        self.taken = 0;
        self.backlog.put_back(granularity, windows);
    }
}

impl Shared {
    /// A thread that panicked leaves windows whole: they are moved in and out.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Adds a window, which tells of failures to write those before it.
    pub fn put(&self, mut window: ClosedWindow) {
        window.health.store_failures = self.shared.failures.swap(0, Ordering::Relaxed);
        self.shared.lock().backlog.push(window);
        self.shared.changed.notify_one();
    }

    /// From `at` on these mounts are there, and no others.
    pub fn mounted(&self, at: UtcMs, mounts: Vec<MountPoint>) {
        let mut state = self.shared.lock();
        if state.mounted.len() == WAITING_CHANGES {
            state.mounted.pop_front();
        }
        state.mounted.push_back((at, mounts));
        self.shared.changed.notify_one();
    }

    /// How many windows are not written yet.
    pub fn waiting(&self) -> usize {
        let state = self.shared.lock();
        state.backlog.len() + state.taken
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
    }
}

/// Makes windows durable on a thread of its own: a disk that takes seconds must not keep the ring from being read.
pub fn write(writer: Writer, store: PathBuf) -> (Queue, JoinHandle<Result<(), StoreError>>) {
    let options = writer.options().clone();
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            backlog: Backlog::new(options.granularities.clone(), WAITING_BYTES),
            taken: 0,
            mounted: VecDeque::new(),
            has_ended: false,
        }),
        changed: Condvar::new(),
        failures: AtomicU64::new(0),
    });
    let queue = Queue {
        shared: Arc::clone(&shared),
    };
    let writing = Writing {
        store,
        options,
        writer: Some(writer),
        doubt: None,
        mounted: None,
        shared,
        is_unmounted: false,
        has_failed: false,
        waited: 0,
        deadline: None,
    };
    (queue, thread::spawn(move || writing.run()))
}

/// What is to be written.
enum Next {
    Windows(Granularity, Vec<ClosedWindow>),
    Mounted(Mounted),
}

/// The thread that writes.
struct Writing {
    store: PathBuf,
    options: Options,
    /// `None` while there is no store to write to.
    writer: Option<Writer>,
    /// What one that was let go has left.
    doubt: Option<Doubt>,
    /// What the store was told last, for the case that it is begun anew.
    mounted: Option<Mounted>,
    shared: Arc<Shared>,
    /// It is on a file system that has become read-only, and may be taken away to be repaired.
    is_unmounted: bool,
    /// The last attempt has failed.
    has_failed: bool,
    /// How many windows were written that had waited.
    waited: u64,
    /// When trying ends, once the recording has.
    deadline: Option<Instant>,
}

impl Writing {
    fn run(mut self) -> Result<(), StoreError> {
        while let Some(next) = self.next() {
            let (granularity, mut windows) = match next {
                Next::Windows(granularity, windows) => (granularity, windows),
                Next::Mounted(mounted) => {
                    if let Err(error) = self.enter(&mounted) {
                        self.shared.lock().mounted.push_front(mounted);
                        self.failed(error)?;
                    }
                    continue;
                }
            };
            let appended = self.append(granularity, &windows);
            let done = match &appended {
                Ok(count) => *count,
                // It never can be written.
                Err(error @ (StoreError::Unaligned { .. } | StoreError::WindowTooLarge(_))) => {
                    say(format_args!("a window is left out: {error}"));
                    1
                }
                Err(_) => 0,
            };
            windows.drain(..done);
            self.shared.lock().put_back(granularity, windows);
            match appended {
                Ok(count) => self.succeeded(count),
                Err(error) if done == 0 => self.failed(error)?,
                Err(_) => {}
            }
        }
        self.writer.map_or(Ok(()), Writer::finish)
    }

    /// Waits for something to write; `None` when the recording has ended and all is written.
    fn next(&mut self) -> Option<Next> {
        let mut state = self.shared.lock();
        loop {
            if let Some(mounted) = state.mounted.pop_front() {
                return Some(Next::Mounted(mounted));
            }
            if let Some((granularity, windows)) = state.backlog.pop() {
                state.taken = windows.len();
                return Some(Next::Windows(granularity, windows));
            }
            if state.has_ended {
                return None;
            }
            let waiting = self.shared.changed.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn append(
        &mut self,
        granularity: Granularity,
        windows: &[ClosedWindow],
    ) -> Result<usize, StoreError> {
        let appended = self.writer()?.append_first(granularity, windows);
        let let_go = match &appended {
            // What was deleted is begun anew.
            Err(StoreError::Gone(path)) => *path == self.store,
            // Nobody can mount it anew while it is held.
            Err(StoreError::Io { source, .. }) => source.kind() == ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        if let_go {
            self.doubt = self.writer.take().and_then(|writer| writer.doubt());
            self.is_unmounted = matches!(&appended, Err(StoreError::Io { .. }));
        }
        appended
    }

    fn enter(&mut self, mounted: &Mounted) -> Result<(), StoreError> {
        let (at, mounts) = mounted;
        self.writer()?.mounted(*at, mounts)?;
        self.mounted = Some(mounted.clone());
        Ok(())
    }

    /// That of the store, which is begun anew if need be.
    fn writer(&mut self) -> Result<&mut Writer, StoreError> {
        Ok(match &mut self.writer {
            Some(writer) => writer,
            // While a file system is not mounted, what it is mounted on is no place for its store.
            None if self.is_unmounted && !self.store.exists() => {
                return Err(StoreError::Missing(self.store.clone()));
            }
            none => {
                let doubt = self.doubt.clone();
                let options = self.options.clone();
                let mut writer = Writer::open_after(&self.store, options, doubt, say)?;
                self.doubt = None;
                if let Some((at, mounts)) = &self.mounted {
                    writer.mounted(*at, mounts)?;
                }
                none.insert(writer)
            }
        })
    }

    fn succeeded(&mut self, windows: usize) {
        if !self.has_failed {
            return;
        }
        self.waited += windows as u64;
        if !self.shared.lock().backlog.is_empty() {
            return;
        }
        self.has_failed = false;
        let (coarsened, dropped) = self.shared.lock().backlog.take_losses();
        let coarser = match coarsened {
            0 => String::new(),
            n => format!(", {n} were added up to coarser ones for lack of memory"),
        };
        let lost = match dropped {
            0 => String::new(),
            n => format!(", {n} of these are lost"),
        };
        let waited = std::mem::take(&mut self.waited);
        say(format_args!(
            "the store is written again: {waited} windows had waited{coarser}{lost}"
        ));
    }

    /// Tells of the first failure, and waits before the next attempt.
    fn failed(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        if !self.has_failed {
            self.has_failed = true;
            say(format_args!(
                "the store cannot be written, recording goes on and windows wait in memory: {error}"
            ));
        }
        let state = self.shared.lock();
        let is_over = |state: &State| state.has_ended;
        if is_over(&state) {
            let deadline = *self
                .deadline
                .get_or_insert_with(|| Instant::now() + LAST_TRIES);
            if Instant::now() >= deadline {
                let lost = state.backlog.len();
                say(format_args!(
                    "{lost} windows that waited in memory are lost"
                ));
                return Err(error);
            }
            drop(state);
            thread::sleep(RETRY_EVERY / 4);
            return Ok(());
        }
        let until = Instant::now() + RETRY_EVERY;
        let mut state = state;
        while !is_over(&state) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// These mount file systems, for which they need root.
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey};
    use trackiops_schemas::rollup::{FileRow, Health, Row};
    use trackiops_schemas::time::UtcMs;
    use trackiops_store::{Dataset, Keep, Snapshot, check};

    const T0: i64 = 1_795_233_120_000;

    fn window(i: i64) -> ClosedWindow {
        let row = |fileid: u64| {
            let id = FileId {
                dev: Dev(49),
                fileid,
                handle_hash: 1,
            };
            let file = FileAttributes {
                key: FileKey::new(Some("srv:/e"), id),
                id,
                mount: Some("srv:/e".into()),
                path: Some(format!("/mnt/{fileid}")),
                path_inferred: false,
                tenant: Default::default(),
            };
            let mut row = Row::default();
            row.read.requests = 1;
            row.read.untimed = 1;
            FileRow {
                file: file.into(),
                row,
            }
        };
        let mut rows: Vec<_> = (0..200).map(row).collect();
        rows.sort_by_key(|row| row.file.key);
        ClosedWindow {
            start: UtcMs(T0 + 1000 * i),
            rows,
            ops: Vec::new(),
            health: Health {
                covered_ms: 1000,
                ..Health::default()
            },
        }
    }

    fn options() -> Options {
        Options {
            host: "h".into(),
            granularities: "1s,1m".parse().unwrap(),
            rotate: "1h".parse().unwrap(),
            filter: None,
            allow_nfs_store: true,
            keep: Keep::default(),
        }
    }

    fn begin(store: &Path) -> (Queue, JoinHandle<Result<(), StoreError>>) {
        let writer = Writer::open(store, options()).unwrap();
        write(writer, store.to_owned())
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..300 {
            if is_so() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("in vain: {what}");
    }

    /// Milliseconds that are told to be recorded, and failures to write.
    fn told(store: &Path) -> (u64, u64) {
        let snapshot = Snapshot::open(store).unwrap();
        let mut told = (0, 0);
        for tail in snapshot.tails() {
            tail.windows(&mut |window| {
                told.0 += window.health.covered_ms;
                told.1 += window.health.store_failures;
            })
            .unwrap();
        }
        told
    }

    fn run(command: &str, args: &[&str]) {
        let status = Command::new(command).args(args).status().unwrap();
        assert!(status.success(), "{command} {args:?}: {status}");
    }

    /// A file system of its own, until it is dropped.
    struct Mounted(tempfile::TempDir);

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
        }
    }

    fn tmpfs(size: &str) -> Mounted {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", path],
        );
        Mounted(dir)
    }

    #[test]
    fn as_root_a_full_disk_costs_no_window_and_recovery_is_automatic() {
        let disk = tmpfs("2m");
        let store = disk.0.path().join("store");
        let (queue, thread) = begin(&store);
        queue.put(window(0));
        wait_until("the first window is written", || queue.waiting() == 0);
        let filler = disk.0.path().join("filler");
        // As much as there is room for.
        let _ = fs::write(&filler, vec![1; 4 << 20]);
        for i in 1..30 {
            queue.put(window(i));
        }
        wait_until("windows wait", || queue.waiting() > 20);
        thread::sleep(2 * RETRY_EVERY);
        assert!(queue.waiting() > 20);
        assert!(check(&store).unwrap().findings.is_empty());
        fs::remove_file(&filler).unwrap();
        wait_until("they are written", || queue.waiting() == 0);
        queue.put(window(30));
        wait_until("and the one that tells of it", || told(&store).0 == 31_000);
        assert!(told(&store).1 > 0, "failures are told");
        drop(queue);
        thread.join().unwrap().unwrap();
        let snapshot = Snapshot::open(&store).unwrap();
        let rows = snapshot.segments(Dataset::Rollup, None).unwrap();
        assert_eq!(rows[0].rows, 31 * 200);
        assert!(check(&store).unwrap().findings.is_empty());
    }

    #[test]
    fn as_root_a_disk_that_stays_full_ends_with_what_was_lost() {
        let disk = tmpfs("2m");
        let store = disk.0.path().join("store");
        let (queue, thread) = begin(&store);
        queue.put(window(0));
        wait_until("the first window is written", || queue.waiting() == 0);
        let _ = fs::write(disk.0.path().join("filler"), vec![1; 4 << 20]);
        (1..30).for_each(|i| queue.put(window(i)));
        drop(queue);
        let begun = Instant::now();
        assert!(matches!(thread.join().unwrap(), Err(StoreError::Io { .. })));
        assert!(begun.elapsed() < 3 * LAST_TRIES);
        assert!(told(&store).0 >= 1000, "what was written is there");
    }

    #[test]
    fn as_root_a_file_system_that_becomes_read_only_is_let_go_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", image]);
        let disk = Mounted(tempfile::tempdir().unwrap());
        let path = disk.0.path().to_str().unwrap();
        run("mount", &["-o", "loop,errors=remount-ro", image, path]);
        let store = disk.0.path().join("store");
        let (queue, thread) = begin(&store);
        queue.put(window(0));
        wait_until("the first window is written", || queue.waiting() == 0);
        let source = Command::new("findmnt")
            .args(["-no", "SOURCE", path])
            .output()
            .unwrap();
        let device = String::from_utf8(source.stdout).unwrap();
        let device = device.trim().trim_start_matches("/dev/");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "a test").unwrap();
        (1..20).for_each(|i| queue.put(window(i)));
        let unmounted = || Command::new("umount").arg(path).status().unwrap().success();
        wait_until("nobody holds the file system", unmounted);
        // 1: errors were corrected.
        let repaired = Command::new("e2fsck")
            .args(["-fy", image])
            .output()
            .unwrap();
        assert!(
            repaired.status.code().is_some_and(|code| code <= 1),
            "{repaired:?}"
        );
        assert_eq!(queue.waiting(), 19);
        run("mount", &["-o", "loop", image, path]);
        wait_until("they are written", || queue.waiting() == 0);
        drop(queue);
        thread.join().unwrap().unwrap();
        let snapshot = Snapshot::open(&store).unwrap();
        let seconds = snapshot
            .segments(Dataset::Rollup, None)
            .unwrap()
            .into_iter();
        let seconds = seconds.filter(|segment| segment.granularity.ms() == 1000);
        assert_eq!(seconds.map(|segment| segment.rows).sum::<u64>(), 20 * 200);
        assert!(check(&store).unwrap().findings.is_empty());
    }

    #[test]
    fn a_store_that_is_deleted_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let (queue, thread) = begin(&store);
        let mount = MountPoint {
            dev: Dev(49),
            mount: "srv:/e".into(),
            source: "srv:/e".into(),
            path: "/mnt".into(),
            version: None,
            options: "rw".into(),
            is_foreign: false,
        };
        queue.mounted(UtcMs(T0), vec![mount]);
        queue.put(window(0));
        wait_until("the first window is written", || queue.waiting() == 0);
        fs::remove_dir_all(&store).unwrap();
        (1..5).for_each(|i| queue.put(window(i)));
        wait_until("a new store is there", || queue.waiting() == 0);
        queue.put(window(5));
        wait_until("and written", || told(&store).0 >= 5000);
        drop(queue);
        thread.join().unwrap().unwrap();
        let mounts = Snapshot::open(&store).unwrap().mounts().unwrap();
        assert_eq!(mounts.len(), 1, "what is mounted is told again");
        assert!(check(&store).unwrap().findings.is_empty());
    }
}
