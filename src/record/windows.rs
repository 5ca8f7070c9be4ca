//! Closed windows, on their way to the store. Whatever happens to the disk, the recorder goes on: windows wait in memory,
//! within a bound, and become coarser there when there are too many.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::rollup::ClosedWindow;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Backlog, Doubt, Options, StoreError, Writer};
use trackiops_threads::fail;

use crate::output::say;

/// What windows that wait may take: some minutes of thousands of files.
const WAITING_BYTES: usize = 24 << 20;
/// Changes of what is mounted that may wait. Of more the oldest are left out.
const WAITING_CHANGES: usize = 256;
/// Between two attempts to write.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// For so long it is tried to write what waits when the recording ends.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// Takes windows without waiting, and tells how many wait. When it is dropped, or finished, what waits is written first: also where the
/// thread that closes windows panics.
pub struct Queue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
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

impl Queue {
    /// Waits until all is written and sealed. An error of the thread is that it has panicked.
    pub fn finish(mut self) -> thread::Result<Result<(), StoreError>> {
        self.join()
    }

    fn join(&mut self) -> thread::Result<Result<(), StoreError>> {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
        self.thread.take().map_or(Ok(Ok(())), JoinHandle::join)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// Makes windows durable on a thread of its own: a disk that takes seconds must not keep the ring from being read.
pub fn write(writer: Writer, store: PathBuf) -> io::Result<Queue> {
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
    let writing = Writing {
        store,
        options,
        writer: Some(writer),
        doubt: None,
        mounted: None,
        shared: Arc::clone(&shared),
        in_hand: None,
        is_unmounted: false,
        has_failed: false,
        waited: 0,
        deadline: None,
    };
    let builder = thread::Builder::new().name("windows".to_owned());
    let thread = trackiops_threads::spawn(builder, move || writing.run())?;
    Ok(Queue {
        shared,
        thread: Some(thread),
    })
}

/// What is to be written.
enum Next {
    /// Those in hand.
    Windows,
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
    /// What is being written. A panic leaves it here.
    in_hand: Option<(Granularity, Vec<ClosedWindow>)>,
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
        match trackiops_threads::guarded(|| self.write_and_seal()) {
            Ok(written) => written,
            Err(panic) => {
                // The recording ends. What was closed until then is written all the same, to the store opened anew, as nobody knows
                // what the panic has left of the writer. The next recorder seals it.
                self.let_go();
                if let Some((granularity, windows)) = self.in_hand.take() {
                    self.shared.lock().put_back(granularity, windows);
                }
                let written = self.write_all();
                if let Err(error) = written {
                    say(format_args!("windows are lost: {error}"));
                }
                resume_unwind(panic)
            }
        }
    }

    fn write_and_seal(&mut self) -> Result<(), StoreError> {
        self.write_all()?;
        self.writer.take().map_or(Ok(()), Writer::finish)
    }

    /// Writes until the recording has ended.
    fn write_all(&mut self) -> Result<(), StoreError> {
        while let Some(next) = self.next() {
            if let Next::Mounted(mounted) = next {
                if let Err(error) = self.enter(&mounted) {
                    self.shared.lock().mounted.push_front(mounted);
                    self.failed(error)?;
                }
                continue;
            }
            fail::point("windows: taken");
            let appended = self.append();
            let done = match &appended {
                Ok(count) => *count,
                // It never can be written.
                Err(error @ (StoreError::Unaligned { .. } | StoreError::WindowTooLarge(_))) => {
                    say(format_args!("a window is left out: {error}"));
                    1
                }
                Err(_) => 0,
            };
            if let Some((granularity, mut windows)) = self.in_hand.take() {
                windows.drain(..done);
                self.shared.lock().put_back(granularity, windows);
            }
            match appended {
                Ok(count) => self.succeeded(count),
                // The recording ends for that. Until then windows are written, and not sealed.
                Err(StoreError::SealerGone { .. }) => {}
                Err(error) if done == 0 => self.failed(error)?,
                Err(_) => {}
            }
        }
        Ok(())
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
                self.in_hand = Some((granularity, windows));
                return Some(Next::Windows);
            }
            if state.has_ended {
                return None;
            }
            let waiting = self.shared.changed.wait(state);
            state = waiting.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Appends the first of what is in hand; how many.
    fn append(&mut self) -> Result<usize, StoreError> {
        self.open()?;
        let (Some(writer), Some((granularity, windows))) = (&mut self.writer, &self.in_hand) else {
            return Ok(0);
        };
        let appended = writer.append_first(*granularity, windows);
        let let_go = match &appended {
            // What was deleted is begun anew.
            Err(StoreError::Gone(path)) => *path == self.store,
            // Nobody can mount it anew while it is held.
            Err(StoreError::Io { source, .. }) => source.kind() == ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        if let_go {
            self.let_go();
            self.is_unmounted = matches!(&appended, Err(StoreError::Io { .. }));
        }
        appended
    }

    /// Closes the store, and keeps what is in doubt of it.
    fn let_go(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.doubt = writer.doubt();
        }
    }

    fn enter(&mut self, mounted: &Mounted) -> Result<(), StoreError> {
        let (at, mounts) = mounted;
        self.open()?;
        if let Some(writer) = &mut self.writer {
            writer.mounted(*at, mounts)?;
        }
        self.mounted = Some(mounted.clone());
        Ok(())
    }

    /// Opens the store, or begins it anew, if need be.
    fn open(&mut self) -> Result<(), StoreError> {
        if self.writer.is_some() {
            return Ok(());
        }
        // While a file system is not mounted, what it is mounted on is no place for its store.
        if self.is_unmounted && !self.store.exists() {
            return Err(StoreError::Missing(self.store.clone()));
        }
        let doubt = self.doubt.clone();
        let options = self.options.clone();
        let mut writer = Writer::open_after(&self.store, options, doubt, say)?;
        self.doubt = None;
        if let Some((at, mounts)) = &self.mounted {
            writer.mounted(*at, mounts)?;
        }
        self.writer = Some(writer);
        Ok(())
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

    fn begin(store: &Path) -> Queue {
        let writer = Writer::open(store, options()).unwrap();
        write(writer, store.to_owned()).unwrap()
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
        let queue = begin(&store);
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
        queue.finish().unwrap().unwrap();
        let snapshot = Snapshot::open(&store).unwrap();
        let rows = snapshot.segments(Dataset::Rollup, None).unwrap();
        assert_eq!(rows[0].rows, 31 * 200);
        assert!(check(&store).unwrap().findings.is_empty());
    }

    #[test]
    fn as_root_a_disk_that_stays_full_ends_with_what_was_lost() {
        let disk = tmpfs("2m");
        let store = disk.0.path().join("store");
        let queue = begin(&store);
        queue.put(window(0));
        wait_until("the first window is written", || queue.waiting() == 0);
        let _ = fs::write(disk.0.path().join("filler"), vec![1; 4 << 20]);
        (1..30).for_each(|i| queue.put(window(i)));
        let begun = Instant::now();
        let finished = queue.finish().unwrap();
        assert!(matches!(finished, Err(StoreError::Io { .. })));
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
        let queue = begin(&store);
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
        queue.finish().unwrap().unwrap();
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
        let queue = begin(&store);
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
        queue.finish().unwrap().unwrap();
        let mounts = Snapshot::open(&store).unwrap().mounts().unwrap();
        assert_eq!(mounts.len(), 1, "what is mounted is told again");
        assert!(check(&store).unwrap().findings.is_empty());
    }

    #[test]
    fn what_was_closed_is_written_when_the_thread_that_closes_windows_panics() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let panicked = std::panic::catch_unwind(|| {
            let queue = begin(&store);
            (0..20).for_each(|i| queue.put(window(i)));
            panic!("as the main loop may");
        });
        assert!(panicked.is_err());
        let snapshot = Snapshot::open(&store).unwrap();
        assert_eq!(snapshot.tails().len(), 0, "it is sealed, too");
        let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
        assert_eq!(segments[0].rows, 20 * 200);
    }

    #[cfg(feature = "fail-points")]
    #[test]
    #[ignore = "is run by the other, to panic"]
    fn as_child_the_thread_that_writes_panics() {
        let store = PathBuf::from(std::env::var_os("TRACKIOPS_PANIC_STORE").unwrap());
        let queue = begin(&store);
        for i in 0..3 {
            queue.put(window(i));
            wait_until("it is written", || queue.waiting() == 0);
        }
        // Several at once, and those that come when the thread has panicked.
        (3..9).for_each(|i| queue.put(window(i)));
        wait_until("they are written", || queue.waiting() == 0);
        (9..12).for_each(|i| queue.put(window(i)));
        let panic = queue.finish().unwrap_err();
        assert!(trackiops_threads::why(&*panic).starts_with("fail point: "));
        let death = trackiops_threads::death().unwrap();
        assert_eq!(death.thread, "windows");
    }

    #[cfg(feature = "fail-points")]
    #[test]
    fn a_panic_of_the_thread_that_writes_costs_no_window_and_doubles_none() {
        let test = "record::windows::tests::as_child_the_thread_that_writes_panics";
        for turn in [
            "1 windows: taken",
            "3 windows: taken",
            "2 append: encoded",
            "3 append: written",
            "4 append: durable",
            "1 journal: created",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--ignored", "--quiet"])
                .env("TRACKIOPS_PANIC_STORE", dir.path())
                .env("TRACKIOPS_PANIC_AT", turn)
                .status();
            assert!(status.unwrap().success(), "{turn}");
            Writer::open(dir.path(), options())
                .unwrap()
                .finish()
                .unwrap();
            let snapshot = Snapshot::open(dir.path()).unwrap();
            let segments = snapshot.segments(Dataset::Rollup, None).unwrap();
            let seconds = segments.iter().filter(|s| s.granularity.ms() == 1000);
            assert_eq!(seconds.map(|s| s.rows).sum::<u64>(), 12 * 200, "{turn}");
            assert_eq!(check(dir.path()).unwrap().findings, [], "{turn}");
        }
    }
}
