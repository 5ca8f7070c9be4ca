//! Tracks the progress of an import in the store, so that an interrupted import can continue.
//!
//! Every run of an import yields the same windows and single requests of each host in the same order. So it skips
//! those that the store already has. The store keeps their number by host:
//!
//! 1. Windows and requests are appended to journals. Full journals are not sealed yet.
//! 2. All of these journals are closed, and the new numbers are written to `imports/<id>.open`.
//! 3. The journals are sealed.
//!
//! If the process ends before step 2, all uncounted journals still exist, because none was sealed. The next opening of
//! the store counts their contents before it seals anything. A complete import, or one that was
//! counted like this, is `imports/<id>.json`.
//!
//! The catalog knows how many of these files there are. If one is missing, an import whose file does not exist is
//! refused, because the store may have it already.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::Catalog;
use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::journal::scan::JournalScan;
use crate::layout::{self, Series};
use crate::requests::{RequestsScan, RequestsWriter};
use crate::writer::Writer;

/// Most bytes of a file: enough for 100,000 hosts.
const MOST_BYTES: u64 = 64 << 20;

/// Numbers of windows and single requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Windows, or parts of windows that were appended separately.
    pub windows: u64,
    /// Single requests.
    pub requests: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.windows += other.windows;
        self.requests += other.requests;
    }
}

/// The part of an import that is in the store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The first journal of windows that is not counted.
    next_journal: u64,
    /// The first journal of requests that is not counted. `None` if the import has no single requests.
    next_requests: Option<u64>,
    /// The store has an unknown part of the import.
    is_unknown: bool,
    hosts: BTreeMap<String, Counts>,
}

impl Kept {
    fn unknown() -> Self {
        Self {
            is_unknown: true,
            ..Self::default()
        }
    }

    /// The file is a line of JSON and a line with its checksum.
    fn read(store: &Path, path: &Path) -> Result<Option<Self>, StoreError> {
        let mut text = String::new();
        let read = match beneath::read(store, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text)),
        };
        read.map_err(StoreError::io("read", path))?;
        let parsed = text.split_once('\n').and_then(|(json, sum)| {
            let sum: u32 = sum.trim_end().parse().ok()?;
            let kept = serde_json::from_str(json).ok()?;
            (crc32c::crc32c(json.as_bytes()) == sum).then_some(kept)
        });
        let damaged = || StoreError::Damaged {
            path: path.to_owned(),
            offset: 0,
            why: "it does not match its checksum",
        };
        parsed.ok_or_else(damaged).map(Some)
    }

    fn write(&self, store: &Path, path: &Path) -> Result<(), StoreError> {
        let new = path.with_extension("tmp");
        let write = || {
            let json = serde_json::to_string(self)?;
            let mut file = beneath::create_anew(store, &new)?;
            writeln!(file, "{json}\n{}", crc32c::crc32c(json.as_bytes()))?;
            beneath::finished(&file)?;
            file.sync_all()?;
            beneath::rename(store, &new, path)?;
            beneath::sync_dir(store, &layout::imports_dir(store))
        };
        write().map_err(StoreError::io("write", path))
    }

    /// Marks the import as closed.
    fn close(&self, store: &Path, id: &str) -> Result<(), StoreError> {
        let open = layout::open_import(store, id);
        self.write(store, &layout::import(store, id))?;
        fail_point::hit("import: closed");
        let removed = beneath::remove(store, &open);
        removed.map_err(StoreError::io("delete", &open))?;
        layout::sync_dir(store, &layout::imports_dir(store))
    }

    /// Counts the contents of journals that are not counted yet. All of them are from this import. `next_journal` is
    /// the one that the store's next writer begins. Returns whether the numbers are known.
    fn count(&mut self, catalog: &Catalog, next_journal: u64) -> Result<bool, StoreError> {
        let store = catalog.store();
        let first_requests = self.next_requests.unwrap_or(u64::MAX);
        // Journals of the import are gone, or were sealed without being counted: the store is a mix of an earlier and a
        // later state.
        if next_journal < self.next_journal
            || catalog.last_journal()? >= self.next_journal
            || catalog.last_requests()? >= first_requests
        {
            return Ok(false);
        }
        let mut next_requests = first_requests;
        for (series, first) in [
            (Series::Windows, self.next_journal),
            (Series::Requests, first_requests),
        ] {
            let numbers = series.journals(store)?.into_iter();
            for number in numbers.filter(|number| *number >= first) {
                let Some(journal) = JournalFile::open(&series.journal(store, number))? else {
                    continue;
                };
                let journal = journal.of_store(catalog.ids());
                let (host, counts, is_whole) = match series {
                    Series::Windows => match JournalScan::new(journal)? {
                        Some(scan) => {
                            let windows = scan.windows.len() as u64;
                            let requests = 0;
                            let is_whole = scan.damage.is_empty();
                            (scan.header.host, Counts { windows, requests }, is_whole)
                        }
                        None => continue,
                    },
                    Series::Requests => {
                        next_requests = number + 1;
                        match RequestsScan::new(journal)? {
                            Some(scan) => {
                                let (windows, requests) = (0, scan.count()?);
                                let is_whole = scan.is_whole();
                                (scan.into_host(), Counts { windows, requests }, is_whole)
                            }
                            None => continue,
                        }
                    }
                };
                if !is_whole {
                    return Ok(false);
                }
                self.hosts.entry(host).or_default().add(counts);
            }
        }
        self.next_journal = next_journal;
        self.next_requests = self.next_requests.map(|_| next_requests);
        Ok(true)
    }
}

/// Counts what interrupted imports appended. Call this before anything is sealed.
pub(crate) fn take_stock(catalog: &Catalog, next_journal: u64) -> Result<(), StoreError> {
    let store = catalog.store();
    for id in layout::open_imports(store)? {
        // A damaged file must not keep the store from being recorded into.
        let kept = Kept::read(store, &layout::open_import(store, &id));
        let mut kept = kept.ok().flatten().unwrap_or_else(Kept::unknown);
        let is_known = kept.count(catalog, next_journal).unwrap_or(false);
        kept.is_unknown |= !is_known;
        fail_point::hit("import: stock taken");
        kept.close(store, &id)?;
    }
    Ok(())
}

/// How many imports the store has the progress of.
pub(crate) fn count(store: &Path) -> Result<u64, StoreError> {
    let open = layout::open_imports(store)?.into_iter();
    let all: BTreeSet<_> = open.chain(layout::closed_imports(store)?).collect();
    Ok(all.len() as u64)
}

/// The files with the progress of imports that cannot be read, and why.
pub(crate) fn damaged(store: &Path) -> Result<Vec<(PathBuf, StoreError)>, StoreError> {
    let open = layout::open_imports(store)?.into_iter();
    let open = open.map(|id| layout::open_import(store, &id));
    let closed = layout::closed_imports(store)?.into_iter();
    let closed = closed.map(|id| layout::import(store, &id));
    let damaged = open.chain(closed).filter_map(|path| {
        let error = Kept::read(store, &path).err()?;
        Some((path, error))
    });
    Ok(damaged.collect())
}

/// Makes a store refuse to continue an import, because it has an unknown part of it.
pub(crate) fn write_unknown(store: &Path, id: &str) -> Result<(), StoreError> {
    Kept::unknown().write(store, &layout::import(store, id))
}

/// An import that can continue after an interruption.
///
/// Only [`Self::commit`] has the journals of its writers sealed.
#[derive(Debug)]
pub struct Import {
    store: PathBuf,
    id: String,
    kept: Kept,
    /// Windows and requests that the store had when this run began, minus those that this run has skipped.
    ahead: BTreeMap<String, Counts>,
    /// Whether windows or requests were appended that are not counted in the store.
    has_new: bool,
}

impl Import {
    /// Begins or continues an import. `id` becomes part of a file name. The same id must always yield the same windows
    /// in the same order.
    pub fn begin(
        id: &str,
        windows: &mut Writer,
        requests: Option<&mut RequestsWriter>,
    ) -> Result<Self, StoreError> {
        let store = windows.store().to_owned();
        let dir = layout::imports_dir(&store);
        layout::create_dir(&store, &dir)?;
        layout::sync_dir(&store, &store)?;
        let path = layout::import(&store, id);
        let next_journal = windows.hold();
        let next_requests = requests.map(RequestsWriter::hold);
        let kept = Kept::read(&store, &path)?;
        let known = windows.catalog().imports()?;
        if kept.is_none() && count(&store)? < known {
            return Err(StoreError::MissingImports { store, path: dir });
        }
        let mut kept = kept.unwrap_or_default();
        // The import had counted more journals than the store has now.
        let is_older = next_journal < kept.next_journal || next_requests < kept.next_requests;
        // An interrupted import could not be counted.
        let is_uncounted = !layout::open_imports(&store)?.is_empty();
        if kept.is_unknown || is_older || is_uncounted {
            return Err(StoreError::UnknownImport { store, path });
        }
        kept.next_journal = next_journal;
        kept.next_requests = next_requests;
        kept.write(&store, &layout::open_import(&store, id))?;
        let count = count(&store)?.max(known);
        windows.catalog().enter_imports(count)?;
        fail_point::hit("import: begun");
        Ok(Self {
            ahead: kept.hosts.clone(),
            id: id.to_owned(),
            store,
            kept,
            has_new: false,
        })
    }

    /// Counts of windows and requests in the store.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.kept.hosts.values().for_each(|host| all.add(*host));
        all
    }

    /// How many of the next windows and requests of a host are already in the store.
    pub fn skip(&mut self, host: &str, next: Counts) -> Counts {
        let Some(ahead) = self.ahead.get_mut(host) else {
            return Counts::default();
        };
        let skipped = Counts {
            windows: ahead.windows.min(next.windows),
            requests: ahead.requests.min(next.requests),
        };
        ahead.windows -= skipped.windows;
        ahead.requests -= skipped.requests;
        skipped
    }

    /// Counts windows and requests of a host that were appended.
    pub fn appended(&mut self, host: &str, counts: Counts) {
        if counts != Counts::default() {
            self.has_new = true;
            let known = self.kept.hosts.entry(host.to_owned()).or_default();
            known.add(counts);
        }
    }

    /// Records the appended windows and requests in the store, and has them sealed. `is_over` ends the wait for the
    /// thread that seals requests.
    pub fn commit(
        &mut self,
        windows: &mut Writer,
        requests: Option<&mut RequestsWriter>,
        is_over: impl Fn() -> bool,
    ) -> Result<(), StoreError> {
        if !self.has_new {
            return Ok(());
        }
        self.kept.next_journal = windows.close()?;
        let mut requests = requests;
        if let Some(requests) = &mut requests {
            self.kept.next_requests = Some(requests.close()?);
        }
        fail_point::hit("import: appended");
        let path = layout::open_import(&self.store, &self.id);
        self.kept.write(&self.store, &path)?;
        self.has_new = false;
        fail_point::hit("import: counted");
        windows.release()?;
        requests.map_or(Ok(()), |requests| requests.release(is_over))
    }

    /// Closes the import. Everything must be committed.
    pub fn finish(self) -> Result<(), StoreError> {
        self.kept.close(&self.store, &self.id)
    }
}
