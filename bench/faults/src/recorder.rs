//! A small recorder: it appends windows and single requests, seals, merges and expires, and continues after errors.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::OpenOptions;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, RequestsWriter, RetentionPolicy, StoreError, Writer};

use crate::states::{batch, recorded};
use trackiops_testkit::generated::THREE;
use trackiops_testkit::stores::options_of;

/// Number of windows in all, and number between opening the store and finishing.
pub const WINDOWS: usize = 24;
const AT_ONCE: usize = 8;
/// Attempts for each window.
const ATTEMPTS: usize = 4;

/// The simulated time. It runs faster than windows do, so that they expire and merged files are deleted.
static NOW: AtomicI64 = AtomicI64::new(THREE);

/// The windows to record.
pub fn windows() -> Vec<ClosedWindow> {
    recorded(7, THREE, WINDOWS as i64)
}

/// Options of the store after `recorded` windows.
pub fn of_time(recorded: usize) -> Options {
    NOW.store(THREE + 40_000 * recorded as i64, Ordering::SeqCst);
    let Ok(retention) = "1s=600s,1m=forever".parse() else {
        unreachable!("it is one");
    };
    Options {
        keep: RetentionPolicy {
            retention,
            gaps_age: true,
            now: || UtcMs(NOW.load(Ordering::SeqCst)),
            ..RetentionPolicy::default()
        },
        ..options_of("a", "1s,1m", "2s")
    }
}

/// Acknowledged data: the number of windows, and a bit for each batch of requests.
///
/// In memory that outlives the process, so that no system call lies between a window and its acknowledgement.
struct Acknowledged {
    windows: &'static AtomicU64,
    requests: &'static AtomicU64,
    /// Number of memory allocations, if the recorder reached its end.
    allocations: &'static AtomicU64,
}

pub const ACKNOWLEDGED_BYTES: usize = 24;

impl Acknowledged {
    fn map(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping gets a new address, and it is never unmapped.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                ACKNOWLEDGED_BYTES,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let at: *mut AtomicU64 = at.cast();
        // SAFETY: a page is aligned, has room for three numbers, and stays mapped.
        let (windows, requests, allocations) = unsafe { (&*at, &*at.add(1), &*at.add(2)) };
        Ok(Self {
            windows,
            requests,
            allocations,
        })
    }
}

/// Data that a store must have.
#[derive(Clone, Copy, Default)]
pub struct Promised {
    /// Number of windows, from the first one.
    pub windows: u64,
    /// A bit for each window whose single requests must exist.
    pub requests: u64,
    /// Number of memory allocations of the recorder.
    pub allocations: u64,
}

impl Promised {
    /// Reads the acknowledged data.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path)?;
        let number = |at: usize| -> Result<u64> {
            let bytes = bytes.get(at..at + 8).context("it has two numbers")?;
            Ok(u64::from_ne_bytes(bytes.try_into()?))
        };
        Ok(Self {
            windows: number(0)?,
            requests: number(8)?,
            allocations: number(16)?,
        })
    }
}

/// An allocator that can fail one allocation of a recorder.
pub struct Failing;

/// Number of allocations since [`FAILS`] was set.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Number of the allocation that fails, from 1.
static FAILS: AtomicU64 = AtomicU64::new(0);
/// The variable with that number.
pub const FAILS_AT: &str = "TRACKIOPS_FAULTS_ALLOCATION";

impl Failing {
    fn is_it() -> bool {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed) + 1 == FAILS.load(Ordering::Relaxed)
    }
}

// SAFETY: it is the system's allocator, except for null, which reports a failure.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::is_it() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if Self::is_it() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the same contract.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Retries after failures.
fn retry<T>(mut what: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 1..ATTEMPTS {
        if let Ok(done) = what() {
            return Ok(done);
        }
    }
    what()
}

/// Progress messages of a recorder.
pub enum Said {
    /// This many windows are acknowledged.
    Windows(usize),
    /// The single requests of this window are acknowledged.
    Requests(usize),
    /// All single requests that were acknowledged are durable.
    Durable,
}

/// How single requests become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At the store's own pace.
    Hurried,
    /// Waits now and then until they are durable. One of its sessions is not finished.
    Waiting,
}

/// Windows between two waits.
const WAITS: usize = 3;
/// A little longer than single requests need to become durable.
const DURABLE: Duration = Duration::from_millis(1050);

/// Records windows into a store.
pub fn record(
    store: &Path,
    windows: &[ClosedWindow],
    pace: Pace,
    said: &mut dyn FnMut(Said) -> Result<()>,
) -> Result<()> {
    for (session, some) in windows.chunks(AT_ONCE).enumerate() {
        let first = session * AT_ONCE;
        let mut writer = retry(|| Writer::open(store, of_time(first)))?;
        let mut requests = writer.requests(64 << 20, |_| {}).ok();
        for (place, window) in (first..).zip(some) {
            retry(|| writer.append(window))?;
            said(Said::Windows(place + 1))?;
            let Some(requests) = &mut requests else {
                continue;
            };
            if requests.append(&batch(window)).is_ok() {
                said(Said::Requests(place))?;
            }
            if pace == Pace::Waiting && place % WAITS == WAITS - 1 {
                thread::sleep(DURABLE);
                requests.idle(window.start)?;
                said(Said::Durable)?;
            }
        }
        if pace == Pace::Waiting && session == 1 {
            continue;
        }
        // The next recorder handles data that could not be sealed.
        let sealed = requests.map(RequestsWriter::finish);
        if pace == Pace::Waiting && matches!(sealed, Some(Ok(()))) {
            said(Said::Durable)?;
        }
        drop(writer.finish());
    }
    Ok(())
}

/// Records all windows into the store of a directory, which also has a file for acknowledgements. Begins after it has read a line.
pub fn run(dir: &Path) -> Result<()> {
    let acknowledged = Acknowledged::map(&dir.join("acknowledged"))?;
    // From here on, its system calls may fail, including this one.
    let _ = io::stdin().lock().read_line(&mut String::new());
    if let Ok(number) = std::env::var(FAILS_AT) {
        ALLOCATIONS.store(0, Ordering::SeqCst);
        FAILS.store(number.parse()?, Ordering::SeqCst);
    }
    let done = record(&dir.join("store"), &windows(), Pace::Hurried, &mut |said| {
        match said {
            Said::Windows(count) => {
                acknowledged.windows.store(count as u64, Ordering::SeqCst);
            }
            Said::Requests(place) => {
                acknowledged.requests.fetch_or(1 << place, Ordering::SeqCst);
            }
            Said::Durable => {}
        }
        Ok(())
    });
    let count = ALLOCATIONS.load(Ordering::SeqCst);
    acknowledged.allocations.store(count, Ordering::SeqCst);
    done
}
