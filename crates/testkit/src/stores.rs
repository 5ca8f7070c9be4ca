//! Stores to write into, and the content of their directories.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use trackiops_schemas::request::RequestBatch;
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::{Options, Warning, Writer};

/// The recorder's default options.
pub fn options(host: &str) -> Options {
    options_of(host, "1s,10s,1m,1h", "15m")
}

pub fn options_of(host: &str, granularities: &str, rotate: &str) -> Options {
    Options {
        host: host.into(),
        granularities: granularities.parse().unwrap(),
        rotate: rotate.parse().unwrap(),
        filter: None,
        source: None,
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        keep: Default::default(),
    }
}

/// Warnings about a store.
pub type Told = Arc<Mutex<Vec<Warning>>>;

pub fn tell(told: &Told) -> impl Fn(Warning) + Send + 'static {
    let told = Arc::clone(told);
    move |warning| told.lock().unwrap().push(warning)
}

/// Opens a store for writing. The second value collects warnings about data of an earlier recorder, once that is sealed.
pub fn open(store: &Path, options: Options) -> (Writer, Told) {
    let told = Told::default();
    let writer = Writer::open_after(store, options, None, tell(&told)).unwrap();
    (writer, told)
}

/// Completes the data that an earlier recorder left in a store. Returns the warnings about it.
pub fn complete(store: &Path, options: Options) -> Vec<Warning> {
    let (writer, told) = open(store, options);
    writer.finish().unwrap();
    told.lock().unwrap().clone()
}

pub fn recovered(windows: u64, torn_bytes: u64) -> Warning {
    Warning::RecoveredWindows {
        windows,
        torn_bytes,
    }
}

/// Appends windows without sealing the last journal. Earlier journals are sealed when it returns: sealing rounds times to us, so answers
/// during it may differ.
pub fn append(store: &Path, options: Options, windows: &[ClosedWindow]) -> Writer {
    let mut writer = Writer::open(store, options).unwrap();
    for window in windows {
        writer.append(window).unwrap();
    }
    for _ in 0..6000 {
        let names = journals(store);
        if names.iter().filter(|name| name.ends_with(".tij")).count() <= 1 {
            return writer;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the journals of {} are not sealed", store.display());
}

/// A complete recording.
pub fn record(store: &Path, options: Options, windows: &[ClosedWindow]) {
    append(store, options, windows).finish().unwrap();
}

/// A complete recording with single requests.
pub fn record_with_requests(
    store: &Path,
    options: Options,
    windows: &[ClosedWindow],
    requests: &RequestBatch,
) {
    let mut writer = Writer::open(store, options).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    for window in windows {
        writer.append(window).unwrap();
    }
    kept.append(requests).unwrap();
    kept.finish().unwrap();
    writer.finish().unwrap();
}

/// Names of the files in the journal directory.
pub fn journals(store: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(store.join("journal")).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> = entries.map(|e| name(e).into_string().unwrap()).collect();
    // Companion files of a journal exist only with it.
    names.retain(|name| !name.contains(".end"));
    names.sort();
    names
}

/// Paths of all files of segments under a directory, relative to it, including those that globs do not see.
pub fn parquet_files(store: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut dirs = vec![store.to_owned()];
    while let Some(dir) = dirs.pop() {
        // It may have been removed with its last segment.
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_str().unwrap().contains(".parquet") {
                files.push(
                    path.strip_prefix(store)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    files.sort();
    files
}

/// Copies a directory with its content.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

/// Corrects the checksum of a changed catalog.
pub fn seal_catalog(store: &Path) {
    const PAGE_BYTES: usize = 4096;
    let path = store.join("catalog.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes[bytes.len() - 24..bytes.len() - 8].to_vec();
    bytes.truncate(bytes.len() / PAGE_BYTES * PAGE_BYTES);
    let mut trailer = b"TIOPends".to_vec();
    trailer.extend((bytes.len() as u64).to_le_bytes());
    trailer.extend(place);
    trailer.extend(crc32c::crc32c(&bytes).to_le_bytes());
    trailer.extend(crc32c::crc32c(&trailer).to_le_bytes());
    bytes.extend(trailer);
    std::fs::write(path, bytes).unwrap();
}
