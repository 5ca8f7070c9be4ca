//! A recorder without a kernel: it writes windows into a store, and to its listeners.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::live::{LiveServer, RecorderInfo};
use trackiops_store::{Options, RetentionPolicy, WindowQueue, Writer};

use crate::stores::options;
use crate::windows::{T0, file, granularity, reads, used_by, window};

/// A recorder of the host `h`, which can end and restart.
pub struct Recording {
    dir: tempfile::TempDir,
    parts: Option<(LiveServer, WindowQueue)>,
}

impl Recording {
    /// Starts in a new directory.
    pub fn begin() -> Self {
        let mut recording = Self {
            dir: tempfile::tempdir().unwrap(),
            parts: None,
        };
        recording.resume();
        recording
    }

    /// Restarts in the same store.
    pub fn resume(&mut self) {
        let store = self.store();
        let options = Options {
            rotate: granularity("10s"),
            ..options("h")
        };
        let writer = Writer::open(&store, options).unwrap();
        let after = writer.position();
        let server = LiveServer::start(&self.socket(), recorder(&store), after).unwrap();
        let publisher = Some(server.publisher());
        let queue = WindowQueue::start(writer, store, publisher, |_| ()).unwrap();
        self.parts = Some((server, queue));
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("run/live.sock")
    }

    fn queue(&self) -> &WindowQueue {
        &self.parts.as_ref().unwrap().1
    }

    /// Closes a window.
    pub fn close(&self, window: &ClosedWindow) {
        self.queue().put(window.clone());
    }

    pub fn set_retention(&self, keep: RetentionPolicy) {
        self.queue().set_retention(keep);
    }

    pub fn mounted(&self, at: UtcMs, mounts: Vec<MountPoint>, recorded: &[MountPoint]) {
        self.queue().mounted(at, mounts, recorded);
    }

    /// Closes windows, and waits until they are durable and reported.
    pub fn put(&self, windows: &[ClosedWindow]) {
        windows.iter().for_each(|window| self.close(window));
        while self.queue().waiting() > 0 {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(20));
    }

    /// Ends like a recorder.
    pub fn end(&mut self) {
        if let Some((server, queue)) = self.parts.take() {
            queue.finish().unwrap();
            drop(server);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

/// The recorder's description of itself.
pub fn recorder(store: &Path) -> RecorderInfo {
    RecorderInfo {
        version: "1".into(),
        pid: std::process::id(),
        host: "h".into(),
        kernel: "6.12".into(),
        engine: "direct".into(),
        store: store.to_owned(),
        store_size: None,
        retention: "1s=2d,1h=forever".into(),
        started_ms: T0,
        granularity_ms: 1000,
    }
}

/// `count` windows that have just ended, of two files and two users.
pub fn recent(count: i64) -> Vec<ClosedWindow> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    of_two_files(
        (now.as_secs().cast_signed() - count - 5) / 10 * 10_000,
        count,
    )
}

/// `count` windows from a time on, of two files and two users.
pub fn of_two_files(start_ms: i64, count: i64) -> Vec<ClosedWindow> {
    let a = file(1, 49, Some("/mnt/a/x"));
    let b = file(2, 49, Some("/mnt/b/y"));
    let one = |i: i64| {
        let rows = vec![
            (used_by(&a, "0:/system.slice"), reads(2 + i.cast_unsigned())),
            (used_by(&a, "1000:/user.slice"), reads(3)),
            (used_by(&b, "1000:/user.slice"), reads(5)),
        ];
        window(start_ms + i * 1000, rows)
    };
    (0..count).map(one).collect()
}
