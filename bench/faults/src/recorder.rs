//! A small recorder: it appends windows and single requests, seals, merges and expires, and goes on after errors.

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

/// So many windows are recorded in all, and between opening the store and finishing.
pub const WINDOWS: usize = 24;
const AT_ONCE: usize = 8;
/// How often a window is tried.
const ATTEMPTS: usize = 4;

/// The time that it is: it runs faster than windows do, so that they expire and what was merged is deleted.
static NOW: AtomicI64 = AtomicI64::new(THREE);

/// What is recorded.
pub fn windows() -> Vec<ClosedWindow> {
    recorded(7, THREE, WINDOWS as i64)
}

/// How a store is written to after `recorded` windows.
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

/// What was acknowledged: the number of windows, and a bit for each batch of requests.
///
/// It is in memory that outlives the process, so that no system call is between a window and its acknowledgement.
struct Acknowledged {
    windows: &'static AtomicU64,
    requests: &'static AtomicU64,
    /// How often memory was allocated, if it came to its end.
    allocations: &'static AtomicU64,
}

pub const ACKNOWLEDGED_BYTES: usize = 24;

impl Acknowledged {
    fn map(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: it is nowhere yet, and it is never unmapped.
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
        // SAFETY: a page is aligned, has room for three, and stays.
        let (windows, requests, allocations) = unsafe { (&*at, &*at.add(1), &*at.add(2)) };
        Ok(Self {
            windows,
            requests,
            allocations,
        })
    }
}

/// What a store must have.
#[derive(Clone, Copy, Default)]
pub struct Promised {
    /// The first windows, so many.
    pub windows: u64,
    /// A bit for each window whose single requests it must have.
    pub requests: u64,
    /// How often the recorder allocated memory.
    pub allocations: u64,
}

impl Promised {
    /// What was acknowledged.
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

/// The allocator, of which one allocation fails in a recorder.
pub struct Failing;

/// How often memory was allocated since [`FAILS`] was set.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Which of them fails, from 1 on.
static FAILS: AtomicU64 = AtomicU64::new(0);
/// The variable with that number.
pub const FAILS_AT: &str = "TRACKIOPS_FAULTS_ALLOCATION";

impl Failing {
    fn is_it() -> bool {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed) + 1 == FAILS.load(Ordering::Relaxed)
    }
}

// SAFETY: it is the system's, but for null, which is its way to fail.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::is_it() {
            return std::ptr::null_mut();
        }
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if Self::is_it() {
            return std::ptr::null_mut();
        }
        // SAFETY: as for this function.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

/// Tries again what has failed.
fn retry<T>(mut what: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 1..ATTEMPTS {
        if let Ok(done) = what() {
            return Ok(done);
        }
    }
    what()
}

/// What a recorder says as it goes on.
pub enum Said {
    /// So many windows are acknowledged.
    Windows(usize),
    /// The single requests of this window are acknowledged.
    Requests(usize),
    /// All single requests that were acknowledged are durable.
    Durable,
}

/// How single requests become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// When the store likes.
    Hurried,
    /// Now and then it waits until they are. One of its sessions is not finished, too.
    Waiting,
}

/// Windows between two waits.
const WAITS: usize = 3;
/// Somewhat longer than single requests take to become durable.
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
        // What could not be sealed is left to the next recorder.
        let sealed = requests.map(RequestsWriter::finish);
        if pace == Pace::Waiting && matches!(sealed, Some(Ok(()))) {
            said(Said::Durable)?;
        }
        drop(writer.finish());
    }
    Ok(())
}

/// Records all windows into the store of a directory, which has a file for what is acknowledged. Begins when a line was read.
pub fn run(dir: &Path) -> Result<()> {
    let acknowledged = Acknowledged::map(&dir.join("acknowledged"))?;
    // Its system calls are failed from here on, this one among them.
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
